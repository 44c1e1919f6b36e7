// Code that a process tells debuggers of (jit_list.h): LLVM, QEMU and others keep an ELF object in memory for each piece of it, with the functions' names.
//
// When a sample stands in code without a file, the helper thread looks into its process: whether an image there has a descriptor, what objects its list has, and
// what is in those that are new; again when more of such code is mapped or sampled, and every quarter of a second. Between two looks objects come and go. So a function
// holds from the moment at which its memory was mapped, else from the look that found it, until its memory is mapped anew, or until the last look that found it.
#ifndef PERFSAMPLE_RECORD_JIT_OBJECTS_H
#define PERFSAMPLE_RECORD_JIT_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/clock.h"
#include "record/jit_files.h"
#include "unwind/unwind.h"

enum {
	JIT_OBJECTS_BYTES_MOST = 64 << 20,     // of objects read in all
	JIT_OBJECTS_LOOK_BYTES_MOST = 16 << 20, // in one look
	JIT_OBJECTS_FUNCTIONS_MOST = 1 << 20,
	JIT_OBJECTS_NAMES_BYTES_MOST = 32 << 20, // of all names
	JIT_OBJECTS_NAME_BYTES_MOST = 64 << 10,  // a name is cut to this
	JIT_OBJECTS_PROGRAMS_MOST = 1024,
	JIT_OBJECTS_REST = 20,                 // a look takes at most a twentieth of the time
};

struct jit_objects;
struct jit_objects *jit_objects_new(const struct perf_clock *clock);
void jit_objects_free(struct jit_objects *objects); // what the helper still waits for is never freed

// Drain thread. A sample stands in code of that program that is in no file.
void jit_objects_sampled(struct jit_objects *objects, struct jit_program program);
// Drain thread. Executable memory without a file (`is_file`: of one, which may have the descriptor) was mapped.
void jit_objects_mapped(struct jit_objects *objects, struct jit_program program, uint64_t start, uint64_t end, bool is_file, uint64_t time_ns);
// Drain thread. true: there is something to look at, and it is the helper's now, who is to be told. `last`: however lately that was.
bool jit_objects_hand(struct jit_objects *objects, uint64_t now_ns, bool last);
bool jit_objects_is_handed(const struct jit_objects *objects);
bool jit_objects_is_waiting(const struct jit_objects *objects);
// Drain thread. How to unwind the code at `addr`, where its object says so. false: none does.
bool jit_objects_map(const struct jit_objects *objects, struct jit_program program, uint64_t addr, struct unwind_map *out);
// Drain thread. Calls `changed` for each program of which such objects were found or are gone since this was called.
void jit_objects_news(struct jit_objects *objects, void (*changed)(void *context, struct jit_program program), void *context);
// Helper thread.
void jit_objects_serve(struct jit_objects *objects);

// When drain and helper thread have ended. What was at `addr` from `from_ns` until before `until_ns` (UINT64_MAX: the end); in the order of time.
struct jit_function { uint64_t addr, size, from_ns, until_ns; const char *name; };
const struct jit_function *jit_objects_functions(struct jit_objects *objects, struct jit_program program, size_t *count);
uint64_t jit_objects_left_out(const struct jit_objects *objects); // functions, as they were too many, or too long together

#endif
