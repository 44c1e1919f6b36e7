#include "report/missing.h"

#include <stdlib.h>

#include "base/sort.h"

struct counting {
	const struct profile *profile;
	struct missing *missing;
	VEC(uint32_t) row_of;      // by dso (the last: no mapping): index into images + 1
	VEC(uint8_t) has_lines;    // by dso
	VEC(uint64_t) leaves;      // by dso: samples whose innermost frame is in it
};

static bool is_unresolved(const struct profile *profile, const struct profile_frame *frame)
{
	if (frame->line_count == 0)
		return true;
	return !profile_function_is_named(&profile->functions.data[profile->chains.data[frame->first_line + frame->line_count - 1].function]);
}

static bool is_bounded(const struct profile *profile, const struct profile_frame *frame)
{
	return frame->line_count > 0 && profile->functions.data[profile->chains.data[frame->first_line + frame->line_count - 1].function].is_nameless;
}

static struct missing_image *row_for(struct counting *c, uint32_t dso, uint32_t comm)
{
	uint32_t *row = &c->row_of.data[dso != PROFILE_NONE ? dso : c->profile->dsos.count];
	if (*row == 0) {
		vec_push(&c->missing->images, (struct missing_image){ .dso = dso, .comm = comm });
		*row = (uint32_t)c->missing->images.count;
	}
	return &c->missing->images.data[*row - 1];
}

// Distinct addresses, and who has lines: facts of frames, whatever the filter.
static void count_frames(struct counting *c)
{
	const struct profile *profile = c->profile;
	for (size_t i = 0; i < profile->frames.count; i++) {
		const struct profile_frame *frame = &profile->frames.data[i];
		for (uint32_t l = 0; frame->dso != PROFILE_NONE && l < frame->line_count; l++)
			if (profile->chains.data[frame->first_line + l].file != 0)
				c->has_lines.data[frame->dso] = 1;
	}
}

static void count_sample(struct counting *c, const struct profile_sample *sample, uint64_t number)
{
	const struct profile *profile = c->profile;
	bool any = false;
	for (uint32_t node = sample->stack; node != PROFILE_NONE; node = profile->nodes.data[node].parent) {
		const struct profile_frame *frame = &profile->frames.data[profile->nodes.data[node].frame];
		bool is_leaf = node == sample->stack;
		if (is_leaf && frame->dso != PROFILE_NONE)
			c->leaves.data[frame->dso]++;
		if (!is_unresolved(profile, frame))
			continue;
		struct missing_image *row = row_for(c, frame->dso, sample->comm);
		row->self += is_leaf;
		c->missing->self += is_leaf;
		row->bounded += is_leaf && is_bounded(profile, frame);
		c->missing->bounded += is_leaf && is_bounded(profile, frame);
		row->anywhere += row->seen != number + 1;
		row->seen = number + 1;
		any = true;
	}
	c->missing->anywhere += any;
}

static void count_addresses(struct counting *c)
{
	const struct profile *profile = c->profile;
	struct hash_map met = { 0 }; // one address may be a leaf's and a caller's
	for (size_t i = 0; i < profile->frames.count; i++) {
		const struct profile_frame *frame = &profile->frames.data[i];
		uint32_t row = c->row_of.data[frame->dso != PROFILE_NONE ? frame->dso : profile->dsos.count];
		bool is_new;
		if (row == 0 || !is_unresolved(profile, frame))
			continue;
		hash_map_put(&met, hash_pair(frame->dso != PROFILE_NONE ? frame->image_addr : frame->addr, frame->dso), 1, &is_new);
		c->missing->images.data[row - 1].addresses += is_new;
	}
	hash_map_release(&met);
}

static int by_samples(const void *a, const void *b)
{
	const struct missing_image *x = a, *y = b;
	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	if (x->anywhere != y->anywhere)
		return x->anywhere > y->anywhere ? -1 : 1;
	return (x->dso > y->dso) - (x->dso < y->dso);
}

static int by_self(const void *a, const void *b)
{
	const struct lineless_image *x = a, *y = b;
	if (x->self != y->self)
		return x->self > y->self ? -1 : 1;
	return (x->dso > y->dso) - (x->dso < y->dso);
}

void missing_build(struct missing *missing, const struct profile *profile, const struct report_filter *filter)
{
	struct counting c = { .profile = profile, .missing = missing };
	for (size_t i = 0; i <= profile->dsos.count; i++) {
		vec_push(&c.row_of, 0);
		vec_push(&c.has_lines, 0);
		vec_push(&c.leaves, 0);
	}
	count_frames(&c);
	for (size_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample sample_row;
		const struct profile_sample *sample = samples_get(&profile->samples, i, &sample_row);
		if (sample->is_idle || !filter_keeps(filter, profile, sample))
			continue;
		missing->samples++;
		count_sample(&c, sample, i);
	}
	count_addresses(&c);
	for (size_t i = 0; i < profile->dsos.count; i++)
		if (!c.has_lines.data[i] && c.leaves.data[i] > 0)
			vec_push(&missing->lineless, (struct lineless_image){ .dso = (uint32_t)i, .self = c.leaves.data[i] });
	if (missing->images.count > 0)
		sort_stable(missing->images.data, missing->images.count, sizeof(*missing->images.data), by_samples);
	if (missing->lineless.count > 0)
		sort_stable(missing->lineless.data, missing->lineless.count, sizeof(*missing->lineless.data), by_self);
	vec_release(&c.row_of);
	vec_release(&c.has_lines);
	vec_release(&c.leaves);
}

void missing_release(struct missing *missing)
{
	vec_release(&missing->images);
	vec_release(&missing->lineless);
}
