#include "export/counts.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "export/place.h"

struct counting {
	struct export_counts *counts;
	uint32_t *of_stack;        // by stack + 1: the row met last, + 1
	struct hash_map of_both;   // stack and context: row; of stacks that have more than one
};

struct profile_sample export_count_sample(const struct profile *profile, const struct export_count *row)
{
	return samples_row(&profile->samples, &(struct sample_point){ .stack = row->stack, .context = row->context });
}

static struct export_count *row_of(struct counting *c, const struct sample_point *point)
{
	uint32_t *last = &c->of_stack[point->stack == PROFILE_NONE ? 0 : point->stack + 1], count = (uint32_t)c->counts->rows.count, row = count;
	uint64_t stack = (uint64_t)point->stack << 32;
	if (*last != 0) {
		uint32_t context = c->counts->rows.data[*last - 1].context;
		if (context == point->context)
			return &c->counts->rows.data[*last - 1];
		(void)hash_map_put(&c->of_both, stack | context, *last - 1, NULL); // unless it is there
		row = *hash_map_put(&c->of_both, stack | point->context, count, NULL);
	}
	if (row == count)
		vec_push(&c->counts->rows, (struct export_count){ .stack = point->stack, .context = point->context });
	*last = row + 1;
	return &c->counts->rows.data[row];
}

// By context: whether a sample of it is kept if its moment and its leaf are.
static bool *kept_contexts(const struct export_input *input)
{
	const struct samples *samples = &input->profile->samples;
	bool *keeps = input->filter != NULL ? filter_contexts(input->filter, input->profile) : mem_zero(samples->contexts.count + 1, sizeof(*keeps));
	for (size_t i = 0; i < samples->contexts.count; i++) {
		const struct sample_context *c = &samples->contexts.data[i];
		keeps[i] = (input->filter == NULL || keeps[i]) && c->event == input->event && (c->is_idle == 0 || input->idle);
	}
	return keeps;
}

// Leaves are asked for once a row.
static void drop_leaves(struct export_counts *counts, const struct export_input *input)
{
	size_t kept = 0;
	for (size_t i = 0; i < counts->rows.count; i++) {
		struct profile_sample sample = export_count_sample(input->profile, &counts->rows.data[i]);
		sample.time_ns = input->filter->from_ns;
		if (filter_keeps(input->filter, input->profile, &sample))
			counts->rows.data[kept++] = counts->rows.data[i];
	}
	counts->rows.count = kept;
}

void export_counts_read(struct export_counts *counts, const struct export_input *input)
{
	enum { POINTS = 512 };
	const struct profile *profile = input->profile;
	const struct report_filter *filter = input->filter;
	struct counting c = { .counts = counts, .of_stack = mem_zero(profile->nodes.count + 1, sizeof(*c.of_stack)) };
	struct sample_point points[POINTS];
	bool *keeps = kept_contexts(input);
	bool by_weight = input->event < profile->events.count && profile->events.data[input->event].counts_by_weight;
	bool any_time = filter == NULL || (filter->from_ns == 0 && filter->to_ns == 0);
	*counts = (struct export_counts){ 0 };
	for (size_t at = 0, count; (count = samples_points(&profile->samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			if (!keeps[points[i].context] || (!any_time && !filter_keeps_time(filter, points[i].time_ns)))
				continue;
			struct export_count *row = row_of(&c, &points[i]);
			row->samples += by_weight ? points[i].weight : 1;
			row->weight += points[i].weight;
		}
	}
	if (filter != NULL && (filter->dsos != NULL || filter->symbols != NULL))
		drop_leaves(counts, input);
	free(keeps);
	free(c.of_stack);
	hash_map_release(&c.of_both);
}
