// Steps by a full row: expressions, values in registers, CFAs in registers that rules do not know. One frame in ten thousand.
#include "unwind/eh_return.h"
#include "unwind/walk.h"

enum { MAX_REWALKS = 16 };

// Of a function that throws.
enum landing {
	LANDS_NOWHERE,
	LANDS_IN_HANDLER, // the next frame is the one that handles the exception, behind the call that it made
	LANDS_THERE,      // the next frame stands at its landing pad
};

struct full_step {
	const struct walk *walk;
	const struct cfi_section *section;
	const struct register_set *from;
	uint64_t sp, cfa;
	uint8_t kind; // of the frame
	enum unwind_end end;
	bool no_register;
};

static bool evaluate(struct full_step *s, const struct cfi_reg *reg, const uint64_t *initial, uint64_t *out)
{
	uint64_t missed;

	switch (cfi_expr_eval(cfi_expr_bytes(s->section, reg), s->from, &s->walk->view, initial, out, &missed)) {
	case CFI_EXPR_OK:
		return true;
	case CFI_EXPR_NO_REGISTER:
		s->no_register = true;
		s->end = UNWIND_UNSUPPORTED;
		return false;
	case CFI_EXPR_NO_MEMORY:
		s->end = stack_miss(&s->walk->view, missed);
		return false;
	default:
		s->end = UNWIND_UNSUPPORTED;
		return false;
	}
}

static bool find_cfa(struct full_step *s, const struct cfi_row *row)
{
	uint64_t value;

	if (row->cfa.kind == CFI_VAL_EXPR)
		return evaluate(s, &row->cfa, NULL, &s->cfa);
	s->end = UNWIND_UNSUPPORTED;
	if (row->cfa.kind != CFI_REGISTER)
		return false;
	// A callee may change some registers; but whoever says that the CFA is in one of them across a call knows what it calls (libcrypto's AES, CFA in rax).
	if (!register_believe(s->from, (uint64_t)row->cfa.value, &value)) {
		s->no_register = row->cfa.value < UNWIND_REGISTERS;
		return false;
	}
	s->cfa = value + (uint64_t)row->cfa_offset;
	return true;
}

// The caller's value of one register. `*known` false: it cannot be told, which is no failure.
static bool find_register(struct full_step *s, const struct cfi_row *row, unsigned reg, uint64_t *out, bool *known)
{
	const struct unwind_arch *arch = s->walk->arch;
	const struct cfi_reg *rule = &row->regs[reg];
	uint64_t slot = s->cfa + (uint64_t)rule->value;

	*known = true;
	switch (rule->kind) {
	case CFI_UNSPECIFIED:
		*known = (arch->callee_saved >> reg & 1) != 0 && register_get(s->from, reg, out);
		return true;
	case CFI_SAME:
		*known = register_get(s->from, reg, out);
		return true;
	case CFI_REGISTER:
		*known = register_get(s->from, (uint64_t)rule->value, out);
		s->no_register = s->no_register || (!*known && rule->value < UNWIND_REGISTERS && reg == arch->dwarf_ra);
		return true;
	case CFI_VAL_OFFSET:
		*out = slot;
		return true;
	case CFI_VAL_EXPR:
		return evaluate(s, rule, &s->cfa, out);
	case CFI_EXPR:
		if (!evaluate(s, rule, &s->cfa, &slot))
			return false;
		break;
	case CFI_OFFSET:
		break;
	default: // CFI_UNDEFINED
		*known = false;
		return true;
	}
	if (slot < s->sp && reg != arch->dwarf_ra) {
		if (walk_red_zone(s->walk, slot, s->sp, s->kind, out))
			return true;
		*known = register_get(s->from, reg, out);
		return true;
	}
	if (stack_word(&s->walk->view, slot, out))
		return true;
	s->end = stack_miss(&s->walk->view, slot);
	return false;
}

