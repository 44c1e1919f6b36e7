// Where lost samples lie: what counters and LOST records of a ring say together.
#include "judge/loss.h"

#include "tests/tap.h"

enum { S = 1000000000 };

static void add(struct losses *list, double from_s, double to_s, uint64_t count, uint32_t cpu)
{
	vec_push(&list->items, (struct loss){ .from_ns = (uint64_t)(from_s * S), .to_ns = (uint64_t)(to_s * S), .count = count, .cpu = cpu });
}

static struct loss_span span_of(const struct losses *gaps, struct losses *records, double seconds)
{
	struct losses placed = { 0 };
	double windows[64] = { 0 };
	losses_place(gaps, records, &placed);
	uint64_t sum = 0, all = 0;
	for (size_t i = 0; i < gaps->items.count; i++)
		all += gaps->items.data[i].count;
	for (size_t i = 0; i < placed.items.count; i++) {
		loss_spread(windows, (size_t)seconds, S, 0, (uint64_t)(seconds * S), &placed.items.data[i]);
		sum += placed.items.data[i].count;
	}
	is_u64(sum, all, "all of it is placed");
	vec_release(&placed.items);
	return loss_span(windows, (size_t)seconds, S, seconds);
}

int main(void)
{
	// A recorder that stood still from +2.1 to +7 s reads its counters at +2 and +7.
	struct losses gaps = { 0 }, records = { 0 };
	add(&gaps, 2, 7, 20000, 0);
	struct loss_span span = span_of(&gaps, &records, 20);
	ok(span.from_s == 2 && span.to_s == 7, "anywhere between two readings: %g to %g", span.from_s, span.to_s);
	add(&records, 4.5, 7, 15000, 0);
	add(&records, 11, 12, 15, 0); // of another time
	add(&records, 2, 3, 15, 1);   // of another CPU
	span = span_of(&gaps, &records, 20);
	ok(span.from_s == 4 && span.to_s == 7, "where its ring's records say so: %g to %g", span.from_s, span.to_s);
	add(&gaps, 3, 4, 20000, 1);
	span = span_of(&gaps, &records, 20);
	ok(span.from_s == 3 && span.to_s == 7, "of all CPUs: %g to %g", span.from_s, span.to_s);
	add(&gaps, 0, 20, 500, 1);
	span = span_of(&gaps, &records, 20);
	ok(span.from_s == 3 && span.to_s == 7, "but for a twentieth: %g to %g", span.from_s, span.to_s);
	span = span_of(&gaps, &records, 7);
	ok(span.from_s == span.to_s, "most of the recording is no place");
	vec_release(&gaps.items);
	vec_release(&records.items);
	return tap_done();
}
