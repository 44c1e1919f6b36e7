// Where there is no CFI: JIT code, hand-written assembly, PLTs of lld, programs stripped to the bone. Everything found here is a guess that
// was checked as far as it can be, and is marked.
#include "unwind/walk.h"

enum {
	ENTRY_BYTES = 64,        // no libc's _start is longer
	LEAF_WORDS = 3,          // a lazy PLT slot has pushed two words at most
	TRUNCATED_BYTES = 8 << 20, // how far above the copy a frame pointer is believed to point into the stack: the usual limit of one
	MAX_ARGUMENTS = 4096,
};

static bool is_code(struct walk *walk, uint64_t addr, const struct unwind_map **map)
{
	*map = walk_map(walk, addr);
	return (*map)->end > (*map)->start && ((*map)->image != NULL || (*map)->missing != UNWIND_NO_MAPPING);
}

enum call { CALL_NO, CALL_UNKNOWN, CALL_YES };

// Does a call end at `addr`? CALL_UNKNOWN where the code is not ours to read.
static enum call call_before(struct walk *walk, uint64_t addr)
{
	const struct unwind_map *map;
	struct bytes code;
	int64_t distance;

	addr &= walk->arch->ra_mask;
	if (addr < UNWIND_CALL_BYTES || addr >= walk->arch->addr_end || !is_code(walk, addr - 1, &map))
		return CALL_NO;
	if (map->image == NULL)
		return CALL_UNKNOWN;
	for (size_t size = UNWIND_CALL_BYTES; size >= 2; size--)
		if (image_at_vaddr(map->image->image, addr - size - map->bias, size, &code))
			return walk->arch->is_call(code.end, size, &distance) ? CALL_YES : CALL_NO;
	return CALL_UNKNOWN;
}

static void move(struct cursor *at, uint64_t pc, uint64_t sp, enum frame_via via)
{
	at->pc = at->lr = pc;
	at->sp = sp;
	at->kind = FRAME_RETURN;
	at->via = (uint8_t)via;
}

bool walk_frame_pointer(struct walk *walk, struct cursor *at)
{
	uint64_t word = walk->arch->word_bytes, fp = at->fp, saved, ra;

	if (fp < at->sp || !stack_word(&walk->view, fp, &saved) || !stack_word(&walk->view, fp + word, &ra))
		return false;
	ra &= walk->arch->ra_mask;
	if (call_before(walk, ra) == CALL_NO)
		return false;
	move(at, ra, fp + 2 * word, VIA_FP);
	at->fp = saved;
	at->sp_is_exact = walk->arch->fp_gives_sp;
	return true;
}

// The return address is still where the call put it: at sp, or in the link register.
static bool leaf_rule(struct walk *walk, struct cursor *at, bool certain_only)
{
	uint64_t word = walk->arch->word_bytes, ra;

	if (at->kind == FRAME_RETURN)
		return false;
	if (walk->arch->perf_lr != 0xff) {
		if (at->lr == 0 || at->lr == at->pc || call_before(walk, at->lr) < (certain_only ? CALL_YES : CALL_UNKNOWN))
			return false;
		move(at, at->lr, at->sp, VIA_LEAF_RULE);
		return true;
	}
	for (unsigned i = 0; i < LEAF_WORDS; i++) {
		if (!stack_word(&walk->view, at->sp + i * word, &ra))
			return false;
		enum call call = call_before(walk, ra);
		if (call == CALL_YES || (call == CALL_UNKNOWN && i == 0 && !certain_only)) {
			move(at, ra, at->sp + (i + 1) * word, VIA_LEAF_RULE);
			return true;
		}
	}
	return false;
}

// What the kernel puts at a new program's sp: argc, that many pointers into the stack, NULL (psABI, "Initial Stack"). Code that runs
// with this sp was called by nobody.
static bool is_initial_stack(const struct walk *walk, uint64_t sp)
{
	uint64_t word = walk->arch->word_bytes, argc, argument, terminator;

	if (!stack_word(&walk->view, sp, &argc) || argc == 0 || argc > MAX_ARGUMENTS ||
	    !stack_word(&walk->view, sp + word, &argument) || argument <= sp ||
	    !stack_word(&walk->view, sp + (argc + 1) * word, &terminator))
		return false;
	return terminator == 0;
}

// A frame that nobody called, as far as can be told without CFI: the code at the image's entry point (it has to be looked up in a
// range, for nothing tells where that function ends), the initial stack, or a caller whose frame pointer is zero, as the psABIs
// advise for the outermost frame.
static bool is_outermost(struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	if (map->image != NULL && map->image->image->entry != 0) {
		uint64_t from_entry = at->pc - map->bias - map->image->image->entry;
		if (from_entry < ENTRY_BYTES)
			return true;
	}
	return is_initial_stack(walk, at->sp) || (at->kind == FRAME_RETURN && at->fp == 0);
}

bool walk_without_cfi(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end)
{
	if (is_outermost(walk, map, at)) {
		*end = UNWIND_ROOT;
		return false;
	}
	// In an image that has CFI elsewhere, what has none is assembly that sets up no frame more often than not; generated code
	// usually keeps frame pointers, and its words at sp are no one's return address.
	if (map->image != NULL ? leaf_rule(walk, at, false) || walk_frame_pointer(walk, at)
	                       : walk_frame_pointer(walk, at) || leaf_rule(walk, at, false))
		return true;
	uint64_t above = at->fp - (walk->view.start + walk->view.size);
	*end = at->fp != 0 && above < TRUNCATED_BYTES && walk->view.top == 0 ? UNWIND_TRUNCATED : UNWIND_NO_CFI;
	return false;
}
