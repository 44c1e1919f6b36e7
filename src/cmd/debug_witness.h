// A third unwinder, to tell which of two is right where they differ: libunwind by CFI and, where there is none, what the function's own instructions
// say: followed from its beginning (debug_code.h), and run on from where it stands (debug_forward.h). Where both tell they must say the same. Where neither does,
// libunwind's guess stands.
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
// As libunwind_stack. Frames that instructions told have via VIA_NONE. The input is one of those that `struct load_compare` hands on. Code is run on,
// up to where the two stacks are the same again, and in the leaf.
void witness_stack(struct witness *witness, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs,
                   struct unwind_stack *out);

// Frames of which something was told: from the function's beginning, by running on, by both; and those of which nothing counts, as the two contradict each other.
struct witness_counts {
	uint64_t begun, run, both, contradictions;
};
struct witness_counts witness_counts(const struct witness *witness);

// What ends before an address: no call; one that can have led to `pc`, or through a function that jumps on; one to another function; code that is in no file.
enum call { CALLS_NOT, CALLS, CALLS_THROUGH, CALLS_ELSEWHERE, CALL_UNREADABLE };
enum call call_before(struct witness *witness, const struct unwind_input *input, uint64_t ra, uint64_t pc);

#endif
