// Counts per row, once through the samples of one event: self and total, by block of time, and the visits to each.
//
// A row is a combination of the keys asked for. `self` counts samples whose innermost frame is the row's: by the function that has the code,
// as perf counts, with the line of the innermost inlined place. `total` counts samples that have the row anywhere on the stack, once however
// often; inlined functions are frames of their own there when `inlines`.
#ifndef PERFSAMPLE_REPORT_TALLY_H
#define PERFSAMPLE_REPORT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/intern.h"
#include "base/vec.h"
#include "judge/judge.h"
#include "profile/profile.h"
#include "profile/vias.h"
#include "report/report.h"

enum { TALLY_BLOCKS = 20 };

struct tally_entry { // what a place in the code contributes to a row; ids are interned texts of the profile, 0 where no key asks
	uint32_t name, dso_path, dso_name, file, line;
	uint32_t aliases; // as profile_function's
	uint32_t function; // of the profile, the first of those that are this place; PROFILE_NONE: none is known
	bool is_kernel;
};
struct tally_context { // what a sample contributes to its rows; 0 where no key asks
	uint32_t comm, cpu;
	int32_t pid, tid;
};

struct tally_count {
	double weight;           // samples, or their weights' sum
	uint64_t runs;           // runs: maximal stretches of consecutive samples of a thread inside
	uint32_t starts, ends;   // threads whose first, whose last sample is inside: not-inside has runs + threads - starts - ends stretches
};
struct tally_row {
	uint32_t entry, context;
	struct tally_count self, total;
	uint64_t samples;        // of self
	uint64_t second_comb;    // those of them that are the second comb's
	double cut;              // weight of samples with an incomplete stack that show the row
	double user, kernel;     // of self
	uint32_t last_cell;      // + 1, the row's latest; 0: none
};
struct tally_sum { double self, total; };
// Of a row in a block of time; rows have none for blocks without them. A block may occur more than once when samples are not in the order of time.
struct tally_cell { uint32_t before /* the row's cell before, + 1; 0: none */, block; struct tally_sum sum; };

// The distinct rows of a stack in a context, root first, into `members`; and what its samples come to, which goes to the rows at the end.
// A cache line: every sample touches one.
struct tally_set {
	uint32_t first, count, self_row;
	uint32_t context;
	uint64_t samples;
	double block;            // weight in the block of time at hand,
	double weight;           // and in those before
	double kernel, cut;      // of all of it
	uint32_t entries, self_entries; // how often a thread came to it from another set, from one with another self_row; since the last settling
};
struct tally_set_notes { // of the set of the same number
	uint64_t second_comb;
	bool is_resolved;        // its innermost place has a name; that does not depend on the keys
	uint16_t vias;           // 1 << enum frame_via: how its frames were found
};
// Between two samples a thread went from one set to another.
struct tally_move { uint32_t from, to; };

struct tally_context_sum;

struct tally {
	const struct profile *profile;
	uint32_t event;
	unsigned keys;           // 1 << enum report_key
	bool inlines, idle, is_weighted, counts_by_weight;
	uint64_t from_ns, to_ns; // of the blocks

	VEC(struct tally_row) rows;
	VEC(struct tally_cell) cells;
	VEC(struct tally_entry) entries;
	VEC(struct tally_context) contexts;
	double n[TALLY_BLOCKS];  // weight by block
	double weight, weight_squares;
	uint64_t samples;        // kept, idle ones not among them unless asked for
	uint64_t second_comb;    // of samples, the second comb's
	uint64_t idle_samples;
	double idle_weight;
	double user, kernel, unresolved; // weights by the innermost frame; they add up to `weight`
	double cut;              // weight of samples with an incomplete stack
	size_t threads, processes;
	uint64_t stacks_complete, stacks_joined, stacks_truncated, stacks_failed;
	uint64_t ends[UNWIND_END_COUNT], splices[3];
	uint64_t stacks_guessed; // with a frame that no CFI led to: frame pointers, the leaf rule
	uint64_t stacks_by_via[VIA_COUNT]; // with a frame found in this way

	// private
	struct intern entry_ids, context_ids;
	VEC(uint32_t) entry_of_line; // by index into profile->chains; + 1, 0: not yet
	VEC(uint32_t) row_of_entry;   // + 1, the last one of the entry; 0: none yet
	struct hash_map row_ids, set_ids, thread_ids, process_ids;
	VEC(uint32_t) set_of_stack;   // + 1, the last one of the stack; 0: none yet
	struct vias vias;
	VEC(struct tally_set) sets;
	VEC(struct tally_set_notes) set_notes;
	VEC(uint32_t) members;
	VEC(uint32_t) stays;         // by member: moves to its set that stay in it and those before it, and leave the one behind it (visits.c)
	VEC(uint64_t) row_stays;     // by row: moves that stay in it besides
	uint64_t unsettled;          // moves, since the last settling
	VEC(uint32_t) path;          // the rows of a stack, leaf first, as often as they are on it
	VEC(uint32_t) thread_states; // the set of each thread's last sample
	struct tally_context_sum *context_sums; // by context of the samples
	VEC(struct tally_sum) row_sums; // of the block at hand
	VEC(uint32_t) touched_sets, touched_rows, stamps;
	uint32_t stamp;
};

// `filter` restricts which samples are counted (its dsos and symbols do not). Blocks divide [from_ns, to_ns).
void tally_build(struct tally *tally, const struct profile *profile, uint32_t event, const struct report_options *options,
                 uint64_t from_ns, uint64_t to_ns);
double tally_weight(const struct tally *tally, uint64_t weight); // what a sample of that weight counts
const struct tally_set *tally_rows_of(struct tally *tally, const struct sample_point *point); // of a sample that was counted
void tally_release(struct tally *tally);
// visits.c: what `count` moves between sets add to the visits of rows, and then, at the end or before a counter is full, to the rows themselves.
void tally_count_moves(struct tally *tally, const struct tally_move *moves, size_t count);
void tally_settle_moves(struct tally *tally);
void tally_next_stamp(struct tally *tally);
// The row's weights in each block: arrays of TALLY_BLOCKS.
void tally_blocks(const struct tally *tally, uint32_t row, double *self, double *total);

#endif
