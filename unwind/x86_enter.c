// Code without CFI whose ways from pc on never return: what the instructions from the function's beginning to pc have done to the stack (code_rule.h).
#include "unwind/code_rule.h"

#include <string.h>

#include "unwind/x86_decode.h"

enum {
	WORD = 8, ALIGNMENT = 16,
	INSTRUCTIONS_MOST = 900, // from one beginning
	INSTRUCTIONS_ALL = 6000, // 25 ns each
	BEGINNINGS_MOST = 24,
	FUNCTION_BYTES = 1 << 14,
	WAYS = 16,
	DEPTH_MOST = 1 << 20,
};

struct way {
	uint64_t pc;
	int64_t sp;       // relative to where it was at the beginning, where the return address is
	int64_t saved;    // where the caller's frame pointer is; valid where `is_saved`
	int64_t frame;    // what the frame pointer is; valid where `is_frame`
	bool is_saved, is_frame, is_same; // is_same: it is the caller's still
};

static bool decode(const struct code_source *source, uint64_t addr, struct x86_decoded *out)
{
	uint64_t offset = addr - source->addr, size = bytes_left(&source->code);

	return offset < size && x86_decode(source->code.at + offset, size - offset, out);
}

static void lose_fp(struct way *way)
{
	way->is_same = way->is_frame = false;
}

// What an instruction that is no branch does to sp and the frame pointer. false: sp is not known behind it.
static bool apply(struct way *way, const struct x86_decoded *insn)
{
	switch (insn->kind) {
	case X86_PUSH:
		way->sp -= WORD;
		if (insn->reg == X86_RBP && way->is_same && !way->is_saved) {
			way->is_saved = true;
			way->saved = way->sp;
		}
		return true;
	case X86_POP:
		if (insn->reg == X86_RSP)
			return false;
		if (insn->reg == X86_RBP) {
			lose_fp(way);
			way->is_same = way->is_saved && way->saved == way->sp;
		}
		way->sp += WORD;
		return true;
	case X86_LEAVE:
		if (!way->is_frame)
			return false;
		way->sp = way->frame + WORD;
		lose_fp(way);
		way->is_same = way->is_saved && way->saved == way->sp - WORD;
		return true;
	case X86_ADD:
		if (insn->rm != X86_RSP && insn->rm != X86_RBP)
			return true;
		if (insn->rm == X86_RSP)
			way->sp += insn->value;
		else if (way->is_frame)
			way->frame += insn->value;
		else
			lose_fp(way);
		return true;
	case X86_LEA:
		if (insn->reg == X86_RSP || insn->reg == X86_RBP) {
			bool by_sp = insn->base == X86_RSP && insn->index == X86_NOTHING, by_frame = insn->base == X86_RBP && insn->index == X86_NOTHING && way->is_frame;
			int64_t value = (by_sp ? way->sp : way->frame) + insn->displacement;
			if (insn->reg == X86_RSP) {
				way->sp = value;
				return by_sp || by_frame;
			}
			lose_fp(way);
			way->frame = value;
			way->is_frame = by_sp || by_frame;
		}
		return true;
	case X86_STORE:
		if (insn->rm == X86_RSP || insn->rm == X86_RBP) {
			const struct x86_decoded as_load = { .kind = X86_LOAD, .reg = insn->rm, .rm = insn->reg };
			return apply(way, &as_load);
		}
		if (insn->rm == X86_NOTHING && insn->reg == X86_RBP && insn->base == X86_RSP && insn->index == X86_NOTHING && way->is_same && !way->is_saved) {
			way->is_saved = true;
			way->saved = way->sp + insn->displacement;
		}
		return true;
	case X86_LOAD:
		if (insn->reg == X86_RSP) {
			way->sp = way->frame;
			return insn->rm == X86_RBP && way->is_frame;
		}
		if (insn->reg == X86_RBP) {
			bool is_back = insn->rm == X86_NOTHING && insn->base == X86_RSP && insn->index == X86_NOTHING && way->is_saved && way->saved == way->sp + insn->displacement;
			lose_fp(way);
			way->is_same = is_back;
			way->is_frame = insn->rm == X86_RSP;
			way->frame = way->sp;
		}
		return true;
	default:
		if ((insn->writes >> X86_RBP & 1) != 0)
			lose_fp(way);
		return (insn->writes >> X86_RSP & 1) == 0;
	}
}

struct seen { uint32_t offset; uint16_t run; };
enum { SEEN_BITS = 11 };
_Static_assert(INSTRUCTIONS_MOST * 2 < 1 << SEEN_BITS, "there is always an empty place");

