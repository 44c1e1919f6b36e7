#include "cmd/debug_machine.h"

#include <capstone/capstone.h>
#include <string.h>


enum { WORD = 8 };

static struct value number(uint64_t bits)
{
	return (struct value){ .bits = bits, .kind = VALUE_NUMBER };
}

static bool same_value(const struct value *a, const struct value *b)
{
	return a->kind == b->kind && a->origin == b->origin && (a->kind == VALUE_UNKNOWN || a->bits == b->bits);
}

static bool is_on_stack(const struct stack_memory *memory, const struct value *v)
{
	return v->kind == VALUE_PLACE || (v->origin & OF_STACK) != 0 || (v->kind == VALUE_NUMBER && v->bits - memory->start < memory->end - memory->start);
}

// Unknown, but for where it came from.
static struct value made_of(const struct stack_memory *memory, const struct value *a, const struct value *b)
{
	uint8_t origin = (a->origin | b->origin) & (OF_CODE | OF_TABLE);

	return (struct value){ .origin = (uint8_t)(origin | (is_on_stack(memory, a) || is_on_stack(memory, b) ? OF_STACK : 0)) };
}

// ---------------------------------------------------------------- memory
static const struct cell *find_cell(const struct machine *m, bool is_place, uint64_t at)
{
	for (size_t i = 0; i < m->cell_count; i++)
		if (m->cells[i].at == at && m->cells[i].is_place == is_place)
			return &m->cells[i];
	return NULL;
}

static void hide_below(struct machine *m, uint64_t end)
{
	if (end > m->hidden)
		m->hidden = end;
	for (size_t i = 0; i < m->cell_count;)
		if (!m->cells[i].is_place && m->cells[i].at < end)
			m->cells[i] = m->cells[--m->cell_count];
		else
			i++;
}

static void forget_cells_of_places(struct machine *m)
{
	for (size_t i = 0; i < m->cell_count;)
		if (m->cells[i].is_place)
			m->cells[i] = m->cells[--m->cell_count];
		else
			i++;
}

// What an aligned word holds, by byte.
static struct cell read_cell(const struct machine *m, const struct stack_memory *memory, bool is_place, uint64_t at)
{
	const struct cell *written = find_cell(m, is_place, at);
	struct cell cell = { .at = at, .is_place = is_place };

	if (written != NULL)
		return *written;
	if (!is_place && at >= m->hidden && !(at >= m->blank && at < m->blank_end) && at >= memory->start && at < memory->end && memory->word(memory->context, at, &cell.value.bits)) {
		cell.known = 0xff;
		cell.value.kind = VALUE_NUMBER;
	}
	return cell;
}

static void put_cell(struct machine *m, const struct cell *cell)
{
	struct cell *known = (struct cell *)find_cell(m, cell->is_place, cell->at);
	bool is_blank = cell->known == 0 && cell->value.origin == 0 && !cell->is_place;

	if (is_blank && m->blank == m->blank_end)
		m->blank = m->blank_end = cell->at;
	if (is_blank && (cell->at == m->blank_end || cell->at == m->blank - WORD)) {
		*(cell->at == m->blank_end ? &m->blank_end : &m->blank) += cell->at == m->blank_end ? WORD : -(uint64_t)WORD;
		if (known != NULL)
			*known = m->cells[--m->cell_count];
	} else if (known != NULL)
		*known = *cell;
	else if (m->cell_count < CELLS)
		m->cells[m->cell_count++] = *cell;
	else
		m->is_lost = true;
}

static struct value load(const struct machine *m, const struct stack_memory *memory, const struct value *at, unsigned size)
{
	struct value out = { .origin = (at->origin & OF_CODE) != 0 ? OF_TABLE : 0 };
	unsigned offset = at->bits % WORD;

	if (at->kind == VALUE_UNKNOWN || size == 0 || offset + size > WORD)
		return out;
	struct cell cell = read_cell(m, memory, at->kind == VALUE_PLACE, at->bits - offset);
	uint8_t wanted = (uint8_t)(((1u << size) - 1) << offset);
	if (size == WORD)
		return cell.known == 0xff || cell.value.kind == VALUE_UNKNOWN ? cell.value : out;
	if (cell.value.kind == VALUE_NUMBER && (cell.known & wanted) == wanted)
		out = number(cell.value.bits >> offset * 8 & ((UINT64_C(1) << size * 8) - 1));
	return out;
}

