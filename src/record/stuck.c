#include "record/stuck.h"

void stuck_reset(struct stuck *stuck, size_t rings, uint64_t now_ns)
{
	vec_clear(&stuck->places);
	for (size_t i = 0; i < rings; i++)
		vec_push(&stuck->places, (struct stuck_place){ .time_ns = now_ns });
}

void stuck_release(struct stuck *stuck)
{
	vec_release(&stuck->places);
}

bool stuck_look(struct stuck *stuck, size_t index, const struct ring *ring, const struct stuck_counters *now, struct stuck_span *span)
{
	struct stuck_place *place = &stuck->places.data[index];
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	if (head != place->head || ring->tail != head) { // it moves, or there is something to be read yet
		*place = (struct stuck_place){ .head = head, .time_ns = now->time_ns, .lost = now->lost, .due = now->due };
		return false;
	}
	// Nothing is lost of an empty ring. What is due may stay away for as many tasks as have not had a whole period each.
	bool loses = now->lost > place->lost, is_owed = now->due >= 0 && place->due >= 0 && now->due - place->due > STUCK_PERIODS + now->spare;
	if (!loses && !is_owed)
		return false;
	*span = (struct stuck_span){
		.from_ns = ring->last_time_ns != 0 ? ring->last_time_ns : place->time_ns, .to_ns = now->time_ns, .lost = now->lost - place->lost,
		.cpu = ring->cpu, .was_empty = head == 0,
	};
	return true;
}

static double seconds_since(uint64_t start_ns, uint64_t time_ns)
{
	return time_ns > start_ns ? (double)(time_ns - start_ns) / 1e9 : 0;
}

void stuck_text(const struct stuck_span *spans, size_t count, uint64_t start_ns, struct buf *out)
{
	enum { NAMED_MOST = 3 };
	uint64_t lost = 0;
	size_t mended = 0;
	if (count == 0)
		return;
	buf_string(out, "a ring of the kernel stood still");
	for (size_t i = 0; i < count; i++) {
		lost += spans[i].lost;
		mended += !spans[i].to_the_end;
		if (i >= NAMED_MOST)
			continue;
		buf_printf(out, "%s from +%.1f s to +%.1f s", i > 0 ? "," : "", seconds_since(start_ns, spans[i].from_ns), seconds_since(start_ns, spans[i].to_ns));
		if (spans[i].cpu != UINT32_MAX)
			buf_printf(out, " (CPU %u)", spans[i].cpu);
	}
	if (count > NAMED_MOST)
		buf_printf(out, " and %zu times more", count - NAMED_MOST);
	buf_printf(out, ": its events ran, no record came, and %llu samples are known to be lost%s", (unsigned long long)lost,
	           mended == count ? "; they were closed and opened again" : mended > 0 ? "; but for the last time they were closed and opened again" : "");
}
