// Stacks deeper than the kernel copies (65,360 bytes or so): the rest, read while the target is still stopped.
//
// One thread for each ring, pinned to its CPU, at a real-time priority above the drain thread's, with a wake-up for every sample: it preempts the target on
// the CPU where the sample was taken, before the target runs on, and reads its stack with process_vm_readv. It only reads ahead: the drain thread takes the
// records from the ring as ever, but none that the reader has not seen (struct ring, `seen`), and finds what was read by the sample's time and thread.
// A wake-up costs 16 to 18 us of CPU: the session switches the readers on and off by need, phase by phase of the program.
#ifndef PERFSAMPLE_RECORD_TAILS_H
#define PERFSAMPLE_RECORD_TAILS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perf/event_set.h"
#include "record/tail_queue.h"

enum {
	TAIL_UNKNOWN_BYTES = 1 << 20,  // read above the copy where the stack's top is not known: the call stops at the mapping's end
	TAIL_MOST_BYTES = 2 << 20,     // of a stack, above the copy; a quarter of the queue if that is less
	TAIL_QUEUE_BYTES = 8 << 20,    // of one reader, at most
	TAIL_QUEUES_BYTES = 128 << 20, // of all
};

struct tails;
struct tails_config {
	struct event_set *set;   // opened, and event_set_add_waking done
	uint16_t machine;        // EM_* of this host
	int priority;            // SCHED_FIFO
	bool filter;             // samples of strangers come, too: only processes that tails_target named are read
	int wake_fd;             // an eventfd that wakes the drain thread: a queue is half full
};
// The readers run when this returns. STATUS_HOST: a thread could not be had, or not at that priority.
bool tails_start(struct tails **out, const struct tails_config *config, struct err *err);
// Ends the readers, the set's samples being those that wake nobody from then on (event_set_wake_each); the rings can be drained whole, and what was read is
// found still.
void tails_stop(struct tails *tails);
// The readers run again; the set's samples are to wake them from then on. STATUS_HOST as before: none runs.
bool tails_resume(struct tails *tails, struct err *err);
void tails_free(struct tails *tails);

// The set is the drain thread's, and no reader looks into it: a descriptor that is to be closed is told of before; once it is out of the set, tails_look gives its
// readers another one. NULL is allowed.
void tails_closing(struct tails *tails, int fd);
// Drain thread, before it takes records: readers whose descriptor's task has ended wait on another one from then on, and those that lag behind are woken. Samples wake them, nothing else does: on a CPU where none is taken any more, the records of
// how its last programs began would wait, and what these do on other CPUs with them. NULL is allowed.
void tails_look(struct tails *tails);
// Drain thread. What stands behind the copy of a sample that came out of `ring`; samples of one ring are asked for in their order. NULL: none was read. Valid until
// the next call for that ring, or tails_done.
const struct tail *tails_find(struct tails *tails, size_t ring, uint64_t time_ns, int32_t tid);
// Drain thread: what tails_find gave is done with; a queue that is empty then needs no further memory.
void tails_done(struct tails *tails);
// Drain thread: where a thread's stack begins; 0: what was thought is wrong.
void tails_top(struct tails *tails, int32_t tid, uint64_t top);

// Drain thread, with `filter`: a process of the target.
void tails_target(struct tails *tails, int32_t pid);
// Drain thread: a stack of Go's goes on on another one; what it told (go_threads_note). From then on the process's other stacks are read, too.
void tails_note_go(struct tails *tails, int32_t pid, int32_t tid, uint64_t g, bool wants_system);

struct tails_figures { uint64_t reads, exact, checked, refused, failed, no_room, bytes, others; int error; }; // error: errno of the first failure
struct tails_figures tails_figures(const struct tails *tails); // while the readers run, each figure by itself

#endif
