#include "unwind/code_rule.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "unwind/x86.h"
#include "unwind/x86_decode.h"

enum {
	WORD = 8,
	SLOTS = 24,     // that were pushed or stored and are tracked
	STATES = 24,    // ways that wait to be followed
	LOADS = 24,     // words of the stack as it is at pc
	FRESHES = 16,   // places from which on sp is somewhere else
	DEBTS = 3,      // calls that sp depends on
	VISITS_BITS = 9, // of the instructions that are met
	INSTRUCTIONS_MOST = 350, // of one function; fewer than the table of visits holds
	DEEP = 270, // when as many are left, the nearest return is looked for
	CALLEE_MOST = 100, // instructions of one that is called
	VISITS_MOST = 3, // of one instruction
	CALLEES_DEEP = 400, CALLEES_MOST = 8,
};

// What a register or slot holds: a symbol and an offset. Symbols: the registers as they are at pc, by number; words of the stack as they are at pc (LOAD);
// addresses of which nothing is known (FRESH); nothing at all.
enum { LOAD = X86_REGISTERS, FRESH = LOAD + LOADS, UNKNOWN = 0xff, OFFSET_BITS = 24, OFFSET_MOST = (1 << (OFFSET_BITS - 1)) - 1 };
struct value {
	uint32_t symbol : 8;
	int32_t offset : OFFSET_BITS;
};
static const struct value unknown = { UNKNOWN, 0 };

struct slot {
	struct value at, holds;
};

// One way, before an instruction.
struct state {
	uint64_t pc;
	struct value regs[X86_REGISTERS];
	uint8_t slot_count;
	uint8_t level;      // how many calls are behind it
	uint8_t debt_count; // calls that may have popped something, so that sp is not where it seems; more than DEBTS: it can't be told of all
	uint8_t fp_debts;   // so many of the first of them the frame pointer was found by
	bool has_pushed;    // below sp as it was at pc
	bool is_behind_call;
	bool is_aligned;    // sp was aligned for C, whose functions pop nothing
	uint16_t computed;  // registers whose content was calculated: a jump there may be a switch
	uint64_t debts[DEBTS];
	struct slot slots[SLOTS]; // the last: those that are in use are copied
};

struct visit {
	uint32_t offset, query; // of another query than the current: none
	struct value sp, fp;
	uint8_t count;
};

struct code_follower {
	const struct code_source *source;
	struct state run, waiting[STATES];
	size_t waiting_count;
	struct slot loads[LOADS]; // `at`: where
	size_t load_count;
	uint64_t freshes[FRESHES];
	size_t fresh_count;
	struct visit visits[1 << VISITS_BITS];
	uint32_t query;
	unsigned instructions, deep; // that may yet be followed; when fewer are left than `deep`, see take_way
	unsigned callees;       // likewise
	bool is_sp_moved;       // in a loop
	struct code_rule rule;
	bool has_end, is_contradicted;
	uint8_t end_level, debt_count;
	uint64_t debts[DEBTS];
};
_Static_assert((INSTRUCTIONS_MOST + 1) < 1 << VISITS_BITS, "there is always an empty place");

static bool is_same(struct value a, struct value b)
{
	return a.symbol == b.symbol && a.offset == b.offset;
}

static struct value moved(struct value value, int64_t by)
{
	int64_t offset = value.offset + by;

	if (value.symbol == UNKNOWN || offset > OFFSET_MOST || offset < -OFFSET_MOST)
		return unknown;
	value.offset = (int32_t)offset;
	return value;
}

static bool is_soft(const struct state *s)
{
	return s->debt_count > 0;
}

// ---------------------------------------------------------------- registers and slots
static struct value fresh(struct code_follower *f, uint64_t addr)
{
	size_t i = 0;

	while (i < f->fresh_count && f->freshes[i] != addr)
		i++;
	if (i == FRESHES)
		return unknown;
	if (i == f->fresh_count)
		f->freshes[f->fresh_count++] = addr;
	return (struct value){ (uint8_t)(FRESH + i), 0 };
}

