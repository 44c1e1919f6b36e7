// Functions without a name whose bounds came with a recording, by address: what is left of them on a host that has none of the binaries.
#ifndef PERFSAMPLE_SYMBOLS_BOUNDS_H
#define PERFSAMPLE_SYMBOLS_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"

struct symbol_bounds { // [start, end) in the image (symbolizer_lookup's addresses); end 0: not known
	uint64_t start, end;
	uint64_t vaddr; // of its start, as `objdump -d` shows it
};

struct bounds_table { // a zeroed struct is an empty table
	VEC(struct symbol_bounds) rows;
	bool is_sorted;
};
void bounds_add(struct bounds_table *table, const struct symbol_bounds *bounds); // empty ones are left out
bool bounds_find(struct bounds_table *table, uint64_t image_addr, struct symbol_bounds *out);
void bounds_release(struct bounds_table *table);

#endif
