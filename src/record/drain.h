// The drain thread: from the kernel's rings to the output, unwinding in place.
//
// One thread for all rings, on purpose. The recorder may use 25 % of one CPU (--max-cpu), and at 3 us a sample that is more than 80,000 samples a
// second, so one thread has the throughput by definition; and one thread sees the records of all rings in the order of time, so that address spaces
// need no locks. (Readers pinned to each CPU, for stacks beyond the kernel's cap, can be added: `rings` is an array, and everything below works on a
// slice of it.) It runs at SCHED_FIFO 1 where it may: losses under load are the reader not being scheduled. So it must never wait: no files, no locks, no disk.
#ifndef PERFSAMPLE_RECORD_DRAIN_H
#define PERFSAMPLE_RECORD_DRAIN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "perf/clock.h"
#include "perf/event_set.h"
#include "perf/merge.h"
#include "perf/record.h"
#include "perfdata/note.h"
#include "proc/space.h"
#include "record/family.h"
#include "record/ledger.h"
#include "record/aside.h"
#include "record/images.h"
#include "record/output.h"
#include "record/sampled.h"
#include "record/tails.h"
#include "unwind/unwind.h"

enum chain_mode { CHAIN_LIVE, CHAIN_POST, CHAIN_FP, CHAIN_NONE };

// What is known of a stack: the kernel's copy, or more than that.
struct stack_bytes {
	const uint8_t *bytes;
	size_t size;        // 0: there is nothing to walk
	size_t asked;       // bytes that the kernel was to copy; it may have stopped before
	enum splice splice; // none: the kernel's copy
	const struct unwind_other *other; // other stacks of the thread's; NULL: none were read
};

// A sample whose stack waits to be walked, for company: of several a frame each is taken in turn (unwind_stacks).
struct stack_job {
	struct record record; // its bytes are in the ring still
	uint32_t event;
	struct maps *maps;
	struct stack_bytes stack;
};
enum { STACK_JOBS = 16 };

// Where the maps of one generation have code in anonymous memory: at most so many ranges, what is between two mappings of a range being no code of others.
enum { JIT_RANGES = 4, JIT_RANGE_MAPS = 64 };
struct jit_ranges {
	uint32_t generation; // 0: unused
	uint32_t count;
	struct { uint64_t start, end; } ranges[JIT_RANGES];
};

struct drain_throttle { uint64_t id, since_ns; };

struct drain {
	// Given by the session.
	struct perf_clock clock;
	struct event_set *set;
	struct spaces *spaces;
	struct images *images;
	struct jit_pages *pages;   // bytes of code that is in no file; NULL: not wanted
	struct jit_objects *objects; // of which processes tell debuggers
	struct jit_files *files;   // in which processes name generated code
	struct stack_pages *stack_pages; // those that copies stopped at; NULL: not wanted
	struct output *output;
	struct ledger *ledger;
	const struct perf_event_attr *file_attrs; // per event, then the side-band event's
	const uint32_t *cpus;
	enum chain_mode mode;
	uint16_t machine;          // EM_* of this host
	struct family_since since; // the target's: what it had started before is no part of it
	bool filter;               // keep the descent of what is_target marks; the rest are `others`
	bool want_names;           // collect sampled addresses
	bool any_pid;              // -a: everyone is a target
	const int32_t *roots;      // pids of the target; descent is from them
	size_t root_count;
	struct tails *tails;       // reads what the kernel's copies lack; NULL: nobody does
	int32_t held_pid;          // the held command: until its exec it is the recorder's own code; -1: none
	_Atomic bool held_runs;    // set by the session: it is past its exec, whether or not a record of that came

