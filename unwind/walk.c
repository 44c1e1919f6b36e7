// The walk: rules from the cache, one frame after the other. What dominates its time is missing the data cache on the stack
// copy, so lines are asked for 2 KiB ahead.
#include "unwind/walk.h"

#include <string.h>

enum { PREFETCH_BYTES = 2048, LINE_BYTES = 64, MAX_BACKWARD = 64 };

bool walk_sampled_register(const struct unwind_input *input, unsigned perf_register, uint64_t *out)
{
	if (perf_register >= 64 || (input->regs_mask >> perf_register & 1) == 0)
		return false;
	*out = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << perf_register) - 1))];
	return true;
}

static bool holds(const struct unwind_map *map, uint64_t addr)
{
	return addr >= map->start && addr < map->end;
}

// Numbers the image for this unwinder, if it had not. The number is the image's part of the cache's keys.
static void adopt(struct unwinder *unwinder, struct unwind_image *image)
{
	if (image->owner == unwinder && image->owner_born_ns == unwinder->born_ns)
		return;
	if (++unwinder->next_serial == 0) { // all numbers used: old entries might be taken for new ones
		memset(unwinder->cache, 0, CACHE_ENTRIES * sizeof(*unwinder->cache));
		unwinder->born_ns++;
		unwinder->next_serial = 1;
	}
	image->owner = unwinder;
	image->owner_born_ns = unwinder->born_ns;
	image->serial = unwinder->next_serial;
}

