#include "cmd/debug_code.h"

#include <capstone/capstone.h>
#include <elf.h>
#include <string.h>

#include "annotate/disassemble.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/vec.h"
#include "cmd/debug_decode.h"

enum { SLOTS = 48, INSTRUCTIONS_MOST = 1 << 16, WORD = 8 };
static const uint8_t saved[] = { RBP, RBX, R12, R12 + 1, R12 + 2, R12 + 3 }; // what a function hands back as it was
enum { SAVED = sizeof(saved) };

// What a register or slot holds. STACK: an address, `offset` bytes from a base. Base 0 is sp at entry, where the return address stands; another is named by
// the instruction from which on sp's distance from the others is not known.
enum value_kind { UNKNOWN, ENTRY, RETURN_ADDRESS, STACK };
struct value {
	uint8_t kind, reg; // ENTRY: of that register
	int32_t offset;
	uint32_t base;
};

struct slot {
	uint32_t base;
	int32_t offset;
	struct value value;
};

// Before an instruction.
struct state {
	struct value regs[REGISTERS];
	struct slot slots[SLOTS];
	size_t slot_count;
	bool is_sp_soft; // sp is what it was but for what callees have popped
	bool is_aligned; // sp was aligned for C, whose functions pop nothing
};

// Where a value is: in a register, or in the slot `offset` bytes from where a register points.
enum place_kind { NOWHERE, IN_REGISTER, IN_SLOT };
struct place {
	uint8_t kind, reg;
	int32_t offset;
};

// What is kept of a function: by offset of the instruction.
struct row {
	uint32_t at, size; // size 0: it was not reached
	bool is_call;
	bool is_at_sp[2]; // the return address may be where sp points: if that is known well; if sp is known but for what callees have popped
	struct place ra, saved[SAVED];
};
struct rows {
	struct row *data;
	size_t count;
	bool pops_nothing; // whatever way it returns, sp is above the return address then, and no other function does it
	bool jumps_on;     // a way of it leads to another function
};

struct code {
	struct disassembler *disassembler;
	struct hash_map known; // key -> index
	VEC(struct rows) functions;
};

// One function while it is followed.
struct following {
	struct code *code;
	unsigned depth; // of callees that are followed
	const struct code_function *function;
	uint32_t *state_of; // by offset: index into `states` + 1; 0: not reached
	VEC(struct state) states;
	VEC(uint32_t) offsets, waiting; // of the states; those to go on from
	bool is_too_long;
};

static bool same_value(const struct value *a, const struct value *b)
{
	return a->kind == b->kind && a->reg == b->reg && a->offset == b->offset && a->base == b->base;
}

static struct slot *find_slot(struct state *s, uint32_t base, int32_t offset)
{
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].base == base && s->slots[i].offset == offset)
			return &s->slots[i];
	return NULL;
}

// Forgets the slots of a base that have bytes in [from, to).
static void forget_slots(struct state *s, uint32_t base, int64_t from, int64_t to)
{
	for (size_t i = 0; i < s->slot_count;)
		if (s->slots[i].base == base && s->slots[i].offset + WORD > from && s->slots[i].offset < to)
			s->slots[i] = s->slots[--s->slot_count];
		else
			i++;
}

static void put_slot(struct state *s, const struct value *at, int64_t displacement, const struct value *value)
{
	int64_t offset = at->offset + displacement;

	forget_slots(s, at->base, offset, offset + WORD);
	if (value->kind != UNKNOWN && s->slot_count < SLOTS)
		s->slots[s->slot_count++] = (struct slot){ at->base, (int32_t)offset, *value };
}

// From here on sp is somewhere else. What the same instruction called so before, in a loop, is something else now.
static void put_fresh_sp(struct state *s, uint32_t at)
{
	forget_slots(s, at + 1, INT64_MIN, INT64_MAX);
	for (size_t i = 0; i < REGISTERS; i++)
		if (s->regs[i].kind == STACK && s->regs[i].base == at + 1)
			s->regs[i] = (struct value){ 0 };
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].value.kind == STACK && s->slots[i].value.base == at + 1)
			s->slots[i--] = s->slots[--s->slot_count];
	s->regs[RSP] = (struct value){ .kind = STACK, .base = at + 1 };
	s->is_sp_soft = s->is_aligned = false;
}

