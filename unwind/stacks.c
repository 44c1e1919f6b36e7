// Whole stacks. Nearly all frames are of one kind: a function that was returned into, whose rule is known by its address (near.h) and counts from sp or
// fp. Those are stepped over here, and most stacks consist of nothing else; what is special in any way, or wrong, is walk_step's, for which a stack gets a
// lane. What dominates the time is missing the data cache, most of all on the stack copy: one stack is read ahead of, and of several a frame each is
// taken in turn (unwind_stacks).
#include <stddef.h>
#include <string.h>

#include "unwind/walk.h"

enum { PREFETCH_BYTES = 2048, FIRST_BYTES = 512, LINE_BYTES = 64 };
// The kernel puts registers and their extended state between the interrupted stack pointer and the handler's: 11 KiB with AMX.
enum { SIGNAL_FRAME_BYTES = 1 << 14 };

// ---------------------------------------------------------------- stacks of more frames than there is room for

// The frames behind the leaf's half are a ring once the buffer is full: the oldest gives way.
struct window {
	size_t limit, leaf; // frames in all, and of the leaf's part, for good
	bool is_full;
};

static void start_over(struct walk *walk, struct window *window)
{
	// What slow steps know of the next frame's registers moves with it.
	walk->registers_frame = walk->registers_frame == window->limit ? window->leaf : SIZE_MAX;
	walk->out->count = window->leaf;
	walk->has_gap = window->is_full = true;
}

static void reverse(struct frame *frames, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct frame other = frames[i];
		frames[i] = frames[count - 1 - i];
		frames[count - 1 - i] = other;
	}
}

// Puts the ring in order, its newest frame last.
static void unroll(struct unwind_stack *out, const struct window *window)
{
	struct frame *ring = out->frames + window->leaf;
	size_t size = window->limit - window->leaf, newest = out->count - window->leaf;

	reverse(ring, newest);
	reverse(ring + newest, size - newest);
	reverse(ring, size);
	out->count = window->limit;
	out->gap = window->leaf;
	if (out->end != UNWIND_DEFERRED) // then the whole stack comes again
		out->end = UNWIND_DEPTH_LIMIT;
}

// ---------------------------------------------------------------- one stack

// One stack being unwound.
struct lane {
	struct walk walk;
	struct cursor at;
	struct window window;
	size_t frames; // that the window has let go of
	enum unwind_end end;
};

// false: there is nothing to walk.
static bool lane_begin(struct lane *lane, struct unwinder *unwinder, size_t number, const struct unwind_input *input, struct unwind_stack *out)
{
	if (!walk_begin(&lane->walk, unwinder, number, input, out, &lane->at))
		return false;
	size_t most = out->capacity < UNWIND_MAX_FRAMES ? out->capacity : UNWIND_MAX_FRAMES;
	lane->window = (struct window){ .limit = most > 2 ? most - 1 : most, .leaf = (most + 1) / 2 };
	lane->frames = 0;
	lane->end = out->end = UNWIND_DEPTH_LIMIT;
	return lane->window.limit > 0;
}

// The frame at the cursor into the result. false: the stack ends with it, or before it.
static inline bool lane_put(struct lane *lane)
{
	struct unwind_stack *out = lane->walk.out;
	struct window *window = &lane->window;

	if (__builtin_expect(out->count == window->limit, 0)) {
		lane->end = UNWIND_DEPTH_LIMIT;
		if (window->limit == window->leaf)
			return false;
		lane->frames += out->count - (window->is_full ? window->leaf : 0);
		start_over(&lane->walk, window);
	}
	out->frames[out->count++] = (struct frame){ .addr = lane->at.pc, .kind = lane->at.kind, .via = lane->at.via };
	lane->end = UNWIND_NO_REGISTERS;
	return lane->walk.input->stack_size > 0;
}