// What stands in memory at pc, by the place. Words of words are as deep as it gets.
static struct value load(struct code_follower *f, struct value at)
{
	size_t i = 0;

	if (at.symbol >= FRESH || (at.symbol >= LOAD && f->loads[at.symbol - LOAD].at.symbol >= LOAD) || (at.symbol == X86_RSP && at.offset < 0))
		return unknown;
	while (i < f->load_count && !is_same(f->loads[i].at, at))
		i++;
	if (i == LOADS)
		return unknown;
	if (i == f->load_count)
		f->loads[f->load_count++].at = at;
	return (struct value){ (uint8_t)(LOAD + i), 0 };
}

static struct value word_at(struct code_follower *f, const struct state *s, struct value at)
{
	for (size_t i = 0; i < s->slot_count; i++)
		if (s->slots[i].at.symbol == at.symbol && s->slots[i].at.offset < at.offset + WORD && at.offset < s->slots[i].at.offset + WORD)
			return s->slots[i].at.offset == at.offset ? s->slots[i].holds : unknown;
	return at.symbol == UNKNOWN ? unknown : load(f, at);
}

static void forget_slots(struct state *s, uint8_t symbol, int64_t from, int64_t to)
{
	for (size_t i = 0; i < s->slot_count;)
		if (s->slots[i].at.symbol == symbol && s->slots[i].at.offset + WORD > from && s->slots[i].at.offset < to)
			s->slots[i] = s->slots[--s->slot_count];
		else
			i++;
}

// What is not known is remembered where it hides what is there at pc: where it was pushed, and over what is known. A function has other places for what it
// stores than for its return address. false: there is no room.
static bool put_word(struct state *s, struct value at, struct value holds, unsigned bytes, bool is_pushed)
{
	size_t before = s->slot_count;

	if (at.symbol == UNKNOWN)
		return true;
	forget_slots(s, at.symbol, at.offset, (int64_t)at.offset + bytes);
	if (holds.symbol == UNKNOWN && !is_pushed && s->slot_count == before)
		return true;
	if (s->slot_count == SLOTS)
		return false;
	s->slots[s->slot_count++] = (struct slot){ at, holds };
	return true;
}

// `is_relative`: to what it was, and as sure as that.
static void put_sp(struct code_follower *f, struct state *s, struct value value, bool is_relative)
{
	struct value *sp = &s->regs[X86_RSP];

	if (value.symbol == UNKNOWN)
		value = fresh(f, s->pc);
	if (!is_relative)
		s->debt_count = s->fp_debts;
	s->is_aligned = s->is_aligned && sp->symbol == value.symbol;
	if (sp->symbol >= FRESH && sp->symbol != value.symbol)
		forget_slots(s, sp->symbol, INT32_MIN, INT32_MAX);
	*sp = value;
	forget_slots(s, value.symbol, INT32_MIN, value.offset);
}

static void put_register(struct code_follower *f, struct state *s, uint8_t reg, struct value value, bool is_computed)
{
	if (reg >= X86_REGISTERS)
		return;
	s->computed = (uint16_t)((s->computed & ~(1u << reg)) | (unsigned)is_computed << reg);
	if (reg == X86_RSP) {
		put_sp(f, s, value, false);
		return;
	}
	s->regs[reg] = value;
	if (reg == X86_RBP)
		s->fp_debts = 0;
}

// The frame pointer is to be found by sp.
static void put_fp_by_sp(struct state *s, struct value value)
{
	s->regs[X86_RBP] = value;
	s->fp_debts = s->debt_count;
}

// Where the memory operand is; unknown if that is no register and a distance.
static struct value place_of(const struct state *s, const struct x86_decoded *insn)
{
	return insn->base != X86_NOTHING && insn->index == X86_NOTHING ? moved(s->regs[insn->base], insn->displacement) : unknown;
}

