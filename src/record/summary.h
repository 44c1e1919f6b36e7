// What a recording says when it is over: text for standard error, and `perfsample-record/1`. Pure: everything is in the struct.
#ifndef PERFSAMPLE_RECORD_SUMMARY_H
#define PERFSAMPLE_RECORD_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/vec.h"
#include "judge/judge.h"
#include "judge/loss.h"
#include "record/cost.h"

struct summary_event {
	const char *name;     // as opened: "cpu-clock"
	const char *because;  // why this one, or NULL: "this VM counts no cycles"
	bool is_clock, is_freq, samples;
	uint64_t period, frequency;
	double multiplexed;   // running / enabled of an event that needs a counter of the hardware; 0 or 1: it has it to itself
	uint64_t taken, idle, others, lost, dropped;
	uint64_t idle_unsampled; // ticks of idle CPUs that never came: idle, not silent
	double expected;      // negative: not measurable
	double begun;         // of those, periods that were not over at the end, at most one for each CPU
	uint64_t running_ns;
};

struct summary_note { const char *text; bool bears, is_care; }; // bears: on figures, so a report says it too

struct summary {
	const char *const *argv;   // NULL-terminated
	const char *target_kind, *comm;
	VEC(int32_t) ids;
	uint32_t threads, processes; // sampled
	uint32_t processes_seen;     // that ran while it was recorded, sampled or not; 0: not counted
	bool has_cpu_seconds;
	bool is_short;              // the output failed: the file lacks samples that are counted here
	double seconds, cpu_seconds;
	VEC(struct summary_event) events;
	uint64_t complete, joined, truncated, failed; // of the samples whose stacks were unwound; all 0: none were
	uint64_t splices_exact, splices_checked; // of the joined ones
	const char *end_names[24]; // by enum unwind_end
	const uint64_t *ends;
	uint64_t ends_with_names[UNWIND_END_COUNT]; // what `ends` may point to
	uint64_t unjudged;          // stacks that only names tell whole from cut, and these were not looked up
	size_t end_count;
	double others_by_go, others_by_c; // of those that end as UNWIND_OTHER_STACK, the share of Go's changes of stacks; of these, that of calls between Go and C
	const uint64_t *uncopied;  // stacks that the kernel did not copy, by enum uncopied of record/ledger.h; NULL: not counted
	uint64_t shortened, set_aside, sideband_lost, longest_chain;
	double throttled_seconds;  // summed over CPUs
	struct loss_span lost_span; // of the first event
	uint64_t strangers;        // samples of others, idle CPUs apart, where events are those of whole CPUs and the target's are kept; 0: none
	uint32_t cpus;             // that were recorded
	uint64_t stuck_times, stuck_lost; // rings of the kernel that stood still, and the samples lost there
	double unseen_seconds;     // CPU time of the command that events of single tasks do not have; 0: none, or not known
	bool is_by_task;           // events of single tasks
	const char *silent_reason; // why ticks that were due never came; NULL: nothing that was seen accounts for them
	bool has_bad_decision;     // one of `notes` is a reason for CARE
	const char *loss_reason;   // "the recorder was not scheduled (no real-time priority: needs root or CAP_SYS_NICE)"
	uint32_t stack_bytes;
	double recorder_share;     // of one CPU, 0 to 1
	double recorder_cpu_seconds;
	bool wants_cost;
	struct cost cost;          // with wants_cost
	const char *cost_refusal;  // why it could not be calibrated, or NULL
	double max_loss;           // 0.01
	VEC(struct summary_note) notes; // decisions to be said
	VEC(const char *) decisions; // all of them
	const char *host, *kernel, *end, *path; // path NULL: a stream
	uint64_t start_wall_ns, bytes;
	bool names_inside, is_gone; // is_gone: the path does not lead to the file any more
	int command_status, own_status; // command_status -1: no command, or it still runs
};

double summary_lost_share(const struct summary *summary); // of the event that lost most: lost and dropped of what was due
// The findings of every event that samples, and decisions that are a reason for CARE (event NULL).
typedef void summary_found_fn(void *context, const char *event, enum caveat_code code, double value, enum verdict verdict, const char *text);
void summary_caveats(const struct summary *summary, summary_found_fn *found, void *context);
enum verdict summary_verdict(const struct summary *summary); // of every event that samples
bool summary_is_honest(const struct summary *summary, struct err *err); // --strict
// Whole lines, each with "perfsample: " in front; names in it are escaped for a terminal.
void summary_text(const struct summary *summary, struct buf *out);
void summary_json(const struct summary *summary, struct buf *out);

#endif
