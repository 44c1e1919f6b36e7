// perf-PID.map, as JIT compilers write it: lines "START SIZE NAME", START and SIZE in hex, NAME to the end of the line.
// Code is moved and compiled again: where lines overlap, the later one holds.
#ifndef PERFSAMPLE_SYMBOLS_JIT_MAP_H
#define PERFSAMPLE_SYMBOLS_JIT_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/vec.h"

struct jit_entry {
	uint64_t start, end;
	uint32_t name, length; // in the text
};

struct jit_span {
	uint64_t start;
	uint32_t entry; // UINT32_MAX: nothing
};

struct jit_map { // a zeroed struct is an empty map that takes every line
	// Given, or zero.
	const uint64_t *wanted;        // ascending: lines about these addresses alone are kept; borrowed. NULL: all lines
	size_t wanted_count;
	uint64_t bytes_most;           // that may be kept; 0: no limit
	_Atomic uint64_t *bytes_of_all; // kept by several maps together, this one's share in it; and how many those may be. NULL: no limit
	uint64_t bytes_of_all_most;

	const char *text;              // names, when it is complete
	VEC(struct jit_entry) entries; // in the file's order
	VEC(struct jit_span) spans;    // by address, not overlapping
	size_t good;    // lines that name code, kept or not
	size_t skipped; // lines of another form, of size zero or past the end of the address space
	uint64_t left_out; // lines beyond the limits
	bool has_odd;   // one was of another form
	bool is_cut;    // the last has no newline
	size_t odd_at;  // where the first such line begins

	// Its own.
	struct buf names, line; // line: begun in what was added, as much of it as counts
	uint64_t bytes, line_at, at;
	bool in_line;
};

// Takes the next bytes of the file, however they are divided. Lines of another form, of size zero or past the end of the address space are skipped and counted; a
// name is kept to SYMBOL_NAME_BYTES_MOST (limits.h) and a byte, which tells that it was longer.
void jit_map_add(struct jit_map *map, const char *text, size_t size);
void jit_map_end(struct jit_map *map); // all was added
void jit_map_parse(struct jit_map *map, const char *text, size_t size); // the same at once
// NULL: no code of the map there.
const struct jit_entry *jit_map_find(const struct jit_map *map, uint64_t addr);
void jit_map_release(struct jit_map *map);

#endif