// What is read by way of an sp that callees may have moved is not known; but the frame pointer's word is kept for when they prove to have moved nothing.
static struct value read_word(struct code_follower *f, struct state *s, struct value at, bool is_by_sp, uint8_t to)
{
	if (is_by_sp && is_soft(s)) {
		if (to != X86_RBP && to != X86_RSP)
			return unknown;
	}
	// What was pushed since is below sp; whether another register points below that, who knows.
	if (s->has_pushed && at.symbol != s->regs[X86_RSP].symbol && at.offset < 0)
		return unknown;
	// Other pointers than those to the stack: only what may become one is of any interest.
	bool is_stack = at.symbol == X86_RSP || at.symbol == X86_RBP || at.symbol >= LOAD || at.symbol == s->regs[X86_RSP].symbol;
	return is_stack || to == X86_RBP || to == X86_RSP ? word_at(f, s, at) : unknown;
}

// ---------------------------------------------------------------- instructions
static bool push(struct code_follower *f, struct state *s, struct value value)
{
	put_sp(f, s, moved(s->regs[X86_RSP], -WORD), true);
	s->has_pushed = s->has_pushed || s->regs[X86_RSP].symbol != X86_RSP || s->regs[X86_RSP].offset < 0;
	return put_word(s, s->regs[X86_RSP], value, WORD, true);
}

static void pop(struct code_follower *f, struct state *s, uint8_t to)
{
	struct value value = read_word(f, s, s->regs[X86_RSP], true, to);

	put_sp(f, s, moved(s->regs[X86_RSP], WORD), true);
	if (to == X86_RBP)
		put_fp_by_sp(s, value);
	else
		put_register(f, s, to, value, false);
}

static void load_register(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	bool is_register = insn->rm != X86_NOTHING;
	struct value value = is_register ? s->regs[insn->rm] : read_word(f, s, place_of(s, insn), insn->base == X86_RSP, insn->reg);

	if (insn->reg == X86_RBP && (insn->rm == X86_RSP || insn->base == X86_RSP))
		put_fp_by_sp(s, value);
	else if (insn->reg == X86_RSP && insn->base == X86_RSP) // where it was before it was aligned
		put_sp(f, s, value, true);
	else
		put_register(f, s, insn->reg, value, is_register ? (s->computed >> insn->rm & 1) != 0 : insn->index != X86_NOTHING);
}

static bool store_register(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	if (insn->rm == X86_NOTHING)
		return put_word(s, place_of(s, insn), s->regs[insn->reg], WORD, false);
	const struct x86_decoded as_load = { .reg = insn->rm, .rm = insn->reg, .base = X86_NOTHING, .index = X86_NOTHING };
	load_register(f, s, &as_load);
	return true;
}

static void take_address(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	struct value value = place_of(s, insn);

	if (insn->base == X86_RSP && insn->reg == X86_RBP)
		put_fp_by_sp(s, value);
	else if (insn->base == X86_RSP && insn->reg == X86_RSP)
		put_sp(f, s, value, true);
	else
		put_register(f, s, insn->reg, value, true);
}

static bool add(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	if (insn->rm == X86_NOTHING)
		return put_word(s, place_of(s, insn), unknown, WORD, false);
	struct value value = moved(s->regs[insn->rm], insn->value);
	if (insn->rm == X86_RSP)
		put_sp(f, s, value, true);
	else
		put_register(f, s, insn->rm, value, true);
	return true;
}

static bool exchange(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	struct value own = s->regs[insn->reg], other;

	if (insn->rm == X86_NOTHING) {
		struct value at = place_of(s, insn);
		other = read_word(f, s, at, insn->base == X86_RSP, insn->reg);
		put_register(f, s, insn->reg, other, false);
		return put_word(s, at, own, WORD, false);
	}
	other = s->regs[insn->rm];
	put_register(f, s, insn->reg, other, true);
	put_register(f, s, insn->rm, own, true);
	return true;
}

static bool forget_written(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	for (unsigned writes = insn->writes; writes != 0; writes &= writes - 1)
		put_register(f, s, (uint8_t)__builtin_ctz(writes), unknown, true);
	return insn->stores == 0 || put_word(s, place_of(s, insn), unknown, insn->stores, false);
}