// false: the stack ends with the last frame that was put.
static bool lane_step(struct lane *lane)
{
	struct frame *last = &lane->walk.out->frames[lane->walk.out->count - 1];

	const uint64_t sp = lane->at.sp;

	if (!walk_step(&lane->walk, &lane->at, &lane->end)) {
		// The interrupted stack is not deeper than the copy: none of it was copied.
		if (lane->at.is_elsewhere && (lane->end == UNWIND_TRUNCATED || lane->end == UNWIND_BAD_READ))
			lane->end = UNWIND_OTHER_STACK;
		return false;
	}
	if (lane->at.kind == FRAME_INTERRUPTED) {
		const uint64_t above = lane->at.sp - lane->walk.view.start, size = lane->walk.view.size;
		lane->at.is_elsewhere = !walk_enter(&lane->walk, lane->at.sp) && above >= size && lane->at.sp - sp > SIGNAL_FRAME_BYTES;
	}
	// The kernel put the trampoline's address there: nothing called it, and the byte before it is another function's.
	if (lane->at.kind == FRAME_INTERRUPTED && last->kind == FRAME_RETURN)
		last->kind = FRAME_INTERRUPTED;
	return true;
}

static void lane_end(struct lane *lane)
{
	struct unwind_stack *out = lane->walk.out;

	out->end = lane->walk.is_probed && unwind_end_is_root(lane->end) ? UNWIND_UPROBE_TRAMPOLINE : lane->end;
	out->last_cfa = out->switches == 0 ? lane->at.sp : 0;
	lane->walk.unwinder->counters.frames += lane->frames + out->count - (lane->window.is_full ? lane->window.leaf : 0);
	if (lane->window.is_full)
		unroll(out, &lane->window);
}

// Can fast steps go on from here?
static inline bool is_fast(const struct walk *walk, const struct cursor *at)
{
	return walk->is_fast && at->sp_is_exact && (at->sp & 7) == 0 && at->sp - walk->view.start <= walk->view.size;
}

// ---------------------------------------------------------------- fast steps

// A stack as fast steps see it. Where something is on the stack is said by where the copy has it in our own memory: the thread's address plus `moved`;
// registers that hold no such address are moved likewise.
struct pace {
	uint64_t lookup;    // where the rule of the frame at hand is looked up
	uint64_t sp, fp;    // of that frame, moved
	uint64_t end;       // of the copy
	uint64_t moved;
	uint64_t last_addr; // that a return address can be, less 1
	uint64_t places;    // near_space
	struct frame *next, *limit;
};

static inline void put_frame(struct frame *frame, uint64_t addr, enum frame_kind kind, enum frame_via via)
{
	const uint64_t what = (uint64_t)kind | (uint64_t)via << 8; // with the padding, so that it is one store

	_Static_assert(sizeof(*frame) == 16 && offsetof(struct frame, kind) == 8 && offsetof(struct frame, via) == 9, "address, kind, via");
	frame->addr = addr;
	memcpy((uint8_t *)frame + 8, &what, 8);
}

// Begins a stack without a lane; the leaf is put. false: it needs one.
static inline bool pace_open(struct pace *pace, struct unwinder *unwinder, const struct unwind_input *input, struct unwind_stack *out)
{
	const struct register_places *places = walk_places(unwinder, input);

	if (places == NULL || !places->is_fast || input->stack_size < 8 || out->capacity < 3)
		return false;
	uint64_t pc = input->regs[places->pc], sp = input->regs[places->sp], size = input->stack_size;
	if ((sp & 7) != 0)
		return false;
	// As in walk_begin.
	if (input->stack_top > sp && input->stack_top - sp < size)
		size = input->stack_top - sp;
	pace->sp = (uintptr_t)input->stack;
	pace->end = pace->sp + size;
	pace->last_addr = places->arch->addr_end - 1;
	pace->moved = pace->sp - sp;
	pace->fp = input->regs[places->fp] + pace->moved;
	pace->lookup = pc;
	pace->places = near_space_of(&unwinder->near, input->generation)->places;
	pace->limit = out->frames + (out->capacity < UNWIND_MAX_FRAMES ? out->capacity : UNWIND_MAX_FRAMES) - 1;
	pace->next = out->frames + 1;
	put_frame(out->frames, pc, FRAME_LEAF, VIA_NONE);
	return true;
}