static void put_register(struct state *s, unsigned reg, const struct value *value, uint32_t at)
{
	if (reg >= REGISTERS)
		return;
	if (reg != RSP) {
		s->regs[reg] = *value;
	} else if (value->kind == STACK) {
		s->is_aligned = s->is_aligned && value->base == s->regs[RSP].base;
		s->regs[RSP] = *value;
		s->is_sp_soft = false;
		forget_slots(s, value->base, INT64_MIN, value->offset); // what is below was popped
	} else {
		put_fresh_sp(s, at);
	}
}

// Where a memory operand is, if in the frame at a place that is known.
static bool is_in_frame(const struct state *s, const cs_x86_op *op, struct value *at)
{
	bool is_whole;

	if (op->type != X86_OP_MEM || op->mem.index != X86_REG_INVALID || op->mem.segment != X86_REG_INVALID)
		return false;
	unsigned base = register_of(op->mem.base, &is_whole);
	if (!is_whole || s->regs[base].kind != STACK)
		return false;
	int64_t offset = s->regs[base].offset + op->mem.disp;
	if (offset != (int32_t)offset)
		return false;
	*at = s->regs[base];
	at->offset = (int32_t)offset;
	return true;
}

// What a source operand of eight bytes holds.
static struct value value_of(struct state *s, const cs_x86_op *op)
{
	struct value at;
	bool is_whole;

	if (op->type == X86_OP_REG) {
		unsigned reg = register_of(op->reg, &is_whole);
		return is_whole ? s->regs[reg] : (struct value){ 0 };
	}
	if (op->size == WORD && is_in_frame(s, op, &at)) {
		const struct slot *slot = find_slot(s, at.base, at.offset);
		if (slot != NULL)
			return slot->value;
	}
	return (struct value){ 0 };
}

static void store(struct state *s, const cs_x86_op *op, const struct value *value, uint32_t at)
{
	struct value place;
	bool is_whole;

	if (op->type == X86_OP_REG) {
		unsigned reg = register_of(op->reg, &is_whole);
		put_register(s, reg, is_whole ? value : &(struct value){ 0 }, at);
	} else if (is_in_frame(s, op, &place)) {
		put_slot(s, &place, 0, op->size == WORD ? value : &(struct value){ 0 });
		forget_slots(s, place.base, place.offset + WORD, (int64_t)place.offset + op->size);
	}
}

static void push(struct state *s, const struct value *value, uint32_t at)
{
	if (s->regs[RSP].kind != STACK)
		put_fresh_sp(s, at);
	s->regs[RSP].offset -= WORD;
	put_slot(s, &s->regs[RSP], 0, value);
}

static struct value pop(struct state *s)
{
	const struct slot *slot = find_slot(s, s->regs[RSP].base, s->regs[RSP].offset);
	struct value value = slot != NULL && !s->is_sp_soft ? slot->value : (struct value){ 0 };

	s->regs[RSP].offset += WORD;
	forget_slots(s, s->regs[RSP].base, INT64_MIN, s->regs[RSP].offset);
	return value;
}

