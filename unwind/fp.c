// Where there is no CFI: JIT code, hand-written assembly, PLTs of lld, programs stripped to the bone. Everything found here is a guess that
// was checked as far as it can be, and is marked.
#include "unwind/walk.h"

enum {
	ENTRY_BYTES = 64,        // no libc's _start is longer
	ENTRY_WORDS = 8,         // that it may have pushed
	LEAF_WORDS = 3,          // a lazy PLT slot has pushed two words at most
	FRAME_BYTES = 1 << 15,    // how far behind its beginning a function is seen to have a frame
	FUNCTION_BYTES = 1 << 16, // how far into a function a pc may be
	TRUNCATED_BYTES = 8 << 20, // how far above the copy a frame pointer is believed to point into the stack: the usual limit of one
	MAX_ARGUMENTS = 4096,
	FRAMES_ALIKE = 8,
	STACK_ALIGNMENT = 16,
	STRING_BYTES_MOST = 32 * 4096, // MAX_ARG_STRLEN of linux/binfmts.h
	AUXV_TYPES = 64,               // the largest is 51 (AT_MINSIGSTKSZ)
};

static bool is_code(struct walk *walk, uint64_t addr, const struct unwind_map **map)
{
	*map = walk_map(walk, addr);
	return map_is_code(*map);
}

// What the code before a supposed return address says about it, from the worst to the best.
enum trust {
	NO_CALL,   // no call ends there, or no code is there at all
	ELSEWHERE, // a direct call to another function: right only if that one jumped on to ours
	UNCALLED,  // generated code, and no call ends there: compilers and interpreters that are one's own also push addresses to return to (HotSpot's interpreter)
	UNKNOWN,   // code that is not ours to read
	POSSIBLE,  // an indirect call, or one through a stub or to code that jumps on; any call of generated code, whose calls are changed as it runs
	HERE,      // a direct call to right below our pc
};

// The code at or before an address. false: none in the file.
static bool code_at(const struct unwind_map *map, uint64_t addr, size_t least, size_t most, bool before, struct bytes *out)
{
	for (size_t size = most; size >= least; size--)
		if (image_at_vaddr(map->image->image, addr - (before ? size : 0) - map->bias, size, out))
			return true;
	return false;
}

// The bytes before an address in generated code, as far as somebody has them.
static bool generated_before(const struct walk *walk, uint64_t addr, struct bytes *out)
{
	struct unwind_code code = walk->input->code != NULL ? walk->input->code(walk->input->code_context, addr - 1) : (struct unwind_code){ 0 };

	if (code.id == 0 || addr - code.start < UNWIND_CALL_BYTES)
		return false;
	*out = bytes_of(code.bytes + (addr - code.start) - UNWIND_CALL_BYTES, UNWIND_CALL_BYTES);
	return true;
}

// A return address in code that is in no image.
static enum trust trust_generated(const struct walk *walk, uint64_t ra)
{
	struct bytes code;
	int64_t distance;

	if (!generated_before(walk, ra, &code))
		return UNKNOWN;
	return walk->arch->is_call(code.end, bytes_left(&code), &distance) ? POSSIBLE : UNCALLED;
}

// Text that is not in the file, as whoever keeps binaries for their unwind information alone leaves it.
static bool is_blank(const struct bytes *code)
{
	for (const uint8_t *at = code->at; at < code->end; at++)
		if (*at != 0)
			return false;
	return true;
}

// `*distance`: of HERE, how far below pc the function begins that was called.
static enum trust trust_how_far(struct walk *walk, uint64_t ra, uint64_t pc, uint64_t *distance_here)
{
	const struct unwind_map *map;
	struct bytes code;
	int64_t distance;