// All registers of the caller. RULE_ROOT among the reasons when the return address is undefined.
static bool full_step(struct full_step *s, const struct cfi_row *row, const struct cfi_cie *cie, struct register_set *to, uint64_t *ra)
{
	const struct unwind_arch *arch = s->walk->arch;
	bool known;

	*to = (struct register_set){ 0 };
	if (cie->ra_register >= UNWIND_REGISTERS) {
		s->end = UNWIND_UNSUPPORTED;
		return false;
	}
	if (row->regs[cie->ra_register].kind == CFI_UNDEFINED) {
		s->end = UNWIND_ROOT;
		return false;
	}
	if (!find_cfa(s, row))
		return false;
	for (unsigned reg = 0; reg < UNWIND_REGISTERS; reg++) {
		uint64_t value = 0;
		if (!find_register(s, row, reg, &value, &known)) {
			// What nobody may ever ask for does not end the stack.
			if (reg == arch->dwarf_sp || reg == arch->dwarf_fp || reg == cie->ra_register)
				return false;
			known = false;
		}
		if (known)
			register_put(to, reg, value);
		else if (row->regs[reg].kind == CFI_UNSPECIFIED && reg != arch->dwarf_ra && register_believe(s->from, reg, &to->value[reg]))
			to->believed |= (uint64_t)1 << reg;
	}
	if (row->regs[arch->dwarf_sp].kind == CFI_UNSPECIFIED)
		register_put(to, arch->dwarf_sp, s->cfa);
	const struct cfi_reg *rule = &row->regs[cie->ra_register];
	bool in_link = arch->perf_lr != 0xff && rule->kind == CFI_UNSPECIFIED;
	if (!register_get(in_link ? s->from : to, cie->ra_register, ra)) {
		s->end = UNWIND_UNSUPPORTED;
		return false;
	}
	*ra &= arch->ra_mask;
	register_put(to, arch->dwarf_ra, *ra); // x86's column is the pc, aarch64's the link register: both hold it at the return
	return true;
}

// Between the instruction that sets sp and the one that leaves (x86: pop of the landing pad's address, jump): it stands on top of the stack, and the frame
// pointer is the handler's already. At an ordinary return it stands there, too, but gcc's rows have the frame pointer saved to the end.
static bool has_set_sp(const struct full_step *s, const struct cfi_row *row, const struct cfi_reg *saved)
{
	const struct unwind_arch *arch = s->walk->arch;

	return row->cfa.kind == CFI_REGISTER && row->cfa.value == arch->dwarf_sp && saved->kind == CFI_OFFSET && s->cfa + (uint64_t)saved->value == s->sp &&
	       row->regs[arch->dwarf_fp].kind == CFI_UNSPECIFIED;
}

// The same, whichever frame the function goes on in. `*landing`: which.
static bool whole_step(struct full_step *s, struct walk *walk, const struct cfi_row *row, const struct cfi_cie *cie, struct register_set *to, uint64_t *ra,
                       enum landing *landing)
{
	*landing = LANDS_NOWHERE;
	if (!full_step(s, row, cie, to, ra))
		return false;
	if (!cfi_row_is_eh_return(walk->arch, row))
		return true;
	const struct cfi_reg *saved = &row->regs[cie->ra_register];
	const struct eh_frame frame = { .sp = s->sp, .cfa = s->cfa, .ra_slot = s->cfa + (uint64_t)saved->value, .ra_column = cie->ra_register };
	// It has what it goes on with in registers: the landing pad's address, or the place of it.
	if (saved->kind == CFI_REGISTER || has_set_sp(s, row, saved) || (row->cfa.kind == CFI_REGISTER && row->cfa.value != walk->arch->dwarf_sp && row->cfa.value != walk->arch->dwarf_fp))
		*landing = LANDS_THERE;
	else if (saved->kind == CFI_OFFSET && eh_return_target(walk, &frame, row, to, ra))
		*landing = LANDS_IN_HANDLER;
	return true;
}

static void leaf_registers(struct walk *walk)
{
	uint64_t value;

	walk->registers.known = walk->registers.believed = 0;
	for (unsigned reg = 0; reg < UNWIND_REGISTERS; reg++)
		if (walk_sampled_register(walk->input, walk->arch->dwarf_to_perf[reg], &value))
			register_put(&walk->registers, reg, value);
	walk->registers_frame = 0;
}

// Walks from the leaf again, this time with all registers, up to the frame whose step needs one that rules do not keep.
static bool rewalk(struct walk *walk, size_t wanted)
{
	leaf_registers(walk);
	for (size_t i = 0; i < wanted; i++) {
		const struct frame *frame = &walk->out->frames[i];
		uint64_t lookup = frame_lookup_addr(frame), ra;
		const struct unwind_map *map = walk_map(walk, lookup);
		struct cfi_row row;
		struct cfi_fde fde;
		struct register_set to;
		struct full_step s = { .walk = walk, .from = &walk->registers, .kind = frame->kind };
		enum landing landing;
		if (map->image == NULL || map->image->arch != walk->arch ||
		    !rule_table_row(map->image, lookup - map->bias, &row, &fde, &s.section) ||
		    !register_get(&walk->registers, walk->arch->dwarf_sp, &s.sp) || !whole_step(&s, walk, &row, &fde.cie, &to, &ra, &landing) ||
		    ra != walk->out->frames[i + 1].addr)
			return false;
		walk->registers = to;
		walk->registers_frame = i + 1;
	}
	return true;
}

