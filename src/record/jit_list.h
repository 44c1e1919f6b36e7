// The list by which a JIT compiler tells debuggers of its code: what __jit_debug_descriptor leads to (GDB's manual, "JIT Compilation Interface").
//
// It stands in the memory of another process, which changes it meanwhile or has filled it with whatever it likes: every address, count and size is
// checked, and nothing is believed to end by itself. Of 64-bit processes.
#ifndef PERFSAMPLE_RECORD_JIT_LIST_H
#define PERFSAMPLE_RECORD_JIT_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

enum { JIT_LIST_MOST = 1 << 16, JIT_OBJECT_BYTES_MOST = 16 << 20 };

struct jit_list_entry { uint64_t at, object, size; }; // the entry, and the object (an ELF file in memory) that it is about
struct jit_list {
	VEC(struct jit_list_entry) entries;
	bool is_torn; // it changed while it was read, or goes on beyond what is read: what is not in it may be there all the same
};

// Exactly `size` bytes of the process's memory; false: they are not all there.
typedef bool jit_list_read_fn(void *context, uint64_t addr, void *to, size_t size);
// Appends what the descriptor at `descriptor` has. false: there is none, or none of version 1.
bool jit_list_read(struct jit_list *out, uint64_t descriptor, jit_list_read_fn *read, void *context);
void jit_list_release(struct jit_list *list);

#endif