	if (walk->arch->is_call == NULL)
		return NO_CALL;
	ra = walk_code_address(walk, ra);
	if (ra < UNWIND_CALL_BYTES || ra >= walk->arch->addr_end || !is_code(walk, ra - 1, &map))
		return NO_CALL;
	if (map->image == NULL)
		return trust_generated(walk, ra);
	if (!code_at(map, ra, 2, UNWIND_CALL_BYTES, true, &code))
		return UNKNOWN;
	// Nothing calls runtime.goexit: a new goroutine finds its address on its stack, and returns there.
	if (map->image->stops.count > 0 && rule_table_stop(map->image, ra - 1 - map->bias).kind == RULE_ROOT)
		return POSSIBLE;
	if (is_blank(&code))
		return UNKNOWN;
	if (!walk->arch->is_call(code.end, bytes_left(&code), &distance)) // a handler's return address is the kernel's work
		return is_code(walk, ra, &map) && walk_is_trampoline(walk, map, ra) ? POSSIBLE : NO_CALL;
	uint64_t target = ra + (uint64_t)distance;
	if (distance == 0)
		return POSSIBLE;
	*distance_here = pc - target;
	if (pc - target < FUNCTION_BYTES)
		return HERE;
	if (!is_code(walk, target, &map) || map->image == NULL || !code_at(map, target, 6, UNWIND_CODE_BYTES, false, &code))
		return ELSEWHERE;
	if (walk->arch->is_stub(code.at, bytes_left(&code)))
		return POSSIBLE;
	if (walk->arch->jumps_on != NULL && code_at(map, target, UNWIND_JUMP_BYTES, UNWIND_JUMP_BYTES, false, &code) &&
	    walk->arch->jumps_on(code.at, UNWIND_JUMP_BYTES))
		return POSSIBLE;
	return ELSEWHERE;
}

static enum trust trust_in(struct walk *walk, uint64_t ra, uint64_t pc)
{
	uint64_t distance;

	return trust_how_far(walk, ra, pc, &distance);
}

struct candidate {
	uint64_t ra, sp, fp;
	enum frame_via via;
	enum trust trust;
	bool is_at_sp; // right where the call put it, or below the frame pointer that was pushed since: in code that has no frame (yet, or any more)
};

static void take(struct walk *walk, struct cursor *at, const struct candidate *from)
{
	at->pc = at->lr = from->ra;
	at->sp = from->sp;
	at->fp = from->fp;
	at->kind = FRAME_RETURN;
	at->via = (uint8_t)from->via;
	if (from->via == VIA_FP)
		at->sp_is_exact = walk->arch->fp_gives_sp;
}

// By the pair that the frame pointer points at.
static struct candidate by_frame_pointer(struct walk *walk, const struct cursor *at)
{
	struct candidate out = { .via = VIA_FP };
	uint64_t word = walk->arch->word_bytes;

	if (at->fp < at->sp || !stack_word(&walk->view, at->fp, &out.fp) || !stack_word(&walk->view, at->fp + word, &out.ra))
		return out;
	out.ra &= walk->arch->ra_mask;
	out.sp = at->fp + 2 * word;
	out.trust = trust_in(walk, out.ra, at->pc);
	return out;
}

// The return address is still where the call put it: at sp (or below a few words pushed since), or in the link register.
static struct candidate by_leaf_rule(struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	struct candidate best = { .via = VIA_LEAF_RULE };
	uint64_t word = walk->arch->word_bytes, ra;

	// What was called before its caller had a frame: V8's prologues out of line, i386's thunks that tell the pc.
	bool is_return = at->kind == FRAME_RETURN;
	if (is_return && walk->arch->perf_lr != 0xff)
		return best;
	if (is_return && at->via != VIA_LEAF_RULE) { // of another one, which has no frame, a call to itself in the same mapping tells
		bool is_here = map->image != NULL && at->sp_is_exact && stack_word(&walk->view, at->sp, &ra) && map_holds(map, ra) && trust_in(walk, ra, at->pc) == HERE;
		return is_here ? (struct candidate){ ra, at->sp + word, at->fp, VIA_LEAF_RULE, HERE, false } : best;
	}
	if (walk->arch->perf_lr != 0xff) {
		best = (struct candidate){ .ra = at->lr, .sp = at->sp, .fp = at->fp, .via = VIA_LEAF_RULE };
		if (at->lr != 0 && at->lr != at->pc)
			best.trust = trust_in(walk, at->lr, at->pc);
		return best;
	}
	bool is_at_sp = true;
	for (unsigned i = 0; i < LEAF_WORDS && !(best.is_at_sp && best.trust != NO_CALL) && stack_word(&walk->view, at->sp + i * word, &ra); i++) {
		enum trust trust = is_return && ra == at->pc ? NO_CALL : trust_in(walk, ra, at->pc); // not the same once more
		if (trust > best.trust && (is_at_sp || (trust >= POSSIBLE && !is_return)))
			best = (struct candidate){ ra, at->sp + (i + 1) * word, at->fp, VIA_LEAF_RULE, trust, is_at_sp };
		is_at_sp = i == 0 && ra == at->fp && at->fp > at->sp;
	}
	return best;
}