// Whatever an instruction changes that has no meaning here.
static void forget_written(struct state *s, const cs_insn *insn, uint32_t at)
{
	static const struct value unknown;
	const cs_x86 *x86 = &insn->detail->x86;
	bool reads_only = insn->id == X86_INS_CMP || insn->id == X86_INS_TEST || insn->id == X86_INS_BT || insn->id == X86_INS_NOP,
	     writes_all = insn->id == X86_INS_XCHG || insn->id == X86_INS_XADD || insn->id == X86_INS_MULX || insn->id == X86_INS_CMPXCHG;
	bool is_whole;

	for (uint8_t i = 0; i < x86->op_count; i++) {
		bool is_written = (x86->operands[i].access & CS_AC_WRITE) != 0 || (i == 0 && !reads_only) || writes_all;
		if (is_written)
			store(s, &x86->operands[i], &unknown, at);
	}
	for (uint8_t i = 0; i < insn->detail->regs_write_count; i++)
		put_register(s, register_of(insn->detail->regs_write[i], &is_whole), &unknown, at);
	bool is_repeated = x86->prefix[0] == X86_PREFIX_REP || x86->prefix[0] == X86_PREFIX_REPNE;
	if (is_repeated && s->regs[RDI].kind == STACK)
		s->slot_count = 0; // stos, movs: who knows how far
}

// lea, add, sub with a constant: the distance, if it is such a one and its source an address on the stack.
static bool moves_by_constant(const struct state *s, const cs_insn *insn, struct value *out)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	bool is_whole;

	if (insn->id == X86_INS_LEA)
		return is_in_frame(s, &op[1], out) && op[0].size == WORD;
	if (op[0].type != X86_OP_REG || op[1].type != X86_OP_IMM)
		return false;
	unsigned reg = register_of(op[0].reg, &is_whole);
	int64_t distance = insn->id == X86_INS_ADD ? op[1].imm : -op[1].imm;
	if (!is_whole || s->regs[reg].kind != STACK || distance != (int32_t)distance)
		return false;
	*out = s->regs[reg];
	out->offset += (int32_t)distance;
	return true;
}

static void forget_called(struct state *s, bool is_c)
{
	for (unsigned reg = 0; reg < REGISTERS; reg++) // code that is not C's hands back the frame pointer alone
		if (reg != RBP && reg != RSP && !(is_c && (reg == RBX || reg >= R12)))
			s->regs[reg] = (struct value){ 0 };
}

static void call(struct state *s, bool pops_nothing, bool is_c)
{
	forget_called(s, is_c);
	s->is_sp_soft = s->is_sp_soft || (!s->is_aligned && !pops_nothing);
}

// What an instruction does to the state; jumps do nothing.
static void apply(struct state *s, const cs_insn *insn, uint32_t at)
{
	const cs_x86_op *op = insn->detail->x86.operands;
	struct value value;
	bool is_soft = s->is_sp_soft, is_whole;

	switch (insn->id) {
	case X86_INS_PUSH:
		value = value_of(s, &op[0]);
		push(s, &value, at);
		return;
	case X86_INS_POP:
		value = pop(s);
		store(s, &op[0], &value, at);
		return;
	case X86_INS_LEAVE:
		put_register(s, RSP, &s->regs[RBP], at);
		value = pop(s);
		put_register(s, RBP, &value, at);
		return;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		value = value_of(s, &op[1]);
		store(s, &op[0], &value, at);
		return;
	case X86_INS_LEA:
	case X86_INS_ADD:
	case X86_INS_SUB:
		if (!moves_by_constant(s, insn, &value))
			break;
		store(s, &op[0], &value, at);
		// From sp itself it is as sure as it was.
		if (register_of(op[0].reg, &is_whole) == RSP && (insn->id != X86_INS_LEA || register_of(op[1].mem.base, &is_whole) == RSP))
			s->is_sp_soft = is_soft;
		return;
	default:
		break;
	}
	forget_written(s, insn, at);
	s->is_aligned = s->is_aligned || (insn->id == X86_INS_AND && op[0].type == X86_OP_REG && op[0].reg == X86_REG_RSP);
}

// What is known where `from` comes to what is known there already. false: nothing new.
static bool join(struct state *to, const struct state *from)
{
	bool is_changed = (from->is_sp_soft && !to->is_sp_soft) || (to->is_aligned && !from->is_aligned);

	to->is_aligned = to->is_aligned && from->is_aligned;
	to->is_sp_soft = to->is_sp_soft || from->is_sp_soft;
	for (size_t i = 0; i < REGISTERS; i++)
		if (to->regs[i].kind != UNKNOWN && !same_value(&to->regs[i], &from->regs[i])) {
			to->regs[i] = (struct value){ 0 };
			is_changed = true;
		}
	for (size_t i = 0; i < to->slot_count;) {
		const struct slot *slot = find_slot((struct state *)from, to->slots[i].base, to->slots[i].offset);
		if (slot == NULL || !same_value(&slot->value, &to->slots[i].value)) {
			to->slots[i] = to->slots[--to->slot_count];
			is_changed = true;
		} else {
			i++;
		}
	}
	return is_changed;
}

