// What is known of a stack beyond the kernel's copy: the whole stack read again, a little later, from the process.
//
// Whether what was read belongs to the copy is told by comparing the part that both hold, and by whether the thread stood still meanwhile. If it did
// and the whole copy is as it was, the rest is its too (exact). If the last 4 KiB of the copy are, callers up there may have changed and changed back
// (checked). Equal bytes alone prove nothing: a program that goes on comes back to the same frames, with other callers.
#ifndef PERFSAMPLE_UNWIND_STACK_TAIL_H
#define PERFSAMPLE_UNWIND_STACK_TAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STACK_TAIL_OVERLAP_BYTES = 4096 };
enum stack_tail { STACK_TAIL_NONE = 0, STACK_TAIL_EXACT = 1, STACK_TAIL_CHECKED = 2 }; // as enum splice in files

// `read_size` bytes were read from the copy's first address on; `read` are as many of them as the copy has. What lies beyond belongs behind the copy, unless
// STACK_TAIL_NONE says that it is another stack's, or that there is nothing.
enum stack_tail stack_tail_match(const uint8_t *read, size_t read_size, const uint8_t *copy, size_t copy_size, bool stood_still);

#endif
