// A perf.data into a profile: replays records and address spaces, unwinds raw stacks, symbolizes each address once.
// Every reading command starts here. Never reads /proc.
#ifndef PERFSAMPLE_LOAD_LOAD_H
#define PERFSAMPLE_LOAD_LOAD_H

#include "base/err.h"
#include "perf/record.h"
#include "profile/profile.h"

// Who takes the records of a replay along (inject). Calls come as the records are applied: in the order of time within a round.
struct reader;
struct load_sink {
	void *context;
	// A record of the kernel's, whole, in host byte order; `event` is the reader's. Of samples `sample` is their row but for `stack`, and, where
	// the event has registers and stack copies, `stack` what they were unwound to, in the reader's stead (count 0: nothing of user space).
	void (*record)(void *context, struct reader *reader, const struct record *record, size_t event, const struct profile_sample *sample,
	               const struct unwind_stack *stack);
	void (*round)(void *context, struct reader *reader);  // nothing older than what was handed on so far is still to come
	void (*finish)(void *context, struct reader *reader, const struct profile *profile); // all was handed on; names are known
};

// Who compares two unwinders on a recording's raw stacks (debug unwind).
struct unwind_input;
struct load_compare {
	void *context;
	// One stack by both; the input holds while the call lasts.
	void (*stack)(void *context, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
	              const struct unwind_stack *theirs);
	// CPU time that each took for some stacks, which were read once before.
	void (*time)(void *context, uint64_t ours_ns, uint64_t theirs_ns);
};

// A process whose generated code lacks names: load never looks into /proc, but whoever runs it here may.
struct load_process {
	uint32_t pid;
	uint64_t seen_wall_ns; // by the wall clock: it ran then
	uint64_t vdso;         // where its vdso is: no other program that it executed has it there, as a rule. 0: not known
	const char *program;   // the first file that it has mapped, or NULL; and where
	uint64_t program_start;
};
// Its perf map (an open file), if it is still that process and program; `*written_wall_ns`: when that was written. -1: none.
typedef int load_late_map_fn(const struct load_process *process, uint64_t *written_wall_ns);

// While such a call lasts: code at a run-time address that a jitdump has. `*start` is where the function begins, `out` gets all of its bytes. false: none.
struct buf;
bool load_jit_code(const struct unwind_input *input, uint64_t addr, uint64_t *start, struct buf *out);

struct debuginfod; // symbols/debuginfod.h
struct load_options {
	const char *input;   // path, or "-"
	bool salvage;
	bool inlines, demangle;
	bool symbols;        // false: addresses only
	const char *symfs;
	const char *const *debug_dirs; // NULL-terminated, asked before the usual ones; or NULL
	unsigned jobs;       // threads that unwind raw stacks, and that read the file ahead and debug information; 0: one, and one a processor (at most 4)
	double symbol_time_s; // 0: no limit
	bool no_cache;        // keep no decompressed debug sections on disk
	struct debuginfod *debuginfod; // asked for the files of images with many samples (load/hot.h); the caller's; NULL: no network
	const struct load_sink *sink; // NULL: none
	bool libunwind;       // unwinds raw stacks, in our unwinder's stead
	const struct load_compare *compare; // both unwind, ours counts; NULL: none
	bool no_clones;       // foo.cold, foo.part.0, foo.constprop.0 count as foo
	bool no_lines;        // names alone: folded stacks need no lines
	load_late_map_fn *late_map; // names what the recorder found no name for, marked so; NULL: nothing does
};
// What the commands' defaults are.
struct load_options load_defaults(void);

// STATUS_INPUT names file, offset and expectation. `profile` is initialized here and released by the caller in any case.
bool load_profile(struct profile *profile, const struct load_options *options, struct err *err);

#endif