static void arrive(struct following *f, uint64_t at, const struct state *state)
{
	if (at >= f->function->size)
		return;
	uint32_t known = f->state_of[at];
	if (known == 0 && f->states.count < INSTRUCTIONS_MOST) {
		vec_push(&f->states, *state);
		vec_push(&f->offsets, (uint32_t)at);
		f->state_of[at] = (uint32_t)f->states.count;
		vec_push(&f->waiting, (uint32_t)at);
	} else if (known == 0) {
		f->is_too_long = true;
	} else if ( join(&f->states.data[known - 1], state)) {
		vec_push(&f->waiting, (uint32_t)at);
	}
}

static bool is_of_group(const cs_insn *insn, uint8_t group)
{
	for (uint8_t i = 0; i < insn->detail->groups_count; i++)
		if (insn->detail->groups[i] == group)
			return true;
	return false;
}

// NULL: no instruction. Addresses are offsets.
static const cs_insn *decode(struct following *f, uint32_t at)
{
	const uint8_t *code = f->function->bytes + at;
	size_t size = f->function->size - at;

	return disassemble_decoded(f->code->disassembler, &code, &size, at);
}

static struct rows rows_of(struct code *code, const struct code_function *function, unsigned depth);

// Whether the function that begins at an offset leaves its caller's sp where it was.
static bool pops_nothing(const struct following *f, int64_t at)
{
	enum { CALLEES_DEEP = 3 };
	const struct code_function *own = f->function;
	struct code_function callee;

	return own->other != NULL && f->depth < CALLEES_DEEP && own->other(own->context, own->addr + (uint64_t)at, &callee) &&
	       rows_of(f->code, &callee, f->depth + 1).pops_nothing;
}

static void follow_one(struct following *f, uint32_t at)
{
	const cs_insn *insn = decode(f, at);
	struct state state = f->states.data[f->state_of[at] - 1];

	if (insn == NULL || is_of_group(insn, CS_GRP_RET) || is_of_group(insn, CS_GRP_IRET) || insn->id == X86_INS_INT3 || insn->id == X86_INS_UD2 ||
	    insn->id == X86_INS_HLT)
		return;
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	if (is_of_group(insn, CS_GRP_JUMP)) {
		if (op->type == X86_OP_IMM)
			arrive(f, (uint64_t)op->imm, &state);
		if (insn->id != X86_INS_JMP && insn->id != X86_INS_LJMP)
			arrive(f, (uint64_t)at + insn->size, &state);
		return;
	}
	uint64_t next = (uint64_t)at + insn->size;
	if (is_of_group(insn, CS_GRP_CALL))
		call(&state, f->function->is_c || (op->type == X86_OP_IMM && pops_nothing(f, op->imm)), f->function->is_c); // may decode others
	else
		apply(&state, insn, at);
	if (state.regs[RSP].kind != STACK)
		put_fresh_sp(&state, at);
	arrive(f, next, &state);
}

static struct place place_of(const struct state *s, const struct value *wanted, unsigned first)
{
	static const uint8_t bases[] = { RBP, RSP };

