// Samples that are nothing but a call chain, as live-unwound ones are, and perf's by frame pointers. As they were read their chain was
// found among those seen before (seen.h); now that their turn in the order of time has come, that chain's stack is theirs, if it was worked out in
// the same mappings.
#include "load/loader.h"

void light_forget(struct loader *loader)
{
	loader->light_forgotten++;
}

// What never changes.
static void introduce(struct loader *loader, struct seen_source *source)
{
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, source->event)->attr;
	source->is_known = true;
	source->has_weight = (attr->sample_type & PERF_SAMPLE_PERIOD) != 0;
	source->tells_period = account_tells_period(attr, source->id);
	source->nominal_period = attr->sample_period;
	source->cpu_at = account_cpu(&loader->account, source->cpu);
}

static void look_up(struct loader *loader, struct seen_source *source)
{
	source->known_at = loader->light_forgotten;
	source->comm = loader_comm(loader, spaces_thread(loader->spaces, source->pid, source->tid));
	source->maps = spaces_process(loader->spaces, source->pid)->maps;
	source->kernel = spaces_process(loader->spaces, -1)->maps;
	source->generation = source->maps->generation;
	source->kernel_generation = source->kernel->generation;
	source->contexts[0].is_known = source->contexts[1].is_known = false;
}

// The chain is taken apart and looked up frame by frame.
static struct seen_result work_out(struct loader *loader, const struct seen_source *source, const struct seen_chain *seen)
{
	struct profile_sample sample = { 0 };
	struct record record = { .type = PERF_RECORD_SAMPLE, .misc = seen->misc, .sample.ip = seen->ip, .sample.callchain = seen->words + 1,
	                         .sample.callchain_count = seen->callchain_count, .sample.raw_size = seen->raw_size };
	if (seen->raw_size > 0)
		record.sample.raw = (const uint8_t *)seen->words + seen->raw_at;
	chain_from_sample(&loader->chain, &record, &reader_event_at(loader->reader, seen->event)->attr, &sample);
	struct seen_result result = { .generation = source->generation, .kernel_generation = source->kernel_generation, .end = sample.end,
	                              .splice = sample.splice, .is_kernel = sample.is_kernel, .is_known = true };
	result.stack = chain_intern(loader, source->tid, &loader->chain, source->maps, source->kernel, sample.end == END_BY_NAME);
	return result;
}

static inline const struct seen_result *result_of(struct loader *loader, const struct seen_source *source, struct seen_chain *seen)
{
	struct seen_result *results = seen->results;
	for (size_t i = 0; i < SEEN_RESULTS; i++) {
		const struct seen_result *r = &results[i];
		if (r->generation == source->generation && r->kernel_generation == source->kernel_generation && r->is_known)
			return r;
	}
	for (size_t i = SEEN_RESULTS - 1; i > 0; i--)
		results[i] = results[i - 1];
	results[0] = work_out(loader, source, seen);
	return &results[0];
}

static void find_context(struct loader *loader, struct seen_source *source, const struct seen_result *result)
{
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, source->event)->attr;
	uint32_t event = loader_event(loader, source->event, true);
	struct sample_context context = { .pid = source->pid, .tid = source->tid, .cpu = source->cpu, .comm = source->comm, .event = event,
	                                  .end = result->end, .splice = result->splice, .is_kernel = result->is_kernel, .is_idle = source->pid == 0 };
	source->contexts[result->is_kernel] = (struct seen_context){ .context = samples_context(&loader->profile->samples, &context), .end = result->end,
	                                                             .splice = result->splice, .is_known = true };
	source->weight = loader_weight(0, attr, &loader->profile->events.data[event]);
	loader->has_samples = true;
	loader->has_chains |= (attr->sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
	loader->has_foreign_chains |= result->end == END_BY_NAME;
}

static inline struct sample_point point_of(struct loader *loader, const struct queue_item *item)
{
	struct seen_source *source = item->source;
	if (!source->is_known)
		introduce(loader, source);
	if (source->tells_period && item->period != source->nominal_period && item->period != 0) {
		account_period(&loader->account, source->id, item->period);
		source->tells_period = false; // the first one counts
	}
	loader->account.cpu_time.data[source->cpu_at] = item->time_ns;
	if (item->time_ns >= loader->jit.next_ns)
		jit_advance(loader, item->time_ns);
	if (source->known_at != loader->light_forgotten)
		look_up(loader, source);
	const struct seen_result *result = result_of(loader, source, item->chain);
	const struct seen_context *context = &source->contexts[result->is_kernel];
	if (!context->is_known || context->end != result->end || context->splice != result->splice)
		find_context(loader, source, result);
	return (struct sample_point){ .time_ns = item->time_ns, .weight = source->has_weight && item->period > 0 ? item->period : source->weight,
	                              .stack = result->stack, .context = context->context };
}

void light_take(struct loader *loader, const struct queue_item *items, size_t count)
{
	enum { CHAINS_AHEAD = 8 };
	struct samples *samples = &loader->profile->samples;
	for (size_t at = 0, some; at < count; at += some) {
		struct sample_point *points = samples_room(samples, &some);
		some = loader->raw.jobs.count > 0 ? 1 : some < count - at ? some : count - at;
		for (size_t i = at; i < at + some; i++) {
			__builtin_prefetch(items[i + CHAINS_AHEAD < count ? i + CHAINS_AHEAD : i].chain);
			points[i - at] = point_of(loader, &items[i]);
			seen_done(&loader->seen, items[i].chain);
		}
		if (loader->raw.jobs.count == 0) {
			samples_filled(samples, some);
			continue;
		}
		struct profile_sample sample = samples_row(samples, points); // one that waits for those before it
		raw_add_known(loader, &sample);
	}
}
