// A third unwinder, to tell which of two is right where they differ: libunwind by CFI and, where there is none, what the function's own instructions
// say (debug_code.h). Where these do not tell, libunwind's guess stands.
#ifndef PERFSAMPLE_CMD_DEBUG_WITNESS_H
#define PERFSAMPLE_CMD_DEBUG_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "unwind/arch.h"
#include "unwind/unwind.h"

struct witness;
// STATUS_HOST: libunwind or libcapstone is not there.
bool witness_new(struct witness **out, struct err *err);
void witness_free(struct witness *witness); // NULL is allowed
// As libunwind_stack. Frames that instructions told have via VIA_NONE. The input is one of those that `struct load_compare` hands on.
void witness_stack(struct witness *witness, const struct unwind_input *input, struct unwind_stack *out);

// What ends before an address: no call; one that can have led to `pc`, or through a function that jumps on; one to another function; code that is in no file.
enum call { CALLS_NOT, CALLS, CALLS_THROUGH, CALLS_ELSEWHERE, CALL_UNREADABLE };
enum call call_before(struct witness *witness, const struct unwind_input *input, uint64_t ra, uint64_t pc);

#endif
