// One step of the walk, whatever it takes: the mapping, the rule (from the cache or compiled), the caller's registers. stacks.c makes most steps
// itself, by a short cut through the same tables.
#include "unwind/walk.h"

#include <string.h>

enum { MAX_BACKWARD = 64, PAGE_LEAST = 4096 };
// Of 31 bits, those that are left are more than some stacks can need.
static const uint32_t LAST_SERIAL = 1u << 30;

bool walk_sampled_register(const struct unwind_input *input, unsigned perf_register, uint64_t *out)
{
	if (perf_register >= 64 || (input->regs_mask >> perf_register & 1) == 0)
		return false;
	*out = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << perf_register) - 1))];
	return true;
}

void walk_prepare(struct unwinder *unwinder)
{
	near_prepare(&unwinder->near, unwinder->counters.frames);
	if (__builtin_expect(unwinder->next_serial < LAST_SERIAL, 1))
		return;
	// All numbers are used: old entries might be taken for new ones.
	memset(unwinder->cache, 0, CACHE_SETS * sizeof(*unwinder->cache));
	memset(unwinder->recent, 0, sizeof(unwinder->recent));
	memset(unwinder->active, 0, sizeof(unwinder->active));
	near_forget(&unwinder->near);
	code_cache_forget(unwinder->code);
	memset(unwinder->probed, 0, sizeof(unwinder->probed));
	unwinder->born_ns++;
	unwinder->next_serial = 0;
}

// Numbers the image for this unwinder, if it had not. The number is the image's part of the cache's keys.
static void adopt(struct unwinder *unwinder, struct unwind_image *image)
{
	if (image->owner == unwinder && image->owner_born_ns == unwinder->born_ns)
		return;
	image->owner = unwinder;
	image->owner_born_ns = unwinder->born_ns;
	image->serial = ++unwinder->next_serial;
}

static struct known_map known_map_of(const struct unwind_map *map, uint64_t generation)
{
	struct known_map known = { .map = *map, .generation = generation };
	uint64_t size = map->end - map->start;

	if (map->image == NULL)
		return known;
	uint64_t origin = map->bias + map->image->base, addr_end = map->image->arch != NULL ? map->image->arch->addr_end : 1;
	// The image's serial number, and the distance from its base moved by some of it: images do not all begin in the same sets.
	known.to_key = ((uint64_t)map->image->serial << 33) + (uint64_t)map->image->serial * 0x9e37 % (1u << 31) - origin;
	if (map->start - origin > UINT32_MAX || map->start >= addr_end - 1) // the origin may lie below 0: i386's vdso was linked at the top
		return known;
	// Beyond 4 GiB from the image's base a rule's 32-bit offset could reach nothing.
	known.size = size < UINT32_MAX - (map->start - origin) ? size : UINT32_MAX - (map->start - origin);
	if (known.size > addr_end - 1 - map->start) // so that a return address in it is one that can be
		known.size = addr_end - 1 - map->start;
	return known;
}