// Ends it: the frame at hand is the root.
static inline void pace_close(const struct pace *pace, struct unwinder *unwinder, struct unwind_stack *out)
{
	out->count = (size_t)(pace->next - out->frames);
	out->gap = 0;
	out->switches = 0;
	out->end = UNWIND_ROOT;
	out->last_cfa = pace->sp - pace->moved;
	unwinder->counters.samples++;
	unwinder->counters.frames += out->count;
	unwinder->counters.cache_hits += out->count;
}

// Goes on where the lane is.
static void pace_begin(struct pace *pace, const struct lane *lane)
{
	const struct stack_view *view = &lane->walk.view;
	struct frame *frames = lane->walk.out->frames;

	pace->moved = (uintptr_t)view->bytes - view->start;
	pace->end = (uintptr_t)view->bytes + view->size;
	pace->last_addr = view->addr_end - 1;
	pace->sp = lane->at.sp + pace->moved;
	pace->fp = lane->at.fp + pace->moved;
	pace->lookup = lane->at.pc - (lane->at.kind == FRAME_RETURN);
	pace->places = near_space_of(&lane->walk.unwinder->near, lane->walk.input->generation)->places;
	pace->next = frames + lane->walk.out->count;
	pace->limit = frames + lane->window.limit;
}

// Goes on in the lane, which has put the frame that the pace began with. `rule`: of the frame at hand, from which no fast step leads on. true: none
// does at all, it is the root.
static bool pace_end(const struct pace *pace, struct lane *lane, uint64_t rule)
{
	struct unwind_stack *out = lane->walk.out;
	size_t count = (size_t)(pace->next - out->frames);
	bool is_root = rule == NEAR_ROOT;

	lane->walk.unwinder->counters.cache_hits += count - out->count + is_root;
	if (is_root)
		lane->end = UNWIND_ROOT;
	if (count == out->count)
		return is_root;
	out->count = count;
	lane->at.pc = lane->at.lr = pace->lookup + 1;
	lane->at.sp = pace->sp - pace->moved;
	lane->at.fp = pace->fp - pace->moved;
	lane->at.via = VIA_CFI;
	lane->at.kind = FRAME_RETURN;
	return is_root;
}

// Where a frame ends and keeps its caller's fp. The return address is right below the CFA.
struct words {
	uint64_t cfa, fp_at;
};

// The caller's fp, without a branch.
static inline uint64_t fp_of(uint64_t rule, uint64_t fp, uint64_t saved)
{
	return __builtin_expect_with_probability((rule & NEAR_FP_SAVED) != 0, 1, 0.5) ? saved : fp;
}

static inline uint64_t rotated_right(uint64_t value, unsigned by)
{
	return value >> by | value << (64 - by);
}

// false: they are not in the copy, or not between sp and the CFA, where a function has all that it saved and did not pop; so it is for NEAR_NONE and
// NEAR_ROOT. No branch depends on which register the CFA counts from or whether fp is saved: both are as good as random.
static inline bool words_of(uint64_t rule, uint64_t sp, uint64_t fp, uint64_t end, struct words *words)
{
	// A mask, as the compiler would make branches of a condition.
	uint64_t size = ((fp - sp) & -(rule & NEAR_FROM_FP)) + near_cfa_off(rule);

	words->cfa = sp + size;
	words->fp_at = words->cfa + near_fp_off(rule);
	// The rotation makes what is no multiple of 8 too large, as 0 is with 8 taken away.
	return __builtin_expect(rotated_right(size - 8, 3) < (end - sp) >> 3, 1) && __builtin_expect(size + near_fp_off(rule) < size, 1);
}

static inline uint64_t word_at(uint64_t place)
{
	uint64_t word;

	memcpy(&word, (const void *)(uintptr_t)place, 8);
	return word;
}

static inline void prefetch(uint64_t place)
{
	__builtin_prefetch((const void *)(uintptr_t)place);
}