// true: no way was there yet.
static bool visit(struct seen *seen, uint32_t offset)
{
	uint32_t i = offset * 0x9e3779b1u >> (32 - SEEN_BITS);

	while (seen[i].run != 0 && seen[i].offset != offset)
		i = (i + 1) % (1 << SEEN_BITS);
	bool is_new = seen[i].run == 0;
	seen[i] = (struct seen){ offset, 1 };
	return is_new;
}

// From one beginning. false: pc is not met, or it can't be told.
static bool enter(const struct code_source *source, uint64_t start, uint64_t pc, unsigned *all_left, struct code_entered *out)
{
	struct seen seen[1 << SEEN_BITS];
	struct way ways[WAYS] = { { .pc = start, .is_same = true } };
	unsigned count = 1, left = *all_left < INSTRUCTIONS_MOST ? *all_left : INSTRUCTIONS_MOST;
	struct x86_decoded insn;

	memset(seen, 0, sizeof(seen));
	while (count > 0) {
		struct way way = ways[--count];
		while (left > 0 && visit(seen, (uint32_t)(way.pc - start))) {
			left--;
			--*all_left;
			if (way.pc == pc) {
				// The first way that comes there tells: compilers have one depth for each place.
				*out = (struct code_entered){ .depth = -way.sp, .is_saved = way.is_saved && !way.is_same, .saved = way.saved - way.sp, .is_same = way.is_same };
				return way.sp <= 0 && -way.sp <= DEPTH_MOST && (way.is_same || way.is_saved);
			}
			if (!decode(source, way.pc, &insn) || insn.kind == X86_RET || insn.kind == X86_TRAP || insn.kind == X86_JUMP_AT)
				break;
			uint64_t next = way.pc + insn.size, target = next + (uint64_t)insn.value;
			if (insn.kind == X86_BRANCH && count < WAYS) {
				ways[count] = way;
				ways[count++].pc = target;
			} else if (insn.kind == X86_JUMP) {
				next = target;
			} else if (insn.kind == X86_CALL && insn.value == 0) {
				way.sp -= WORD; // how code finds out where it is
			} else if (insn.kind != X86_CALL && insn.kind != X86_CALL_AT && insn.kind != X86_BRANCH && !apply(&way, &insn)) {
				break;
			}
			way.pc = next;
		}
	}
	return false;
}

// Behind a return, aligned or not; aligned, also behind a jump, a call that may never come back, or what fills up to the next function. Bytes are not decoded.
static bool may_begin(const struct code_source *source, uint64_t addr)
{
	enum { RET = 0xc3, HLT = 0xf4, NOP = 0x90, INT3 = 0xcc, LONG_NOP_END = 0x00, CALL = 0xe8, JUMP = 0xe9 };
	static const uint8_t landmark[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	uint64_t offset = addr - source->addr;
	const uint8_t *at = source->code.at + offset;

	if (offset == 0 || at[-1] == RET || (offset + sizeof(landmark) <= bytes_left(&source->code) && memcmp(at, landmark, sizeof(landmark)) == 0))
		return true;
	if (addr % ALIGNMENT != 0 || offset < 5)
		return false;
	return at[-1] == HLT || at[-1] == NOP || at[-1] == INT3 || at[-1] == LONG_NOP_END || at[-5] == CALL || at[-5] == JUMP;
}

static uint64_t begin_before(const struct code_source *source, uint64_t pc)
{
	for (uint64_t addr = pc - 1; addr >= source->addr && addr < pc && pc - addr <= FUNCTION_BYTES; addr--)
		if (may_begin(source, addr) || (source->begins != NULL && addr % ALIGNMENT == 0 && source->begins(source->context, addr)))
			return addr;
	return 0;
}

size_t x86_enter(const struct code_source *source, uint64_t pc, struct code_entered *out, size_t most)
{
	unsigned left = INSTRUCTIONS_ALL;
	uint64_t start = pc;
	size_t count = 0;

	for (unsigned i = 0; i < BEGINNINGS_MOST && count < most && left > 0; i++) {
		start = begin_before(source, start);
		if (start == 0 || pc - start > FUNCTION_BYTES)
			break;
		struct code_entered *made = &out[count];
		bool is_new = enter(source, start, pc, &left, made);
		for (size_t k = 0; is_new && k < count; k++)
			is_new = out[k].depth != made->depth || out[k].is_saved != made->is_saved || out[k].saved != made->saved || out[k].is_same != made->is_same;
		count += is_new;
	}
	return count;
}
