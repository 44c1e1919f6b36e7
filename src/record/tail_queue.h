// Stacks from the thread that reads them while the target is stopped to the drain thread, without a lock. record/tails.h.
#ifndef PERFSAMPLE_RECORD_TAIL_QUEUE_H
#define PERFSAMPLE_RECORD_TAIL_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "unwind/stack_tail.h"

struct tail {
	uint64_t time_ns; // of its sample, as `tid`
	int32_t tid;
	enum stack_tail match; // never NONE
	bool is_other;         // what go_threads_read made; else what is behind the kernel's copy
	size_t size;
	uint8_t bytes[];
};

// An empty queue begins at its block's start again: memory that few stacks at a time never reach is never touched, as each fresh page takes as long as what is
// copied into it.
struct tail_queue {
	uint8_t *block;
	size_t capacity;             // power of two
	_Atomic uint64_t head, tail; // bytes ever put and taken; the place in the block is what is left of them by the capacity
	_Atomic uint64_t begun;      // where head stood when the queue last began anew: what lies before is nothing
	uint64_t told_at;            // reader: what waited first when it was last said to be half full
	uint64_t taken_to;           // drain thread: end of the one that was handed out
};

// `capacity` bytes of address space, a power of two. STATUS_HOST.
bool tail_queue_init(struct tail_queue *queue, size_t capacity, struct err *err);
void tail_queue_release(struct tail_queue *queue);

// The reader. Room for one with up to `bytes`; NULL: there is none.
struct tail *tail_queue_reserve(struct tail_queue *queue, size_t bytes);
// What was reserved is there, with all but `size` set, and has `bytes`. true: more than half full, which was not said since the drain thread
// last took one.
bool tail_queue_commit(struct tail_queue *queue, struct tail *tail, size_t bytes);

// The drain thread. The stack of a sample, those of older samples being done with; NULL: none. Valid until the next of these calls.
const struct tail *tail_queue_find(struct tail_queue *queue, uint64_t time_ns, int32_t tid);
// What was found last is done with.
void tail_queue_done(struct tail_queue *queue);

#endif