	if (first < REGISTERS && same_value(&s->regs[first], wanted))
		return (struct place){ IN_REGISTER, (uint8_t)first, 0 };
	for (size_t i = 0; i < s->slot_count; i++)
		for (size_t k = 0; k < sizeof(bases) && same_value(&s->slots[i].value, wanted); k++) {
			const struct value *base = &s->regs[bases[k]];
			if (base->kind == STACK && base->base == s->slots[i].base && !(bases[k] == RSP && s->is_sp_soft))
				return (struct place){ IN_SLOT, bases[k], s->slots[i].offset - base->offset };
		}
	for (unsigned reg = 0; reg < REGISTERS; reg++)
		if (same_value(&s->regs[reg], wanted))
			return (struct place){ IN_REGISTER, (uint8_t)reg, 0 };
	return (struct place){ 0 };
}

// Whether the return address may be where sp points.
static bool is_at_sp(const struct state *s, const struct place *ra, bool is_soft_fine)
{
	const struct value *sp = &s->regs[RSP], *fp = &s->regs[RBP];
	const struct slot *slot = find_slot((struct state *)s, sp->base, sp->offset);

	if (s->is_sp_soft) // in a frame it is above that
		return is_soft_fine && fp->kind != STACK;
	return ra->kind == NOWHERE || (slot != NULL && slot->value.kind == RETURN_ADDRESS);
}

static struct row row_of(const struct state *s, uint32_t at, const cs_insn *insn, bool is_c)
{
	struct row row = { .at = at, .size = insn->size, .is_call = is_of_group(insn, CS_GRP_CALL) };
	struct state behind;

	if (row.is_call) { // a frame above the leaf has of its registers what the callee handed back
		behind = *s;
		forget_called(&behind, is_c);
		s = &behind;
	}
	row.ra = place_of(s, &(struct value){ .kind = RETURN_ADDRESS }, REGISTERS);
	row.is_at_sp[0] = is_at_sp(s, &row.ra, false);
	row.is_at_sp[1] = is_at_sp(s, &row.ra, true);
	for (size_t i = 0; i < SAVED; i++)
		row.saved[i] = place_of(s, &(struct value){ .kind = ENTRY, .reg = saved[i] }, saved[i]);
	return row;
}

static int by_offset(const void *a, const void *b)
{
	uint32_t x = ((const struct row *)a)->at, y = ((const struct row *)b)->at;

	return x < y ? -1 : x > y;
}

// How the function leaves by an instruction, if it does.
static void note_end(struct rows *rows, const struct code_function *function, const struct state *s, const cs_insn *insn)
{
	const cs_x86_op *op = &insn->detail->x86.operands[0];
	const struct value *sp = &s->regs[RSP];

	if (is_of_group(insn, CS_GRP_RET))
		rows->pops_nothing = rows->pops_nothing && insn->detail->x86.op_count == 0 && sp->kind == STACK && sp->base == 0 && sp->offset == 0 && !s->is_sp_soft;
	else if (is_of_group(insn, CS_GRP_JUMP))
		rows->jumps_on = rows->jumps_on || op->type != X86_OP_IMM || (uint64_t)op->imm >= function->size;
}

static struct rows follow(struct code *code, const struct code_function *function, unsigned depth)
{
	struct following f = { .code = code, .depth = depth, .function = function };
	struct rows rows = { 0 };
	struct state entry = { .slots[0] = { .value.kind = RETURN_ADDRESS }, .slot_count = 1 };

	if (function->size == 0 || function->size > CODE_FUNCTION_BYTES)
		return rows;
	for (unsigned reg = 0; reg < REGISTERS; reg++)
		entry.regs[reg] = (struct value){ .kind = reg == RSP ? STACK : ENTRY, .reg = reg == RSP ? 0 : (uint8_t)reg };
	f.state_of = mem_zero(function->size, sizeof(*f.state_of));
	arrive(&f, 0, &entry);
	while (f.waiting.count > 0 && !f.is_too_long)
		follow_one(&f, f.waiting.data[--f.waiting.count]);
	rows.data = mem_zero(f.states.count, sizeof(*rows.data));
	rows.pops_nothing = !f.is_too_long;
	for (size_t i = 0; i < f.states.count && !f.is_too_long; i++) {
		const cs_insn *insn = decode(&f, f.offsets.data[i]);
		if (insn == NULL)
			continue;
		rows.data[rows.count++] = row_of(&f.states.data[i], f.offsets.data[i], insn, function->is_c);
		note_end(&rows, function, &f.states.data[i], insn);
	}
	rows.pops_nothing = rows.pops_nothing && rows.count == f.states.count && !rows.jumps_on;
	sort_stable(rows.data, rows.count, sizeof(*rows.data), by_offset);
	free(f.state_of);
	vec_release(&f.states);
	vec_release(&f.offsets);
	vec_release(&f.waiting);
	return rows;
}

