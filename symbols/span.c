#include "symbols/span.h"

#include <stdbool.h>

#include "base/search.h"
#include "base/sort.h"

enum { RUN = 16 };

void span_add(struct span_table *table, uint64_t lo, uint64_t hi, uint32_t value)
{
	if (hi > lo)
		vec_push(&table->ranges, (struct span_range){ .lo = lo, .hi = hi, .value = value });
}

// Outer ranges before those inside them.
static inline bool is_before(const struct span_range *x, const struct span_range *y)
{
	if (x->lo != y->lo)
		return x->lo < y->lo;
	if (x->hi != y->hi)
		return x->hi > y->hi;
	return x->value < y->value;
}

static void push(struct span_table *table, uint64_t start, uint32_t value)
{
	struct span *last = table->spans.count > 0 ? &table->spans.data[table->spans.count - 1] : NULL;
	if (last != NULL && last->start == start)
		last->value = value;
	else if (last == NULL || last->value != value)
		vec_push(&table->spans, (struct span){ .start = start, .value = value });
}

// Closes the ranges that end at or before `until`, innermost first; what encloses them goes on.
static void close_until(struct span_table *table, const uint32_t *open, size_t *depth, uint64_t until)
{
	const struct span_range *r = table->ranges.data;
	while (*depth > 0 && r[open[*depth - 1]].hi <= until) {
		uint64_t end = r[open[--*depth]].hi;
		while (*depth > 0 && r[open[*depth - 1]].hi <= end)
			--*depth;
		push(table, end, *depth > 0 ? r[open[*depth - 1]].value : SPAN_NONE);
	}
}

static void sort_run(struct span_range *ranges, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct span_range moved = ranges[i];
		size_t to = i;
		for (; to > 0 && is_before(&moved, &ranges[to - 1]); to--)
			ranges[to] = ranges[to - 1];
		ranges[to] = moved;
	}
}

static void merge(const struct span_range *a, size_t a_count, const struct span_range *b, size_t b_count, struct span_range *out)
{
	const struct span_range *a_end = a + a_count, *b_end = b + b_count;
	while (a < a_end && b < b_end)
		*out++ = is_before(b, a) ? *b++ : *a++;
	while (a < a_end)
		*out++ = *a++;
	while (b < b_end)
		*out++ = *b++;
}

// By merging runs sorted by insertion. sort_stable(), with its call for each comparison, takes a fourth of all the time of reading units.
static void sort(struct span_range *ranges, size_t count)
{
	size_t i = 1;
	while (i < count && !is_before(&ranges[i], &ranges[i - 1]))
		i++;
	if (i >= count)
		return;
	for (i = 0; i < count; i += RUN)
		sort_run(&ranges[i], count - i < RUN ? count - i : RUN);
	if (count <= RUN)
		return;
	struct span_range *other = mem_resize(NULL, count, sizeof(*other)), *from = ranges, *to = other;
	for (size_t width = RUN; width < count; width *= 2) {
		for (i = 0; i < count; i += 2 * width) {
			size_t a = count - i < width ? count - i : width, b = count - i - a < width ? count - i - a : width;
			merge(&from[i], a, &from[i + a], b, &to[i]);
		}
		struct span_range *sorted = to;
		to = from;
		from = sorted;
	}
	if (from != ranges)
		memcpy(ranges, from, count * sizeof(*ranges));
	free(other);
}

void span_finish(struct span_table *table)
{
	size_t count = table->ranges.count, depth = 0;
	sort(table->ranges.data, count);
	uint32_t *open = mem_resize(NULL, count + 1, sizeof(*open));
	vec_reserve(&table->spans, count + count / 4 + 1);
	for (size_t i = 0; i < count; i++) {
		close_until(table, open, &depth, table->ranges.data[i].lo);
		push(table, table->ranges.data[i].lo, table->ranges.data[i].value);
		open[depth++] = (uint32_t)i;
	}
	close_until(table, open, &depth, UINT64_MAX);
	free(open);
	vec_release(&table->ranges);
}

// The index of the first span in [lo, hi) that begins behind the address.
static size_t first_behind(const struct span_table *table, uint64_t addr, size_t lo, size_t hi)
{
	return first_not(lo, hi, i, table->spans.data[i].start <= addr);
}

uint32_t span_find(const struct span_table *table, uint64_t addr)
{
	size_t at = first_behind(table, addr, 0, table->spans.count);
	return at > 0 ? table->spans.data[at - 1].value : SPAN_NONE;
}

uint32_t span_find_next(const struct span_table *table, uint64_t addr, size_t *hint)
{
	size_t count = table->spans.count, lo = *hint, step = 1;
	if (lo >= count || table->spans.data[lo].start > addr)
		lo = 0;
	while (lo + step < count && table->spans.data[lo + step].start <= addr) {
		lo += step;
		step *= 2;
	}
	size_t at = first_behind(table, addr, lo, lo + step < count ? lo + step : count);
	*hint = at > 0 ? at - 1 : 0;
	return at > 0 ? table->spans.data[at - 1].value : SPAN_NONE;
}

void span_release(struct span_table *table)
{
	vec_release(&table->ranges);
	vec_release(&table->spans);
}
