// Rules by the address itself, beside those by image and offset (walk.h): one look-up tells that an address is in a mapping that its address space has,
// and the rule there. So a fast step asks for no mapping, which in programs of many libraries is another one at every fourth frame, as good as random.
//
// Mappings are numbered (a place), an address space has a bit for each that it is known to have, and an entry counts where its place's bit is set.
// Processes with the same mappings at the same addresses, as forked ones are, share entries. Only what fast steps can do is kept, and only for address
// spaces that have been walked for a while: others would fill it for nothing.
#ifndef PERFSAMPLE_UNWIND_NEAR_H
#define PERFSAMPLE_UNWIND_NEAR_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/rule.h"

enum { NEAR_BITS = 15, NEAR_SETS = 1 << NEAR_BITS, NEAR_WAYS = 2, PLACE_BITS = 6, PLACES = 1 << PLACE_BITS, NEAR_SPACES = 256 };

// A rule of fast steps, as one word: CFA = sp or fp (bit 0) + the upper 32 bits, return address right below it, the caller's fp, if it is saved (bit 1), at CFA +
// bits 16 to 31; offsets are signed multiples of 8. Where fp is not saved, its offset is the return address's, so that there is a word to read whatever
// the rule. NEAR_ROOT: there is no caller; as a rule it leads nowhere, so that nothing has to ask for it first.
#define NEAR_NONE ((uint64_t)0)
#define NEAR_FROM_FP ((uint64_t)1)
#define NEAR_FP_SAVED ((uint64_t)2)
#define NEAR_ROOT ((uint64_t)4)

static inline uint64_t near_cfa_off(uint64_t rule)
{
	return (uint64_t)((int64_t)rule >> 32);
}

static inline uint64_t near_fp_off(uint64_t rule)
{
	return (uint64_t)(int64_t)(int16_t)(rule >> 16);
}

struct near_entry {
	uint64_t key; // address << PLACE_BITS | place
	uint64_t rule; // NEAR_NONE: empty
};
struct near_set { // half a cache line
	_Alignas(32) struct near_entry way[NEAR_WAYS]; // from the one that came last
};

struct near_place { // a mapping of an image: these three tell it from any other
	uint64_t start, size, to_key; // known_map; size 0: none
};

struct near_space {
	uint64_t generation;
	uint64_t places; // that it is known to have, a bit each
	uint32_t steps;  // that were taken without this table, until it is used
};

struct near {
	struct near_set *sets;
	struct near_place places[PLACES];
	struct near_space spaces[NEAR_SPACES]; // by generation; one gives way to another
	// Steps in mappings for which there was no number; of so many all numbers are given anew.
	uint32_t refused, patience;
	uint64_t slow, walked_before; // steps that the other table served since they were last, and frames walked until then
};

#define NEAR_BYTES (NEAR_SETS * sizeof(struct near_set))
void near_init(struct near *near, struct near_set *sets); // NEAR_SETS of them, zeroed; they stay the caller's
void near_forget(struct near *near);
// Before stacks are walked by the places that their address spaces have; `walked`: frames so far. Gives the numbers anew if it is time for that.
void near_prepare_anew(struct near *near, uint64_t walked);
static inline void near_prepare(struct near *near, uint64_t walked)
{
	if (__builtin_expect(near->refused >= near->patience, 0))
		near_prepare_anew(near, walked);
}
// The rule of an address in a mapping, as the other table has it, for the next one that comes there.
void near_learn(struct near *near, uint64_t generation, const struct near_place *place, uint64_t lookup, struct unwind_rule rule);

static inline struct near_space *near_space_of(struct near *near, uint64_t generation)
{
	struct near_space *space = &near->spaces[generation % NEAR_SPACES];

	if (space->generation != generation)
		*space = (struct near_space){ .generation = generation };
	return space;
}

// No two calls are in two bytes: were a set each byte's, twice the lines and pages would be touched.
static inline uint64_t near_set_number(uint64_t lookup)
{
	return (lookup ^ lookup >> NEAR_BITS) >> 1 & (NEAR_SETS - 1);
}

static inline bool near_is(const struct near_entry *entry, uint64_t lookup, uint64_t places)
{
	return entry->key >> PLACE_BITS == lookup && (places >> (entry->key & (PLACES - 1)) & 1) != 0;
}

// NEAR_NONE: not known here.
static inline uint64_t near_find(const struct near_set *sets, uint64_t lookup, uint64_t places)
{
	const struct near_set *set = &sets[near_set_number(lookup)];
	const struct near_entry *entry = set->way;

	if (__builtin_expect(!near_is(entry, lookup, places), 0)) { // nearly all are found in the first
		while (++entry < set->way + NEAR_WAYS && !near_is(entry, lookup, places))
			;
		if (entry == set->way + NEAR_WAYS)
			return NEAR_NONE;
	}
	return entry->rule;
}

#endif