// Three lines for each frame, whatever its size: a loop over all lines up to the distance costs more in mispredicted branches
// than it saves in missed lines. What lies past the copy's end is asked for in vain.
static inline void prefetch_ahead(uint64_t place)
{
	prefetch(place + PREFETCH_BYTES);
	prefetch(place + PREFETCH_BYTES + LINE_BYTES);
	prefetch(place + PREFETCH_BYTES + 2 * LINE_BYTES);
}

// Of a copy that is about to be walked.
static inline void prefetch_first(const uint8_t *bytes)
{
	for (size_t at = 0; at < FIRST_BYTES; at += LINE_BYTES)
		prefetch((uintptr_t)bytes + at);
}

// Returns the rule where no further step can be made from.
static uint64_t fast_steps(struct pace *pace, const struct near_set *sets)
{
	const uint64_t end = pace->end, moved = pace->moved, places = pace->places, last_addr = pace->last_addr;
	struct frame *next = pace->next, *const limit = pace->limit;
	uint64_t sp = pace->sp, fp = pace->fp, lookup = pace->lookup, rule = NEAR_NONE;
	struct words words;

	while (next < limit) {
		rule = near_find(sets, lookup, places);
		if (!words_of(rule, sp, fp, end, &words))
			break;
		uint64_t ra = word_at(words.cfa - 8), saved = word_at(words.fp_at);
		if (__builtin_expect(ra - 1 >= last_addr, 0)) // none, or no address at all
			break;
		fp = fp_of(rule, fp, saved + moved);
		sp = words.cfa;
		lookup = ra - 1;
		put_frame(next++, ra, FRAME_RETURN, VIA_CFI);
		prefetch_ahead(sp);
	}
	pace->next = next;
	pace->sp = sp;
	pace->fp = fp;
	pace->lookup = lookup;
	return next < limit ? rule : NEAR_NONE;
}

void unwind_stack(struct unwinder *unwinder, const struct unwind_input *input, struct unwind_stack *out)
{
	const struct near_set *sets = unwinder->near.sets;
	struct lane lane;
	struct pace pace;
	uint64_t rule = NEAR_NONE;

	walk_prepare(unwinder);
	prefetch_first(input->stack);
	bool is_paced = pace_open(&pace, unwinder, input, out);
	if (is_paced && (rule = fast_steps(&pace, sets)) == NEAR_ROOT) {
		pace_close(&pace, unwinder, out);
		return;
	}
	if (!lane_begin(&lane, unwinder, 0, input, out))
		return;
	while (lane_put(&lane)) {
		if (!is_paced && is_fast(&lane.walk, &lane.at)) {
			pace_begin(&pace, &lane);
			rule = fast_steps(&pace, sets);
			is_paced = true;
		}
		if (is_paced && pace_end(&pace, &lane, rule))
			break;
		is_paced = false;
		prefetch_ahead((uintptr_t)lane.walk.view.bytes + lane.at.sp - lane.walk.view.start);
		if (!lane_step(&lane))
			break;
	}
	lane_end(&lane);
}

// ---------------------------------------------------------------- many stacks, a frame of each in turn

struct turn {
	enum { READY, STUCK, IN_LANE } state; // the pace can go on; it can't, and is ahead of the lane; the lane knows how far the stack is
	struct pace pace;
	uint64_t rule;      // of the next step
	struct words words; // likewise: memory has been asked for them
	bool has_lane;      // `lane` is in use
	size_t number;
	struct lane *lane;
	const struct unwind_input *input;
	struct unwind_stack *out;
};

// What turn_slowly looks for first when its turn comes: the rule by image and offset, in the mapping that was left last as a rule.
static void ask_rule(const struct turn *turn, const struct unwinder *unwinder)
{
	__builtin_prefetch(cache_set_of(unwinder->cache, turn->pace.lookup + unwinder->active[turn->number].to_key));
}

