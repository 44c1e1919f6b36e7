// The samples of a profile, in the order of time. A recording has millions of them, most alike in all but their moment and stack: what they share
// is a context, kept once, and moments, stacks, contexts and weights are columns of as many bytes a sample as a block of them needs. That is
// about 8 bytes a sample, where the rows written out take 56. Past some MiB the columns are set down in a temporary file (spill.h).
#ifndef PERFSAMPLE_PROFILE_SAMPLES_H
#define PERFSAMPLE_PROFILE_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/intern.h"
#include "base/vec.h"
#include "profile/spill.h"

struct profile_sample {
	uint64_t time_ns;
	uint64_t weight;   // period in the event's unit (ns for clocks)
	int32_t pid, tid;
	uint32_t cpu, comm /* intern id */, event;
	uint32_t stack;    // node of the leaf; PROFILE_NONE: no frame at all
	uint8_t end;       // enum unwind_end
	uint8_t splice;    // enum splice
	uint8_t comb;      // of two pooled combs (profile/combs.h): 0 or 1
	bool is_kernel;    // the leaf is in the kernel
	bool is_idle;      // pid 0
};

struct sample_context { // as in profile_sample; unused bytes are 0, so that equal contexts are equal bytes
	int32_t pid, tid;
	uint32_t cpu, comm, event;
	uint8_t end, splice, comb, is_kernel, is_idle, unused[3];
};

struct sample_point { uint64_t time_ns, weight; uint32_t stack, context; };

enum { SAMPLES_A_BLOCK = 4096, SAMPLE_CONTEXTS_NEAR = 256, SAMPLES_BYTES_MOST = 4 << 20 };

struct sample_block; // packed
struct samples {
	size_t count;
	bool weights_differ; // false: all samples weigh the same
	bool is_out_of_order; // perhaps; false: they are in the order of time
	size_t most_bytes;   // of columns in memory, before they are set down; 0: SAMPLES_BYTES_MOST
	VEC(struct sample_context) contexts; // each was a row's when it was added
	// private
	VEC(struct sample_block *) blocks;  // full ones
	struct spill spill;
	size_t set_down, bytes;             // blocks that were set down together with those before; and bytes of those behind
	struct sample_point *open;          // SAMPLES_A_BLOCK, the last count % SAMPLES_A_BLOCK of all; NULL: none yet
	struct intern context_ids;
	uint32_t near[SAMPLE_CONTEXTS_NEAR]; // contexts seen lately, + 1, by thread and the like
	bool has_ids;
	uint64_t newest_ns, a_weight; // of the sample added last; of one of them
};

void samples_release(struct samples *samples);
void samples_add(struct samples *samples, const struct profile_sample *sample);
// The same by a context that is known.
void samples_add_points(struct samples *samples, const struct sample_point *points, size_t count);
// Where the next `*room` (at least one) points go, for who makes them there; samples_filled tells how many it were.
struct sample_point *samples_room(struct samples *samples, size_t *room);
void samples_filled(struct samples *samples, size_t count);
struct profile_sample samples_row(const struct samples *samples, const struct sample_point *point);
uint32_t samples_context(struct samples *samples, const struct sample_context *context);
// Row `index`, written into `out`, which is returned.
const struct profile_sample *samples_get(const struct samples *samples, size_t index, struct profile_sample *out);
static inline struct profile_sample samples_at(const struct samples *samples, size_t index)
{
	struct profile_sample row;
	samples_get(samples, index, &row);
	return row;
}
// Some rows from `first` on, at most `capacity`; returns how many, 0 at the end.
size_t samples_points(const struct samples *samples, size_t first, struct sample_point *out, size_t capacity);
// Gives each row to `edit`, which may change all but its moment. Contexts that no row has any more are gone then.
typedef void samples_edit_fn(void *context, struct profile_sample *sample);
void samples_edit(struct samples *samples, samples_edit_fn *edit, void *context);
// Gives each point to `choose`, which names the context that it has from now on, one that is known.
typedef uint32_t samples_recontext_fn(void *context, const struct sample_point *point);
void samples_recontext(struct samples *samples, samples_recontext_fn *choose, void *context);
// A block that is full is packed anew: dear.
void samples_set(struct samples *samples, size_t index, const struct profile_sample *sample);
void samples_truncate(struct samples *samples, size_t count);
// Into the order of time; equals keep theirs.
void samples_sort(struct samples *samples);

#endif