bool walk_call_target(struct walk *walk, uint64_t ra, uint64_t *target)
{
	const struct unwind_map *map;
	struct bytes code;
	int64_t distance;

	if (walk->arch->is_call == NULL || ra < UNWIND_CALL_BYTES || ra >= walk->arch->addr_end || !is_code(walk, ra - 1, &map) || map->image == NULL ||
	    !code_at(map, ra, 2, UNWIND_CALL_BYTES, true, &code) || !walk->arch->is_call(code.end, bytes_left(&code), &distance) || distance == 0)
		return false;
	*target = ra + (uint64_t)distance;
	return true;
}

bool walk_calls(struct walk *walk, uint64_t ra, uint64_t target)
{
	uint64_t called;

	return walk_call_target(walk, ra, &called) && called == target;
}

bool walk_is_called(struct walk *walk, uint64_t ra, uint64_t pc)
{
	return trust_in(walk, ra, pc) != NO_CALL;
}

bool walk_from_nowhere(struct walk *walk, struct cursor *at)
{
	struct candidate found = { .ra = at->lr, .sp = at->sp, .fp = at->fp, .via = VIA_LEAF_RULE };

	if (walk->arch->perf_lr == 0xff) {
		found.sp += walk->arch->word_bytes;
		if (!stack_word(&walk->view, at->sp, &found.ra))
			return false;
	}
	found.trust = found.ra != at->pc ? trust_in(walk, found.ra, at->pc) : NO_CALL;
	if (found.trust == NO_CALL || found.trust == ELSEWHERE)
		return false;
	take(walk, at, &found);
	return true;
}

bool walk_frame_pointer(struct walk *walk, struct cursor *at)
{
	struct candidate found = by_frame_pointer(walk, at);

	if (found.trust == NO_CALL)
		return false;
	take(walk, at, &found);
	return true;
}

// What the kernel puts at a new program's sp: argc, that many pointers to strings that stand one behind the other above, NULL, pointers to the
// environment's, whose strings follow, NULL, the auxiliary vector (psABI, "Initial Stack"; create_elf_tables in fs/binfmt_elf.c). Code that runs with this sp was
// called by nobody. Java's interpreter has a number, a pointer into the stack and a zero there: all that can be seen is looked at.
static bool is_initial_stack(const struct walk *walk, uint64_t sp)
{
	uint64_t word = walk->arch->word_bytes, argc, argument, before = sp, terminator;

	if (!stack_word(&walk->view, sp, &argc) || argc == 0 || argc > MAX_ARGUMENTS ||
	    !stack_word(&walk->view, sp + (argc + 1) * word, &terminator) || terminator != 0)
		return false;
	for (uint64_t i = 1; i <= argc; i++) {
		if (!stack_word(&walk->view, sp + i * word, &argument) || argument <= before || (i == 1 && argument < sp + (argc + 2) * word) ||
		    (i > 1 && argument - before > STRING_BYTES_MOST))
			return false;
		before = argument;
	}
	if (!stack_word(&walk->view, sp + (argc + 2) * word, &argument))
		return true;
	if (argument != 0)
		return argument > before && argument - before <= STRING_BYTES_MOST;
	return !stack_word(&walk->view, sp + (argc + 3) * word, &argument) || (argument > 0 && argument < AUXV_TYPES);
}

// An image whose instructions are those of the thread. A file mapped as code may be of another machine, or of one that we do not know.
static bool is_code_of(const struct walk *walk, const struct unwind_map *map)
{
	return map->image != NULL && map->image->arch == walk->arch;
}

// The image's entry point: it has to be looked up in a range, for nothing tells where that function ends.
static bool is_entry(const struct unwind_map *map, uint64_t pc)
{
	uint64_t entry = map->image->image->entry, from_entry = pc - map->bias - entry;
	struct bytes code;

	if (entry == 0 || from_entry >= ENTRY_BYTES)
		return false;
	return from_entry == 0 || (image_at_vaddr(map->image->image, entry, from_entry, &code) && !map->image->arch->has_end(code.at, from_entry));
}

// A caller whose frame pointer is zero, as the psABIs advise for the outermost frame. But where nothing keeps frame pointers the register may be zero
// for any other reason: it must have been read from a pair that it ends, or the code must be seen to leave, not to return.
static bool is_end_of_pairs(const struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	struct bytes code;

	if (at->kind != FRAME_RETURN || at->fp != 0)
		return false;
	if (at->via == VIA_FP)
		return true;
	return is_code_of(walk, map) && code_at(map, at->pc, 4, UNWIND_EXIT_BYTES, false, &code) && walk->arch->is_exit(code.at, bytes_left(&code));
}