// A part of a word.
static void put_part(struct machine *m, const struct stack_memory *memory, const struct value *at, unsigned offset, unsigned size, const struct value *value)
{
	struct cell cell = read_cell(m, memory, at->kind == VALUE_PLACE, at->bits - at->bits % WORD);
	uint64_t mask = ((UINT64_C(1) << size * 8) - 1) << offset * 8;
	uint8_t bytes = (uint8_t)(((1u << size) - 1) << offset);

	if (cell.value.kind == VALUE_PLACE)
		cell.known = 0;
	cell.value.kind = VALUE_NUMBER;
	cell.known &= (uint8_t)~bytes;
	if (value->kind == VALUE_NUMBER) {
		cell.known |= bytes;
		cell.value.bits = (cell.value.bits & ~mask) | (value->bits << offset * 8 & mask);
	}
	put_cell(m, &cell);
}

static void put_memory(struct machine *m, const struct stack_memory *memory, const struct value *at, unsigned size, const struct value *value)
{
	static const struct value unknown;

	if (at->kind == VALUE_UNKNOWN) {
		m->is_lost = m->is_lost || (at->origin & OF_STACK) != 0;
		return;
	}
	if (!is_on_stack(memory, at))
		return;
	if (at->kind == VALUE_PLACE)
		hide_below(m, m->reach);
	else if (at->bits < m->reach)
		forget_cells_of_places(m);
	if (size == WORD && at->bits % WORD == 0) {
		put_cell(m, &(struct cell){ at->bits, at->kind == VALUE_PLACE, value->kind == VALUE_UNKNOWN ? 0 : 0xff, *value });
		return;
	}
	const struct value *part = at->bits % WORD + size <= WORD ? value : &unknown;
	for (struct value to = *at; size > 0;) { // what crosses words, as vectors do, is not kept
		unsigned offset = to.bits % WORD, here = WORD - offset < size ? WORD - offset : size;
		if (here == WORD)
			put_cell(m, &(struct cell){ .at = to.bits, .is_place = to.kind == VALUE_PLACE });
		else
			put_part(m, memory, &to, offset, here, part);
		to.bits += here;
		size -= here;
	}
}

// ---------------------------------------------------------------- registers
// What there was by a place of sp that nobody knows.
static void forget_places(struct machine *m)
{
	static const struct value unknown = { .origin = OF_STACK };

	for (size_t i = 0; i < REGISTERS; i++)
		if (m->regs[i].kind == VALUE_PLACE)
			m->regs[i] = unknown;
	for (size_t i = 0; i < m->cell_count; i++)
		if (m->cells[i].value.kind == VALUE_PLACE) {
			m->cells[i].value = unknown;
			m->cells[i].known = 0;
		}
	forget_cells_of_places(m);
}

void machine_lose_sp(struct machine *m, const struct stack_memory *memory)
{
	const struct value *fp = &m->regs[RBP], *sp = &m->regs[RSP];
	bool is_framed = fp->kind == VALUE_NUMBER && is_on_stack(memory, fp) && !(sp->kind == VALUE_NUMBER && fp->bits < sp->bits);
	uint64_t reach = is_framed ? fp->bits : UINT64_MAX; // it stays in its frame

	forget_places(m);
	if (reach > m->reach)
		m->reach = reach;
	m->regs[RSP] = (struct value){ .kind = VALUE_PLACE };
}

static struct value read_register(const struct machine *m, const struct stack_memory *memory, const struct operand *op)
{
	if (op->reg >= REGISTERS)
		return (struct value){ 0 };
	const struct value *v = &m->regs[op->reg];
	if (op->size == WORD)
		return *v;
	if (v->kind != VALUE_NUMBER)
		return made_of(memory, v, v);
	struct value out = number((op->is_high ? v->bits >> 8 : v->bits) & ((UINT64_C(1) << op->size * 8) - 1));
	out.origin = v->origin;
	return out;
}

static void put_register(struct machine *m, const struct stack_memory *memory, unsigned reg, const struct value *value)
{
	if (reg >= REGISTERS)
		return;
	if (reg == RSP && value->kind == VALUE_UNKNOWN)
		machine_lose_sp(m, memory);
	else
		m->regs[reg] = *value;
}