static void cursor_registers(struct walk *walk, const struct cursor *at, size_t frame)
{
	if (frame == 0) {
		leaf_registers(walk);
	} else if (walk->registers_frame != frame) {
		walk->registers.known = walk->registers.believed = 0;
		register_put(&walk->registers, walk->arch->dwarf_sp, at->sp);
		register_put(&walk->registers, walk->arch->dwarf_fp, at->fp);
		register_put(&walk->registers, walk->arch->dwarf_ra, walk->arch->perf_lr != 0xff ? at->lr : at->pc);
	}
}

bool walk_register(struct walk *walk, const struct cursor *at, unsigned reg, uint64_t *out)
{
	const size_t frame = walk->out->count - 1;

	cursor_registers(walk, at, frame);
	if (register_get(&walk->registers, reg, out))
		return true;
	if (walk->has_gap || walk->out->switches > 0 || walk->registers_frame == frame || walk->rewalks++ >= MAX_REWALKS || !rewalk(walk, frame))
		return false;
	return register_get(&walk->registers, reg, out);
}

static bool arrive(struct walk *walk, struct cursor *at, const struct register_set *to, uint64_t ra, bool is_signal,
                   enum unwind_end *end)
{
	uint64_t sp = at->sp;

	*end = ra == 0 ? UNWIND_ROOT : UNWIND_BAD_RA;
	if ((ra == 0 && !is_signal) || ra >= walk->arch->addr_end) // a signal interrupts what was called by a null pointer, too
		return false;
	if (!register_get(to, walk->arch->dwarf_sp, &sp) || sp < at->sp || (sp == at->sp && at->kind == FRAME_RETURN)) {
		*end = UNWIND_NO_PROGRESS;
		if (!is_signal || at->backward++ >= 64)
			return false;
	}
	register_get(to, walk->arch->dwarf_fp, &at->fp);
	at->pc = at->lr = ra;
	if (is_signal && walk->arch->perf_lr != 0xff)
		register_get(to, walk->arch->dwarf_ra, &at->lr);
	at->sp = sp;
	at->kind = is_signal ? FRAME_INTERRUPTED : FRAME_RETURN;
	at->via = is_signal ? VIA_SIGNAL : VIA_EXPR;
	return true;
}

bool walk_slow_step(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end)
{
	size_t frame = walk->out->count - 1;
	struct cfi_row row;
	struct cfi_fde fde;
	struct register_set to;
	uint64_t ra = 0;
	struct full_step s = { .walk = walk, .from = &walk->registers, .sp = at->sp, .kind = at->kind };
	uint64_t lookup = at->pc - (at->kind == FRAME_RETURN);

	*end = UNWIND_NO_CFI;
	if (!rule_table_row(map->image, lookup - map->bias, &row, &fde, &s.section) &&
	    (lookup == at->pc || !rule_table_row(map->image, at->pc - map->bias, &row, &fde, &s.section))) // a trampoline: see walk.c
		return false;
	cursor_registers(walk, at, frame);
	enum landing landing;
	bool good = whole_step(&s, walk, &row, &fde.cie, &to, &ra, &landing);
	if (!good && s.no_register && !walk->has_gap && walk->registers_frame != frame && walk->rewalks++ < MAX_REWALKS && rewalk(walk, frame)) {
		s.no_register = false;
		good = whole_step(&s, walk, &row, &fde.cie, &to, &ra, &landing);
	}
	// Was it kept indeed? Then a call returns there.
	if (good && row.cfa.kind == CFI_REGISTER && !register_get(&walk->registers, (uint64_t)row.cfa.value, &(uint64_t){ 0 }) &&
	    !walk_is_called(walk, ra, lookup)) {
		*end = UNWIND_UNSUPPORTED;
		return false;
	}
	*end = s.end;
	if (!good || !arrive(walk, at, &to, ra, fde.cie.is_signal, end))
		return false;
	if (landing == LANDS_IN_HANDLER)
		at->via = VIA_LANDING;
	if (landing == LANDS_THERE)
		at->kind = FRAME_INTERRUPTED; // nothing was called there
	walk->registers = to;
	walk->registers_frame = frame + 1;
	return true;
}