// The initial stack at sp; or, for code at the entry point, above a few words that it may have pushed, and aligned sp. Where that code ends is not
// known: a small function right behind it, called from there, has a return address among these words, or in the link register.
static bool is_above_initial_stack(struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	bool may_push = is_code_of(walk, map) && is_entry(map, at->pc);
	uint64_t word;

	if (may_push && at->kind == FRAME_LEAF && walk->arch->perf_lr != 0xff && at->lr != at->pc && trust_in(walk, at->lr, at->pc) == HERE)
		return false;
	for (unsigned i = 0; i <= (may_push ? ENTRY_WORDS : 0); i++) {
		uint64_t sp = at->sp + i * walk->arch->word_bytes;
		if (is_initial_stack(walk, sp))
			return true;
		if (stack_word(&walk->view, sp, &word) && trust_in(walk, word, at->pc) >= POSSIBLE)
			return false;
	}
	return false;
}

// The return address is where a function begins, and no call ends before it: it was put there by hand, for the first function of a stack to return to
// (__start_context under makecontext(3)'s coroutines). What lies above it is no frame.
static bool is_first_return(const struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	struct bytes code;
	int64_t distance;

	return at->kind == FRAME_RETURN && at->sp_is_exact && walk->arch->is_call != NULL && is_code_of(walk, map) && rule_table_begins(map->image, at->pc - map->bias) &&
	       code_at(map, at->pc, 2, UNWIND_CALL_BYTES, true, &code) && !walk->arch->is_call(code.end, bytes_left(&code), &distance);
}

// clone has returned in the child: its FDE ends before the system call (glibc), as what it says is true of the parent alone.
static bool is_new_thread(const struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	struct bytes code;
	uint64_t result;

	return at->kind == FRAME_LEAF && walk->arch->begins_thread != NULL && walk_sampled_register(walk->input, walk->arch->perf_result, &result) && result == 0 &&
	       is_code_of(walk, map) && code_at(map, at->pc - UNWIND_THREAD_BEFORE, 2 * UNWIND_THREAD_BEFORE, UNWIND_THREAD_BYTES, false, &code) &&
	       walk->arch->begins_thread(code.at, bytes_left(&code));
}

bool walk_was_not_called(struct walk *walk)
{
	const size_t count = walk->out->count;
	struct cfi_row row;
	struct cfi_fde fde;
	const struct cfi_section *section;
	const struct frame *caller = count >= 2 ? &walk->out->frames[count - 2] : NULL;

	if (caller == NULL || walk->has_gap || caller->kind != FRAME_RETURN || walk->out->frames[count - 1].via != VIA_CFI)
		return false;
	const struct unwind_map *map = walk_map(walk, caller->addr - 1);
	if (!is_code_of(walk, map) || !rule_table_row(map->image, caller->addr - 1 - map->bias, &row, &fde, &section))
		return false;
	while (bytes_left(&fde.instructions) > 0)
		if (bytes_u8(&fde.instructions) != 0) // DW_CFA_nop
			return false;
	return true;
}

// A frame that nobody called, as far as can be told without CFI.
static bool is_outermost(struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	if (is_first_return(walk, map, at)) {
		walk->out->frames[walk->out->count - 1].kind = FRAME_INTERRUPTED; // nothing of it has run: its name is the one at the address
		return true;
	}
	return is_new_thread(walk, map, at) || is_above_initial_stack(walk, map, at) || is_end_of_pairs(walk, map, at);
}

// A frame's lowest word is hardly ever a return address: of 700 samples in frames of V8's code none was, of 400 in code without a frame nearly all
// were. So one at sp counts, unless the pair's return address was left by a call to this very function, or that at sp by a call to another one.
static bool prefers_leaf(const struct unwind_map *map, const struct candidate *leaf, const struct candidate *frame, bool has_link_register)
{
	if (leaf->sp == frame->sp) // the same slot, whose frame pointer comes with the pair only
		return false;
	if (leaf->is_at_sp && leaf->trust != NO_CALL)
		return frame->trust == HERE ? leaf->trust == HERE : !(leaf->trust <= UNCALLED && frame->trust == POSSIBLE);
	// Where a link register keeps it, equally good, the image decides: in one that has CFI elsewhere, what has none is assembly that sets up no frame
	// more often than not; generated code usually keeps frame pointers. The same address found by both ways comes with its frame pointer by one only.
	// A word further up the stack may as well be left from a call long past.
	if (leaf->trust != frame->trust)
		return leaf->trust > frame->trust;
	return map->image != NULL && leaf->ra != frame->ra && has_link_register;
}

