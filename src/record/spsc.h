// A queue of pointers from one thread to one other, without a lock: the drain thread must never wait for anybody.
#ifndef PERFSAMPLE_RECORD_SPSC_H
#define PERFSAMPLE_RECORD_SPSC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { SPSC_CAPACITY = 256 }; // power of two

struct spsc {
	void *slots[SPSC_CAPACITY];
	_Atomic size_t pushed, popped;
};

static inline bool spsc_push(struct spsc *queue, void *item)
{
	size_t at = atomic_load_explicit(&queue->pushed, memory_order_relaxed);
	if (at - atomic_load_explicit(&queue->popped, memory_order_acquire) == SPSC_CAPACITY)
		return false;
	queue->slots[at % SPSC_CAPACITY] = item;
	atomic_store_explicit(&queue->pushed, at + 1, memory_order_release);
	return true;
}

static inline void *spsc_pop(struct spsc *queue)
{
	size_t at = atomic_load_explicit(&queue->popped, memory_order_relaxed);
	if (at == atomic_load_explicit(&queue->pushed, memory_order_acquire))
		return NULL;
	void *item = queue->slots[at % SPSC_CAPACITY];
	atomic_store_explicit(&queue->popped, at + 1, memory_order_release);
	return item;
}

static inline bool spsc_is_full(struct spsc *queue)
{
	return atomic_load_explicit(&queue->pushed, memory_order_relaxed) -
	       atomic_load_explicit(&queue->popped, memory_order_acquire) == SPSC_CAPACITY;
}

#endif