// What an instruction that is no branch does. false: no more can be followed.
static bool apply(struct code_follower *f, struct state *s, const struct x86_decoded *insn)
{
	switch (insn->kind) {
	case X86_PUSH:
		return push(f, s, insn->reg != X86_NOTHING ? s->regs[insn->reg] : unknown);
	case X86_POP:
		pop(f, s, insn->reg);
		return true;
	case X86_LOAD:
		load_register(f, s, insn);
		return true;
	case X86_STORE:
		return store_register(f, s, insn);
	case X86_LEA:
		take_address(f, s, insn);
		return true;
	case X86_ADD:
		return add(f, s, insn);
	case X86_XCHG:
		return exchange(f, s, insn);
	case X86_LEAVE:
		put_sp(f, s, s->regs[X86_RBP], false);
		pop(f, s, X86_RBP);
		return true;
	case X86_AND:
		if (!forget_written(f, s, insn))
			return false;
		s->is_aligned = s->is_aligned || insn->rm == X86_RSP;
		return true;
	case X86_NOP:
	case X86_LANDMARK:
		return true;
	default:
		return forget_written(f, s, insn);
	}
}

// The callee keeps the registers that C's functions keep: whoever uses one of them behind a call as it was before knows that.
static void call(struct state *s, bool is_direct, uint64_t target)
{
	static const uint8_t lost[] = { X86_RAX, X86_RCX, X86_RDX, X86_RSI, X86_RDI, X86_R8, X86_R8 + 1, X86_R8 + 2, X86_R11 };

	for (size_t i = 0; i < sizeof(lost); i++)
		s->regs[lost[i]] = unknown;
	s->computed = 0;
	if (s->is_aligned)
		;
	else if (is_direct && s->debt_count < DEBTS)
		s->debts[s->debt_count++] = target;
	else
		s->debt_count = DEBTS + 1;
	s->is_behind_call = true;
	s->level++;
}

// ---------------------------------------------------------------- where ways end
static bool place_from(const struct code_follower *f, struct value value, struct code_place *out)
{
	*out = (struct code_place){ .kind = PLACE_VALUE, .reg = (uint8_t)value.symbol, .offset = value.offset };
	if (value.symbol < LOAD)
		return true;
	if (value.symbol >= FRESH || value.offset != 0)
		return false;
	struct value at = f->loads[value.symbol - LOAD].at;
	out->kind = PLACE_AT;
	out->offset = at.offset;
	out->reg = (uint8_t)at.symbol;
	if (at.symbol < LOAD)
		return true;
	struct value inner = f->loads[at.symbol - LOAD].at;
	out->is_indirect = true;
	out->inner = inner.offset;
	out->reg = (uint8_t)inner.symbol;
	return inner.symbol < LOAD;
}

static bool is_same_place(const struct code_place *a, const struct code_place *b)
{
	return a->kind == b->kind && a->reg == b->reg && a->is_indirect == b->is_indirect && a->offset == b->offset && a->inner == b->inner;
}

// By the frame pointer's pair: whatever other way there is, it has the same.
static bool is_framed(const struct code_rule *rule)
{
	return rule->ra.kind == PLACE_AT && rule->ra.reg == X86_RBP && !rule->ra.is_indirect && rule->ra.offset == WORD && rule->fp.kind == PLACE_AT &&
	       rule->fp.reg == X86_RBP && !rule->fp.is_indirect && rule->fp.offset == 0;
}

