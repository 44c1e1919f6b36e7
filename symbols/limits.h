// How much memory other people's names may take: a process writes what it likes into its perf map, and symbol tables are files like any other.
#ifndef PERFSAMPLE_SYMBOLS_LIMITS_H
#define PERFSAMPLE_SYMBOLS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/intern.h"

enum {
	SYMBOL_NAME_BYTES_MOST = 64 << 10,   // of one name: the longest that C++ programs were seen to have is a quarter of that
	SYMBOL_MAP_BYTES_MOST = 32 << 20,    // kept of one perf map: lines about sampled addresses alone are
	SYMBOL_MAPS_BYTES_MOST = 128 << 20,  // kept of all of them
	SYMBOL_NAMES_BYTES_MOST = 256 << 20, // of all names that were found
};

struct symbol_limits { // zeroed: nothing was met
	_Atomic uint64_t names_cut, names_left_out, lines_left_out;
	_Atomic uint64_t map_bytes; // that perf maps take
	const char *from, *cut;     // the last name that was cut, and what it was cut to
};

// What was left out, in words after "names: "; false: nothing was.
bool symbol_limits_tell(const struct symbol_limits *limits, struct buf *out);
// A name in `*text` (`*length` bytes) that was found: cut, in the arena, if it is too long. false: all names together are too many.
bool symbol_limits_take(struct symbol_limits *limits, struct arena *arena, const struct intern *names, const char **text, size_t *length);

#endif
