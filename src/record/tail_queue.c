#include "record/tail_queue.h"

#include <sys/mman.h>

enum { ENTRY_ALIGN = 64 };

struct entry {
	uint64_t bytes;  // of the entry, multiple of ENTRY_ALIGN
	uint64_t filler; // 1: nothing, up to the block's end
	struct tail tail;
};

bool tail_queue_init(struct tail_queue *queue, size_t capacity, struct err *err)
{
	*queue = (struct tail_queue){ .capacity = capacity, .told_at = UINT64_MAX };
	void *block = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block == MAP_FAILED)
		return err_errno(err, STATUS_HOST, "%zu bytes for stacks", capacity);
	queue->block = block;
	return true;
}

void tail_queue_release(struct tail_queue *queue)
{
	if (queue->block != NULL)
		munmap(queue->block, queue->capacity);
	queue->block = NULL;
}

static struct entry *entry_at(const struct tail_queue *queue, uint64_t place)
{
	return (struct entry *)(void *)(queue->block + place % queue->capacity);
}

static size_t entry_bytes(size_t tail_bytes)
{
	return (sizeof(struct entry) + tail_bytes + ENTRY_ALIGN - 1) / ENTRY_ALIGN * ENTRY_ALIGN;
}

// Where what waits begins, as the reader knows it.
static uint64_t first_waiting(struct tail_queue *queue)
{
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_acquire), begun = atomic_load_explicit(&queue->begun, memory_order_relaxed);
	return tail < begun ? begun : tail;
}

struct tail *tail_queue_reserve(struct tail_queue *queue, size_t bytes)
{
	size_t need = entry_bytes(bytes);
	uint64_t head = atomic_load_explicit(&queue->head, memory_order_relaxed), first = first_waiting(queue);
	size_t at = (size_t)(head % queue->capacity), to_end = queue->capacity - at, room = queue->capacity - (size_t)(head - first);
	if (need > queue->capacity)
		return NULL;
	if (head == first && at > 0) {
		head += to_end;
		atomic_store_explicit(&queue->begun, head, memory_order_relaxed);
		atomic_store_explicit(&queue->head, head, memory_order_release);
	} else if (need > to_end) {
		if (need + to_end > room)
			return NULL;
		*entry_at(queue, head) = (struct entry){ .bytes = to_end, .filler = 1 };
		head += to_end;
		atomic_store_explicit(&queue->head, head, memory_order_release);
	} else if (need > room) {
		return NULL;
	}
	return &entry_at(queue, head)->tail;
}

bool tail_queue_commit(struct tail_queue *queue, struct tail *tail, size_t bytes)
{
	uint64_t before = atomic_load_explicit(&queue->head, memory_order_relaxed), first = first_waiting(queue);
	struct entry *entry = entry_at(queue, before);
	tail->size = bytes;
	entry->bytes = entry_bytes(bytes);
	entry->filler = 0;
	atomic_store_explicit(&queue->head, before + entry->bytes, memory_order_release);
	if (before + entry->bytes - first <= queue->capacity / 2 || queue->told_at == first)
		return false;
	queue->told_at = first;
	return true;
}

const struct tail *tail_queue_find(struct tail_queue *queue, uint64_t time_ns, int32_t tid)
{
	uint64_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed), head = atomic_load_explicit(&queue->head, memory_order_acquire);
	uint64_t begun = atomic_load_explicit(&queue->begun, memory_order_relaxed);
	// What was handed out before is done with.
	if (queue->taken_to > tail)
		tail = queue->taken_to;
	if (tail < begun && begun <= head) // beyond head it begins anew this moment: what we see is empty
		tail = begun;
	const struct tail *found = NULL;
	while (tail != head) {
		const struct entry *entry = entry_at(queue, tail);
		if (entry->filler == 0 && entry->tail.time_ns > time_ns)
			break;
		if (entry->filler == 0 && entry->tail.time_ns == time_ns && entry->tail.tid == tid) {
			found = &entry->tail;
			queue->taken_to = tail + entry->bytes;
			break;
		}
		tail += entry->bytes;
	}
	atomic_store_explicit(&queue->tail, tail, memory_order_release);
	return found;
}

void tail_queue_done(struct tail_queue *queue)
{
	if (queue->taken_to > atomic_load_explicit(&queue->tail, memory_order_relaxed))
		atomic_store_explicit(&queue->tail, queue->taken_to, memory_order_release);
}
