// Between the files of the walk: the state of one stack's unwinding, and the steps that no cached rule can make.
#ifndef PERFSAMPLE_UNWIND_WALK_H
#define PERFSAMPLE_UNWIND_WALK_H

#include "unwind/cfi_expr.h"
#include "unwind/near.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

enum { CACHE_BITS = 13, CACHE_SETS = 1 << CACHE_BITS, RECENT_BITS = 6, LANES = 16 };

struct cache_entry {
	uint64_t key; // known_map_of; 0: empty
	struct unwind_rule rule;
};
// One cache line. With one way a few per cent of a compiler's frames missed: return addresses that are often used had the same slot.
enum { CACHE_WAYS = 4 };
struct cache_set {
	_Alignas(64) struct cache_entry way[CACHE_WAYS]; // from the one that came last
};

// A mapping, with what turns an address in it into a cache key by one addition.
struct known_map {
	struct unwind_map map; // start == end: none
	uint64_t generation;
	uint64_t size;         // of the stretch whose addresses have keys, from map.start; 0 without an image
	uint64_t to_key;
};

// Where a sample has the registers that the walk begins with.
struct register_places {
	uint64_t mask;
	const struct unwind_arch *arch; // NULL: none were looked for yet
	uint16_t machine;
	uint8_t pc, sp, fp, lr;         // 0xff: not delivered
	bool is_fast;                   // all that fast steps begin with is there, and the machine is one that they are made for: words of 8 bytes, return
	                                // addresses as they stand
};

// Where a function is called directly, of those that return probes were met in; addresses of the image's file.
enum { PROBED_FUNCTIONS = 16, PROBED_SITES = 48 };
struct probed {
	uint64_t entry;
	uint32_t serial; // of the image; 0: none
	uint8_t count;
	bool is_full;    // there are more
	uint64_t sites[PROBED_SITES];
};

struct unwinder {
	void *tables;                   // `cache` and what `near` has
	bool in_heap;                   // they are malloc's
	struct cache_set *cache;
	struct known_map active[LANES]; // the last one with an image, of each stack that is walked at a time
	struct known_map missing;       // the last answer without
	struct known_map recent[1 << RECENT_BITS][2]; // by a hash of address and generation
	struct register_places places;  // of the last sample
	uint64_t born_ns;
	uint32_t next_serial;
	struct near near;               // the short cut of stacks.c
	struct code_cache *code;        // of code.c
	struct probed probed[PROBED_FUNCTIONS]; // of probe.c
	struct unwind_counters counters;
};

// A frame as the walk knows it.
struct cursor {
	uint64_t pc, sp, fp, lr; // lr: on machines that have one
	uint8_t kind;            // enum frame_kind
	uint8_t via;             // enum frame_via
	bool sp_is_exact;        // false: only known to be at or above `sp`
	bool is_above_bare;      // of VIA_CODE: the frame below was found by sp
	bool is_sp_left;         // likewise: its function returns with sp where it is
	bool is_elsewhere;       // a signal came while another stack was in use than the handler has, and that is not in the copy
	unsigned backward;       // signal frames whose caller's sp was not above theirs
};

struct walk {
	struct unwinder *unwinder;
	const struct unwind_input *input;
	const struct unwind_arch *arch;
	struct known_map *active; // the unwinder's
	struct stack_view view; // of the stack that it is on
	struct stack_view copy; // of the sample's
	uint64_t system_sp;     // of struct unwind_other, as far as it was used
	unsigned jumps;         // in functions that change stacks, to wherever they left: sp need not grow
	struct unwind_stack *out;
	unsigned rewalks;
	bool is_fast; // register_places
	bool is_deferred; // of probe.c: an image was asked for that is not there yet
	bool is_probed; // a frame could not be told, as a return probe has replaced its address
	bool has_gap; // frames were left out: the way from the leaf is no longer known
	// All registers of frame `registers_frame` (an index into out->frames); steps by rules do not keep them up.
	size_t registers_frame;
	struct register_set registers;
};

static inline bool map_holds(const struct unwind_map *map, uint64_t addr)
{
	return addr >= map->start && addr < map->end;
}

// Whether code is mapped there, known or not.
static inline bool map_is_code(const struct unwind_map *map)
{
	return map->end > map->start && (map->image != NULL || map->missing != UNWIND_NO_MAPPING);
}

// Mappings are large: the hash takes 64 KiB as one. Generations do not push each other out: samples of several processes come mixed.
static inline struct known_map *recent_set(struct unwinder *unwinder, uint64_t generation, uint64_t addr)
{
	return unwinder->recent[((addr >> 16) + (generation << 40)) * 0x9e3779b97f4a7c15u >> (64 - RECENT_BITS)];
}

// As in near_set_number.
static inline struct cache_set *cache_set_of(struct cache_set *cache, uint64_t key)
{
	return &cache[key >> 1 & (CACHE_SETS - 1)];
}

static inline const struct cache_entry *cache_find(const struct cache_set *set, uint64_t key)
{
	const struct cache_entry *entry = set->way;

	if (__builtin_expect(entry->key != key, 0)) { // nearly all are found in the first
		while (++entry < set->way + CACHE_WAYS && entry->key != key)
			;
		if (entry == set->way + CACHE_WAYS)
			return NULL;
	}
	return entry;
}