static const struct known_map *known_map(struct walk *walk, uint64_t addr)
{
	struct unwinder *unwinder = walk->unwinder;
	uint64_t generation = walk->input->generation;
	struct known_map *set = recent_set(unwinder, generation, addr);

	for (size_t i = 0; i < 2; i++)
		if (map_holds(&set[i].map, addr) && set[i].generation == generation)
			return &set[i];
	struct unwind_map answer = walk->input->map(walk->input->map_context, addr);
	if (!map_holds(&answer, addr)) // an answer about nowhere, or somewhere else
		answer = (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	// What is missing now may be there for the next sample of the same generation: not remembered.
	if (answer.image == NULL && answer.missing != UNWIND_NO_CFI) {
		unwinder->missing = known_map_of(&answer, generation);
		return &unwinder->missing;
	}
	if (answer.image != NULL)
		adopt(unwinder, answer.image);
	set[1] = set[0];
	set[0] = known_map_of(&answer, generation);
	return &set[0];
}

const struct unwind_map *walk_map(struct walk *walk, uint64_t addr)
{
	return &known_map(walk, addr)->map;
}

// The signal trampoline at an address, by its instructions: where no CFI calls it one.
static bool is_trampoline(const struct walk *walk, const struct unwind_map *map, uint64_t vaddr)
{
	struct bytes code;

	for (size_t size = UNWIND_CODE_BYTES; size >= 7; size--)
		if (image_at_vaddr(map->image->image, vaddr, size, &code))
			return walk->arch->is_sigreturn(code.at, size);
	return false;
}

bool walk_is_trampoline(struct walk *walk, const struct unwind_map *map, uint64_t addr)
{
	uint64_t vaddr = addr - map->bias;

	if (map->image == NULL || map->image->arch != walk->arch)
		return false;
	return (rule_table_find(map->image, vaddr, &walk->unwinder->counters).kind & RULE_SIGNAL) != 0 || is_trampoline(walk, map, vaddr);
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
	// Where a sample stands in such a function, CFI tells of one of its two stacks, and not of which; and nothing is above the first function of a goroutine.
	struct unwind_rule stop = image->stops.count > 0 ? rule_table_stop(image, vaddr) : (struct unwind_rule){ 0 };
	if ((stop.kind & RULE_BASE_MASK) != RULE_NONE)
		return stop;
	uint64_t fde_end;
	struct unwind_rule rule = rule_table_find_to(image, vaddr, &walk->unwinder->counters, &fde_end);
	if (stop.kind == RULE_SIGNAL && (rule.kind & RULE_BASE_MASK) == RULE_SP) { // it interrupts, and nothing called it
		rule.kind |= RULE_SIGNAL;
		return rule;
	}
	// Before 5.8 the kernel's own CFI for AArch64's trampoline led to the caller of what was interrupted: no rule can say both its pc and its link register.
	if (kind == FRAME_RETURN && (rule.kind & RULE_SIGNAL) != 0 && walk->arch->perf_lr != 0xff && is_trampoline(walk, map, vaddr + 1))
		return signal_rule(walk->arch);
	if (kind == FRAME_RETURN && (rule.kind & RULE_SIGNAL) == 0 && vaddr + 1 >= fde_end) {
		if (is_trampoline(walk, map, vaddr + 1))
			return signal_rule(walk->arch);
		// Not everybody lets a trampoline's FDE begin a byte before it, as a look-up by return address needs.
		struct unwind_rule exact = rule_table_find(image, vaddr + 1, &walk->unwinder->counters);
		if ((exact.kind & RULE_SIGNAL) != 0)
			return exact;
	}
	if (kind == FRAME_LEAF && (rule.kind == RULE_NONE || image->stops.count > 0) &&
	    (is_trampoline(walk, map, vaddr - 9) || is_trampoline(walk, map, vaddr - 8) || is_trampoline(walk, map, vaddr - 7)))
		return signal_rule(walk->arch);
	return rule;
}

static void learn(struct walk *walk, uint64_t lookup, struct unwind_rule rule)
{
	const struct known_map *active = walk->active;

	if (walk->is_fast)
		near_learn(&walk->unwinder->near, active->generation,
		           &(struct near_place){ .start = active->map.start, .size = active->size, .to_key = active->to_key }, lookup, rule);
}

static struct unwind_rule cached_rule(struct walk *walk, uint64_t lookup, uint8_t kind)
{
	struct unwinder *unwinder = walk->unwinder;
	const struct known_map *active = walk->active;

	if (lookup - active->map.start >= active->size)
		return (struct unwind_rule){ 0 };
	uint64_t key = lookup + active->to_key;
	struct cache_set *set = cache_set_of(unwinder->cache, key);
	const struct cache_entry *entry = cache_find(set, key);
	if (entry != NULL) {
		unwinder->counters.cache_hits++;
		learn(walk, lookup, entry->rule);
		return entry->rule;
	}
	unwinder->counters.cache_misses++;
	struct unwind_rule rule = rule_at(walk, &active->map, lookup, kind);
	cache_put(set, key, rule);
	learn(walk, lookup, rule);
	return rule;
}

// Everything that is the same for all rules once the slots were read.
static inline bool arrive(const struct unwind_arch *arch, struct cursor *at, struct unwind_rule rule, uint64_t cfa, uint64_t ra,
                          enum unwind_end *end)
{
	bool is_signal = (rule.kind & RULE_SIGNAL) != 0;

	ra &= arch->ra_mask;
	if (__builtin_expect(ra == 0, 0) && !is_signal) { // a signal interrupts what was called by a null pointer, too
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
		if (!stack_word(&walk->view, slot, &fp) && slot >= at->sp)
			return miss(walk, slot, end);
		if (slot < at->sp && at->kind != FRAME_RETURN && !walk_red_zone(walk, slot, at->sp, at->kind, &fp))
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
	if ((rule.kind & RULE_FP_SAVED) != 0 && slot < at->sp)
		walk_red_zone(walk, slot, at->sp, at->kind, &fp);
	uint64_t lr_slot = base + walk->arch->sigframe.lr;
	if (!arrive(walk->arch, at, rule, cfa, ra, end))
		return false;
	at->fp = fp;
	if ((rule.kind & RULE_SIGNAL) != 0 && walk->arch->sigframe.lr != 0 && stack_word(&walk->view, lr_slot, &lr))
		at->lr = lr & walk->arch->ra_mask;
	return true;
}

uint64_t walk_code_address(struct walk *walk, uint64_t addr)
{
	static const uint8_t narrower[] = { 47, 42, 39, 36 }; // Documentation/arch/arm64/memory.rst: what user space has, by page size and levels

	addr &= walk->arch->ra_mask;
	if (!walk->arch->signs_addresses || addr >> narrower[sizeof(narrower) - 1] == 0 || map_is_code(walk_map(walk, addr)))
		return addr;
	for (size_t i = 0; i < sizeof(narrower); i++) {
		uint64_t part = addr & (((uint64_t)1 << narrower[i]) - 1);
		if (part != addr && part != 0 && map_is_code(walk_map(walk, part)))
			return part;
	}
	return addr;
}

// A trampoline that no file has: on the stack (i386's kernel puts one there for who brings none), or in a page of its own, of which a core file or a snapshot
// tells. A return address may be such a page's first byte.
static bool is_trampoline_in_memory(const struct walk *walk, const struct cursor *at)
{
	uint64_t word = walk->arch->word_bytes, part, start = at->pc & ~(word - 1);
	uint8_t code[UNWIND_CODE_BYTES + 8];
	size_t size = 0;

	if (at->kind != FRAME_RETURN)
		return false;
	for (; size + word <= sizeof(code) && stack_word(&walk->view, start + size, &part); size += word)
		memcpy(code + size, &part, word); // little-endian, as every host that this runs on
	return size > at->pc - start && walk->arch->is_sigreturn(code + (at->pc - start), size - (at->pc - start));
}

// What is mapped where the cursor stands has no image, or nothing is mapped there.
static bool step_outside(struct walk *walk, struct cursor *at, struct unwind_map code, enum unwind_end *end)
{
	*end = code.end > code.start ? code.missing : UNWIND_NO_MAPPING;
	if (*end != UNWIND_DEFERRED && at->sp_is_exact && is_trampoline_in_memory(walk, at))
		return uncommon_step(walk, at, signal_rule(walk->arch), at->pc, end);
	if (*end == UNWIND_NO_CFI)
		return walk_without_cfi(walk, &code, at, end);
	if (*end != UNWIND_NO_MAPPING)
		return false;
	uint64_t pc = walk_code_address(walk, at->pc);
	if (pc != at->pc) {
		at->pc = at->lr = walk->out->frames[walk->out->count - 1].addr = pc;
		return walk_step(walk, at, end);
	}
	if (at->kind == FRAME_RETURN && walk_was_not_called(walk)) {
		walk->out->count--;
		*end = UNWIND_ROOT_GUESSED;
		return false;
	}
	return at->kind != FRAME_RETURN && walk_from_nowhere(walk, at);
}

// A handler that was left by its frame pointer, which on AArch64 does not tell sp, leads to the trampoline with the pair that the kernel put above the signal
// frame (get_sigframe in arch/arm64/kernel/signal.c), whose copy the frame has among its registers. With scalable vectors it is larger than the least.
static bool find_signal_frame(const struct walk *walk, struct cursor *at)
{
	enum { ALIGNMENT = 16 };
	const uint64_t larger_most = 16384;
	const struct unwind_sigframe *frame = &walk->arch->sigframe;
	uint64_t fp, lr, word, pair = at->fp;

	if (frame->pair == 0 || pair < frame->pair || !stack_word(&walk->view, pair, &fp) || !stack_word(&walk->view, pair + walk->arch->word_bytes, &lr))
		return false;
	for (uint64_t sp = pair - frame->pair; sp >= at->sp && pair - sp <= frame->pair + larger_most; sp -= ALIGNMENT) {
		if (!stack_word(&walk->view, sp + frame->fp, &word) || word != fp || !stack_word(&walk->view, sp + frame->lr, &word) || word != lr)
			continue;
		at->sp = sp;
		at->sp_is_exact = true;
		return true;
	}
	return false;
}

bool walk_step(struct walk *walk, struct cursor *at, enum unwind_end *end)
{
	uint64_t lookup = at->pc - (at->kind == FRAME_RETURN);

	// The trampoline of return probes begins a page: the byte before it is none of its own.
	if (__builtin_expect(at->pc % PAGE_LEAST == 0, 0) && at->kind == FRAME_RETURN && walk_is_probe_return(walk, at->pc))
		return walk_over_probe(walk, at, end);
	if (__builtin_expect(!map_holds(&walk->active->map, lookup), 0)) {
		const struct known_map *known = known_map(walk, lookup);
		if (known->map.image == NULL)
			return step_outside(walk, at, known->map, end);
		*walk->active = *known;
	}
	const struct unwind_map *map = &walk->active->map;
	struct unwind_rule rule = cached_rule(walk, lookup, at->kind);
	enum rule_base base = rule.kind & RULE_BASE_MASK;
	if (__builtin_expect(!at->sp_is_exact, 0) && base != RULE_ROOT && base != RULE_FP && base != RULE_NONE &&
	    !((rule.kind & RULE_SIGNAL) != 0 && find_signal_frame(walk, at))) {
		*end = UNWIND_NO_CFI; // the rule counts from a stack pointer that is not known
		return walk_frame_pointer(walk, at);
	}
	if (__builtin_expect((base == RULE_SP || base == RULE_FP) && (rule.kind & (RULE_FP_AT_BASE | RULE_RA_AT_BASE)) == 0, 1))
		return plain_step(walk, at, rule, end);
	switch (base) {
	case RULE_ROOT:
		if ((rule.kind & RULE_ELSEWHERE) != 0)
			return walk_switch(walk, map, at, end);
		*end = UNWIND_ROOT;
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

static uint8_t place_of(uint64_t mask, uint8_t perf_register)
{
	if (perf_register >= 64 || (mask >> perf_register & 1) == 0)
		return 0xff;
	return (uint8_t)__builtin_popcountll(mask & (((uint64_t)1 << perf_register) - 1));
}

const struct register_places *walk_new_places(struct unwinder *unwinder, const struct unwind_input *input)
{
	struct register_places *places = &unwinder->places;
	const struct unwind_arch *arch = unwind_arch_for(input->machine);
	uint64_t mask = input->regs_mask;
	*places = (struct register_places){ .mask = mask, .machine = input->machine, .arch = arch };
	if (arch == NULL)
		return NULL;
	places->pc = place_of(mask, arch->perf_pc);
	places->sp = place_of(mask, arch->perf_sp);
	places->fp = place_of(mask, arch->perf_fp);
	places->lr = place_of(mask, arch->perf_lr);
	places->is_fast = arch->word_bytes == 8 && arch->ra_mask == UINT64_MAX && places->pc != 0xff && places->sp != 0xff && places->fp != 0xff;
	return places;
}

bool walk_begin(struct walk *walk, struct unwinder *unwinder, size_t lane, const struct unwind_input *input, struct unwind_stack *out,
                struct cursor *at)
{
	const struct register_places *places = walk_places(unwinder, input);

	out->count = out->gap = 0;
	out->last_cfa = 0;
	out->switches = 0;
	out->lacks_goroutine = false;
	out->lacks_g = 0;
	out->lacks_system = false;
	unwinder->counters.samples++;
	out->end = places == NULL ? UNWIND_UNSUPPORTED : UNWIND_NO_REGISTERS;
	if (places == NULL || places->pc == 0xff || places->sp == 0xff)
		return false;
	*at = (struct cursor){
		.kind = FRAME_LEAF, .via = VIA_NONE, .sp_is_exact = true, .pc = input->regs[places->pc], .sp = input->regs[places->sp],
		.fp = places->fp != 0xff ? input->regs[places->fp] : 0,
		.lr = places->lr != 0xff ? input->regs[places->lr] & places->arch->ra_mask : 0,
	};
	walk->unwinder = unwinder;
	walk->input = input;
	walk->arch = places->arch;
	walk->is_fast = places->is_fast;
	walk->active = &unwinder->active[lane];
	walk->out = out;
	walk->rewalks = 0;
	walk->has_gap = walk->is_probed = false;
	walk->registers_frame = SIZE_MAX;
	walk->registers.known = walk->registers.believed = 0;
	walk->view = (struct stack_view){
		.bytes = input->stack, .start = at->sp, .size = input->stack_size, .top = input->stack_top,
		.asked = input->stack_asked > input->stack_size ? input->stack_asked : input->stack_size,
		.addr_end = walk->arch->addr_end, .machine = walk->arch->machine, .word_bytes = walk->arch->word_bytes,
		.read = input->read, .read_context = input->read_context,
	};
	// The kernel copies what is mapped above a thread's stack too; it is not the thread's.
	if (input->stack_top > at->sp && input->stack_top - at->sp < walk->view.size)
		walk->view.size = input->stack_top - at->sp;
	walk->copy = walk->view;
	walk->jumps = 0;
	walk->system_sp = input->other != NULL ? input->other->system_sp : 0;
	if (walk->active->generation != input->generation)
		*walk->active = (struct known_map){ .generation = input->generation };
	return true;
}
