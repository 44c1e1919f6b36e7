// Across a return address that a return probe has replaced: who called the probed function, as far as call sites tell.
//
// The kernel puts its trampoline's address over the return address as the function is entered (arch_uretprobe_hijack_return_addr; Documentation/trace/kprobes.rst tells
// of the same of kernel functions) and keeps the true one to itself. The caller's stack pointer is known, its pc is not. But whoever called is behind a call
// that may have led there, and by the unwind information of that place its own return address stands in a certain word; that one is behind a call to the caller's
// function, or to who knows where, and so on. All places are tried: the direct calls to the probed function near it, and the calls of functions that a return address on the
// stack says were called. Where all that fit have their own return address in the same word, what lies above it is the caller's caller. Where there is but one, it is the
// caller, by inference; where there are several, one frame is left out, and the stack does not count as complete.
#include "unwind/walk.h"

enum {
	CALLS_WITHIN_BYTES = 1 << 18,     // how far from the probed function its direct calls are looked for, either way
	STACK_WORDS = 1024,       // of the caller's frame and those above it
	FUNCTION_BYTES = 1 << 14, // of a caller
	SCANNED_BYTES = 1 << 16,  // of all of them, for one stack
	VERIFIED_FRAMES = 16,
	SITES_MOST = PROBED_SITES,
};

struct found {
	struct walk *walk;
	const struct cursor *at; // at the trampoline: sp is the caller's behind the return
	uint64_t entry;          // of the probed function; 0: not known
	uint64_t slot;           // of the return address of the one that fits; 0: none does
	uint64_t site;           // behind its call
	uint64_t return_address, sp, fp; // of its caller
	bool has_others;         // another one fits, whose return address is in the same word
	bool is_contradicted;    // or in another
	size_t scanned;
};

static const struct unwind_map *code_map(struct walk *walk, uint64_t addr)
{
	const struct unwind_map *map = walk_map(walk, addr);
	walk->is_deferred = walk->is_deferred || (map->image == NULL && map->end > map->start && map->missing == UNWIND_DEFERRED);
	return map->image != NULL && map->image->arch == walk->arch ? map : NULL;
}

bool walk_is_probe_return(struct walk *walk, uint64_t addr)
{
	const struct unwind_map *map = walk_map(walk, addr);

	if (map->missing == UNWIND_UPROBE_TRAMPOLINE && map->end > map->start && map->image == NULL)
		return true;
	return walk->arch->is_probe_return != NULL && !map_is_code(map) && walk->arch->is_probe_return(addr);
}

// Where the function begins that has an address, by its FDE. `*end`: where it ends. 0: not known.
static uint64_t function_of(const struct unwind_map *map, uint64_t addr, uint64_t *end)
{
	struct cfi_row row;
	struct cfi_fde fde;
	const struct cfi_section *section;

	if (!rule_table_row(map->image, addr - map->bias, &row, &fde, &section))
		return 0;
	*end = fde.end + map->bias;
	return fde.start + map->bias;
}

// A call that ends at an address: where it leads to; 0: that can't be told. false: there is none.
static bool called_from(struct walk *walk, uint64_t ra, uint64_t *target)
{
	const struct unwind_map *map = ra > UNWIND_CALL_BYTES && ra < walk->arch->addr_end ? code_map(walk, ra - 1) : NULL;
	struct bytes code;
	int64_t distance;

	if (map == NULL || !image_at_vaddr(map->image->image, ra - UNWIND_CALL_BYTES - map->bias, UNWIND_CALL_BYTES, &code) ||
	    !walk->arch->is_call(code.end, UNWIND_CALL_BYTES, &distance))
		return false;
	*target = distance != 0 ? ra + (uint64_t)distance : 0;
	if (distance != 0 && image_at_vaddr(map->image->image, *target - map->bias, UNWIND_CODE_BYTES, &code) && walk->arch->is_stub(code.at, UNWIND_CODE_BYTES))
		*target = 0;
	return true;
}

