// Ranges that may nest, flattened into spans that do not overlap and found by binary search: the innermost range holds.
#ifndef PERFSAMPLE_SYMBOLS_SPAN_H
#define PERFSAMPLE_SYMBOLS_SPAN_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define SPAN_NONE UINT32_MAX

struct span_range {
	uint64_t lo, hi; // [lo, hi)
	uint32_t value;  // of two equal ranges, the higher value is the inner one
};

struct span {
	uint64_t start;
	uint32_t value; // SPAN_NONE: nothing here
};

struct span_table { // a zeroed struct is an empty table
	VEC(struct span_range) ranges; // freed by span_finish
	VEC(struct span) spans;
};

// Empty ranges are left out.
void span_add(struct span_table *table, uint64_t lo, uint64_t hi, uint32_t value);
// Call once, after the last range.
void span_finish(struct span_table *table);
// SPAN_NONE: no range holds the address.
uint32_t span_find(const struct span_table *table, uint64_t addr);
// The same for ascending addresses: `hint`, 0 at first, is where the last one was found.
uint32_t span_find_next(const struct span_table *table, uint64_t addr, size_t *hint);
void span_release(struct span_table *table);

#endif
