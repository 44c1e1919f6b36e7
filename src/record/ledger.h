// The books of a recording: what was taken, what was not, and when. Kept by the drain thread, read when it is gone.
//
// Once a second, and twice within the first one, the kernel's counters are read and go into the file, so that nothing which matters waits for the end:
//   - per event and CPU a PERF_RECORD_READ with pid = tid = -1 and the id of the event's first fd on that CPU: value, time_enabled, time_running, lost,
//     each cumulative over the fds of one stretch; and a LOST_SAMPLES record with what was lost since the last one;
//   - of the side-band event three READs with pid -1: tid -2: value = samples dropped by us, enabled = stack copies shortened, running = CPU ns of the
//     recorder since sampling began (RUSAGE_SELF, every thread), lost = side-band records lost; tid -3: value = samples of others, enabled = samples that were
//     set aside, running = records handed on late by the merge, lost = 0;
//   - per event a READ with pid -1, tid -4 and the id of the event's first fd, cumulative over the stretches: value = its samples of others, enabled = its samples
//     dropped by us, running = 1 where the event counts whole CPUs of which only the target's samples are kept, so that its time_running is not the target's,
//     lost = ticks of idle CPUs that never came as samples (some virtual CPUs are not run for the timer of their idle task): as many as /proc/stat says that the
//     CPUs were idle for, less the idle samples, and no more than would else be silent. /proc/stat counts to 10 ms a CPU;
//   - of each restart of an event's clock on a CPU a READ with pid -1, tid -5 and the id of its first fd there: value = when, by the clock of the records, enabled = ns in
//     periods cut short there so far, this stretch, running = the fd's running time then, lost = 0.
// taken + idle + others + lost + dropped + silent = expected holds for what the file says: every sample the kernel delivered is either in the file, or counted as
// `others` (outside the target; or of the held command before its exec, which is the recorder's own code), or dropped.
#ifndef PERFSAMPLE_RECORD_LEDGER_H
#define PERFSAMPLE_RECORD_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "judge/loss.h"
#include "perf/event_set.h"
#include "record/output.h"
#include "unwind/unwind.h"

struct ledger_event {
	uint64_t taken, others, dropped; // samples: in the file, outside the target, given up by us
	uint64_t idle;                   // of taken: pid 0
	uint64_t taken_weight;           // sum of what they stand for, each by its stretch's period
	uint64_t others_idle;            // of others: pid 0
	uint64_t lost_records;           // sum of LOST records, where the kernel has no PERF_FORMAT_LOST
	struct event_reading *cpus;      // the last reading on each CPU index, this stretch
	uint64_t *cut;                   // of its running time, ns in periods that a restart of its clock cut short (record/restart.h)
	struct event_reading closed;     // sum over the stretches that ended
	double expected;                 // due in those, at their own periods
	double begun;                    // of it, periods that were not over when their stretch ended
	double idle_due;                 // ticks that the idle time of those was worth
	uint64_t idle_unsampled;         // ticks due in idle time that never came; no part of `taken` or `others`, and not silent
};

// Why a sample of user code has registers but no copy of its stack.
enum uncopied {
	UNCOPIED_TAGGED,  // the stack pointer has bits above the address space: a tag, which the kernel's copy does not strip
	UNCOPIED_NO_ROOM, // the record was full: it is at most 65,535 bytes
	UNCOPIED_ABSENT,  // it points at nothing, or at a page that was not in memory: in an interrupt nothing is fetched
	UNCOPIED_COUNT
};

// A sample that goes into the file. Stacks of idle CPUs are counted no more than their samples are in a share.
struct ledger_taken {
	uint32_t event;
	uint64_t weight;     // what it stands for: the period
	uint64_t time_ns;
	bool is_idle, is_unwound, is_by_name;
	uint8_t end, splice; // enum unwind_end, enum splice, of one that was unwound
};

struct ledger_restart { uint32_t event, cpu_index; uint64_t time_ns, running, cut; }; // of an event's clock on a CPU; cut: since the restart before

