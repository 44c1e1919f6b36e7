#include "perf/merge.h"

#include <stdlib.h>

#include "base/mem.h"

// A ring that still has a record for this pass; the heap holds them by the time of that record, then by ring, so that equal times
// come in a fixed order.
struct cursor {
	uint64_t time_ns;
	struct perf_event_header *header;
	size_t ring;
	uint64_t released; // tail as it was last published
};

enum { CURSORS_ON_STACK = 256 };

static bool before(const struct cursor *a, const struct cursor *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->ring < b->ring;
}

static void sift_down(struct cursor *heap, size_t count, size_t at)
{
	struct cursor moved = heap[at];
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= count)
			break;
		if (child + 1 < count && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &moved))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = moved;
}

// The ring's next record for this pass; false when there is none before the head or the horizon.
static bool next_record(struct merge *merge, struct ring *ring, struct cursor *cursor, uint64_t horizon_ns, merge_time_fn *time_of, void *context)
{
	bool broken;
	cursor->header = ring_peek(ring, &broken);
	merge->broken += broken;
	if (cursor->header == NULL)
		return false;
	cursor->time_ns = time_of(context, cursor->ring, cursor->header);
	if (cursor->time_ns == 0)
		cursor->time_ns = ring->last_time_ns;
	return cursor->time_ns <= horizon_ns;
}

// A horizon before all that another thread still has to see.
static uint64_t seen_horizon(struct ring *rings, size_t count, uint64_t horizon_ns, merge_time_fn *time_of, void *context)
{
	for (size_t i = 0; i < count; i++) {
		struct ring hidden = rings[i];
		bool broken;
		hidden.tail = rings[i].head;
		hidden.head = rings[i].written;
		struct perf_event_header *header = ring_peek(&hidden, &broken);
		if (header == NULL)
			continue;
		uint64_t time_ns = time_of(context, i, header);
		if (time_ns == 0)
			time_ns = rings[i].last_time_ns;
		if (time_ns <= horizon_ns)
			horizon_ns = time_ns > 0 ? time_ns - 1 : 0;
	}
	return horizon_ns;
}

static void give_back(struct merge *merge, struct ring *ring, void *context)
{
	if (merge->settle != NULL)
		merge->settle(context);
	ring_release_read(ring);
}

static void hand_on(struct merge *merge, struct ring *ring, struct cursor *cursor, merge_take_fn *take, void *context)
{
	struct merge_item item = { .header = cursor->header, .ring = cursor->ring, .time_ns = cursor->time_ns };
	// `take` may rewrite the record (trim it, say): its size is what the ring holds, so it is kept from before.
	struct perf_event_header as_it_was = *cursor->header;

	if (cursor->time_ns < merge->last_ns)
		merge->late++;
	else
		merge->last_ns = cursor->time_ns;
	if (cursor->time_ns > ring->last_time_ns)
		ring->last_time_ns = cursor->time_ns;
	take(context, &item);
	ring_advance(ring, &as_it_was);
	// A long pass gives room back on the way: the kernel drops what does not fit. (So nothing is kept either when a second record wraps.)
	if (ring->tail - cursor->released > ring->size / 4) {
		give_back(merge, ring, context);
		cursor->released = ring->tail;
	}
}

size_t merge_pass(struct merge *merge, struct ring *rings, size_t count, uint64_t horizon_ns, merge_time_fn *time_of, merge_take_fn *take, void *context)
{
	struct cursor few[CURSORS_ON_STACK];
	struct cursor *heap = count <= CURSORS_ON_STACK ? few : mem_zero(count, sizeof(*heap));
	size_t live = 0, taken = 0;

	// All heads before any record is read: a record committed meanwhile waits for the next pass in every ring alike.
	for (size_t i = 0; i < count; i++)
		ring_snapshot(&rings[i]);
	horizon_ns = seen_horizon(rings, count, horizon_ns, time_of, context);
	if (horizon_ns > merge->reached_ns)
		merge->reached_ns = horizon_ns;
	for (size_t i = 0; i < count; i++) {
		struct cursor cursor = { .ring = i, .released = rings[i].tail };
		if (next_record(merge, &rings[i], &cursor, horizon_ns, time_of, context))
			heap[live++] = cursor;
		else
			ring_release_read(&rings[i]);
	}
	for (size_t i = live / 2; i-- > 0;)
		sift_down(heap, live, i);
	while (live > 0) {
		struct ring *ring = &rings[heap[0].ring];
		hand_on(merge, ring, &heap[0], take, context);
		taken++;
		if (!next_record(merge, ring, &heap[0], horizon_ns, time_of, context)) {
			give_back(merge, ring, context);
			heap[0] = heap[--live];
		}
		if (live > 1)
			sift_down(heap, live, 0);
	}
	if (heap != few)
		free(heap);
	return taken;
}
