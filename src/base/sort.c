#include "base/sort.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, FEW = 64 };

static void insert(struct sort_item *items, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		struct sort_item moved = items[i];
		size_t to = i;
		for (; to > 0 && items[to - 1].key > moved.key; to--)
			items[to] = items[to - 1];
		items[to] = moved;
	}
}

static void pass(const struct sort_item *from, struct sort_item *to, size_t count, unsigned shift)
{
	uint32_t place[DIGITS] = { 0 }, sum = 0;
	for (size_t i = 0; i < count; i++)
		place[from[i].key >> shift & (DIGITS - 1)]++;
	for (size_t d = 0; d < DIGITS; d++) {
		uint32_t n = place[d];
		place[d] = sum;
		sum += n;
	}
	for (size_t i = 0; i < count; i++)
		to[place[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
}

// A radix sort from the lowest digit up; digits that all keys share are skipped.
void sort_items(struct sort_item *items, size_t count)
{
	uint64_t differs = 0;
	bool is_sorted = true;
	if (count <= FEW) {
		insert(items, count);
		return;
	}
	for (size_t i = 1; i < count; i++) {
		differs |= items[i].key ^ items[0].key;
		is_sorted &= items[i - 1].key <= items[i].key;
	}
	if (is_sorted)
		return;
	struct sort_item *from = items, *to = mem_alloc(count * sizeof(*to)), *const other = to;
	for (unsigned shift = 0; shift < 64; shift += DIGIT_BITS) {
		if ((differs >> shift & (DIGITS - 1)) == 0)
			continue;
		pass(from, to, count, shift);
		struct sort_item *turn = from;
		from = to;
		to = turn;
	}
	if (from != items)
		memcpy(items, from, count * sizeof(*items));
	free(other);
}

// ---------------------------------------------------------------- by a comparison

enum { RUN = 8 };

struct sorting { size_t size; sort_compare_with_fn *compare; void *context; };

// `spare` has room for one item.
static void insert_items(char *items, size_t count, char *spare, const struct sorting *s)
{
	for (size_t i = 1; i < count; i++) {
		size_t to = i;
		while (to > 0 && s->compare(items + (to - 1) * s->size, items + i * s->size, s->context) > 0)
			to--;
		if (to == i)
			continue;
		memcpy(spare, items + i * s->size, s->size);
		memmove(items + (to + 1) * s->size, items + to * s->size, (i - to) * s->size);
		memcpy(items + to * s->size, spare, s->size);
	}
}

// Two sorted runs that stand one behind the other, into `to`. Of equals those of the first come first.
static void merge_runs(const char *from, size_t first, size_t count, char *to, const struct sorting *s)
{
	const char *a = from, *middle = from + first * s->size, *b = middle, *end = from + count * s->size;
	if (first == count || s->compare(middle - s->size, middle, s->context) <= 0) { // in order as they stand
		memcpy(to, from, count * s->size);
		return;
	}
	while (a < middle && b < end) {
		const char **next = s->compare(a, b, s->context) <= 0 ? &a : &b;
		memcpy(to, *next, s->size);
		*next += s->size;
		to += s->size;
	}
	memcpy(to, a, (size_t)(middle - a));
	memcpy(to + (middle - a), b, (size_t)(end - b));
}

void sort_stable_with(void *base, size_t count, size_t size, sort_compare_with_fn *compare, void *context)
{
	const struct sorting s = { size, compare, context };
	if (count < 2)
		return;
	char *items = base, *other = mem_alloc(count * size), *from = items, *to = other;
	for (size_t at = 0; at < count; at += RUN)
		insert_items(items + at * size, count - at < RUN ? count - at : RUN, other, &s);
	for (size_t run = RUN; run < count; run *= 2) {
		for (size_t at = 0; at < count; at += 2 * run) {
			size_t both = count - at < 2 * run ? count - at : 2 * run;
			merge_runs(from + at * size, both < run ? both : run, both, to + at * size, &s);
		}
		char *turn = from;
		from = to;
		to = turn;
	}
	if (from != items)
		memcpy(items, from, count * size);
	free(other);
}

struct without { sort_compare_fn *compare; };

static int compare_without(const void *a, const void *b, void *context)
{
	const struct without *without = context;
	return without->compare(a, b);
}

void sort_stable(void *base, size_t count, size_t size, sort_compare_fn *compare)
{
	struct without without = { compare };
	sort_stable_with(base, count, size, compare_without, &without);
}
