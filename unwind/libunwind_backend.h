// libunwind behind the walk's interface: slower, made by others, hence an oracle. Where the library or its header is missing, or for another machine
// than this one's, libunwind_new answers false and says why.
#ifndef PERFSAMPLE_UNWIND_LIBUNWIND_BACKEND_H
#define PERFSAMPLE_UNWIND_LIBUNWIND_BACKEND_H

#include "unwind/unwind.h"

struct libunwind;
// Loads the library. STATUS_HOST: not to be had.
bool libunwind_new(struct libunwind **out, struct err *err);
void libunwind_free(struct libunwind *peer); // NULL is allowed
// As unwind_stack. What libunwind guessed has via VIA_FP. It reads .eh_frame_hdr only; `gap` is never set: a stack of more frames than `capacity` ends there. A machine other than
// this host's is UNWIND_UNSUPPORTED.
void libunwind_stack(struct libunwind *peer, const struct unwind_input *input, struct unwind_stack *out);

// DWARF's numbers; `known`: a bit each.
enum { LIBUNWIND_REGISTERS = 17, LIBUNWIND_PC = 16 };
struct libunwind_registers {
	uint64_t value[LIBUNWIND_REGISTERS];
	uint32_t known;
};
// Who knows better than libunwind's guess, where there is no CFI or where that leads to what is not in the copy: the caller's registers, pc and at least a bound of
// sp among them, of a frame with those `registers` (sp is known only where it is sure, else its value is a bound). `*is_exact`: the sp that is answered is sure. false: libunwind guesses, or gives up.
typedef bool libunwind_guide_fn(void *context, const struct unwind_input *input, enum frame_kind kind, const struct libunwind_registers *registers,
                                struct libunwind_registers *caller, bool *is_exact);
// The same with a guide. Frames that it told have via VIA_NONE.
void libunwind_stack_guided(struct libunwind *peer, const struct unwind_input *input, libunwind_guide_fn *guide, void *context, struct unwind_stack *out);

#endif
