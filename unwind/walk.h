// Between the files of the walk: the state of one stack's unwinding, and the steps that no cached rule can make.
#ifndef PERFSAMPLE_UNWIND_WALK_H
#define PERFSAMPLE_UNWIND_WALK_H

#include "unwind/cfi_expr.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

enum { CACHE_BITS = 15, CACHE_ENTRIES = 1 << CACHE_BITS, RECENT_BITS = 5 };

struct cache_entry {
	uint64_t key; // image's serial << 32 | vaddr - image's base; 0: empty
	struct unwind_rule rule;
};
_Static_assert(sizeof(struct cache_entry) == 16, "four entries a cache line");

// A mapping, with what turns an address in it into a cache key and a slot by one addition each.
struct active_map {
	struct unwind_map map; // start == end: none
	uint64_t size;         // of the stretch whose addresses have keys, from map.start
	uint64_t to_key, to_slot;
};

struct unwinder {
	struct cache_entry *cache;
	struct active_map last;                // the last one with an image
	struct unwind_map missing;             // the last answer without
	struct unwind_map recent[1 << RECENT_BITS][2]; // by a hash of the address; valid within one generation
	uint64_t generation;
	bool has_generation;
	uint64_t born_ns;
	uint32_t next_serial;
	struct unwind_counters counters;
};

// A frame as the walk knows it.
struct cursor {
	uint64_t pc, sp, fp, lr; // lr: on machines that have one
	uint8_t kind;            // enum frame_kind
	uint8_t via;             // enum frame_via
	bool sp_is_exact;        // false: only known to be at or above `sp`
	unsigned backward;       // signal frames whose caller's sp was not above theirs
};

struct walk {
	struct unwinder *unwinder;
	const struct unwind_input *input;
	const struct unwind_arch *arch;
	struct stack_view view;
	struct unwind_stack *out;
	// All registers of frame `registers_frame` (an index into out->frames); steps by rules do not keep them up.
	struct register_set registers;
	size_t registers_frame;
	unsigned rewalks;
	bool has_gap; // frames were left out: the way from the leaf is no longer known
};

// The mapping at an address, from the unwinder's memory or the caller's callback. Valid until the next call.
const struct unwind_map *walk_map(struct walk *walk, uint64_t addr);
// The register's value in the sample; false: not delivered.
bool walk_sampled_register(const struct unwind_input *input, unsigned perf_register, uint64_t *out);

// Each of these moves the cursor to the caller and answers true, or answers false with the reason in `*end`.
// slow.c: by the full row of the FDE.
bool walk_slow_step(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end);
// fp.c: where there is no CFI.
bool walk_without_cfi(struct walk *walk, const struct unwind_map *map, struct cursor *at, enum unwind_end *end);
// fp.c: the frame pointer's pair alone.
bool walk_frame_pointer(struct walk *walk, struct cursor *at);

#endif
