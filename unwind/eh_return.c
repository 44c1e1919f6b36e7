// Functions that go on in another frame than their caller's (__builtin_eh_return): libgcc's _Unwind_RaiseException, _Unwind_Resume and their like, once a
// handler was found. Their CFI says where their own caller's registers are saved. Before they leave, uw_install_context_1 (libgcc/unwind-dw2.c) puts the
// registers of the frame that handles the exception into these very slots, one after the other, the return address last; and sp is set to that frame's at the very
// end. So between the two the slots are of one frame and the CFA is of another. What they are about to install they keep on their stack: two of
//
//	struct _Unwind_Context { void *reg[DWARF_FRAME_REGISTERS + 1]; void *cfa, *ra; // where each register is saved; the sp of the frame; where it goes on
//		void *lsda, *tbase, *dbase, *func; _Unwind_Word flags, version, args_size; char by_value[DWARF_FRAME_REGISTERS + 1]; };
//
// one of the caller (its cfa is this function's CFA, its return address stands in this function's slot), one of the frame that handles.
#include "unwind/eh_return.h"

struct context_place {
	uint64_t at;                // of the struct
	uint64_t ra_slot, cfa, ra;  // its fields: where the frame's return address is saved, its sp, where it goes on
};

static bool read_context(const struct walk *walk, uint64_t at, unsigned ra_column, struct context_place *out)
{
	uint64_t word = walk->arch->word_bytes, cfa_at = at + (walk->arch->eh_columns + 1u) * word;

	out->at = at;
	if (!stack_word(&walk->view, at + ra_column * word, &out->ra_slot) || !stack_word(&walk->view, cfa_at, &out->cfa) ||
	    !stack_word(&walk->view, cfa_at + word, &out->ra))
		return false;
	out->ra &= walk->arch->ra_mask;
	return true;
}

// The first context in the function's frame that is its caller's (`is_own`), or another one's further up. It is there whole: the registers saved for the caller, at the
// frame's end, look like a context's middle, the frame pointer like a cfa and the return address like an ra.
static bool find_context(struct walk *walk, const struct eh_frame *frame, bool is_own, struct context_place *out)
{
	uint64_t word = walk->arch->word_bytes, size = (walk->arch->eh_columns + 10u) * word + walk->arch->eh_columns + 1;

	for (uint64_t at = frame->sp; at < frame->cfa && frame->cfa - at >= size; at += word) {
		if (!read_context(walk, at, frame->ra_column, out))
			return false;
		bool is_wanted = is_own ? out->ra_slot == frame->ra_slot && out->cfa == frame->cfa :
		                          out->cfa > frame->cfa && out->ra_slot >= frame->cfa && out->ra_slot < out->cfa && map_is_code(walk_map(walk, out->ra));
		if (is_wanted)
			return true;
	}
	return false;
}

// The value of a register in the frame that a context is of.
static bool context_register(const struct walk *walk, const struct context_place *context, unsigned reg, uint64_t *slot, uint64_t *value)
{
	return stack_word(&walk->view, context->at + (uint64_t)reg * walk->arch->word_bytes, slot) && stack_word(&walk->view, *slot, value);
}

// Whether the registers are being put into the slots, and the frame pointer already was: until then the callers are found by the row. The function called for that
// first gives the context a place for sp, in its own frame, where no search for a handler leaves one. Nothing else tells: the frame pointer may be the same in both
// frames, and so may be where the frame's callee returns to and where it goes on, behind a call that never returns.
static bool is_begun(const struct walk *walk, const struct eh_frame *frame, const struct cfi_row *row, const struct context_place *to)
{
	const struct cfi_reg *fp = &row->regs[walk->arch->dwarf_fp];
	uint64_t own_slot = frame->cfa + (uint64_t)fp->value, slot, now, then, sp_slot, sp;

	return context_register(walk, to, walk->arch->dwarf_sp, &sp_slot, &sp) && sp_slot < frame->sp && sp == to->cfa && fp->kind == CFI_OFFSET &&
	       context_register(walk, to, walk->arch->dwarf_fp, &slot, &then) && slot != own_slot && stack_word(&walk->view, own_slot, &now) && now == then;
}

bool eh_return_target(struct walk *walk, const struct eh_frame *frame, const struct cfi_row *row, struct register_set *to, uint64_t *ra)
{
	struct context_place own, other;
	uint64_t pending, slot, value;

	if (!find_context(walk, frame, true, &own) || !find_context(walk, frame, false, &other) || !stack_word(&walk->view, other.ra_slot, &pending))
		return false;
	pending &= walk->arch->ra_mask;
	if (!map_is_code(walk_map(walk, pending)))
		return false;
	if (*ra == own.ra) {
		if (!is_begun(walk, frame, row, &other))
			return false;
		for (unsigned reg = 0; reg < UNWIND_REGISTERS; reg++) {
			if (row->regs[reg].kind != CFI_OFFSET || (walk->arch->callee_saved >> reg & 1) == 0)
				continue;
			to->known &= ~((uint64_t)1 << reg);
			if (context_register(walk, &other, reg, &slot, &value))
				register_put(to, reg, value);
		}
		*ra = pending;
	} else if (*ra == other.ra) { // AArch64: the landing pad was stored in the own slot
		*ra = pending;
	} else if (*ra != pending && pending != other.ra) { // the latter: it was stored where sp will be (x86)
		return false;
	}
	register_put(to, walk->arch->dwarf_sp, other.cfa);
	register_put(to, walk->arch->dwarf_ra, *ra);
	return true;
}
