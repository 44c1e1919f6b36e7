// Whole stacks. Nearly all frames are of one kind: a function that was returned into, whose rule the cache has and counts from sp or fp. Those are
// stepped over here; what is special in any way, or wrong, is walk_step's. What dominates the time is missing the data cache, most of all on the
// stack copy: one stack is read ahead of, and of several a frame each is taken in turn (unwind_stacks).
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
			lane->end = UNWIND_UNSUPPORTED;
		return false;
	}
	if (lane->at.kind == FRAME_INTERRUPTED) {
		const struct stack_view *view = &lane->walk.view;
		lane->at.is_elsewhere = lane->at.sp - view->start >= view->size && lane->at.sp - sp > SIGNAL_FRAME_BYTES;
	}
	// The kernel put the trampoline's address there: nothing called it, and the byte before it is another function's.
	if (lane->at.kind == FRAME_INTERRUPTED && last->kind == FRAME_RETURN)
		last->kind = FRAME_INTERRUPTED;
	return true;
}

static void lane_end(struct lane *lane)
{
	struct unwind_stack *out = lane->walk.out;

	out->end = lane->end;
	out->last_cfa = lane->at.sp;
	lane->walk.unwinder->counters.frames += lane->frames + out->count - (lane->window.is_full ? lane->window.leaf : 0);
	if (lane->window.is_full)
		unroll(out, &lane->window);
}

static inline bool is_fast(const struct walk *walk, const struct cursor *at)
{
	return at->sp_is_exact && walk->arch->word_bytes == 8 && walk->arch->ra_mask == UINT64_MAX && walk->view.size >= 8 && (walk->view.start & 7) == 0 &&
	       at->sp - walk->view.start <= walk->view.size;
}

// Of a copy that is about to be walked.
static void prefetch_first(const uint8_t *bytes, size_t size, size_t most)
{
	for (size_t at = 0; at < most && at < size; at += LINE_BYTES)
		__builtin_prefetch(bytes + at);
}

// Three lines for each frame, whatever its size: a loop over all lines up to the distance costs more in mispredicted branches
// than it saves in missed lines. `at` counts from the copy's first byte; what lies past its end is asked for in vain.
static inline void prefetch_ahead(const uint8_t *bytes, uint64_t at)
{
	uintptr_t ahead = (uintptr_t)bytes + at + PREFETCH_BYTES;

	__builtin_prefetch((const void *)ahead);
	__builtin_prefetch((const void *)(ahead + LINE_BYTES));
	__builtin_prefetch((const void *)(ahead + 2 * LINE_BYTES));
}

// Where a frame ends and keeps its caller's fp, counted from the copy's first byte. The return address is right below the CFA.
struct words {
	uint64_t cfa, fp_at;
	bool fp_is_saved; // else what is at fp_at does not matter
};

