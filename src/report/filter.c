#include <string.h>

#include "base/mem.h"

#include "report/report.h"

static bool has_text(const char *const *list, const char *text)
{
	for (; *list != NULL; list++)
		if (strcmp(*list, text) == 0)
			return true;
	return false;
}

// A dso goes by its path or its short name.
static bool has_dso(const char *const *list, const struct profile *profile, uint32_t dso)
{
	if (dso == PROFILE_NONE)
		return has_text(list, "[unknown]");
	const struct profile_dso *d = &profile->dsos.data[dso];
	return has_text(list, profile_text(profile, d->path)) || has_text(list, profile_text(profile, d->short_name));
}

// By the innermost frame, as perf's -d and -S do; any of the functions inlined there will do.
static bool keeps_leaf(const struct report_filter *filter, const struct profile *profile, uint32_t stack)
{
	const struct profile_frame *frame = stack != PROFILE_NONE ? &profile->frames.data[profile->nodes.data[stack].frame] : NULL;
	if (filter->dsos != NULL && !has_dso(filter->dsos, profile, frame != NULL ? frame->dso : PROFILE_NONE))
		return false;
	if (filter->symbols == NULL)
		return true;
	for (uint32_t i = 0; frame != NULL && i < frame->line_count; i++) {
		const struct profile_function *f = &profile->functions.data[profile->chains.data[frame->first_line + i].function];
		if (has_text(filter->symbols, profile_text(profile, f->name)) || (f->plain_name != 0 && has_text(filter->symbols, profile_text(profile, f->plain_name))))
			return true;
	}
	return (frame == NULL || frame->line_count == 0) && has_text(filter->symbols, "[unknown]");
}

#define LIST_HAS(list, value) ({ \
	bool has_ = (list).count == 0; \
	for (size_t i_ = 0; i_ < (list).count && !has_; i_++) \
		has_ = (list).data[i_] == (value); \
	has_; })

bool *filter_contexts(const struct report_filter *filter, const struct profile *profile)
{
	const struct samples *samples = &profile->samples;
	bool *keeps = mem_zero(samples->contexts.count + 1, sizeof(*keeps));
	struct report_filter of_context = *filter;
	of_context.from_ns = of_context.to_ns = 0;
	of_context.dsos = of_context.symbols = NULL;
	for (size_t i = 0; i < samples->contexts.count; i++) {
		const struct sample_context *c = &samples->contexts.data[i];
		struct profile_sample row = { .pid = c->pid, .tid = c->tid, .cpu = c->cpu, .comm = c->comm, .stack = PROFILE_NONE };
		keeps[i] = filter_keeps(&of_context, profile, &row);
	}
	return keeps;
}

bool filter_keeps(const struct report_filter *filter, const struct profile *profile, const struct profile_sample *sample)
{
	if (sample->time_ns < filter->from_ns || (filter->to_ns != 0 && sample->time_ns >= filter->to_ns))
		return false;
	if (!LIST_HAS(filter->pids, sample->pid) || !LIST_HAS(filter->tids, sample->tid) || !LIST_HAS(filter->cpus, sample->cpu))
		return false;
	if (filter->comms != NULL && !has_text(filter->comms, profile_text(profile, sample->comm)))
		return false;
	return (filter->dsos == NULL && filter->symbols == NULL) || keeps_leaf(filter, profile, sample->stack);
}