static void write_register(struct machine *m, const struct stack_memory *memory, const struct operand *op, const struct value *value)
{
	struct value out = *value;

	if (op->reg >= REGISTERS)
		return;
	if (op->size < WORD) {
		const struct value *old = &m->regs[op->reg];
		uint64_t mask = (UINT64_C(1) << op->size * 8) - 1;
		unsigned shift = op->is_high ? 8 : 0;
		if (value->kind != VALUE_NUMBER)
			out = (struct value){ .origin = value->origin & OF_TABLE };
		else if (op->size == 4) // the upper half is made zero
			out.bits &= mask;
		else if (old->kind == VALUE_NUMBER)
			out = number((old->bits & ~(mask << shift)) | (value->bits & mask) << shift);
		else
			out = (struct value){ .origin = old->origin };
	}
	put_register(m, memory, op->reg, &out);
}

// ---------------------------------------------------------------- operands
static struct value address_of(const struct machine *m, const struct stack_memory *memory, const struct operand *op, uint64_t next)
{
	static const struct value nothing = { .kind = VALUE_NUMBER };
	struct value base = op->base < REGISTERS ? m->regs[op->base] : op->base == REGISTER_PC ? number(next) : nothing,
	             index = op->index < REGISTERS ? m->regs[op->index] : nothing;

	if (op->has_segment)
		return (struct value){ 0 };
	bool is_by_sp = op->base == RSP || op->base == RBP;
	if ((base.kind == VALUE_UNKNOWN || index.kind != VALUE_NUMBER) && !(index.kind == VALUE_PLACE && base.kind == VALUE_NUMBER && op->scale == 1)) {
		struct value out = made_of(memory, &base, &index);
		out.origin |= is_by_sp ? OF_STACK : 0;
		return out;
	}
	struct value out = base.kind == VALUE_PLACE ? base : index.kind == VALUE_PLACE ? index : number(0);
	out.bits = base.bits + index.bits * (op->index < REGISTERS ? op->scale : 0) + (uint64_t)op->value;
	out.origin = (base.origin | index.origin) & (OF_CODE | OF_TABLE);
	return out;
}

struct value machine_operand(const struct machine *m, const struct stack_memory *memory, const struct operand *op, uint64_t next)
{
	if (op->kind == OPERAND_REGISTER)
		return read_register(m, memory, op);
	if (op->kind == OPERAND_CONSTANT)
		return number((uint64_t)op->value);
	if (op->kind != OPERAND_MEMORY)
		return (struct value){ 0 };
	struct value at = address_of(m, memory, op, next), out = load(m, memory, &at, op->size <= WORD ? op->size : 0);
	out.origin |= op->index < REGISTERS && out.kind == VALUE_UNKNOWN ? OF_TABLE : 0;
	return out;
}

static void store(struct machine *m, const struct stack_memory *memory, const struct operand *op, uint64_t next, const struct value *value)
{
	if (op->kind == OPERAND_REGISTER) {
		write_register(m, memory, op, value);
	} else if (op->kind == OPERAND_MEMORY) {
		struct value at = address_of(m, memory, op, next);
		put_memory(m, memory, &at, op->size, value);
	}
}

struct value machine_word(const struct machine *m, const struct stack_memory *memory, const struct value *at)
{
	return load(m, memory, at, WORD);
}

struct value machine_pop(struct machine *m, const struct stack_memory *memory)
{
	struct value out = load(m, memory, &m->regs[RSP], WORD);

	m->regs[RSP].bits += WORD;
	return out;
}

void machine_push(struct machine *m, const struct stack_memory *memory, const struct value *value)
{
	m->regs[RSP].bits -= WORD;
	put_memory(m, memory, &m->regs[RSP], WORD, value);
}

void machine_call(struct machine *m, const struct stack_memory *memory, bool is_c, bool keeps_sp)
{
	const struct value *sp = &m->regs[RSP];

	for (unsigned reg = 0; reg < REGISTERS; reg++)
		if (reg != RBP && reg != RSP && !(is_c && (reg == RBX || reg >= R12)))
			m->regs[reg] = (struct value){ 0 };
	m->flags_known = 0;
	if (sp->kind == VALUE_NUMBER) // what was below it is the callee's
		hide_below(m, sp->bits);
	for (size_t i = 0; i < m->cell_count;)
		if (sp->kind == VALUE_PLACE && m->cells[i].is_place && (int64_t)(m->cells[i].at - sp->bits) < 0)
			m->cells[i] = m->cells[--m->cell_count];
		else
			i++;
	if (!is_c && !keeps_sp)
		machine_lose_sp(m, memory);
}