// The function is left, and the return address is at sp; `popped`: what is popped besides.
static void end(struct code_follower *f, const struct state *s, int64_t popped)
{
	const struct value sp = s->regs[X86_RSP], above = moved(sp, WORD);
	struct code_rule rule = { .is_known = true };

	if (sp.symbol == UNKNOWN || !place_from(f, word_at(f, s, sp), &rule.ra) || !place_from(f, s->regs[X86_RBP], &rule.fp))
		return; // it can't be told
	if ((rule.ra.kind == PLACE_VALUE && (rule.ra.offset != 0 || rule.ra.reg == X86_RSP || rule.ra.reg == X86_RBP)) ||
	    (rule.fp.kind == PLACE_VALUE && (rule.fp.offset != 0 || rule.fp.reg == X86_RSP)))
		return;
	if (rule.ra.kind == PLACE_VALUE && !place_from(f, above, &rule.sp))
		rule.sp = (struct code_place){ 0 };
	rule.is_plain = popped == 0 && sp.symbol == X86_RSP && sp.offset == 0 && rule.ra.kind == PLACE_AT && rule.ra.reg == X86_RSP && rule.ra.offset == 0 &&
	                !rule.ra.is_indirect && rule.fp.kind == PLACE_VALUE && rule.fp.reg == X86_RBP;
	if (f->instructions < f->deep && !is_framed(&rule)) // behind calls that may never return
		return;
	rule.leaves_sp = popped == 0 && rule.ra.kind == PLACE_AT && is_same(word_at(f, s, sp), load(f, sp));
	if (!f->has_end || (f->end_level == s->level && s->debt_count < f->debt_count)) {
		f->debt_count = s->debt_count;
		memcpy(f->debts, s->debts, sizeof(f->debts));
	}
	if (!f->has_end) {
		f->has_end = true;
		f->end_level = s->level;
		f->rule = rule;
		return;
	}
	f->rule.is_plain = f->rule.is_plain && rule.is_plain;
	f->rule.leaves_sp = f->rule.leaves_sp && rule.leaves_sp;
	f->is_contradicted = f->is_contradicted || !is_same_place(&rule.ra, &f->rule.ra) || !is_same_place(&rule.fp, &f->rule.fp);
	if (!is_same_place(&rule.sp, &f->rule.sp)) // how much is popped besides
		f->rule.sp = (struct code_place){ 0 };
}

// ---------------------------------------------------------------- following
static bool decode(const struct code_follower *f, uint64_t addr, struct x86_decoded *out)
{
	const struct bytes *code = &f->source->code;
	uint64_t offset = addr - f->source->addr, size = bytes_left(code);

	if (offset >= size) {
		*out = (struct x86_decoded){ 0 };
		return false;
	}
	return x86_decode(code->at + offset, size - offset, out);
}

// A function begins there as V8's builtins do: behind what fills up to it. Fewer int3 may be traps.
static bool is_behind_filling(const struct code_follower *f, uint64_t addr)
{
	enum { FILLED_TO = 32, FILLING = 0xcc, FILLING_LEAST = 5 };
	static const uint8_t enter[] = { 0x55, 0x48, 0x89, 0xe5 };
	uint64_t offset = addr - f->source->addr, before = 0;
	const uint8_t *at = f->source->code.at + offset;

	if (addr % FILLED_TO != 0 || offset < FILLING_LEAST || offset + sizeof(enter) > bytes_left(&f->source->code))
		return false;
	while (before < FILLING_LEAST && at[-1 - (int64_t)before] == FILLING)
		before++;
	return before == FILLING_LEAST || (before > 0 && memcmp(at, enter, sizeof(enter)) == 0);
}

static bool begins(const struct code_follower *f, uint64_t addr)
{
	return f->source->begins != NULL && f->source->begins(f->source->context, addr);
}

// Behind a call that does not return the next function stands, with or without something that fills up to it.
static bool is_another_function(const struct code_follower *f, uint64_t addr)
{
	enum { ALIGNMENT = 16, NOPS_MOST = 4 };
	struct x86_decoded insn;

	for (unsigned i = 0; decode(f, addr, &insn) && insn.kind == X86_NOP && i < NOPS_MOST; i++)
		addr += insn.size;
	if (insn.kind == X86_LANDMARK || begins(f, addr))
		return true;
	return addr % ALIGNMENT == 0 && (insn.kind == X86_PUSH || (insn.kind == X86_ADD && insn.rm == X86_RSP && insn.value < 0));
}