// Whether the code is seen to have set up a frame: a word at sp may be what a call long past left in a slot that was not written yet.
static enum unwind_framed is_framed(const struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	struct bytes code;
	uint64_t link = at->pc - map->bias;

	if (walk->arch->in_frame == NULL || !is_code_of(walk, map))
		return FRAMED_UNSAID;
	size_t most = at->pc - map->start < FRAME_BYTES ? (size_t)(at->pc - map->start) : FRAME_BYTES;
	for (size_t size = most; size >= 16; size /= 2)
		if (image_at_vaddr(map->image->image, link - size, size, &code))
			return walk->arch->in_frame(code.end, size, link);
	return FRAMED_UNSAID;
}

// Compilers that align the stack (Java's) have all their frames at multiples of 16; V8 has them anywhere. Where so many pairs in a row stand alike, a function that
// was called with that return address would set up its own frame alike. A slot not written yet, in the frame that it has, is as often as not elsewhere.
static bool is_unlike_frames(const struct walk *walk, const struct cursor *at, const struct candidate *leaf)
{
	uint64_t fp = at->fp, next;

	for (unsigned i = 0; i < FRAMES_ALIKE; i++, fp = next)
		if ((fp ^ at->fp) % STACK_ALIGNMENT != 0 || !stack_word(&walk->view, fp, &next) || next <= fp)
			return false;
	// The frame pointer below it may have been pushed just now, or by what was called last: the latter, as one instruction is seldom met.
	bool is_pushed = leaf->sp != at->sp + walk->arch->word_bytes;
	return is_pushed || (leaf->sp ^ at->fp) % STACK_ALIGNMENT != 0; // its pair would end there
}

// Whether it leads into code that is in no image, by no direct call to the one at hand.
static bool is_generated(struct walk *walk, const struct candidate *from)
{
	const struct unwind_map *map;

	return from->trust >= UNCALLED && from->trust <= POSSIBLE && is_code(walk, from->ra - 1, &map) && map->image == NULL;
}

// A return address in an image's entry function, found by a guess: the stack of what returns there is the new program's. If that is not above, a call long past has
// left the address, which is all too good: by its CFI it ends the stack as complete.
static bool is_left_by_entry(struct walk *walk, const struct candidate *from)
{
	const struct cursor caller = { .pc = from->ra, .lr = from->ra, .sp = from->sp, .fp = from->fp, .kind = FRAME_RETURN };
	const struct unwind_map *map;
	uint64_t word;

	if ((from->via == VIA_FP && !walk->arch->fp_gives_sp) || !is_code(walk, from->ra - 1, &map) || !is_code_of(walk, map) || !is_entry(map, from->ra))
		return false;
	if (rule_table_find(map->image, from->ra - 1 - map->bias, &walk->unwinder->counters).kind != RULE_ROOT)
		return false; // another function, close behind it; or nothing says that it is the root
	// Of a stack that is not there as far as that nothing can be told.
	return stack_word(&walk->view, from->sp + (uint64_t)ENTRY_WORDS * walk->arch->word_bytes, &word) && !is_above_initial_stack(walk, map, &caller);
}

// Of two calls to functions that begin below pc, one is to another function, if not both are to the same: that which begins further below.
static void tell_apart(struct walk *walk, const struct cursor *at, struct candidate *a, struct candidate *b)
{
	uint64_t how_far[2] = { 0 };

	if (trust_how_far(walk, a->ra, at->pc, &how_far[0]) != HERE || trust_how_far(walk, b->ra, at->pc, &how_far[1]) != HERE || how_far[0] == how_far[1])
		return;
	(how_far[0] > how_far[1] ? a : b)->trust = ELSEWHERE;
}

// By the instructions that follow, if a call may have led here from where they say.
static bool take_by_code(struct walk *walk, const struct unwind_map *map, struct cursor *at)
{
	struct cursor caller;

	if (!walk_by_code(walk, map, at, &caller))
		return false;
	struct candidate found = { .ra = caller.pc, .sp = caller.sp, .fp = caller.fp, .via = VIA_CODE };
	if (trust_in(walk, found.ra, at->pc) == NO_CALL || is_left_by_entry(walk, &found))
		return false;
	take(walk, at, &found);
	at->sp_is_exact = caller.sp_is_exact;
	at->is_above_bare = caller.is_above_bare;
	at->is_sp_left = caller.is_sp_left;
	return true;
}

