// Who called a function, by what its code does from where it stands: it is run on, with the registers and the stack of the sample, until it returns. A word of
// neither CFI nor a guess, and of another kind than what debug_code.h follows from a function's beginning: loops run as their counters say, and of code
// that nothing names a function of only the bytes are needed.
//
// Where a condition is not known both ways are gone. A way that ends in a return, or in a jump to another function, tells the caller; one that ends where nothing
// goes on (int3, no code, a jump to somewhere) tells nothing; all that tell have to say the same.
#ifndef PERFSAMPLE_CMD_DEBUG_FORWARD_H
#define PERFSAMPLE_CMD_DEBUG_FORWARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/debug_code.h"
#include "unwind/libunwind_backend.h"

struct forward;
// Of x86-64. STATUS_HOST: there is no disassembler (libcapstone).
bool forward_new(struct forward **out, struct err *err);
void forward_free(struct forward *forward); // NULL is allowed

// The code around an address: a function where `is_function`, which nothing runs out of but by jumps; else as much as is known. `key` names it and its content
// for ever. `is_c`: as in debug_code.h. `is_steady`: the bytes stay; else until anything is asked again.
struct forward_code {
	uint64_t key, addr;
	const uint8_t *bytes;
	size_t size;
	bool is_c, is_function, is_steady;
};

struct forward_scene {
	bool (*code)(void *context, uint64_t addr, struct forward_code *out); // false: there is none
	code_word_fn *word;                                                    // of the stack's copy
	bool (*is_caller)(void *context, uint64_t ra, uint64_t pc, bool is_strict); // whether a call ends there; `is_strict`: that can have led to `pc`
	bool (*may_leave)(void *context, uint64_t addr, bool is_to_function); // of a function's jump: as code_may_leave
	bool (*keeps_sp)(void *context, uint64_t addr);                // whether the function that begins there pops no arguments
	void *context;
	uint64_t stack_start, stack_end; // addresses that are the stack's, whether copied or not
};

// Where to begin. `registers`: of a function that a call has returned to, sp is as it is behind the call.
struct forward_start {
	struct libunwind_registers registers;
	uint32_t flags, flags_known; // EFLAGS
	bool is_return;
};

// The caller's registers as they are when the function has returned: sp, where it is known, is behind the arguments that were popped; else its value is a bound.
// Where the return address stood at the call is not told: it may have been moved before. false: nothing is told.
bool forward_caller(struct forward *forward, const struct forward_scene *scene, const struct forward_start *start, struct libunwind_registers *out);

#endif