const struct unwind_map *walk_map(struct walk *walk, uint64_t addr)
{
	struct unwinder *unwinder = walk->unwinder;
	// Mappings are large: the hash takes 64 KiB as one. Two share a set; the front one was used last.
	struct unwind_map *set = unwinder->recent[((addr >> 16) * 0x9e3779b97f4a7c15u) >> (64 - RECENT_BITS)];

	if (holds(&set[0], addr))
		return &set[0];
	struct unwind_map front = set[0];
	if (holds(&set[1], addr)) {
		set[0] = set[1];
		set[1] = front;
		return &set[0];
	}
	struct unwind_map answer = walk->input->map(walk->input->map_context, addr);
	if (!holds(&answer, addr)) // an answer about nowhere, or somewhere else
		answer = (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	// What is missing now may be there for the next sample of the same generation: not remembered.
	if (answer.image == NULL && answer.missing != UNWIND_NO_CFI) {
		unwinder->missing = answer;
		return &unwinder->missing;
	}
	if (answer.image != NULL)
		adopt(unwinder, answer.image);
	set[1] = front;
	set[0] = answer;
	return &set[0];
}

static void start_generation(struct unwinder *unwinder, uint64_t generation)
{
	if (unwinder->has_generation && unwinder->generation == generation)
		return;
	unwinder->generation = generation;
	unwinder->has_generation = true;
	unwinder->last = (struct active_map){ 0 };
	memset(unwinder->recent, 0, sizeof(unwinder->recent));
}

// The signal trampoline at an address, where no CFI calls it one.
static bool is_trampoline(const struct walk *walk, const struct unwind_map *map, uint64_t vaddr)
{
	struct bytes code;

	for (size_t size = UNWIND_CODE_BYTES; size >= 7; size--)
		if (image_at_vaddr(map->image->image, vaddr, size, &code))
			return walk->arch->is_sigreturn(code.at, size);
	return false;
}

static struct unwind_rule signal_rule(const struct unwind_arch *arch)
{
	return (struct unwind_rule){
		.kind = RULE_SP_DEREF | RULE_SIGNAL | RULE_FP_SAVED | RULE_FP_AT_BASE | RULE_RA_SAVED | RULE_RA_AT_BASE,
		.cfa_off = arch->sigframe.sp, .fp_off = (int16_t)arch->sigframe.fp, .ra_off = (int16_t)arch->sigframe.pc,
	};
}

// musl's signal trampoline has no CFI; the byte before it, where a return address is looked up, may even belong to another
// function. So where the return address is not inside the function whose CFI the byte before it has, the code there is looked at.
// Inside it is not: that would read a page of text, most often from the page cache, for every call. A sample in the trampoline is in its system
// call: behind the whole of it (7 to 9 bytes).
static struct unwind_rule rule_at(struct walk *walk, const struct unwind_map *map, uint64_t lookup, uint8_t kind)
{
	struct unwind_image *image = map->image;
	uint64_t vaddr = lookup - map->bias;

	if (image->arch != walk->arch)
		return (struct unwind_rule){ 0 };
	if (kind == FRAME_RETURN && image->stops.count > 0) {
		struct unwind_rule stop = rule_table_stop(image, vaddr);
		if (stop.kind != RULE_NONE)
			return stop;
	}
	uint64_t fde_end;
	struct unwind_rule rule = rule_table_find_to(image, vaddr, &walk->unwinder->counters, &fde_end);
	if (kind == FRAME_RETURN && (rule.kind & RULE_SIGNAL) == 0 && vaddr + 1 >= fde_end && is_trampoline(walk, map, vaddr + 1))
		return signal_rule(walk->arch);
	if (kind == FRAME_LEAF && (rule.kind == RULE_NONE || image->stops.count > 0) &&
	    (is_trampoline(walk, map, vaddr - 9) || is_trampoline(walk, map, vaddr - 8) || is_trampoline(walk, map, vaddr - 7)))
		return signal_rule(walk->arch);
	return rule;
}

static void activate(struct unwinder *unwinder, const struct unwind_map *map)
{
	struct active_map *active = &unwinder->last;
	uint64_t origin = map->bias + map->image->base, size = map->end - map->start;

	active->map = *map;
	active->to_key = ((uint64_t)map->image->serial << 32) - origin;
	active->to_slot = (uint64_t)map->image->serial * 0x9e37 - origin; // images do not all begin in the same slots
	if (map->start < origin || map->start - origin > UINT32_MAX)
		active->size = 0; // nothing a rule's 32-bit offset could reach
	else
		active->size = size < UINT32_MAX - (map->start - origin) ? size : UINT32_MAX - (map->start - origin);
}

static struct unwind_rule cached_rule(struct walk *walk, uint64_t lookup, uint8_t kind)
{
	struct unwinder *unwinder = walk->unwinder;
	const struct active_map *active = &unwinder->last;

	if (lookup - active->map.start >= active->size)
		return (struct unwind_rule){ 0 };
	uint64_t key = lookup + active->to_key;
	struct cache_entry *entry = &unwinder->cache[(lookup + active->to_slot) & (CACHE_ENTRIES - 1)];
	if (entry->key == key) {
		unwinder->counters.cache_hits++;
		return entry->rule;
	}
	unwinder->counters.cache_misses++;
	struct unwind_rule rule = rule_at(walk, &active->map, lookup, kind);
	*entry = (struct cache_entry){ .key = key, .rule = rule };
	return rule;
}

// Everything that is the same for all rules once the slots were read.
static inline bool arrive(const struct unwind_arch *arch, struct cursor *at, struct unwind_rule rule, uint64_t cfa, uint64_t ra,
                          enum unwind_end *end)
{
	bool is_signal = (rule.kind & RULE_SIGNAL) != 0;

	ra &= arch->ra_mask;
	if (__builtin_expect(ra == 0, 0)) {
		*end = UNWIND_ROOT;
		return false;
	}
	if (__builtin_expect(ra >= arch->addr_end, 0)) {
		*end = UNWIND_BAD_RA;
		return false;
	}
	if (__builtin_expect(cfa <= at->sp, 0)) {
		// The leaf may not have moved sp yet, nor may a function that a signal interrupted. A signal handler may run on a
		// stack of its own, above or below the interrupted one.
		if (!(at->kind != FRAME_RETURN && cfa == at->sp) && !(is_signal && at->backward++ < MAX_BACKWARD)) {
			*end = UNWIND_NO_PROGRESS;
			return false;
		}
	}
	at->pc = ra;
	at->lr = ra; // that is what the link register holds when the call returns
	at->sp = cfa;
	at->sp_is_exact = true;
	at->kind = is_signal ? FRAME_INTERRUPTED : FRAME_RETURN;
	at->via = is_signal ? VIA_SIGNAL : VIA_CFI;
	return true;
}

static bool miss(const struct walk *walk, uint64_t addr, enum unwind_end *end)
{
	*end = stack_miss(&walk->view, addr);
	return false;
}

// sp or fp plus a constant, slots relative to the CFA: nearly every frame there is.
static bool plain_step(struct walk *walk, struct cursor *at, struct unwind_rule rule, enum unwind_end *end)
{
	uint64_t cfa = ((rule.kind & RULE_BASE_MASK) == RULE_SP ? at->sp : at->fp) + (uint64_t)(int64_t)rule.cfa_off;
	uint64_t ra = at->lr, fp = at->fp;

	if ((rule.kind & RULE_RA_SAVED) != 0 && !stack_word(&walk->view, cfa + (uint64_t)(int64_t)rule.ra_off, &ra))
		return miss(walk, cfa + (uint64_t)(int64_t)rule.ra_off, end);
	if ((rule.kind & RULE_FP_SAVED) != 0) {
		uint64_t slot = cfa + (uint64_t)(int64_t)rule.fp_off;
		// gcc emits no restore for fp after `pop`: a slot below sp is one that was popped already, and fp is the caller's.
		if (!stack_word(&walk->view, slot, &fp) && slot >= at->sp)
			return miss(walk, slot, end);
		if (slot < at->sp && at->kind != FRAME_RETURN)
			fp = at->fp;
	}
	if (!arrive(walk->arch, at, rule, cfa, ra, end))
		return false;
	at->fp = fp;
	return true;
}

static bool uncommon_step(struct walk *walk, struct cursor *at, struct unwind_rule rule, uint64_t lookup, enum unwind_end *end)
{
	enum rule_base base_kind = rule.kind & RULE_BASE_MASK;
	uint64_t base = base_kind == RULE_FP || base_kind == RULE_FP_DEREF ? at->fp : at->sp, cfa = base + (uint64_t)(int64_t)rule.cfa_off;
	uint64_t ra = at->lr, fp = at->fp, slot, lr;

	if (base_kind == RULE_PLT) {
		cfa += (uint64_t)((lookup & 15) >= (uint64_t)rule.fp_off) << rule.ra_off;
		slot = cfa - walk->arch->word_bytes;
		if (!stack_word(&walk->view, slot, &ra))
			return miss(walk, slot, end);
		return arrive(walk->arch, at, rule, cfa, ra, end);
	}
	if ((base_kind == RULE_SP_DEREF || base_kind == RULE_FP_DEREF) && !stack_word(&walk->view, cfa, &cfa))
		return miss(walk, cfa, end);
	slot = ((rule.kind & RULE_RA_AT_BASE) != 0 ? base : cfa) + (uint64_t)(int64_t)rule.ra_off;
	if ((rule.kind & RULE_RA_SAVED) != 0 && !stack_word(&walk->view, slot, &ra))
		return miss(walk, slot, end);
	slot = ((rule.kind & RULE_FP_AT_BASE) != 0 ? base : cfa) + (uint64_t)(int64_t)rule.fp_off;
	if ((rule.kind & RULE_FP_SAVED) != 0 && slot >= at->sp && !stack_word(&walk->view, slot, &fp))
		return miss(walk, slot, end);
	uint64_t lr_slot = base + walk->arch->sigframe.lr;
	if (!arrive(walk->arch, at, rule, cfa, ra, end))
		return false;
	at->fp = fp;
	if ((rule.kind & RULE_SIGNAL) != 0 && walk->arch->sigframe.lr != 0 && stack_word(&walk->view, lr_slot, &lr))
		at->lr = lr & walk->arch->ra_mask;
	return true;
}

// Three lines for each frame, whatever its size: a loop over all lines up to the distance costs more in mispredicted branches
// than it saves in missed lines. `at` counts from the copy's first byte; what lies past its end is asked for in vain.
static inline void prefetch(const uint8_t *bytes, uint64_t at)
{
	uintptr_t ahead = (uintptr_t)bytes + at + PREFETCH_BYTES;

	__builtin_prefetch((const void *)ahead);
	__builtin_prefetch((const void *)(ahead + LINE_BYTES));
	__builtin_prefetch((const void *)(ahead + 2 * LINE_BYTES));
}

static void prefetch_first(const struct stack_view *view)
{
	for (uint64_t at = 0; at < PREFETCH_BYTES && at < view->size; at += LINE_BYTES)
		__builtin_prefetch(view->bytes + at);
}

// Frames that returned into a function with a plain rule, 8-byte words: nearly all. Writes frames as long as it finds such, and leaves
// whatever is special in any way, or wrong, to step(). No branch depends on which register the CFA counts from or
// whether fp is saved: both are as good as random.
static void fast_steps(struct walk *walk, struct cursor *at, size_t limit)
{
	struct unwinder *unwinder = walk->unwinder;
	const struct active_map *active = &unwinder->last;
	const struct cache_entry *cache = unwinder->cache;
	const uint8_t *bytes = walk->view.bytes;
	const uint64_t size = walk->view.size, start = walk->view.start, addr_end = walk->arch->addr_end;
	const uint64_t map_start = active->map.start + 1, map_size = active->size, to_key = active->to_key - 1, to_slot = active->to_slot - 1;
	struct frame *const frames = walk->out->frames;
	uint64_t pc = at->pc, sp = at->sp - start, fp = at->fp - start; // counted from the copy's first byte
	size_t count = walk->out->count, first = count;

	while (count < limit) {
		const struct cache_entry *entry = &cache[(pc + to_slot) & (CACHE_ENTRIES - 1)];
		if (pc - map_start >= map_size || entry->key != pc + to_key)
			break;
		struct unwind_rule rule = entry->rule;
		if ((rule.kind & ~(uint32_t)(RULE_FP_SAVED | 1)) != (RULE_SP | RULE_RA_SAVED))
			break;
		uint64_t base = (rule.kind & 1) != 0 ? fp : sp, cfa_off = (uint64_t)(int64_t)rule.cfa_off, ra, saved;
		uint64_t ra_at = base + (cfa_off + (uint64_t)(int64_t)rule.ra_off), fp_at = base + (cfa_off + (uint64_t)(int64_t)rule.fp_off);
		bool is_saved = (rule.kind & RULE_FP_SAVED) != 0;
		fp_at = is_saved ? fp_at : ra_at;
		uint64_t cfa = base + cfa_off;
		// An sp-based frame grows by its offset; an fp-based one could stand anywhere, even below the copy.
		if (__builtin_expect(ra_at > size - 8 || fp_at > size - 8 || ((ra_at | fp_at) & 7) != 0 || cfa <= sp || cfa - sp > size, 0))
			break;
		memcpy(&ra, bytes + ra_at, 8);
		memcpy(&saved, bytes + fp_at, 8);
		if (__builtin_expect(ra - 1 >= addr_end - 1, 0))
			break;
		fp = is_saved ? saved - start : fp;
		pc = ra;
		sp = cfa;
		frames[count++] = (struct frame){ .addr = ra, .kind = FRAME_RETURN, .via = VIA_CFI };
		prefetch(bytes, sp);
	}
	if (count == first)
		return;
	unwinder->counters.cache_hits += count - first;
	walk->out->count = count;
	at->pc = at->lr = pc;
	at->sp = sp + start;
	at->fp = fp + start;
	at->via = VIA_CFI;
}

static inline bool is_fast(const struct walk *walk, const struct cursor *at)
{
	return at->kind == FRAME_RETURN && at->sp_is_exact && walk->arch->word_bytes == 8 && walk->arch->ra_mask == UINT64_MAX &&
	       walk->view.size >= 8 && (walk->view.start & 7) == 0;
}

// Moves the cursor to the caller. false: the stack ends here, see `*end`.
static inline bool step(struct walk *walk, struct cursor *at, enum unwind_end *end)
{
	uint64_t lookup = at->pc - (at->kind == FRAME_RETURN);
	struct unwinder *unwinder = walk->unwinder;

	const struct unwind_map *map = &unwinder->last.map;
	if (__builtin_expect(!holds(map, lookup), 0)) {
		map = walk_map(walk, lookup);
		if (map->image != NULL)
			activate(unwinder, map);
	}
	if (map->image == NULL) {
		struct unwind_map code = *map; // asking about other addresses may take its place
		*end = code.end > code.start ? code.missing : UNWIND_NO_MAPPING;
		return *end == UNWIND_NO_CFI && walk_without_cfi(walk, &code, at, end);
	}
	struct unwind_rule rule = cached_rule(walk, lookup, at->kind);
	enum rule_base base = rule.kind & RULE_BASE_MASK;
	if (__builtin_expect(!at->sp_is_exact, 0) && base != RULE_ROOT && base != RULE_FP && base != RULE_NONE) {
		*end = UNWIND_NO_CFI; // the rule counts from a stack pointer that is not known
		return walk_frame_pointer(walk, at);
	}
	if (__builtin_expect((base == RULE_SP || base == RULE_FP) && (rule.kind & (RULE_FP_AT_BASE | RULE_RA_AT_BASE)) == 0, 1))
		return plain_step(walk, at, rule, end);
	switch (base) {
	case RULE_ROOT:
		*end = (rule.kind & RULE_ELSEWHERE) != 0 ? UNWIND_UNSUPPORTED : UNWIND_ROOT;
		return false;
	case RULE_NONE:
		*end = UNWIND_NO_CFI;
		return walk_without_cfi(walk, map, at, end);
	case RULE_SLOW:
		return walk_slow_step(walk, map, at, end);
	default:
		return uncommon_step(walk, at, rule, lookup, end);
	}
}

static bool begin(struct walk *walk, struct cursor *at)
{
	const struct unwind_input *input = walk->input;

	for (size_t i = 0; unwind_archs[i] != NULL; i++)
		if (unwind_archs[i]->machine == input->machine)
			walk->arch = unwind_archs[i];
	if (walk->arch == NULL) {
		walk->out->end = UNWIND_UNSUPPORTED;
		return false;
	}
	*at = (struct cursor){ .kind = FRAME_LEAF, .via = VIA_NONE, .sp_is_exact = true };
	if (!walk_sampled_register(input, walk->arch->perf_pc, &at->pc) || !walk_sampled_register(input, walk->arch->perf_sp, &at->sp)) {
		walk->out->end = UNWIND_NO_REGISTERS;
		return false;
	}
	walk_sampled_register(input, walk->arch->perf_fp, &at->fp);
	if (walk->arch->perf_lr != 0xff && walk_sampled_register(input, walk->arch->perf_lr, &at->lr))
		at->lr &= walk->arch->ra_mask;
	walk->view = (struct stack_view){
		.bytes = input->stack, .start = at->sp, .size = input->stack_size, .top = input->stack_top,
		.addr_end = walk->arch->addr_end, .word_bytes = walk->arch->word_bytes, .read = input->read, .read_context = input->read_context,
	};
	// The kernel copies what is mapped above a thread's stack too; it is not the thread's.
	if (input->stack_top > at->sp && input->stack_top - at->sp < walk->view.size)
		walk->view.size = input->stack_top - at->sp;
	return true;
}

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

void unwind_stack(struct unwinder *unwinder, const struct unwind_input *input, struct unwind_stack *out)
{
	struct walk walk = { .unwinder = unwinder, .input = input, .out = out, .registers_frame = SIZE_MAX };
	struct cursor at;

	out->count = out->gap = 0;
	out->last_cfa = 0;
	unwinder->counters.samples++;
	if (!begin(&walk, &at))
		return;
	prefetch_first(&walk.view);
	start_generation(unwinder, input->generation);
	size_t most = out->capacity < UNWIND_MAX_FRAMES ? out->capacity : UNWIND_MAX_FRAMES, frames = 0;
	struct window window = { .limit = most > 2 ? most - 1 : most, .leaf = (most + 1) / 2 };
	enum unwind_end end = UNWIND_DEPTH_LIMIT;
	while (window.limit > 0) {
		if (__builtin_expect(out->count == window.limit, 0)) {
			if (window.limit == window.leaf) {
				end = UNWIND_DEPTH_LIMIT;
				break;
			}
			frames += out->count - (window.is_full ? window.leaf : 0);
			start_over(&walk, &window);
		}
		prefetch(walk.view.bytes, at.sp - walk.view.start);
		out->frames[out->count++] = (struct frame){ .addr = at.pc, .kind = at.kind, .via = at.via };
		if (input->stack_size == 0) {
			end = UNWIND_NO_REGISTERS;
			break;
		}
		if (is_fast(&walk, &at))
			fast_steps(&walk, &at, window.limit);
		if (!step(&walk, &at, &end))
			break;
		// The kernel put the trampoline's address there: nothing called it, and the byte before it is another function's.
		if (at.kind == FRAME_INTERRUPTED && out->frames[out->count - 1].kind == FRAME_RETURN)
			out->frames[out->count - 1].kind = FRAME_INTERRUPTED;
	}
	out->end = end;
	out->last_cfa = at.sp;
	unwinder->counters.frames += frames + out->count - (window.is_full ? window.leaf : 0);
	if (window.is_full)
		unroll(out, &window);
}