// ---------------------------------------------------------------- flags
static void put_flags(struct machine *m, uint32_t flags, uint32_t known)
{
	m->flags = flags & known;
	m->flags_known = known;
}

static uint64_t mask_of(unsigned size)
{
	return size >= WORD ? UINT64_MAX : (UINT64_C(1) << size * 8) - 1;
}

static uint32_t result_flags(uint64_t result, unsigned size)
{
	return ((result & mask_of(size)) == 0 ? FLAG_Z : 0) | ((result >> (size * 8 - 1) & 1) != 0 ? FLAG_S : 0) |
	       (__builtin_popcountll(result & 0xff) % 2 == 0 ? FLAG_P : 0);
}

static uint32_t sum_flags(uint64_t a, uint64_t b, uint64_t sum, unsigned size)
{
	return result_flags(sum, size) | ((sum & mask_of(size)) < (a & mask_of(size)) ? FLAG_C : 0) |
	       (((a ^ sum) & (b ^ sum)) >> (size * 8 - 1) & 1 ? FLAG_O : 0);
}

static uint32_t difference_flags(uint64_t a, uint64_t b, uint64_t difference, unsigned size)
{
	return result_flags(difference, size) | ((a & mask_of(size)) < (b & mask_of(size)) ? FLAG_C : 0) |
	       (((a ^ b) & (a ^ difference)) >> (size * 8 - 1) & 1 ? FLAG_O : 0);
}

bool machine_condition(const struct machine *m, unsigned condition, bool *holds)
{
	static const uint32_t needed[8] = { FLAG_O, FLAG_C, FLAG_Z, FLAG_C | FLAG_Z, FLAG_S, FLAG_P, FLAG_S | FLAG_O, FLAG_S | FLAG_O | FLAG_Z };
	uint32_t wanted = needed[condition / 2], set = m->flags & m->flags_known;
	bool is_less = ((set & FLAG_S) != 0) != ((set & FLAG_O) != 0), is_known = (m->flags_known & wanted) == wanted, is_met;

	switch (condition / 2) {
	case 6:
		is_met = is_less;
		break;
	case 7:
		is_met = is_less || (set & FLAG_Z) != 0;
		is_known = is_known || (set & FLAG_Z) != 0;
		break;
	default:
		is_met = (set & wanted) != 0;
		is_known = is_known || is_met; // "below or equal": one of the two is enough
		break;
	}
	*holds = is_met != (condition % 2 != 0);
	return is_known;
}

// ---------------------------------------------------------------- what instructions do
// Of add, sub, cmp, neg, inc and dec: the first operand and another one. `mode`: which flags they leave.
static struct value sum(struct machine *m, const struct stack_memory *memory, struct value a, struct value b, bool is_minus, unsigned size)
{
	struct value out = made_of(memory, &a, &b);

	m->flags_known = 0;
	if (a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER) {
		uint64_t result = is_minus ? a.bits - b.bits : a.bits + b.bits;
		put_flags(m, is_minus ? difference_flags(a.bits, b.bits, result, size) : sum_flags(a.bits, b.bits, result, size), FLAGS_ALL);
		out = number(result & mask_of(size));
		out.origin = (a.origin | b.origin) & (OF_CODE | OF_TABLE);
	} else if (size == WORD && is_minus && a.kind == VALUE_PLACE && b.kind == VALUE_PLACE) {
		out = number(a.bits - b.bits); // as signed numbers, as addresses do not wrap there
		put_flags(m, result_flags(out.bits, WORD) | ((int64_t)out.bits < 0 ? FLAG_C : 0), FLAGS_ALL);
	} else if (size == WORD && a.kind == VALUE_PLACE && b.kind == VALUE_NUMBER) {
		out = a;
		out.bits += is_minus ? -b.bits : b.bits;
	} else if (size == WORD && !is_minus && b.kind == VALUE_PLACE && a.kind == VALUE_NUMBER) {
		out = b;
		out.bits += a.bits;
	}
	return out;
}

static struct value logic(struct machine *m, const struct stack_memory *memory, struct value a, struct value b, unsigned id, unsigned size)
{
	struct value out = made_of(memory, &a, &b);
	bool is_zero = (id == X86_INS_AND || id == X86_INS_TEST) && ((a.kind == VALUE_NUMBER && a.bits == 0) || (b.kind == VALUE_NUMBER && b.bits == 0));

