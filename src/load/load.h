// A perf.data into a profile: replays records and address spaces, unwinds raw stacks, symbolizes each address once.
// Every reading command starts here. Never reads /proc.
#ifndef PERFSAMPLE_LOAD_LOAD_H
#define PERFSAMPLE_LOAD_LOAD_H

#include "base/err.h"
#include "perf/record.h"
#include "profile/profile.h"

struct load_options {
	const char *input;   // path, or "-"
	bool salvage;
	bool inlines, demangle;
	bool symbols;        // false: addresses only
	const char *symfs;
	const char *const *debug_dirs; // NULL-terminated, asked before the usual ones; or NULL
	unsigned jobs;       // threads that unwind raw stacks; 0: one
	double symbol_time_s; // 0: no limit
	bool no_cache;        // keep no decompressed debug sections on disk
	bool no_lines;        // names alone: folded stacks need no lines
};
// What the commands' defaults are.
struct load_options load_defaults(void);

// STATUS_INPUT names file, offset and expectation. `profile` is initialized here and released by the caller in any case.
bool load_profile(struct profile *profile, const struct load_options *options, struct err *err);

#endif