// Notes that a way has come to an instruction. false: another one has been there with the same sp and frame pointer, and goes on from there. Where sp differs a
// loop moves it: from then on it is not known.
static bool visit(struct code_follower *f, struct state *s)
{
	uint32_t offset = (uint32_t)(s->pc - f->source->addr), i = offset * 0x9e3779b1u >> (32 - VISITS_BITS);

	while (f->visits[i].query == f->query && f->visits[i].offset != offset)
		i = (i + 1) % (1 << VISITS_BITS);
	struct visit *visit = &f->visits[i];
	if (visit->query != f->query) {
		*visit = (struct visit){ offset, f->query, s->regs[X86_RSP], s->regs[X86_RBP], 1 };
		return true;
	}
	bool is_sp = is_same(visit->sp, s->regs[X86_RSP]), is_fp = is_same(visit->fp, s->regs[X86_RBP]);
	if ((is_sp && is_fp) || visit->count++ == VISITS_MOST)
		return false;
	if (!is_sp) {
		f->is_sp_moved = true;
		put_sp(f, s, unknown, true);
	}
	visit->sp = s->regs[X86_RSP];
	visit->fp = s->regs[X86_RBP];
	return true;
}

static void copy_state(struct state *to, const struct state *from)
{
	memcpy(to, from, offsetof(struct state, slots) + from->slot_count * sizeof(from->slots[0]));
}

static void wait_for(struct code_follower *f, const struct state *s, uint64_t pc)
{
	if (f->waiting_count == STATES || (f->has_end && s->level > f->end_level))
		return;
	copy_state(&f->waiting[f->waiting_count], s);
	f->waiting[f->waiting_count++].pc = pc;
}

// A jump to an address. true: the way goes on there; false: it ends.
static bool jump(struct code_follower *f, const struct state *s, uint64_t target)
{
	uint64_t offset = target - f->source->addr;

	if (offset >= bytes_left(&f->source->code)) {
		if (f->source->is_elsewhere != NULL && f->source->is_elsewhere(f->source->context, target))
			end(f, s, 0);
		return false;
	}
	if (begins(f, target) || is_behind_filling(f, target)) {
		end(f, s, 0);
		return false;
	}
	return true;
}

// Through memory, or a register that was loaded: to another function. A switch has an index, or calculates.
static void jump_through(struct code_follower *f, const struct state *s, const struct x86_decoded *insn)
{
	bool is_switch = insn->rm == X86_NOTHING ? insn->index != X86_NOTHING : (s->computed >> insn->rm & 1) != 0;

	// What was popped may be the return address itself: so Java's interpreter returns.
	if (!is_switch && (insn->rm == X86_NOTHING || s->regs[insn->rm].symbol == UNKNOWN))
		end(f, s, 0);
}

// One instruction of the way at hand. false: the way is over.
static bool step(struct code_follower *f, struct state *s)
{
	struct x86_decoded insn;
	bool was_behind_call = s->is_behind_call;

	s->is_behind_call = false;
	if (f->instructions == 0)
		return false;
	f->instructions--;
	if (!visit(f, s) || (was_behind_call && is_another_function(f, s->pc)) || !decode(f, s->pc, &insn))
		return false;
	const uint64_t next = s->pc + insn.size, target = next + (uint64_t)insn.value;
	switch (insn.kind) {
	case X86_RET:
		end(f, s, insn.value);
		return false;
	case X86_TRAP:
		return false;
	case X86_JUMP:
		s->pc = target;
		return jump(f, s, target);
	case X86_JUMP_AT:
		jump_through(f, s, &insn);
		return false;
	case X86_BRANCH:
		if (jump(f, s, target))
			wait_for(f, s, target);
		break;
	case X86_CALL:
	case X86_CALL_AT:
		s->pc = next;
		if (insn.kind == X86_CALL && insn.value == 0)
			return push(f, s, unknown); // how code finds out where it is
		call(s, insn.kind == X86_CALL, target);
		wait_for(f, s, next);
		return false;
	default:
		if (!apply(f, s, &insn))
			return false;
	}
	s->pc = next;
	return true;
}