// Finds the next step and asks memory for its words. false: what comes is not for here.
static inline bool turn_ask(struct turn *turn, const struct unwinder *unwinder)
{
	const struct pace *pace = &turn->pace;

	turn->rule = __builtin_expect(pace->next < pace->limit, 1) ? near_find(unwinder->near.sets, pace->lookup, pace->places) : NEAR_NONE;
	if (!words_of(turn->rule, pace->sp, pace->fp, pace->end, &turn->words)) {
		turn->state = STUCK;
		ask_rule(turn, unwinder);
		return false;
	}
	prefetch(turn->words.cfa - 8);
	prefetch(turn->words.fp_at);
	return true;
}

static inline bool turn_step(struct turn *turn, const struct unwinder *unwinder)
{
	struct pace *pace = &turn->pace;
	struct frame *next = pace->next;
	uint64_t ra = word_at(turn->words.cfa - 8), saved = word_at(turn->words.fp_at);

	if (__builtin_expect(ra - 1 >= pace->last_addr, 0)) { // none, or no address at all
		turn->state = STUCK;
		return false;
	}
	pace->fp = fp_of(turn->rule, pace->fp, saved + pace->moved);
	pace->sp = turn->words.cfa;
	pace->lookup = ra - 1;
	pace->next = next + 1;
	put_frame(next, ra, FRAME_RETURN, VIA_CFI);
	return turn_ask(turn, unwinder);
}

// Whatever fast steps leave over. false: the stack has ended.
static bool turn_slowly(struct turn *turn, struct unwinder *unwinder)
{
	struct lane *lane = turn->lane;

	if (!turn->has_lane) {
		if (turn->state == STUCK && turn->rule == NEAR_ROOT) {
			pace_close(&turn->pace, unwinder, turn->out);
			return false;
		}
		turn->has_lane = lane_begin(lane, unwinder, turn->number, turn->input, turn->out);
		if (!turn->has_lane || !lane_put(lane))
			return false;
	} else if (turn->state == IN_LANE) {
		if (!lane_put(lane))
			return false;
		if (is_fast(&lane->walk, &lane->at)) {
			pace_begin(&turn->pace, lane);
			turn->state = READY;
			turn_ask(turn, unwinder);
			return true;
		}
	}
	if (turn->state == STUCK && pace_end(&turn->pace, lane, turn->rule))
		return false;
	turn->state = IN_LANE;
	return lane_step(lane);
}

// Stacks that have not been taken up yet.
struct waiting {
	struct unwinder *unwinder;
	const struct unwind_input *inputs;
	struct unwind_stack *outs;
	size_t count, next;
};

// Takes up the next stack. false: there is none.
static inline bool take_next(struct waiting *waiting, struct turn *turn)
{
	size_t i = waiting->next;

	if (i == waiting->count)
		return false;
	waiting->next++;
	if (i + LANES < waiting->count)
		prefetch_first(waiting->inputs[i + LANES].stack);
	turn->input = &waiting->inputs[i];
	turn->out = &waiting->outs[i];
	turn->has_lane = false;
	turn->state = pace_open(&turn->pace, waiting->unwinder, turn->input, turn->out) ? READY : IN_LANE;
	if (turn->state == READY)
		turn_ask(turn, waiting->unwinder);
	return true;
}

void unwind_stacks(struct unwinder *unwinder, const struct unwind_input *inputs, struct unwind_stack *outs, size_t count)
{
	struct lane lanes[LANES];
	struct turn turns[LANES];
	struct waiting waiting = { .unwinder = unwinder, .inputs = inputs, .outs = outs, .count = count };
	struct turn *end = turns;

	walk_prepare(unwinder);
	for (size_t i = 0; i < LANES && i < count; i++)
		prefetch_first(inputs[i].stack);
	for (; end < turns + LANES; end++) {
		end->number = (size_t)(end - turns);
		end->lane = &lanes[end->number];
		if (!take_next(&waiting, end))
			break;
	}
	while (end > turns)
		for (struct turn *turn = turns; turn < end; turn++) {
			if ((turn->state == READY && turn_step(turn, unwinder)) || turn_slowly(turn, unwinder))
				continue;
			if (turn->has_lane)
				lane_end(turn->lane);
			if (!take_next(&waiting, turn))
				*turn-- = *--end;
		}
}
