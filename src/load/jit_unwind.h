// Unwind information that a jitdump brings for a piece of its code (JIT_CODE_UNWINDING_INFO), as an image for the unwinder. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_JIT_UNWIND_H
#define PERFSAMPLE_LOAD_JIT_UNWIND_H

#include "elf/image.h"
#include "symbols/jitdump.h"

struct jit_unwind { // of one load; by offset
	uint64_t offset, size;               // of the code in the dump
	uint64_t unwind_offset, unwind_size; // of its .eh_frame there
};

// The link-time address of the code's first byte in jit_unwind_image.
enum { JIT_UNWIND_VADDR = 256 };
// The code and its .eh_frame as an ELF image, laid out as the .eh_frame expects: it begins at the next multiple of 8 behind the code (as V8 writes
// it, and perf inject). A reference, or NULL: nothing that can be read.
struct image *jit_unwind_image(const struct jit_unwind *unwind, int fd, uint16_t machine);

#endif
