// perf-PID.map, as JIT compilers write it: lines "START SIZE NAME", START and SIZE in hex, NAME to the end of the line.
// Code is moved and compiled again: where lines overlap, the later one holds.
#ifndef PERFSAMPLE_SYMBOLS_JIT_MAP_H
#define PERFSAMPLE_SYMBOLS_JIT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct jit_entry {
	uint64_t start, end;
	uint32_t name, length; // in the text
};

struct jit_span {
	uint64_t start;
	uint32_t entry; // UINT32_MAX: nothing
};

struct jit_map { // a zeroed struct is an empty map
	const char *text; // borrowed
	VEC(struct jit_entry) entries; // in the file's order
	VEC(struct jit_span) spans;    // by address, not overlapping
	size_t skipped; // lines of another form, of size zero or past the end of the address space
	bool has_odd;   // one was of another form
	bool is_cut;    // the last has no newline
	size_t odd_at;  // where the first such line begins
};

// Parses the text; lines of another form, of size zero or past the end of the address space are skipped and counted.
// At most 8 Mi entries.
void jit_map_parse(struct jit_map *map, const char *text, size_t size);
// NULL: no code of the map there.
const struct jit_entry *jit_map_find(const struct jit_map *map, uint64_t addr);
void jit_map_release(struct jit_map *map);

#endif
