#include "unwind/near.h"

#include <string.h>

// Steps of an address space before it is worth entries. Giving all numbers anew costs as much, with what has to be learned again, as some 8,000 steps
// without one; where it does not help, as more mappings are in use than there are numbers, it is tried ever more seldom.
enum { STEPS_BEFORE = 64, LEAST_PATIENCE = 1 << 13, MOST_PATIENCE = 1 << 20, PROBES = 4 };

void near_init(struct near *near, struct near_set *sets)
{
	near->patience = LEAST_PATIENCE;
	near->sets = sets;
}

void near_forget(struct near *near)
{
	memset(near->sets, 0, NEAR_BYTES);
	memset(near->places, 0, sizeof(near->places));
	memset(near->spaces, 0, sizeof(near->spaces));
	near->refused = 0;
	near->slow = 0;
}

// The word of a rule. NEAR_NONE: not one of fast steps.
static uint64_t word_of(struct unwind_rule rule)
{
	const bool is_saved = (rule.kind & RULE_FP_SAVED) != 0;
	const int16_t fp_off = is_saved ? rule.fp_off : rule.ra_off;

	if (rule.kind == RULE_ROOT)
		return NEAR_ROOT;
	if ((rule.kind & ~(uint32_t)(RULE_FP_SAVED | 1)) != (RULE_SP | RULE_RA_SAVED) || rule.ra_off != -8 || ((rule.cfa_off | fp_off) & 7) != 0)
		return NEAR_NONE;
	return (uint64_t)rule.cfa_off << 32 | (uint64_t)(uint16_t)fp_off << 16 | (is_saved ? NEAR_FP_SAVED : 0) |
	       ((rule.kind & RULE_BASE_MASK) == RULE_FP ? NEAR_FROM_FP : 0);
}

// PLACES: no number is free.
static unsigned number_of(struct near *near, const struct near_place *place)
{
	uint64_t hash = (place->to_key + place->start) * 0x9e3779b97f4a7c15u >> (64 - PLACE_BITS);

	for (unsigned i = 0; i < PROBES; i++) {
		struct near_place *known = &near->places[(hash + i) % PLACES];
		if (known->size == 0)
			*known = *place;
		if (known->start == place->start && known->size == place->size && known->to_key == place->to_key)
			return (unsigned)(hash + i) % PLACES;
	}
	return PLACES;
}

void near_prepare_anew(struct near *near, uint64_t walked)
{
	const bool has_helped = near->slow < (walked - near->walked_before) / 2;

	if (has_helped)
		near->patience = LEAST_PATIENCE;
	else if (near->patience < MOST_PATIENCE)
		near->patience *= 2;
	near->walked_before = walked;
	near_forget(near);
}

void near_learn(struct near *near, uint64_t generation, const struct near_place *place, uint64_t lookup, struct unwind_rule rule)
{
	struct near_space *space = near_space_of(near, generation);
	const uint64_t word = word_of(rule);

	near->slow++;
	if (word == NEAR_NONE || lookup >> (64 - PLACE_BITS) != 0)
		return;
	if (space->steps < STEPS_BEFORE) {
		space->steps++;
		return;
	}
	unsigned number = number_of(near, place);
	if (number == PLACES) {
		near->refused++;
		return;
	}
	space->places |= (uint64_t)1 << number;
	struct near_set *set = &near->sets[near_set_number(lookup)];
	const uint64_t key = lookup << PLACE_BITS | number;
	for (unsigned i = 0; i < NEAR_WAYS; i++) // another address space brought it
		if (set->way[i].key == key && set->way[i].rule != NEAR_NONE)
			return;
	memmove(&set->way[1], &set->way[0], (NEAR_WAYS - 1) * sizeof(set->way[0]));
	set->way[0] = (struct near_entry){ .key = key, .rule = word };
}
