// Unwind information of code that a JIT compiler made, read from the process that runs it: LLVM (MCJIT, ORC), Cranelift and others keep an .eh_frame in
// read-only memory, for C++ exceptions. Nobody needs to be asked where: it says which code it is of.
#ifndef PERFSAMPLE_RECORD_JIT_IMAGE_H
#define PERFSAMPLE_RECORD_JIT_IMAGE_H

#include <stdint.h>

#include "elf/image.h"

// An image of the code [start, end) of a process, its addresses those of the process. A reference; NULL: there is no unwind information of it, or two
// that contradict each other. Waits for no one; reads at most 8 MiB.
struct image *jit_image_find(int32_t pid, uint64_t start, uint64_t end);

#endif