// Likewise, if what was called pops nothing, as C's functions do: then what the rule says is a return address stands behind a call that may have led here.
static bool take_by_unsure_code(struct walk *walk, const struct unwind_map *map, struct cursor *at)
{
	struct cursor caller;

	if (!walk_by_unsure_code(walk, map, at, &caller))
		return false;
	struct candidate found = { .ra = caller.pc, .sp = caller.sp, .fp = caller.fp, .via = VIA_CODE };
	if (trust_in(walk, found.ra, at->pc) < POSSIBLE || is_left_by_entry(walk, &found))
		return false;
	take(walk, at, &found);
	at->sp_is_exact = caller.sp_is_exact;
	at->is_above_bare = caller.is_above_bare;
	return true;
}

// Of a function that never returns, or whose ways to its end are too long: by what it has done since it began. Where that was is guessed, and told by the word that is its return
// address then: that stands behind a call which may have led here.
static bool take_by_beginning(struct walk *walk, const struct unwind_map *map, struct cursor *at)
{
	struct cursor caller;
	bool is_told;

	for (size_t way = 0; walk_by_beginning(walk, map, at, way, &caller, &is_told); way++) {
		struct candidate found = { .ra = caller.pc, .sp = caller.sp, .fp = caller.fp, .via = VIA_CODE };
		if (!is_told || trust_in(walk, found.ra, at->pc) < POSSIBLE || is_left_by_entry(walk, &found))
			continue;
		take(walk, at, &found);
		at->is_above_bare = true;
		return true;
	}
	return false;
}

bool walk_without_cfi(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end)
{
	bool is_return = at->kind == FRAME_RETURN; // of a function that goes on: instructions tell at less cost than signs of a root
	if (is_return && take_by_code(walk, map, at))
		return true;
	if (is_outermost(walk, map, at)) {
		*end = UNWIND_ROOT_GUESSED;
		return false;
	}
	if (!is_return && take_by_code(walk, map, at))
		return true;
	struct candidate leaf = by_leaf_rule(walk, map, at), frame = by_frame_pointer(walk, at);
	if (leaf.trust != NO_CALL && is_left_by_entry(walk, &leaf))
		leaf.trust = NO_CALL;
	if (frame.trust != NO_CALL && is_left_by_entry(walk, &frame))
		frame.trust = NO_CALL;
	if (leaf.trust == HERE && frame.trust == HERE)
		tell_apart(walk, at, &leaf, &frame);
	// Code whose callee was found by its frame pointer keeps them: V8's, whose functions pop what they like.
	bool is_by_pairs = at->via == VIA_FP && frame.trust >= POSSIBLE, asks = leaf.trust != NO_CALL || (frame.trust != NO_CALL && !is_by_pairs);
	enum unwind_framed framed = asks ? is_framed(walk, map, at) : FRAMED_UNSAID;
	if (!is_by_pairs && (take_by_unsure_code(walk, map, at) || (framed != FRAMED && take_by_beginning(walk, map, at))))
		return true;
	const struct candidate *chosen = prefers_leaf(map, &leaf, &frame, walk->arch->perf_lr != 0xff) ? &leaf : &frame;
	if (framed == FRAMED && frame.trust != NO_CALL)
		chosen = &frame;
	if (framed == FRAMED_NOT && leaf.is_at_sp && leaf.trust != NO_CALL)
		chosen = &leaf;
	if (chosen == &leaf && is_generated(walk, &leaf) && is_generated(walk, &frame) && is_unlike_frames(walk, at, &leaf))
		chosen = &frame;
	if (chosen->trust != NO_CALL) {
		take(walk, at, chosen);
		return true;
	}
	if (map->image != NULL && map->image->image->has_exidx) {
		*end = UNWIND_UNSUPPORTED; // unwind information there is, of a kind that is not read
		return false;
	}
	// Where the copy is short, what lies far above it is as likely another mapping: a library stands close above a thread's stack.
	uint64_t above = at->fp - (walk->view.start + walk->view.size), missing = walk->view.asked - walk->view.size;
	bool goes_on = at->fp != 0 && above < (missing > 0 ? missing : TRUNCATED_BYTES) && walk->view.top == 0;
	*end = goes_on ? stack_miss(&walk->view, at->fp) : UNWIND_NO_CFI;
	return false;
}
