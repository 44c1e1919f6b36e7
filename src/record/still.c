#include "record/still.h"

enum { TRIES = 4, SPARE_BYTES = 4096 };
// From the sample to the switch is the rest of its interrupt, of which the copy is the most: 20 to 60 us. Longer, and the thread may have gone on.
static const uint64_t PREEMPTED_WITHIN_NS = 100000;

static bool decode_switch(const struct still *still, struct perf_event_header *header, struct record *record)
{
	return (header->type == PERF_RECORD_SWITCH || header->type == PERF_RECORD_SWITCH_CPU_WIDE) &&
	       record_decode(still->layout, header, header->size, record, NULL);
}

static _Atomic uint64_t *slot_of(struct still *still, int32_t tid)
{
	return &still->began_ns[(uint32_t)tid * UINT32_C(2654435761) % STILL_THREADS];
}

void still_note(struct still *still, struct perf_event_header *header)
{
	struct record record;

	if (!decode_switch(still, header, &record) || record.switching.is_out)
		return;
	_Atomic uint64_t *slot = slot_of(still, record.id.tid);
	uint64_t before = atomic_load_explicit(slot, memory_order_relaxed);
	while (before < record.id.time_ns && !atomic_compare_exchange_weak_explicit(slot, &before, record.id.time_ns, memory_order_release, memory_order_relaxed))
		;
}

// A view of what a ring holds from `from` on. false: it may have been too full for a record that matters.
static bool look(const struct still_ring *ring, uint64_t from, uint64_t *wrapped, struct ring *view)
{
	*view = ring->ring;
	view->tail = from;
	view->wrapped = wrapped;
	ring_snapshot(view);
	return from <= view->head && view->head - __atomic_load_n(&view->page->data_tail, __ATOMIC_RELAXED) + SPARE_BYTES <= view->size;
}

// The sample's own ring, from the sample on: the thread left, and did not come back.
static bool was_preempted(const struct still *still, struct ring *view, const struct record *sample)
{
	bool broken = false, is_out = false;

	for (struct perf_event_header *header; (header = ring_peek(view, &broken)) != NULL; ring_advance(view, header)) {
		struct record record;
		if (header->type == PERF_RECORD_LOST)
			return false;
		if (!decode_switch(still, header, &record) || record.id.tid != sample->id.tid)
			continue;
		// In the kernel it may take its time: the switch comes before the thread is let into its own code again.
		bool is_soon = (sample->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL ||
		               record.id.time_ns - sample->id.time_ns <= PREEMPTED_WITHIN_NS;
		if (is_out || !record.switching.is_out || !is_soon)
			return false;
		is_out = true;
	}
	return is_out && !broken;
}

static bool may_begin(const struct still *still, struct ring *view, const struct record *sample)
{
	bool broken = false;

	for (struct perf_event_header *header; (header = ring_peek(view, &broken)) != NULL; ring_advance(view, header)) {
		struct record record;
		if (header->type == PERF_RECORD_LOST || (decode_switch(still, header, &record) && record.id.tid == sample->id.tid &&
		                                         !record.switching.is_out && record.id.time_ns >= sample->id.time_ns))
			return true;
	}
	return broken;
}

// Another ring, from where its reader stands: the thread does not begin to run there. What that reader has passed is in began_ns.
static bool began_elsewhere(const struct still *still, size_t ring, const struct record *sample, uint64_t *wrapped)
{
	for (int i = 0; i < TRIES; i++) {
		struct ring view;
		uint64_t from = __atomic_load_n(still->rings[ring].seen, __ATOMIC_ACQUIRE);
		if (!look(&still->rings[ring], from, wrapped, &view))
			return true;
		bool began = may_begin(still, &view, sample);
		// Had its reader moved on, the kernel might have written over what was looked at. A read that also writes comes after the reads before it, which no
		// read alone does.
		if (__atomic_fetch_add(still->rings[ring].seen, 0, __ATOMIC_ACQ_REL) == from)
			return began;
	}
	return true;
}

bool still_stood(struct still *still, size_t own, uint64_t behind, const struct record *sample, uint64_t *wrapped)
{
	struct ring view;

	if (!look(&still->rings[own], behind, wrapped, &view) || !was_preempted(still, &view, sample))
		return false;
	for (size_t i = 0; i < still->count; i++)
		if (i != own && began_elsewhere(still, i, sample, wrapped))
			return false;
	return atomic_load_explicit(slot_of(still, sample->id.tid), memory_order_acquire) < sample->id.time_ns;
}
