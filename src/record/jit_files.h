// Files in which a process names the code it generates: its perf map (/tmp/perf-PID.map) and its jitdump, found while it lives.
//
// Both are found by pid, but tell of one program alone: what runs after an exec, or under a pid that was given again, has other code at the same
// addresses. A map is therefore believed for a program only if it was written (st_mtime) after that program began and before the next one did, as
// far as time stamps tell: they are those of the last clock tick. What a program wrote is copied when the next one begins, which may write over it.
//
// The drain thread asks, a helper thread (images.h) looks for files, a batch at a time: neither waits for the other, and nothing asked for is lost.
#ifndef PERFSAMPLE_RECORD_JIT_FILES_H
#define PERFSAMPLE_RECORD_JIT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/clock.h"

struct jit_program { int32_t pid; uint64_t since_ns; }; // a program of a process (struct process)

enum {
	JIT_FILES_PLACES_MOST = 256,            // processes without a map yet whose /tmp is kept open
	JIT_FILES_DUMPS_MOST = 256,
	JIT_FILES_EARLY_BYTES_MOST = 256 << 10, // a map of so many bytes is copied when it is first seen
	JIT_FILES_COPIES_BYTES_MOST = 64 << 20, // all copies together
};

struct jit_files;
struct jit_files *jit_files_new(const struct perf_clock *clock); // the records'
void jit_files_free(struct jit_files *files); // what the helper still waits for is never freed

// Drain thread. Generated code of that program was sampled: its map is wanted. true: for the first time.
bool jit_files_want_map(struct jit_files *files, struct jit_program program);
// Drain thread. The process ends: its map, if it was wanted, may be complete only now.
void jit_files_exited(struct jit_files *files, struct jit_program program);
// Drain thread. From `time_ns` on (the records' clock) the pid runs another program.
void jit_files_over(struct jit_files *files, struct jit_program program, uint64_t time_ns);
// Drain thread. The program has mapped a jitdump at that path.
void jit_files_want_dump(struct jit_files *files, struct jit_program program, const char *path);
// Drain thread, or whoever ended it: something is asked for that the helper was not told yet.
bool jit_files_is_waiting(const struct jit_files *files);
// Drain thread. true: it is the helper's now, who is to be told.
bool jit_files_hand(struct jit_files *files);
// The helper has not done yet what it was handed.
bool jit_files_is_handed(const struct jit_files *files);
// Helper thread.
void jit_files_serve(struct jit_files *files);

// When drain and helper thread have ended. Descriptors and paths stay ours; -1: none.
int jit_files_map(struct jit_files *files, struct jit_program program);
int jit_files_dump(const struct jit_files *files, struct jit_program program, const char **path);
// Why the first map or dump that was refused was not believed; NULL: none was.
const char *jit_files_refusal(const struct jit_files *files);

#endif
