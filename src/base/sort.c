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