	put_flags(m, 0, FLAG_C | FLAG_O);
	if ((a.kind == VALUE_NUMBER && b.kind == VALUE_NUMBER) || is_zero) {
		uint64_t result = is_zero ? 0 : id == X86_INS_OR ? a.bits | b.bits : id == X86_INS_XOR ? a.bits ^ b.bits : a.bits & b.bits;
		out = number(result & mask_of(size));
		put_flags(m, result_flags(result, size), FLAGS_ALL);
	}
	return out;
}

static struct value shift(struct machine *m, const struct stack_memory *memory, struct value a, struct value by, unsigned id, unsigned size)
{
	unsigned count = (unsigned)by.bits & (size == WORD ? 63 : 31);
	struct value out = made_of(memory, &a, &by);

	if (by.kind == VALUE_NUMBER && count == 0)
		return a;
	m->flags_known = 0;
	if (a.kind != VALUE_NUMBER || by.kind != VALUE_NUMBER || count >= size * 8)
		return out;
	uint64_t is = a.bits & mask_of(size), result = is << count, carry = is >> (size * 8 - count) & 1;
	if (id == X86_INS_SHR || id == X86_INS_SAR) {
		uint64_t sign = id == X86_INS_SAR && (is >> (size * 8 - 1) & 1) != 0 ? mask_of(size) & ~(mask_of(size) >> count) : 0;
		result = is >> count | sign;
		carry = is >> (count - 1) & 1;
	}
	put_flags(m, result_flags(result, size) | (carry != 0 ? FLAG_C : 0), FLAG_C | FLAG_P | FLAG_Z | FLAG_S);
	return number(result & mask_of(size));
}

static struct value extended(const struct value *v, unsigned from, bool is_signed)
{
	struct value out = *v;

	if (v->kind == VALUE_NUMBER && is_signed && from < WORD && (v->bits >> (from * 8 - 1) & 1) != 0)
		out.bits |= ~mask_of(from);
	if (v->kind != VALUE_NUMBER && from < WORD)
		out = (struct value){ .origin = v->origin & OF_TABLE };
	return out;
}

// add, sub, cmp, inc, dec, neg; and, or, xor, test; shifts.
static bool run_arithmetic(struct machine *m, const struct stack_memory *memory, const struct instruction *insn, uint64_t next)
{
	const struct operand *op = insn->operands;
	struct value a = machine_operand(m, memory, &op[0], next), b = insn->operand_count > 1 ? machine_operand(m, memory, &op[1], next) : number(1), out;
	uint32_t carry = m->flags & FLAG_C, carry_known = m->flags_known & FLAG_C;
	bool is_same = insn->operand_count > 1 && op[0].kind == OPERAND_REGISTER && op[1].kind == OPERAND_REGISTER && op[0].reg == op[1].reg &&
	               op[0].reg < REGISTERS && op[0].is_high == op[1].is_high;

	if (is_same && (insn->id == X86_INS_XOR || insn->id == X86_INS_SUB || insn->id == X86_INS_CMP))
		a = b = number(0); // whatever it is
	switch (insn->id) {
	case X86_INS_ADD:
	case X86_INS_INC:
		out = sum(m, memory, a, b, false, op[0].size);
		break;
	case X86_INS_SUB:
	case X86_INS_CMP:
	case X86_INS_DEC:
		out = sum(m, memory, a, b, true, op[0].size);
		break;
	case X86_INS_NEG:
		out = sum(m, memory, number(0), a, true, op[0].size);
		break;
	case X86_INS_AND:
	case X86_INS_TEST:
	case X86_INS_OR:
	case X86_INS_XOR:
		out = logic(m, memory, a, b, insn->id, op[0].size);
		break;
	case X86_INS_SHL:
	case X86_INS_SAL:
	case X86_INS_SHR:
	case X86_INS_SAR:
		out = shift(m, memory, a, b, insn->id, op[0].size);
		break;
	default:
		return false;
	}
	if (insn->id == X86_INS_INC || insn->id == X86_INS_DEC) {
		m->flags = (m->flags & ~(uint32_t)FLAG_C) | carry;
		m->flags_known = (m->flags_known & ~(uint32_t)FLAG_C) | carry_known;
	}
	if (insn->id != X86_INS_CMP && insn->id != X86_INS_TEST)
		store(m, memory, &op[0], next, &out);
	return true;
}