static struct rows rows_of(struct code *code, const struct code_function *function, unsigned depth)
{
	const uint32_t *known = hash_map_get(&code->known, function->key);

	if (known != NULL)
		return code->functions.data[*known];
	struct rows rows = follow(code, function, depth);
	hash_map_put(&code->known, function->key, (uint32_t)code->functions.count, NULL);
	vec_push(&code->functions, rows);
	return rows;
}

bool code_jumps_on(struct code *code, const struct code_function *function)
{
	return rows_of(code, function, 0).jumps_on;
}

bool code_pops_nothing(struct code *code, const struct code_function *function)
{
	return rows_of(code, function, 0).pops_nothing;
}

bool code_new(struct code **out, struct err *err)
{
	struct disassembler *disassembler;

	*out = NULL;
	if (!disassembler_open_decoding(&disassembler, EM_X86_64, err))
		return false;
	*out = NEW(struct code);
	(*out)->disassembler = disassembler;
	return true;
}

void code_free(struct code *code)
{
	if (code == NULL)
		return;
	for (size_t i = 0; i < code->functions.count; i++)
		free(code->functions.data[i].data);
	vec_release(&code->functions);
	hash_map_release(&code->known);
	disassembler_close(code->disassembler);
	free(code);
}

// The row of the instruction at an offset or, of a call, of the one that ends there.
static const struct row *find_row(const struct rows *rows, size_t at, bool is_return)
{
	for (size_t low = 0, high = rows->count; low < high;) {
		size_t middle = low + (high - low) / 2;
		const struct row *row = &rows->data[middle];
		size_t place = is_return ? row->at + row->size : row->at;
		if (place == at)
			return !is_return || row->is_call ? row : NULL;
		if (place < at)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool code_may_leave(struct code *code, const struct code_function *function, size_t at, bool is_to_function)
{
	const struct rows rows = rows_of(code, function, 0);
	const struct row *row = find_row(&rows, at, false);

	return row != NULL && row->is_at_sp[is_to_function];
}

static bool is_known(const struct libunwind_registers *registers, unsigned reg)
{
	return (registers->known >> reg & 1) != 0;
}

static bool read_place(const struct place *place, const struct libunwind_registers *registers, code_word_fn *word, void *context, uint64_t *out)
{
	if (place->kind == NOWHERE || !is_known(registers, place->reg))
		return false;
	*out = registers->value[place->reg] + (uint64_t)(int64_t)place->offset;
	return place->kind == IN_REGISTER || word(context, *out, out);
}

bool code_caller(struct code *code, const struct code_function *function, size_t at, bool is_return, const struct libunwind_registers *registers,
                 code_word_fn *word, void *context, struct libunwind_registers *out, bool *is_exact)
{
	const struct rows rows = rows_of(code, function, 0);
	const struct row *row = find_row(&rows, at, is_return);

	*out = (struct libunwind_registers){ 0 };
	if (row == NULL || !read_place(&row->ra, registers, word, context, &out->value[LIBUNWIND_PC]))
		return false;
	*is_exact = row->ra.kind == IN_SLOT;
	out->value[RSP] = *is_exact ? registers->value[row->ra.reg] + (uint64_t)(int64_t)row->ra.offset + WORD : registers->value[RSP];
	out->known = 1u << LIBUNWIND_PC | 1u << RSP;
	for (size_t i = 0; i < SAVED; i++)
		if (read_place(&row->saved[i], registers, word, context, &out->value[saved[i]]))
			out->known |= 1u << saved[i];
	return true;
}