	// Its own.
	struct record_layout *layouts;  // per event, then the side-band event's; as records are once they have their period
	uint64_t *periods;         // per event: to be put into its samples, which the kernel was not asked to do (perf/event_plan.c); 0: none
	struct buf completed;      // the record at hand, with its period
	struct buf joined;         // the stack at hand: its copy and what was read beyond it
	uint64_t *heads;           // per ring, at the last pass
	struct hash_map by_id;     // event id -> index into layouts
	// Events that wake are a stream of their own, which a thread may have inherited although it did not inherit the others, or the other way round.
	struct hash_map fd_streams; // event id -> drain_stream of its task, while threads are in doubt
	struct hash_map doubtful;   // drain_stream -> 1: may have both an inherited and a direct event; 2: has
	struct hash_map threads;   // tid -> index into tops
	VEC(uint64_t) tops;        // stack top by thread; 0: unknown
	struct hash_map pids;      // sampled pids
	struct hash_map seen;      // pids of the target that records tell of, sampled or not
	VEC(struct drain_throttle) throttled; // events that are throttled now
	struct merge merge;
	struct aside aside;
	struct sampled sampled;
	struct unwinder *unwinder;
	struct stack_job jobs[STACK_JOBS];
	size_t job_count;
	struct frame *frames;      // UNWIND_MAX_FRAMES for each of them
	struct jit_ranges jit_ranges[JIT_RANGE_MAPS]; // by generation
	unsigned code_waits;       // so many more samples may wait for the bytes of JIT code
	uint64_t images_version;
	uint64_t now_ns, tick_ns, reap_ns;
	uint64_t early_ns;         // counters are read then too, before the first second is over; 0: no more
	uint64_t counters_ns;      // when counters were read that are not handed on yet; 0: none wait
	uint64_t enable_ns;        // -D: sampling starts then; 0: it has
	bool ticked;               // a second passed in the last pass
	bool rereading, reread_wanted;
	size_t ring_now;           // of the record at hand
	uint64_t others;          // of `beyond`, those that go on on another stack
	uint64_t unwound, beyond; // stacks since the session last looked, and those of them that go on beyond a full copy, read there or not
	// Of all stacks since the start: how many there were, how many fill more than half of what a copy has room for, and when one did last, how many were cut.
	uint64_t walked, half, half_ns, cut;
	size_t most_bytes;         // that the last pass found in one ring
	uint32_t unseen_execs;     // tasks whose events, if they have their own, the kernel ended at exec
	bool found_births;         // the last pass saw code being mapped: programs start; or lately a JIT compiler's
	uint64_t stack_page_ns;    // when pages of a stack were last brought in; 0: never
	uint64_t jit_ns;           // when a JIT compiler's code was last seen being mapped whose unwind information may be had; 0: never
};

enum { DRAIN_SLACK_NS = 2 * 1000 * 1000, ASIDE_BYTES = 16 << 20, CODE_WAITS_A_PASS = 64, CODE_WAITS_MOST = 1024 };

void drain_init(struct drain *drain);     // after the members above are set
void drain_reset_events(struct drain *drain); // the set was (re)opened: layouts, ids; no thread is in doubt
void drain_learn_ids(struct drain *drain);    // the set has further events
void drain_release(struct drain *drain);
static inline uint32_t drain_stream(int32_t tid, bool wakes)
{
	return (uint32_t)tid << 1 | wakes; // PID_MAX_LIMIT is 2^22 (include/linux/threads.h)
}
// Threads that may carry two events of the set, of those that wake or of the others: keep one stream each.
void drain_doubt(struct drain *drain, const int32_t *tids, size_t count, bool wakes);
// Records that describe /proc, or the kernel, or come from a re-read: applied and put out.
void drain_synthesized(struct drain *drain, const void *records, size_t bytes, bool starting);
// One pass over all rings. `last`: everything, and nothing stays aside.
void drain_pass(struct drain *drain, bool last);
// Of the samples that came since this was asked last, or a pass took them: whose stacks go on beyond a full copy, as far as it is known where they begin. Takes
// nothing, and costs a tenth of a pass.
size_t drain_glance(struct drain *drain);
// Waits for a watermark, a byte on `wake_fd`, or the timer. The rings' poll set is made anew by drain_reset_events.
struct drain_poll;
struct drain_poll *drain_poll_new(const struct event_set *set, int wake_fd);
bool drain_poll_wait(struct drain_poll *poll, int timeout_ms); // false: the timer
size_t drain_poll_live(const struct drain_poll *poll); // rings that have not hung up
void drain_poll_free(struct drain_poll *poll);

// Index into layouts.
uint32_t drain_event_of(const struct drain *drain, const struct perf_event_header *header);

// drain_code.c: what of a JIT compiler's code a sample needs that is to be unwound later.
void drain_want_code(struct drain *drain, const struct record *record, const struct maps *maps);

// drain_sample.c
bool drain_register(const struct drain *drain, const struct record *record, bool is_sp, uint64_t *out); // of user space: sp, or pc; false: not in the sample
void drain_take_sample(struct drain *drain, const struct record *record, uint32_t event);
void drain_walk_jobs(struct drain *drain); // all that wait; whatever changes an address space, or the records' memory, comes after that
void drain_retry_aside(struct drain *drain, bool last);

#endif
