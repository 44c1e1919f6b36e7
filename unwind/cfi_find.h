// .eh_frame sections in memory of which nobody says where they are: what a JIT compiler hands to the C++ runtime (__register_frame), to read-only
// anonymous memory of its process. Each is found by its form, and believed where its FDEs describe the code that is asked for.
#ifndef PERFSAMPLE_UNWIND_CFI_FIND_H
#define PERFSAMPLE_UNWIND_CFI_FIND_H

#include "unwind/cfi.h"

struct cfi_found { size_t start, end; }; // in the memory: from a CIE to behind the last entry
// The next one at or behind `from` that has an FDE in the code [start, end). The memory is described as a section (`vaddr`: where it is).
// false: there is none.
bool cfi_find(const struct cfi_section *memory, size_t from, uint64_t start, uint64_t end, struct cfi_found *out);

#endif
