// What a function's own instructions say of its frame: where the return address, the caller's frame pointer and the other registers that a function
// hands back are, when it stands at a given instruction. The word of neither CFI nor a guess: a third witness where two unwinders differ.
//
// The instructions are followed from the function's first one along every jump inside it, with what registers and stack slots hold of the values at
// entry. Where two ways meet, only what both agree on is known; what is not known is not answered. Not known are: sp after a call whose callee may have popped
// arguments, until it is set from the frame pointer, code that only jump tables or a return lead to, and values that went through memory elsewhere.
// A write through a register that is not seen to point into the frame is taken to leave return address and saved registers alone.
#ifndef PERFSAMPLE_CMD_DEBUG_CODE_H
#define PERFSAMPLE_CMD_DEBUG_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "unwind/libunwind_backend.h"

enum { CODE_FUNCTION_BYTES = 1 << 18 }; // larger ones are not followed

struct code;
// Of x86-64. STATUS_HOST: there is no disassembler (libcapstone).
bool code_new(struct code **out, struct err *err);
void code_free(struct code *code); // NULL is allowed

// A function, all of its bytes; `key` names it and its content for ever, so that it is followed once. `other` finds those that it calls, by their first
// addresses; NULL: nobody knows them. `is_c`: what it calls keeps to the psABI, as whoever writes CFI relies on: no arguments are popped, and all that a function
// has to hand back is as it was.
struct code_function {
	uint64_t key, addr;
	const uint8_t *bytes;
	size_t size;
	bool is_c;
	bool (*other)(void *context, uint64_t addr, struct code_function *out);
	void *context;
};

// A word of the target's memory; false: it is not there.
typedef bool code_word_fn(void *context, uint64_t addr, uint64_t *out);

// The caller's registers, of a function that stands `at` bytes behind its beginning, or has called what returns there. `registers` are its own: sp at a call
// is as it was when the return address was not pushed yet. `is_exact`: the caller's sp is known, too; else it is at or above what is put there.
// false: its instructions do not tell, or a word that they lead to is not there.
bool code_caller(struct code *code, const struct code_function *function, size_t at, bool is_return, const struct libunwind_registers *registers,
                 code_word_fn *word, void *context, struct libunwind_registers *out, bool *is_exact);

// Whether a function has a way to leave that is a jump to another one.
bool code_jumps_on(struct code *code, const struct code_function *function);

// Whether the function may be left by the jump that is so many bytes behind its beginning, with the return address at sp: the jump is reached, and if it is
// known where the return address is then, it is there. `is_to_function`: to one's beginning; else nobody knows where to.
bool code_may_leave(struct code *code, const struct code_function *function, size_t at, bool is_to_function);
// Whether, whatever way it returns, sp is above the return address then, and no other function does it.
bool code_pops_nothing(struct code *code, const struct code_function *function);

#endif