static void run_conditional(struct machine *m, const struct stack_memory *memory, const struct instruction *insn, uint64_t next, bool is_set)
{
	const struct operand *op = insn->operands;
	bool holds, is_known = machine_condition(m, insn->condition, &holds);
	struct value out = is_known ? number(holds) : (struct value){ 0 };

	if (!is_set) {
		struct value old = machine_operand(m, memory, &op[0], next), new = machine_operand(m, memory, &op[1], next);
		out = is_known ? (holds ? new : old) : same_value(&old, &new) ? old : made_of(memory, &old, &new);
	}
	store(m, memory, &op[0], next, &out);
}

// Values that go from one place to another.
static bool run_move(struct machine *m, const struct stack_memory *memory, const struct instruction *insn, uint64_t next)
{
	const struct operand *op = insn->operands;
	struct value value, other;

	switch (insn->id) {
	case X86_INS_PUSH:
		value = machine_operand(m, memory, &op[0], next);
		m->is_lost = m->is_lost || (op[0].size != WORD && op[0].kind != OPERAND_CONSTANT);
		if (op[0].kind == OPERAND_CONSTANT)
			value = number((uint64_t)op[0].value);
		machine_push(m, memory, &value);
		return true;
	case X86_INS_PUSHFQ:
		machine_push(m, memory, &(struct value){ 0 });
		return true;
	case X86_INS_POPFQ:
		m->flags_known = 0;
		machine_pop(m, memory);
		return true;
	case X86_INS_POP:
		m->is_lost = m->is_lost || op[0].size != WORD;
		value = machine_pop(m, memory);
		store(m, memory, &op[0], next, &value);
		return true;
	case X86_INS_LEAVE:
		put_register(m, memory, RSP, &m->regs[RBP]);
		value = machine_pop(m, memory);
		put_register(m, memory, RBP, &value);
		return true;
	case X86_INS_MOV:
	case X86_INS_MOVABS:
		value = machine_operand(m, memory, &op[1], next);
		store(m, memory, &op[0], next, &value);
		return true;
	case X86_INS_MOVZX:
	case X86_INS_MOVSX:
	case X86_INS_MOVSXD:
		value = machine_operand(m, memory, &op[1], next);
		value = extended(&value, op[1].size, insn->id != X86_INS_MOVZX);
		store(m, memory, &op[0], next, &value);
		return true;
	case X86_INS_LEA:
		value = address_of(m, memory, &op[1], next);
		value.origin |= op[1].base == REGISTER_PC ? OF_CODE : 0;
		store(m, memory, &op[0], next, &value);
		return true;
	case X86_INS_XCHG:
		value = machine_operand(m, memory, &op[0], next);
		other = machine_operand(m, memory, &op[1], next);
		store(m, memory, &op[0], next, &other);
		store(m, memory, &op[1], next, &value);
		return true;
	case X86_INS_NOT:
		value = machine_operand(m, memory, &op[0], next);
		value = value.kind == VALUE_NUMBER ? number(~value.bits & mask_of(op[0].size)) : (struct value){ 0 };
		store(m, memory, &op[0], next, &value);
		return true;
	case X86_INS_CDQE:
		value = extended(&m->regs[RAX], 4, true);
		if (value.kind == VALUE_NUMBER && (m->regs[RAX].bits >> 31 & 1) == 0)
			value.bits &= mask_of(4);
		put_register(m, memory, RAX, &value);
		return true;
	default:
		return false;
	}
}

// Whatever an instruction changes that has no meaning here.
static void run_other(struct machine *m, const struct stack_memory *memory, const struct instruction *insn, uint64_t next)
{
	static const struct value unknown;

	if (insn->is_repeated && (insn->clobbered >> RDI & 1) != 0 && (is_on_stack(memory, &m->regs[RDI]) || m->regs[RDI].kind == VALUE_UNKNOWN))
		m->is_lost = true; // stos, movs: who knows how far
	for (unsigned i = 0; i < insn->operand_count; i++)
		if (insn->operands[i].is_written)
			store(m, memory, &insn->operands[i], next, &unknown);
	for (unsigned reg = 0; reg < REGISTERS; reg++)
		if ((insn->clobbered >> reg & 1) != 0)
			put_register(m, memory, reg, &unknown);
	if (!insn->keeps_flags)
		m->flags_known = 0;
}

