// Opens the events of a session on its target, in one of the legal shapes, and maps the rings. src/DESIGN.md, Recording.
#ifndef PERFSAMPLE_PERF_EVENT_SET_H
#define PERFSAMPLE_PERF_EVENT_SET_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "perf/event_spec.h"
#include "perf/ring.h"

enum event_scope {
	SCOPE_CGROUP,   // per CPU, PERF_FLAG_PID_CGROUP
	SCOPE_CPU,      // per CPU, pid -1
	SCOPE_TASK,     // per (tid, CPU), inherit
	SCOPE_THREAD,   // per tid, cpu -1, no inherit, a ring each: the one breach, over the fd budget
};
const char *event_scope_text(enum event_scope scope);

struct event_target {
	enum event_scope scope;
	int cgroup_fd;                   // SCOPE_CGROUP
	const int32_t *tids;             // SCOPE_TASK and SCOPE_THREAD
	size_t tid_count;
	const uint32_t *cpus;            // online CPUs to use
	size_t cpu_count;
	bool inherit;                    // SCOPE_TASK: threads and children born later
	bool enable_on_exec;             // SCOPE_TASK, held command
};

struct event_options {
	uint64_t period;                 // when not is_freq; ns for clocks
	uint64_t frequency;
	bool is_freq;
	bool is_default_rate;            // nobody asked for this rate: events other than clocks take the like frequency, tracepoints and
	                                 // breakpoints every one
	uint32_t stack_bytes;            // 0: no copy; else a multiple of 8 up to 65,528
	bool user_regs;
	uint64_t user_regs_mask;         // 0: all general registers of this machine
	bool kernel_callchain, user_callchain; // --call-graph fp: both
	bool exclude_user, exclude_kernel;     // --all-kernel, --all-user; modifiers of an event come on top
	bool sideband;                   // mmap2, comm, task, build_id, ksymbol: on a DUMMY event
	bool context_switch;
	size_t ring_bytes;               // data area per ring, power of two
	uint32_t wakeup_watermark;       // 0: a quarter of the ring
};

struct event_fd {
	int fd;
	uint64_t id;
	uint32_t event;     // index into events, or EVENT_SIDEBAND
	uint32_t cpu_index; // of target->cpus, and of its ring; SCOPE_THREAD: of its ring
	int32_t tid;        // -1: any
	bool wakes;         // of event_set_add_waking
	uint64_t restarted; // its running time when event_set_restart was called last
};
enum { EVENT_SIDEBAND = 0xfffffffe };

struct event_opened { // one event of the command line as it was got
	struct perf_event_attr attr;     // as opened
	const char *name;                // "cycles", "cpu-clock", "cpu-clock:u" …; owned by the set
	uint32_t spec;                   // which -e it came of (hybrid CPUs open one -e on several PMUs)
	int32_t group_leader;            // index into events; -1: none
	uint32_t group_members;
	bool samples;                    // false: read with its leader only
	bool is_clock;                   // as opened, so after a fallback to cpu-clock too
	uint32_t *cpus;                  // of its PMU; owned
	size_t cpu_count;                // 0: every CPU
	char *filter;                    // owned; NULL: none
	bool is_proven;                  // opened at least once: its attr is final
};

struct event_decision { char text[256]; bool is_aside; }; // aside: no figure is to be read with it; else "cpu-clock (this VM counts no cycles)", "inherit with group reads is refused before 6.12: …"

struct event_set {
	VEC(struct event_opened) events;
	VEC(struct event_fd) fds;
	VEC(struct ring) rings;          // one per CPU (SCOPE_THREAD: one per tid)
	VEC(struct event_decision) decisions;
	struct perf_event_attr sideband_attr;
	bool has_sideband, has_format_lost, has_build_ids;
	bool is_enabled;                 // by us, or by the exec that comes: threads added later start at once
	bool wakes_each;                 // which of the two is on, after event_set_add_waking
	size_t ring_bytes;               // as mapped
};

// Opens everything disabled (unless enable_on_exec). On failure nothing stays open; STATUS_HOST names the setting and the command that
// changes it. Features the kernel lacks (build_id, FORMAT_LOST, ksymbol, reads in samples of inherited events …) are given up one by one.
// The fd budget is computed first (the caller raises RLIMIT_NOFILE by event_set_fd_need); too many fds are STATUS_HOST with the product.
// Clocks always sample by a fixed period: of a frequency, its inverse. A ring's fd belongs to the first task of
// its CPU and hangs up (POLLHUP) when that task and what inherited from it have ended: then see event_set_poll_fd.
bool event_set_open(struct event_set *set, const struct event_specs *specs, const struct event_target *target,
                    const struct event_options *options, struct err *err);
// Adds events for a further thread (SCOPE_TASK, SCOPE_THREAD) to the rings that exist; `wakes`: those of event_set_add_waking, and no others. ESRCH is not an error.
bool event_set_add_thread(struct event_set *set, const struct event_target *target, int32_t tid, bool wakes, struct err *err);
bool event_set_enable(struct event_set *set, struct err *err);
void event_set_disable(struct event_set *set);
// Adds to each event one like it that wakes whoever polls the ring for every sample, and records of task switches (their fds are the side-band event's);
// all switched off. The target's threads are those of now. On failure the set is as it was.
bool event_set_add_waking(struct event_set *set, const struct event_target *target, struct err *err);
// After that: which of the two is on. Takes some microseconds for each fd; nothing is sampled twice, and both together run for as long as one would.
void event_set_wake_each(struct event_set *set, bool each);
// Starts the clock of an fd that samples by a fixed period anew: its next sample is due a whole period of running time from now. `running`: its running
// time so far, ns; `cut`: how much of it was the part of a period that had begun, for which no sample comes any more. false: it ran for less than `least` since
// the last time, or is not the one of two (event_set_add_waking) that is on.
bool event_set_restart(struct event_set *set, size_t fd, uint64_t least, uint64_t *running, uint64_t *cut);
void event_set_close(struct event_set *set);

// An fd to poll for the ring whose fd hung up: of an event that writes there and lives on. -1: none does, all its tasks have ended.
// Asking takes the ring's pending wake-up away, so read the ring once afterwards.
int event_set_poll_fd(const struct event_set *set, uint32_t slot);

struct event_reading { uint64_t value, enabled, running, lost; };
// Sum over the fds of one event (or EVENT_SIDEBAND) on one CPU index; cpu_index UINT32_MAX: over all.
struct event_reading event_set_read(const struct event_set *set, uint32_t event, uint32_t cpu_index);
// All of them with one read of each fd: table[event * slots + cpu_index], the side-band event in the row behind the last event; `slots`
// is the number of rings. Cheaper than event_set_read per event and CPU, once a second, with many threads.
void event_set_read_all(const struct event_set *set, struct event_reading *table, size_t slots);
size_t event_set_fd_need(const struct event_specs *specs, const struct event_target *target); // fds = tids × CPUs × (events + 1)

// The largest ring (data bytes per ring, a power of two) that RLIMIT_MEMLOCK and perf_event_mlock_kb leave for `rings` of them; SIZE_MAX
// with CAP_IPC_LOCK; 0: not a page each. *limit_text (static) names what limits.
size_t ring_budget(size_t rings, const char **limit_text);
// What kernel.perf_event_mlock_kb has to be for so many rings of that size, whatever RLIMIT_MEMLOCK is: it counts for each CPU that is online.
size_t ring_mlock_kib(size_t rings, size_t data_bytes);
size_t ring_mlock_cpus(void);

#endif