// Takes the way that has the fewest calls behind it, of several the last. false: none is left that matters. When the end seems far, in a large function, the last
// way of all is taken, which goes straight on: the first return that is met by the frame pointer's pair tells.
static bool take_way(struct code_follower *f)
{
	size_t best = f->waiting_count;

	for (size_t i = f->waiting_count; i-- > 0;)
		if (best == f->waiting_count || f->waiting[i].level < f->waiting[best].level)
			best = i;
	if (f->instructions < f->deep && f->waiting_count > 0)
		best = f->waiting_count - 1;
	if (best == f->waiting_count || (f->has_end && f->waiting[best].level > f->end_level))
		return false;
	copy_state(&f->run, &f->waiting[best]);
	if (best != --f->waiting_count)
		copy_state(&f->waiting[best], &f->waiting[f->waiting_count]);
	return true;
}

static void begin(struct code_follower *f, uint64_t pc, enum code_when when, bool is_callee)
{
	struct state *s = &f->run;

	f->waiting_count = f->load_count = f->fresh_count = 0;
	f->has_end = f->is_contradicted = f->is_sp_moved = false;
	f->query++;
	f->instructions = is_callee ? CALLEE_MOST : INSTRUCTIONS_MOST;
	f->deep = is_callee ? 0 : DEEP;
	*s = (struct state){ .pc = pc };
	for (unsigned reg = 0; reg < X86_REGISTERS; reg++)
		s->regs[reg] = (struct value){ reg & UNKNOWN, 0 };
	s->computed = UINT16_MAX;
	if (when != CODE_AT) {
		struct x86_decoded insn;
		bool is_direct = decode(f, pc - 5, &insn) && insn.kind == X86_CALL && insn.size == 5;
		call(s, is_direct, is_direct ? pc + (uint64_t)insn.value : 0);
		s->level = 0;
		s->debt_count = when == CODE_BEHIND ? 0 : s->debt_count;
	}
	wait_for(f, s, pc);
}

static bool pops_nothing(struct code_follower *f, uint64_t target, unsigned depth);

static struct code_rule unsure(const struct code_follower *f, const struct code_rule *rule)
{
	return (struct code_rule){ .is_unsure = !f->source->is_generated, .ra = rule->ra, .fp = rule->fp, .sp = rule->sp };
}

static struct code_rule follow(struct code_follower *f, uint64_t pc, enum code_when when, unsigned depth)
{
	begin(f, pc, when, depth > 0);
	while (!f->is_contradicted && !(f->has_end && is_framed(&f->rule)) && take_way(f))
		while (step(f, &f->run))
			;
	struct code_rule rule = f->rule;
	bool is_by_sp = rule.ra.reg == X86_RSP || rule.fp.reg == X86_RSP;
	uint64_t debts[DEBTS];
	uint8_t debt_count = f->debt_count;
	if (!f->has_end || f->is_contradicted || (f->is_sp_moved && is_by_sp))
		return (struct code_rule){ 0 };
	if (f->source->is_generated && rule.leaves_sp)
		return rule;
	if (debt_count > DEBTS)
		return unsure(f, &rule);
	memcpy(debts, f->debts, sizeof(debts));
	for (size_t i = 0; i < debt_count; i++)
		if (!pops_nothing(f, debts[i], depth))
			return unsure(f, &rule);
	return rule;
}

// Whether the function at an address returns with sp where it was when it was called.
static bool pops_nothing(struct code_follower *f, uint64_t target, unsigned depth)
{
	struct bytes code = f->source->code;
	uint64_t offset = target - f->source->addr;

	if (begins(f, target))
		return true;
	if (offset >= bytes_left(&code) || depth == CALLEES_DEEP || f->callees == 0)
		return false;
	f->callees--;
	code.at += offset;
	return x86_is_stub(code.at, bytes_left(&code)) || follow(f, target, CODE_AT, depth + 1).is_plain;
}

void x86_follow(struct code_follower *follower, const struct code_source *source, uint64_t pc, enum code_when when, struct code_rule *out)
{
	follower->source = source;
	follower->callees = CALLEES_MOST;
	*out = follow(follower, pc, when, 0);
}

struct code_follower *code_follower_new(void)
{
	return NEW(struct code_follower);
}

void code_follower_free(struct code_follower *follower)
{
	free(follower);
}
