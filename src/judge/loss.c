#include "judge/loss.h"

#include <math.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/sort.h"

// ---------------------------------------------------------------- placing

static void place(struct losses *placed, const struct loss *gap, uint64_t from, uint64_t to, uint64_t count)
{
	if (count > 0)
		vec_push(&placed->items, (struct loss){ .from_ns = from, .to_ns = to > from ? to : from, .count = count, .cpu = gap->cpu, .event = gap->event,
		                                        .is_sideband = gap->is_sideband });
}

static bool overlap(const struct loss *gap, const struct loss *record)
{
	return record->cpu == gap->cpu && record->from_ns < gap->to_ns && record->to_ns > gap->from_ns;
}

static void place_gap(struct losses *placed, const struct loss *gap, const struct loss *records, size_t count)
{
	uint64_t sum = 0, given = 0, last_from = gap->from_ns, last_to = gap->to_ns;
	for (size_t i = 0; i < count; i++)
		sum += overlap(gap, &records[i]) ? records[i].count : 0;
	for (size_t i = 0; i < count && sum > 0; i++) {
		if (!overlap(gap, &records[i]))
			continue;
		last_from = records[i].from_ns > gap->from_ns ? records[i].from_ns : gap->from_ns;
		last_to = records[i].to_ns < gap->to_ns ? records[i].to_ns : gap->to_ns;
		uint64_t part = (uint64_t)((double)gap->count * ((double)records[i].count / (double)sum));
		if (part > gap->count - given)
			part = gap->count - given;
		place(placed, gap, last_from, last_to, part);
		given += part;
	}
	place(placed, gap, last_from, last_to, gap->count - given); // what rounding left, or all
}

static int by_end(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;
	return (x->to_ns > y->to_ns) - (x->to_ns < y->to_ns);
}

static int by_start(const void *a, const void *b)
{
	const struct loss *x = a, *y = b;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return (x->event > y->event) - (x->event < y->event);
}

void losses_place(const struct losses *gaps, struct losses *records, struct losses *placed)
{
	enum { RECORDS_MOST = 4096 }; // of one gap
	if (records->items.count > 1)
		sort_stable(records->items.data, records->items.count, sizeof(*records->items.data), by_end);
	for (size_t i = 0; i < gaps->items.count; i++) {
		const struct loss *gap = &gaps->items.data[i];
		// Records are in the order of their ends: skip what ended before, and stop a while behind.
		const size_t low = first_not(0, records->items.count, k, records->items.data[k].to_ns <= gap->from_ns);
		size_t end = low;
		while (end < records->items.count && end - low < RECORDS_MOST && records->items.data[end].from_ns < gap->to_ns)
			end++;
		bool has_records = end > low && !gap->is_sideband;
		place_gap(placed, gap, has_records ? records->items.data + low : NULL, has_records ? end - low : 0);
	}
	if (placed->items.count > 1)
		sort_stable(placed->items.data, placed->items.count, sizeof(*placed->items.data), by_start);
}

// ---------------------------------------------------------------- windows of time

static size_t window_at(uint64_t time_ns, uint64_t from_ns, double length_ns, size_t count)
{
	double offset = time_ns > from_ns ? (double)(time_ns - from_ns) : 0;
	size_t at = (size_t)(offset / length_ns);
	return at < count ? at : count - 1;
}

void loss_spread(double *windows, size_t count, double length_ns, uint64_t from_ns, uint64_t to_ns, const struct loss *loss)
{
	uint64_t from = loss->from_ns > from_ns ? loss->from_ns : from_ns;
	uint64_t to = loss->to_ns < to_ns ? loss->to_ns : to_ns;
	size_t first = window_at(from, from_ns, length_ns, count), last = window_at(to, from_ns, length_ns, count);
	if (first >= last || to <= from) {
		windows[last] += (double)loss->count;
		return;
	}
	double span = (double)(to - from);
	for (size_t i = first; i <= last; i++) {
		double start = (double)from_ns + (double)i * length_ns, end = start + length_ns;
		double part = fmin(end, (double)to) - fmax(start, (double)from);
		windows[i] += (double)loss->count * fmax(0, part) / span;
	}
}

struct loss_span loss_span(const double *windows, size_t count, double length_ns, double seconds)
{
	const struct loss_span none = { 0, 0 };
	double sum = 0, cut = 0;
	for (size_t i = 0; i < count; i++)
		sum += windows[i];
	if (!(sum > 0))
		return none;
	size_t first = 0, last = count - 1;
	while (first < last) { // take away the end that holds less
		bool front = windows[first] <= windows[last];
		double less = front ? windows[first] : windows[last];
		if (cut + less > sum / 20)
			break;
		cut += less;
		if (front)
			first++;
		else
			last--;
	}
	double from = (double)first * length_ns / 1e9, to = fmin((double)(last + 1) * length_ns / 1e9, seconds);
	return to - from <= seconds / 2 ? (struct loss_span){ from, to } : none;
}