static inline void cache_put(struct cache_set *set, uint64_t key, struct unwind_rule rule)
{
	memmove(&set->way[1], &set->way[0], (CACHE_WAYS - 1) * sizeof(set->way[0]));
	set->way[0] = (struct cache_entry){ .key = key, .rule = rule };
}

// Where a sample's registers are. NULL: of a machine that is not known.
const struct register_places *walk_new_places(struct unwinder *unwinder, const struct unwind_input *input);
static inline const struct register_places *walk_places(struct unwinder *unwinder, const struct unwind_input *input)
{
	const struct register_places *places = &unwinder->places;

	if (__builtin_expect(places->arch != NULL && places->machine == input->machine && places->mask == input->regs_mask, 1))
		return places;
	return walk_new_places(unwinder, input);
}

// Before the first of some stacks is begun.
void walk_prepare(struct unwinder *unwinder);
// Fills in what the walk begins with; the cursor stands at the leaf. false: there is nothing to walk, and out->end says why.
bool walk_begin(struct walk *walk, struct unwinder *unwinder, size_t lane, const struct unwind_input *input, struct unwind_stack *out,
                struct cursor *at);
// Moves the cursor to the caller. false: the stack ends here, see `*end`.
bool walk_step(struct walk *walk, struct cursor *at, enum unwind_end *end);

// The mapping at an address, from the unwinder's memory or the caller's callback. Valid until the next call.
const struct unwind_map *walk_map(struct walk *walk, uint64_t addr);
// A return address without its signature. Where that begins depends on how many bits the process's addresses have, which nothing tells: if no code is
// mapped at the address with as many as there may be, fewer are taken.
uint64_t walk_code_address(struct walk *walk, uint64_t addr);
// Whether a signal handler returns to that address, by CFI or by its instructions.
bool walk_is_trampoline(struct walk *walk, const struct unwind_map *map, uint64_t addr);
// What stands in the slot below sp of a frame that called nothing: the red zone is as it was left. Slots further down, or that are not in the copy, are of
// registers that were popped already (gcc emits no restore for them): their value is the caller's. false: so it is.
static inline bool walk_red_zone(const struct walk *walk, uint64_t slot, uint64_t sp, uint8_t kind, uint64_t *out)
{
	return kind != FRAME_RETURN && sp - slot <= walk->arch->red_zone_bytes && stack_word(&walk->view, slot, out);
}
// The register's value in the sample; false: not delivered.
bool walk_sampled_register(const struct unwind_input *input, unsigned perf_register, uint64_t *out);

// Each of these moves the cursor to the caller and answers true, or answers false with the reason in `*end`.
// slow.c: by the full row of the FDE.
bool walk_slow_step(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end);
// code.c: the rules that code without CFI tells, of one unwinder.
struct code_cache *code_cache_new(void);
void code_cache_free(struct code_cache *cache);
void code_cache_forget(struct code_cache *cache);
// What the instructions say of the caller: pc, sp, fp, and whether sp is exact. false: nothing.
bool walk_by_code(struct walk *walk, const struct unwind_map *map, const struct cursor *at, struct cursor *caller);
// slow.c: what a register that callees keep was when the function at hand was entered, or is now. false: nobody knows.
bool walk_register(struct walk *walk, const struct cursor *at, unsigned reg, uint64_t *out);
// switch.c: the stack that an address is on, of those that are there. false: none.
bool walk_enter(struct walk *walk, uint64_t sp);
// switch.c: the function at hand has changed stacks. false: the caller is not found, see `*end`.
bool walk_switch(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end);
// The same if what was called pops nothing: of code in images, whose return address is then to be behind a call.
bool walk_by_unsure_code(struct walk *walk, const struct unwind_map *map, const struct cursor *at, struct cursor *caller);
// What the instructions from a function's beginning to pc say of its caller, by the `way`th of the beginnings that may be. `*is_told`: false where its words are not there.
// false: there are no more.
bool walk_by_beginning(struct walk *walk, const struct unwind_map *map, const struct cursor *at, size_t way, struct cursor *caller, bool *is_told);
// fp.c: where there is no CFI.
bool walk_without_cfi(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end);
// fp.c: code called an address where none is, so that the return address is where the call put it. It must stand behind a call that may have done that.
bool walk_from_nowhere(struct walk *walk, struct cursor *at);
// fp.c: whether what stands before a return address may be a call that led to `pc`.
bool walk_is_called(struct walk *walk, uint64_t ra, uint64_t pc);
// fp.c: where the direct call that ends at a return address leads; false: none ends there.
bool walk_call_target(struct walk *walk, uint64_t ra, uint64_t *target);
// fp.c: whether the instruction before a return address calls the code at `target`.
bool walk_calls(struct walk *walk, uint64_t ra, uint64_t target);
// fp.c: whether the frame below the last is one that nobody called, so that what was taken for its return address, which is no code, is none: its FDE has no
// instructions, by which it never moved sp, and yet it made a call. makecontext's __start_context is such a one (glibc).
bool walk_was_not_called(struct walk *walk);
// probe.c: whether that is where the kernel has return probes return to.
bool walk_is_probe_return(struct walk *walk, uint64_t addr);
// probe.c: the cursor stands there, at the last frame. Moves it to the caller's caller, the caller being put in the last frame's place if it can be told.
bool walk_over_probe(struct walk *walk, struct cursor *at, enum unwind_end *end);
// fp.c: the frame pointer's pair alone.
bool walk_frame_pointer(struct walk *walk, struct cursor *at);

#endif
