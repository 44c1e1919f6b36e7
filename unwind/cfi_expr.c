#include "unwind/cfi_expr.h"

enum { // DW_OP_*: DWARF 5, 7.7.1
	OP_ADDR = 0x03, OP_DEREF = 0x06, OP_CONST1U = 0x08, OP_CONST1S, OP_CONST2U, OP_CONST2S, OP_CONST4U, OP_CONST4S, OP_CONST8U,
	OP_CONST8S, OP_CONSTU, OP_CONSTS, OP_DUP, OP_DROP, OP_OVER, OP_PICK, OP_SWAP, OP_ROT,
	OP_ABS = 0x19, OP_AND, OP_DIV, OP_MINUS, OP_MOD, OP_MUL, OP_NEG, OP_NOT, OP_OR, OP_PLUS, OP_PLUS_UCONST, OP_SHL, OP_SHR,
	OP_SHRA, OP_XOR, OP_BRA, OP_EQ, OP_GE, OP_GT, OP_LE, OP_LT, OP_NE, OP_SKIP,
	OP_LIT0 = 0x30, OP_LIT31 = 0x4f, OP_REG0 = 0x50, OP_REG31 = 0x6f, OP_BREG0 = 0x70, OP_BREG31 = 0x8f, OP_REGX = 0x90, OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94, OP_NOP = 0x96, OP_STACK_VALUE = 0x9f,
};
enum { MAX_VALUES = 64, MAX_STEPS = 10000 };

struct evaluator {
	struct bytes ops;
	const struct register_set *registers;
	const struct stack_view *view;
	uint64_t values[MAX_VALUES];
	unsigned count;
	enum cfi_expr_status status;
	uint64_t missed;
};

static void push(struct evaluator *e, uint64_t value)
{
	if (e->view->word_bytes == 4)
		value = (uint32_t)value;
	if (e->count == MAX_VALUES)
		e->status = CFI_EXPR_BAD;
	else
		e->values[e->count++] = value;
}

static uint64_t pop(struct evaluator *e)
{
	if (e->count == 0) {
		e->status = CFI_EXPR_BAD;
		return 0;
	}
	return e->values[--e->count];
}

static uint64_t top(struct evaluator *e, unsigned depth)
{
	if (depth >= e->count) {
		e->status = CFI_EXPR_BAD;
		return 0;
	}
	return e->values[e->count - 1 - depth];
}

static int64_t signed_value(const struct evaluator *e, uint64_t value)
{
	return e->view->word_bytes == 4 ? (int32_t)value : (int64_t)value;
}

static void push_constant(struct evaluator *e, uint8_t op)
{
	struct bytes *ops = &e->ops;

	switch (op) {
	case OP_ADDR:
		push(e, e->view->word_bytes == 4 ? bytes_u32(ops) : bytes_u64(ops));
		return;
	case OP_CONST1U:
		push(e, bytes_u8(ops));
		return;
	case OP_CONST1S:
		push(e, (uint64_t)(int8_t)bytes_u8(ops));
		return;
	case OP_CONST2U:
		push(e, bytes_u16(ops));
		return;
	case OP_CONST2S:
		push(e, (uint64_t)(int16_t)bytes_u16(ops));
		return;
	case OP_CONST4U:
		push(e, bytes_u32(ops));
		return;
	case OP_CONST4S:
		push(e, (uint64_t)(int32_t)bytes_u32(ops));
		return;
	case OP_CONST8U:
	case OP_CONST8S:
		push(e, bytes_u64(ops));
		return;
	case OP_CONSTU:
		push(e, bytes_uleb(ops));
		return;
	default:
		push(e, (uint64_t)bytes_sleb(ops));
	}
}

static void push_register(struct evaluator *e, uint64_t reg, int64_t offset)
{
	uint64_t value;

	if (!register_get(e->registers, reg, &value))
		e->status = CFI_EXPR_NO_REGISTER;
	else
		push(e, value + (uint64_t)offset);
}

static bool load(struct evaluator *e, uint64_t addr, uint64_t *out)
{
	if (stack_word(e->view, addr, out))
		return true;
	e->status = CFI_EXPR_NO_MEMORY;
	e->missed = addr;
	return false;
}

static void dereference(struct evaluator *e, uint64_t size)
{
	uint64_t addr = pop(e), value, next;
	unsigned word = e->view->word_bytes;

	if (e->status != CFI_EXPR_OK)
		return;
	if (size == 0 || size > word) {
		e->status = CFI_EXPR_BAD;
		return;
	}
	// Of one aligned word, or of two.
	const uint64_t aligned = addr & ~(uint64_t)(word - 1), skipped = 8 * (addr - aligned);
	if (!load(e, aligned, &value))
		return;
	value >>= skipped;
	if (skipped + 8 * size > 8 * word) {
		if (!load(e, aligned + word, &next))
			return;
		value |= next << (8 * word - skipped);
	}
	push(e, size == 8 ? value : value & (((uint64_t)1 << 8 * size) - 1));
}

static void rearrange(struct evaluator *e, uint8_t op)
{
	uint64_t first, second, third;

	switch (op) {
	case OP_DUP:
		push(e, top(e, 0));
		return;
	case OP_DROP:
		pop(e);
		return;
	case OP_OVER:
		push(e, top(e, 1));
		return;
	case OP_PICK:
		push(e, top(e, bytes_u8(&e->ops)));
		return;
	case OP_SWAP:
		first = pop(e), second = pop(e);
		push(e, first);
		push(e, second);
		return;
	default: // OP_ROT: the first goes below the third
		first = pop(e), second = pop(e), third = pop(e);
		push(e, first);
		push(e, third);
		push(e, second);
	}
}