void machine_run(struct machine *m, const struct stack_memory *memory, const struct instruction *insn)
{
	uint64_t next = m->pc + insn->size;

	if (insn->id >= X86_INS_CMOVA && insn->id <= X86_INS_CMOVS)
		run_conditional(m, memory, insn, next, false);
	else if (insn->id >= X86_INS_SETAE && insn->id <= X86_INS_SETS)
		run_conditional(m, memory, insn, next, true);
	else if (!run_move(m, memory, insn, next) && !run_arithmetic(m, memory, insn, next))
		run_other(m, memory, insn, next);
	m->pc = next;
}

// ---------------------------------------------------------------- more than one
// Whether what is known of `a` is no more than what is known of `b`.
static bool value_covers(const struct stack_memory *memory, const struct value *a, const struct value *b)
{
	if (a->kind != VALUE_UNKNOWN)
		return same_value(a, b);
	return (a->origin & OF_STACK) != 0 || !is_on_stack(memory, b);
}

static bool cell_covers(const struct stack_memory *memory, const struct cell *a, const struct cell *b)
{
	if (a->known != 0)
		return a->known == b->known && same_value(&a->value, &b->value);
	return (a->value.origin & OF_STACK) != 0 || !is_on_stack(memory, &b->value);
}

bool machine_covers(const struct machine *general, const struct machine *one, const struct stack_memory *memory)
{
	if ((general->flags_known & ~one->flags_known) != 0 || ((general->flags ^ one->flags) & general->flags_known) != 0 || general->hidden < one->hidden ||
	    general->reach < one->reach || (one->blank < one->blank_end && (general->blank > one->blank || general->blank_end < one->blank_end)))
		return false;
	for (size_t i = 0; i < REGISTERS; i++)
		if (!value_covers(memory, &general->regs[i], &one->regs[i]))
			return false;
	for (size_t i = 0; i < general->cell_count; i++) {
		struct cell other = read_cell(one, memory, general->cells[i].is_place, general->cells[i].at);
		if (!cell_covers(memory, &general->cells[i], &other))
			return false;
	}
	for (size_t i = 0; i < one->cell_count; i++) {
		struct cell other = read_cell(general, memory, one->cells[i].is_place, one->cells[i].at);
		if (!cell_covers(memory, &other, &one->cells[i]))
			return false;
	}
	return true;
}

static void join_value(struct value *to, const struct value *from, const struct stack_memory *memory)
{
	if (!same_value(to, from))
		*to = made_of(memory, to, from);
}

void machine_join(struct machine *to, const struct machine *from, const struct stack_memory *memory)
{
	size_t own = to->cell_count;

	to->flags_known &= from->flags_known & ~(to->flags ^ from->flags);
	to->flags &= to->flags_known;
	to->is_lost = to->is_lost || from->is_lost;
	for (size_t i = 0; i < REGISTERS; i++)
		join_value(&to->regs[i], &from->regs[i], memory);
	for (size_t i = 0; i < own; i++) {
		struct cell *cell = &to->cells[i], other = read_cell(from, memory, cell->is_place, cell->at);
		if (cell->known != other.known || !same_value(&cell->value, &other.value)) {
			join_value(&cell->value, &other.value, memory);
			cell->value = (struct value){ .origin = cell->value.origin };
			cell->known = 0;
		}
	}
	for (size_t i = 0; i < from->cell_count; i++) {
		struct cell cell = from->cells[i], other = read_cell(to, memory, cell.is_place, cell.at);
		if (find_cell(to, cell.is_place, cell.at) != NULL || (cell.known == other.known && same_value(&cell.value, &other.value)))
			continue;
		put_cell(to, &(struct cell){ .at = cell.at, .is_place = cell.is_place, .value.origin = made_of(memory, &cell.value, &other.value).origin });
	}
	bool is_blank = to->blank < to->blank_end;
	if (from->blank < from->blank_end) {
		to->blank = !is_blank || from->blank < to->blank ? from->blank : to->blank;
		to->blank_end = !is_blank || from->blank_end > to->blank_end ? from->blank_end : to->blank_end;
	}
	if (from->hidden > to->hidden)
		to->hidden = from->hidden; // cells below it are still what they say
	if (from->reach > to->reach)
		to->reach = from->reach;
}