struct ledger {
	VEC(struct ledger_event) events;
	struct losses gaps, lost;        // of the first event: between two readings; and LOST records of its rings (judge/loss.h)
	VEC(uint64_t) ring_ns;           // by ring: the time of its last record
	VEC(struct ledger *) past;       // as it was when counters were read that may not be in the file yet, ascending
	VEC(struct ledger_restart) restarts; // that the file has not been told yet
	size_t cpu_count;
	uint64_t start_ns, end_ns;       // the events' clock
	uint64_t read_ns, read_before_ns; // when the counters were read last, and the time before; 0: not yet
	uint64_t ends[UNWIND_END_COUNT]; // of taken samples that are not idle
	uint64_t by_name;                // of those, call chains that the kernel walked: how they end is told by the name of their outermost function
	uint64_t splices[3];             // of those that reached their root, by enum splice
	uint64_t shortened, aside, aside_expired, sideband_lost, sideband_records, late, broken, longest_chain;
	uint64_t throttled_ns, rereads;
	uint64_t others_by_go, others_by_c; // that end as UNWIND_OTHER_STACK where Go changed stacks; of these, where it calls C or is called by it
	uint64_t uncopied[UNCOPIED_COUNT];
	uint64_t copied_bytes;           // of stack, by the kernel, for every sample that came
	uint64_t others_copied_bytes;    // and was of others; not in copied_bytes
	uint64_t recorder_cpu_ns, cpu_before_ns; // since sampling began; of this process before that
	uint32_t stretches;              // that have ended, while the recording went on
	bool counts_cpus;                // events of whole CPUs, of which only the target's samples are kept
	bool counts_idle;                // events of whole CPUs: idle time is told by /proc/stat
	uint64_t idle_before_ns, idle_ns; // /proc/stat when this stretch began; idle time since
	uint64_t stuck_times, stuck_lost; // rings that stood still (record/stuck.h), and how many of the lost samples are of that time
	uint64_t births;                 // tasks, threads among them, of the target, that began while events were on
};

void ledger_init(struct ledger *ledger, size_t event_count, size_t cpu_count);
void ledger_release(struct ledger *ledger);
void ledger_take(struct ledger *ledger, const struct ledger_taken *taken); // one more taken
// A record came out of a ring, in the order of time. `lost`: what it says was lost before it, on that CPU; 0: it is no LOST record.
void ledger_record(struct ledger *ledger, size_t ring, uint64_t time_ns, uint32_t cpu, uint64_t lost);

// ledger_past.c. The disk may be full before counters that were read are written; then the file ends with the last ones that were, and so do the books.
void ledger_remember(struct ledger *ledger, uint64_t written_ns); // after ledger_read; those up to `written_ns` are in the file, and nothing before them is asked for
// Back to how they were when the counters of `time_ns` were read, with the samples until then. false: nobody remembers.
bool ledger_go_back(struct ledger *ledger, uint64_t time_ns);
void ledger_forget(struct ledger *ledger);

// Appends the trailer of sample_id_all as `attr` lays it out.
void ledger_trailer(struct buf *out, const struct perf_event_attr *attr, int32_t pid, int32_t tid, uint64_t time_ns, uint64_t id, uint32_t cpu);

uint64_t ledger_cpu_ns(const struct ledger *ledger); // CPU time of this process, all threads, since sampling began
void ledger_begin(struct ledger *ledger, uint64_t start_ns); // sampling begins: the window, and the recorder's own time from here on

struct ledger_context { // what readings are written with
	const struct event_set *set;
	const struct perf_event_attr *attrs; // of the file, one per event, then the side-band event's
	const uint32_t *cpus;                // CPU numbers by index
	struct output *output;
	uint64_t now_ns;
};
// A clock was started anew: what it cuts off is not due.
void ledger_restart(struct ledger *ledger, const struct ledger_restart *restart);
// Reads every counter and puts the records into the output. true: side-band records were lost since the last time.
bool ledger_read(struct ledger *ledger, const struct ledger_context *context);
// A stretch ends (events are about to be reopened): the last readings become part of `closed`. `period`: of each event, 0 unknown.
void ledger_close_stretch(struct ledger *ledger, const struct event_set *set);
struct loss_span ledger_loss_span(const struct ledger *ledger); // where the first event's losses lie, as a report of the file has it
// Over all CPUs and stretches.
struct event_reading ledger_total(const struct ledger *ledger, uint32_t event);
// What was due by the event's own running time; negative: not measurable (frequency, exclude bits, no fixed period).
// `begun`: how many of those are periods that were begun and not over, at most one for each CPU and stretch: no timer could fire for them.
double ledger_expected(const struct ledger *ledger, const struct event_set *set, uint32_t event, double *begun);
// The same of one CPU index in this stretch, not rounded.
double ledger_due(const struct ledger *ledger, const struct event_set *set, uint32_t event, uint32_t cpu_index);

#endif