static uint64_t shifted(const struct evaluator *e, uint8_t op, uint64_t left, uint64_t by)
{
	unsigned bits = e->view->word_bytes == 4 ? 32 : 64;
	int64_t value = signed_value(e, left);

	if (op == OP_SHRA)
		return (uint64_t)(value >> (by < bits ? by : bits - 1));
	if (by >= bits)
		return 0;
	return op == OP_SHL ? left << by : left >> by;
}

static void binary(struct evaluator *e, uint8_t op)
{
	uint64_t right = pop(e), left = pop(e);
	int64_t r = signed_value(e, right), l = signed_value(e, left);

	switch (op) {
	case OP_AND: push(e, left & right); return;
	case OP_OR: push(e, left | right); return;
	case OP_XOR: push(e, left ^ right); return;
	case OP_PLUS: push(e, left + right); return;
	case OP_MINUS: push(e, left - right); return;
	case OP_MUL: push(e, left * right); return;
	case OP_EQ: push(e, l == r); return;
	case OP_NE: push(e, l != r); return;
	case OP_GE: push(e, l >= r); return;
	case OP_GT: push(e, l > r); return;
	case OP_LE: push(e, l <= r); return;
	case OP_LT: push(e, l < r); return;
	case OP_SHL:
	case OP_SHR:
	case OP_SHRA: push(e, shifted(e, op, left, right)); return;
	default: break;
	}
	if (right == 0) {
		e->status = CFI_EXPR_BAD;
	} else if (op == OP_MOD) {
		push(e, left % right);
	} else { // OP_DIV is signed; the one quotient that does not fit is its negation
		push(e, r == -1 ? -left : (uint64_t)(l / r));
	}
}

static void unary(struct evaluator *e, uint8_t op)
{
	uint64_t value = pop(e);

	switch (op) {
	case OP_ABS:
		push(e, signed_value(e, value) < 0 ? -value : value);
		return;
	case OP_NEG:
		push(e, -value);
		return;
	case OP_NOT:
		push(e, ~value);
		return;
	default: // OP_PLUS_UCONST
		push(e, value + bytes_uleb(&e->ops));
	}
}

static void branch(struct evaluator *e, uint8_t op)
{
	int16_t distance = (int16_t)bytes_u16(&e->ops);

	if (op == OP_BRA && pop(e) == 0)
		return;
	if (e->ops.bad)
		return;
	ptrdiff_t to = (e->ops.at - e->ops.start) + distance;
	if (to < 0 || to > e->ops.end - e->ops.start)
		e->status = CFI_EXPR_BAD;
	else
		e->ops.at = e->ops.start + to;
}

static void step(struct evaluator *e, uint8_t op)
{
	if (op >= OP_LIT0 && op <= OP_LIT31) {
		push(e, (uint64_t)(op - OP_LIT0));
	} else if (op >= OP_BREG0 && op <= OP_BREG31) {
		push_register(e, (uint64_t)(op - OP_BREG0), bytes_sleb(&e->ops));
	} else if (op >= OP_REG0 && op <= OP_REG31) { // no location here, but what is in it: as other unwinders have it
		push_register(e, (uint64_t)(op - OP_REG0), 0);
	} else if (op == OP_BREGX || op == OP_REGX) {
		uint64_t reg = unwind_register(e->view->machine, bytes_uleb(&e->ops));
		push_register(e, reg, op == OP_BREGX ? bytes_sleb(&e->ops) : 0);
	} else if (op == OP_DEREF) {
		dereference(e, e->view->word_bytes);
	} else if (op == OP_DEREF_SIZE) {
		dereference(e, bytes_u8(&e->ops));
	} else if (op == OP_ADDR || (op >= OP_CONST1U && op <= OP_CONSTS)) {
		push_constant(e, op);
	} else if (op >= OP_DUP && op <= OP_ROT) {
		rearrange(e, op);
	} else if (op == OP_ABS || op == OP_NEG || op == OP_NOT || op == OP_PLUS_UCONST) {
		unary(e, op);
	} else if (op == OP_BRA || op == OP_SKIP) {
		branch(e, op);
	} else if (op >= OP_AND && op <= OP_NE) {
		binary(e, op);
	} else if (op != OP_NOP && op != OP_STACK_VALUE) {
		e->status = CFI_EXPR_BAD;
	}
}

enum cfi_expr_status cfi_expr_eval(struct bytes ops, const struct register_set *registers, const struct stack_view *view,
                                   const uint64_t *initial, uint64_t *result, uint64_t *missed)
{
	struct evaluator e = { .ops = ops, .registers = registers, .view = view };

	e.ops.start = e.ops.at; // branches stay inside the expression
	if (initial != NULL)
		push(&e, *initial);
	for (unsigned steps = 0; bytes_left(&e.ops) > 0 && e.status == CFI_EXPR_OK; steps++) {
		if (steps == MAX_STEPS)
			return CFI_EXPR_BAD;
		step(&e, bytes_u8(&e.ops));
		if (e.ops.bad)
			return CFI_EXPR_BAD;
	}
	if (e.status == CFI_EXPR_OK)
		*result = pop(&e);
	*missed = e.missed;
	return e.status;
}