// The rules of fast steps, read as one word (rule.h; the first field is the lowest on the hosts that we are built for): CFA = sp or fp + cfa_off, return address
// at CFA - 8.
#define FAST_RULE ((uint64_t)(uint16_t)-8 << 48 | RULE_SP | RULE_RA_SAVED)
#define FAST_RULE_MASK ((uint64_t)UINT16_MAX << 48 | (0xff & ~(RULE_FP_SAVED | 1)))
_Static_assert(RULE_FP == (RULE_SP | 1) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a rule as a word");

// false: the rule is of another kind, or its words are not in the copy. sp is in it, or at its end. No branch depends on which register the CFA counts from
// or whether fp is saved: both are as good as random. A slot of fp below `fp_floor` does not count.
static inline bool words_of(uint64_t rule, uint64_t sp, uint64_t fp, uint64_t size, uint64_t fp_floor, struct words *words)
{
	uint64_t base = (rule & 1) != 0 ? fp : sp, cfa = base + (uint64_t)(int64_t)((int32_t)rule >> 8);

	words->cfa = cfa;
	words->fp_at = cfa + (uint64_t)(int64_t)(int16_t)(rule >> 32);
	words->fp_is_saved = ((rule & RULE_FP_SAVED) != 0) & (words->fp_at >= fp_floor);
	return (rule & FAST_RULE_MASK) == FAST_RULE && __builtin_expect(cfa - sp - 1 < size - sp && words->fp_at <= size - 8 && ((cfa | words->fp_at) & 7) == 0, 1);
}

// The frame pointer of the caller, without a branch.
static inline uint64_t caller_fp(uint64_t fp, uint64_t saved, bool is_saved)
{
	return fp ^ ((fp ^ saved) & -(uint64_t)is_saved);
}

static inline void put_return(struct frame *frame, uint64_t ra)
{
	const uint64_t what = FRAME_RETURN | VIA_CFI << 8; // with the padding, so that it is one store

	_Static_assert(sizeof(*frame) == 16 && offsetof(struct frame, kind) == 8 && offsetof(struct frame, via) == 9, "address, kind, via");
	frame->addr = ra;
	memcpy((uint8_t *)frame + 8, &what, 8);
}

// A function that did not call may have popped fp already (walk.c, plain_step).
static inline uint64_t fp_floor_of(const struct cursor *at, uint64_t start)
{
	return at->kind == FRAME_RETURN ? 0 : at->sp - start;
}

static void fast_steps(struct walk *walk, struct cursor *at, size_t limit)
{
	struct unwinder *unwinder = walk->unwinder;
	struct cache_set *cache = unwinder->cache;
	const uint8_t *bytes = walk->view.bytes;
	const uint64_t size = walk->view.size, start = walk->view.start;
	struct frame *const first = walk->out->frames + walk->out->count, *const end = walk->out->frames + limit, *next = first;
	uint64_t sp = at->sp - start, fp = at->fp - start; // counted from the copy's first byte
	uint64_t fp_floor = fp_floor_of(at, start), lookup = at->pc - (at->kind == FRAME_RETURN);

	if (lookup - walk->active->map.start >= walk->active->size && !walk_turn_to(walk, lookup))
		return;
	uint64_t map_start = walk->active->map.start, map_size = walk->active->size, to_key = walk->active->to_key;

	while (next < end) {
		uint64_t key = lookup + to_key, ra, saved;
		const struct cache_entry *entry = cache_find(cache_set_of(cache, key), key);
		struct words words;
		if (entry == NULL || !words_of(rule_word(entry), sp, fp, size, fp_floor, &words))
			break;
		memcpy(&ra, bytes + words.cfa - 8, 8);
		memcpy(&saved, bytes + words.fp_at, 8);
		if (__builtin_expect(ra - 1 - map_start >= map_size, 0)) { // of another mapping, or no address at all
			if (ra - 1 >= walk->arch->addr_end - 1)
				break;
			bool is_known = walk_turn_to(walk, ra - 1);
			map_start = walk->active->map.start;
			map_size = walk->active->size;
			to_key = is_known ? walk->active->to_key : 1 - ra; // makes key 0, which finds nothing
		}
		lookup = ra - 1;
		fp_floor = 0;
		fp = caller_fp(fp, saved - start, words.fp_is_saved);
		sp = words.cfa;
		put_return(next++, ra);
		prefetch_ahead(bytes, sp);
	}
	if (next == first)
		return;
	unwinder->counters.cache_hits += (size_t)(next - first);
	walk->out->count += (size_t)(next - first);
	at->pc = at->lr = lookup + 1;
	at->sp = sp + start;
	at->fp = fp + start;
	at->via = VIA_CFI;
	at->kind = FRAME_RETURN;
}

void unwind_stack(struct unwinder *unwinder, const struct unwind_input *input, struct unwind_stack *out)
{
	struct lane lane;

	walk_prepare(unwinder);
	if (!lane_begin(&lane, unwinder, 0, input, out))
		return;
	prefetch_first(input->stack, input->stack_size, PREFETCH_BYTES);
	while (lane_put(&lane)) {
		if (is_fast(&lane.walk, &lane.at))
			fast_steps(&lane.walk, &lane.at, lane.window.limit);
		prefetch_ahead(lane.walk.view.bytes, lane.at.sp - lane.walk.view.start);
		if (!lane_step(&lane))
			break;
	}
	lane_end(&lane);
}

// ---------------------------------------------------------------- many stacks, a frame of each in turn

// What fast steps need of a lane. Addresses on the stack count from the copy's first byte.
struct fast {
	enum { LANE_ONLY, FAST, LEFT } state; // the lane knows all of it; this does; the lane does, and the frame at its cursor was put
	uint64_t pc, sp, fp, fp_floor;
	uint64_t key;       // of the rule at pc: memory has been asked for it
	struct words words; // of the next step: likewise
	const uint8_t *bytes;
	uint64_t size, start; // of the copy
	uint64_t addr_end;
	uint64_t map_start, map_size, to_key; // of the lane's active mapping
	struct frame *next, *limit;
	struct lane *lane;
};

static inline void fast_take_map(struct fast *fast)
{
	const struct known_map *map = fast->lane->walk.active;

	fast->map_start = map->map.start;
	fast->map_size = map->size;
	fast->to_key = map->to_key;
}

// Asks memory for the rule at an address. false: it has none, or not here.
static inline bool fast_find(struct fast *fast, struct cache_set *cache, uint64_t lookup)
{
	if (__builtin_expect(lookup - fast->map_start >= fast->map_size, 0)) {
		if (!walk_turn_to(&fast->lane->walk, lookup))
			return false;
		fast_take_map(fast);
	}
	fast->key = lookup + fast->to_key;
	__builtin_prefetch(cache_set_of(cache, fast->key));
	return true;
}

// Finds the next frame's words and asks memory for them. false: what comes is not for here.
static inline bool fast_ask(struct fast *fast, struct cache_set *cache)
{
	const struct cache_entry *entry = cache_find(cache_set_of(cache, fast->key), fast->key);

	if (entry == NULL || fast->next == fast->limit || !words_of(rule_word(entry), fast->sp, fast->fp, fast->size, fast->fp_floor, &fast->words))
		return false;
	__builtin_prefetch(fast->bytes + fast->words.cfa - 8);
	__builtin_prefetch(fast->bytes + fast->words.fp_at);
	return true;
}

static inline bool fast_step(struct fast *fast, struct cache_set *cache)
{
	uint64_t ra, saved;

	memcpy(&ra, fast->bytes + fast->words.cfa - 8, 8);
	memcpy(&saved, fast->bytes + fast->words.fp_at, 8);
	if (__builtin_expect(ra - 1 - fast->map_start >= fast->map_size, 0) && ra - 1 >= fast->addr_end - 1) // no address at all
		return false;
	fast->fp = caller_fp(fast->fp, saved - fast->start, fast->words.fp_is_saved);
	fast->fp_floor = 0;
	fast->pc = ra;
	fast->sp = fast->words.cfa;
	put_return(fast->next++, ra);
	return fast_find(fast, cache, ra - 1);
}

static bool fast_enter(struct fast *fast, struct lane *lane)
{
	const struct stack_view *view = &lane->walk.view;

	fast->pc = lane->at.pc;
	fast->sp = lane->at.sp - view->start;
	fast->fp = lane->at.fp - view->start;
	fast->next = lane->walk.out->frames + lane->walk.out->count;
	fast->fp_floor = fp_floor_of(&lane->at, view->start);
	fast_take_map(fast);
	if (!fast_find(fast, lane->walk.unwinder->cache, fast->pc - (lane->at.kind == FRAME_RETURN)))
		return false;
	fast->state = FAST;
	return true;
}

static void fast_leave(struct fast *fast)
{
	struct lane *lane = fast->lane;
	size_t count = (size_t)(fast->next - lane->walk.out->frames);

	fast->state = LEFT;
	if (count == lane->walk.out->count)
		return;
	lane->walk.unwinder->counters.cache_hits += count - lane->walk.out->count;
	lane->walk.out->count = count;
	lane->at.pc = lane->at.lr = fast->pc;
	lane->at.sp = fast->sp + fast->start;
	lane->at.fp = fast->fp + fast->start;
	lane->at.via = VIA_CFI;
	lane->at.kind = FRAME_RETURN;
}

// Whatever fast steps leave over. false: the stack has ended.
static bool lane_turn(struct fast *fast)
{
	struct lane *lane = fast->lane;

	if (fast->state == FAST)
		fast_leave(fast);
	if (fast->state == LANE_ONLY) {
		if (!lane_put(lane))
			return false;
		if (is_fast(&lane->walk, &lane->at) && fast_enter(fast, lane))
			return true;
	}
	fast->state = LANE_ONLY;
	return lane_step(lane);
}

// Stacks that have not been taken up yet.
struct waiting {
	struct unwinder *unwinder;
	const struct unwind_input *inputs;
	struct unwind_stack *outs;
	size_t count, next;
};

// Takes up the next stack that has anything to walk. false: there is none.
static bool take_next(struct waiting *waiting, struct fast *fast, size_t number)
{
	struct lane *lane = fast->lane;

	fast->state = LANE_ONLY;
	while (waiting->next < waiting->count) {
		size_t i = waiting->next++;
		if (i + LANES < waiting->count)
			prefetch_first(waiting->inputs[i + LANES].stack, waiting->inputs[i + LANES].stack_size, FIRST_BYTES);
		if (!lane_begin(lane, waiting->unwinder, number, &waiting->inputs[i], &waiting->outs[i]))
			continue;
		fast->bytes = lane->walk.view.bytes;
		fast->size = lane->walk.view.size;
		fast->start = lane->walk.view.start;
		fast->addr_end = lane->walk.arch->addr_end;
		fast->limit = lane->walk.out->frames + lane->window.limit;
		return true;
	}
	return false;
}

void unwind_stacks(struct unwinder *unwinder, const struct unwind_input *inputs, struct unwind_stack *outs, size_t count)
{
	struct lane lanes[LANES];
	struct fast fast[LANES];
	struct waiting waiting = { .unwinder = unwinder, .inputs = inputs, .outs = outs, .count = count };
	struct cache_set *const cache = unwinder->cache;
	size_t going = 0;

	walk_prepare(unwinder);
	for (size_t i = 0; i < LANES && i < count; i++)
		prefetch_first(inputs[i].stack, inputs[i].stack_size, FIRST_BYTES);
	for (; going < LANES; going++) {
		fast[going].lane = &lanes[going];
		if (!take_next(&waiting, &fast[going], going))
			break;
	}
	// Each turn has two halves, as a step waits twice: for its rule, and for its words.
	while (going > 0) {
		for (size_t i = 0; i < going; i++)
			if (fast[i].state == FAST && !fast_ask(&fast[i], cache))
				fast_leave(&fast[i]);
		for (size_t i = 0; i < going; i++) {
			if ((fast[i].state == FAST && fast_step(&fast[i], cache)) || lane_turn(&fast[i]))
				continue;
			lane_end(fast[i].lane);
			if (!take_next(&waiting, &fast[i], (size_t)(fast[i].lane - lanes)))
				fast[i] = fast[--going];
		}
	}
}