// The caller of one that stands behind a call at `pc`, by a plain rule. false: no such rule, or the words are not there.
static bool plain_caller(struct walk *walk, const struct unwind_map *map, const struct cursor *at, struct cursor *caller, enum rule_base *base)
{
	struct unwind_rule rule = rule_table_find(map->image, at->pc - 1 - map->bias, &walk->unwinder->counters);
	*base = rule.kind & RULE_BASE_MASK;
	if ((*base != RULE_SP && *base != RULE_FP) || (rule.kind & (RULE_FP_AT_BASE | RULE_RA_AT_BASE | RULE_SIGNAL)) != 0 || (rule.kind & RULE_RA_SAVED) == 0)
		return false;
	uint64_t cfa = (*base == RULE_SP ? at->sp : at->fp) + (uint64_t)(int64_t)rule.cfa_off;
	*caller = (struct cursor){ .sp = cfa, .fp = at->fp, .kind = FRAME_RETURN, .via = VIA_CFI, .sp_is_exact = true };
	if (cfa <= at->sp || !stack_word(&walk->view, cfa + (uint64_t)(int64_t)rule.ra_off, &caller->pc))
		return false;
	if ((rule.kind & RULE_FP_SAVED) != 0 && !stack_word(&walk->view, cfa + (uint64_t)(int64_t)rule.fp_off, &caller->fp))
		return false;
	caller->pc &= walk->arch->ra_mask;
	caller->lr = cfa + (uint64_t)(int64_t)rule.ra_off; // lent: where the return address stands
	return true;
}

// Whether the frames from there on are such as can be: each behind a call that leads to the function of the one below, or may. What no plain rule tells is not asked.
static bool is_plausible(struct walk *walk, struct cursor at, uint64_t callee)
{
	for (unsigned i = 0; i < VERIFIED_FRAMES; i++) {
		uint64_t target, end;
		if (walk_is_probe_return(walk, at.pc))
			return true;
		if (!called_from(walk, at.pc, &target) || (target != 0 && callee != 0 && target != callee))
			return false;
		const struct unwind_map *map = code_map(walk, at.pc - 1);
		struct cursor caller;
		enum rule_base base;
		if (map == NULL || !plain_caller(walk, map, &at, &caller, &base))
			return map != NULL && base != RULE_SP && base != RULE_FP;
		callee = i == 0 ? function_of(map, at.pc - 1, &end) : 0; // further up, who was called may have jumped on to another
		at = caller;
	}
	return true;
}

static void try_site(struct found *found, const struct unwind_map *map, uint64_t site, uint64_t function)
{
	struct cursor caller, at = { .pc = site, .sp = found->at->sp, .fp = found->at->fp, .kind = FRAME_RETURN };
	enum rule_base base;

	if (!plain_caller(found->walk, map, &at, &caller, &base) || !is_plausible(found->walk, caller, function) || site == found->site)
		return;
	if (found->slot == 0) {
		found->slot = caller.lr;
		found->site = site;
		found->return_address = caller.pc;
		found->sp = caller.sp;
		found->fp = caller.fp;
	} else if (found->slot == caller.lr && found->fp == caller.fp) {
		found->has_others = true;
	} else {
		found->is_contradicted = true;
	}
}

// ---------------------------------------------------------------- direct calls to the probed function
// Of the segment that has an address.
static uint64_t start_of_code(const struct image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->segment_count; i++)
		if (vaddr - image->segments[i].vaddr < image->segments[i].file_size)
			return image->segments[i].vaddr;
	return vaddr;
}

static const struct probed *sites_of(struct found *found, const struct unwind_map *map)
{
	struct walk *walk = found->walk;
	const uint64_t vaddr = found->entry - map->bias;
	struct probed *probed = &walk->unwinder->probed[(vaddr >> 4 ^ map->image->serial) % PROBED_FUNCTIONS];
	struct bytes code;

	if (probed->serial == map->image->serial && probed->entry == vaddr)
		return probed;
	*probed = (struct probed){ .serial = map->image->serial, .entry = vaddr };
	uint64_t from = start_of_code(map->image->image, vaddr);
	if (vaddr - from > CALLS_WITHIN_BYTES)
		from = vaddr - CALLS_WITHIN_BYTES;
	uint64_t most = vaddr + CALLS_WITHIN_BYTES - from;
	if (!image_rest_at(map->image->image, from, &code))
		return probed;
	size_t size = bytes_left(&code) < most ? bytes_left(&code) : (size_t)most;
	for (size_t at = 0; (at = walk->arch->next_call(code.at, size, at)) <= size;) {
		int64_t distance;
		if (!walk->arch->is_call(code.at + at, at < UNWIND_CALL_BYTES ? at : UNWIND_CALL_BYTES, &distance) || from + at + (uint64_t)distance != vaddr)
			continue;
		if (probed->count == SITES_MOST) {
			probed->is_full = true;
			break;
		}
		probed->sites[probed->count++] = from + at;
	}
	return probed;
}

static void try_direct_calls(struct found *found)
{
	const struct unwind_map *map = found->entry != 0 ? code_map(found->walk, found->entry) : NULL;
	if (map == NULL)
		return;
	const struct probed *probed = sites_of(found, map);
	found->is_contradicted = found->is_contradicted || probed->is_full; // some are not looked at
	for (unsigned i = 0; i < probed->count; i++) {
		uint64_t end, site = probed->sites[i] + map->bias;
		const struct unwind_map *there = code_map(found->walk, site - 1);
		if (there != NULL && there->bias == map->bias)
			try_site(found, there, site, function_of(there, site - 1, &end));
	}
}

// ---------------------------------------------------------------- functions that the stack says were called
// A call in there that may have led to the probed function: one that names it was tried.
static void try_calls_of(struct found *found, uint64_t function, uint64_t slot)
{
	struct walk *walk = found->walk;
	const struct unwind_map *map = code_map(walk, function);
	uint64_t end, target;
	struct bytes code;

	if (map == NULL || function_of(map, function, &end) != function || end <= function || end - function > FUNCTION_BYTES ||
	    found->scanned + (end - function) > SCANNED_BYTES || !image_at_vaddr(map->image->image, function - map->bias, end - function, &code))
		return;
	size_t size = bytes_left(&code);
	found->scanned += size;
	const struct unwind_map there = *map;
	for (size_t at = 0; (at = walk->arch->next_call(code.at, size, at)) <= size;) {
		struct cursor caller, site = { .pc = function + at, .sp = found->at->sp, .fp = found->at->fp };
		enum rule_base base;
		if (plain_caller(walk, &there, &site, &caller, &base) && caller.lr == slot && called_from(walk, site.pc, &target) && target == 0)
			try_site(found, &there, site.pc, function);
	}
}

static void try_called_functions(struct found *found)
{
	struct walk *walk = found->walk;
	uint64_t word, target, last = 0;

	for (unsigned i = 0; i < STACK_WORDS; i++) {
		uint64_t slot = found->at->sp + i * walk->arch->word_bytes;
		if (!stack_word(&walk->view, slot, &word))
			return;
		word &= walk->arch->ra_mask;
		if (word < UNWIND_CALL_BYTES || word >= walk->arch->addr_end || !called_from(walk, word, &target) || target == 0 || target == last)
			continue;
		try_calls_of(found, last = target, slot);
	}
}

// ---------------------------------------------------------------- the frame pointer's pair
static bool by_pair(struct walk *walk, struct cursor *at)
{
	struct cursor next = { .kind = FRAME_RETURN, .via = VIA_FP, .sp_is_exact = walk->arch->fp_gives_sp, .sp = at->fp + 2u * walk->arch->word_bytes };
	uint64_t target;

	if (at->fp < at->sp || !stack_word(&walk->view, at->fp, &next.fp) || !stack_word(&walk->view, at->fp + walk->arch->word_bytes, &next.pc))
		return false;
	next.pc = next.lr = walk_code_address(walk, next.pc);
	if (!called_from(walk, next.pc, &target) && !walk_is_probe_return(walk, next.pc))
		return false;
	*at = next;
	return true;
}

bool walk_over_probe(struct walk *walk, struct cursor *at, enum unwind_end *end)
{
	struct unwind_stack *out = walk->out;
	struct found found = { .walk = walk, .at = at };
	uint64_t function_end;

	*end = UNWIND_UPROBE_TRAMPOLINE;
	walk->is_deferred = false;
	if (at->kind != FRAME_RETURN || walk->arch->next_call == NULL || walk->arch->is_call == NULL)
		return false;
	if (at->sp_is_exact) {
		const uint64_t below = out->count >= 2 ? frame_lookup_addr(&out->frames[out->count - 2]) : 0;
		const struct unwind_map *map = below != 0 ? code_map(walk, below) : NULL;
		found.entry = map != NULL ? function_of(map, below, &function_end) : 0;
		try_direct_calls(&found);
		try_called_functions(&found);
	}
	if (walk->is_deferred) { // another answer may come of it
		*end = UNWIND_DEFERRED;
		return false;
	}
	if (found.slot != 0 && !found.is_contradicted && !found.has_others) {
		at->pc = at->lr = out->frames[out->count - 1].addr = found.site;
		at->via = out->frames[out->count - 1].via = VIA_CALL_SITE;
		return walk_step(walk, at, end);
	}
	walk->is_probed = true; // a frame is missing
	if (found.slot != 0 && !found.is_contradicted) {
		*at = (struct cursor){ .pc = found.return_address, .lr = found.return_address, .sp = found.sp, .fp = found.fp, .kind = FRAME_RETURN, .via = VIA_CALL_SITE,
		                       .sp_is_exact = true };
		return true;
	}
	return by_pair(walk, at);
}
