// Samples that are nothing but a call chain, as live-unwound ones are, and perf's by frame pointers. As they come in the file their chain is
// found among those seen before (seen.h); once their turn in the order of time has come, that chain's stack is theirs, if it was worked out in
// the same mappings.
#include "load/loader.h"

void light_add(struct loader *loader, const struct ahead_light *samples, size_t count)
{
	enum { SLOTS_AHEAD = 12, CHAINS_AHEAD = 6 };
	for (size_t i = 0; i < count; i++) {
		const struct ahead_light *s = &samples[i];
		if (count - i > SLOTS_AHEAD)
			seen_fetch_slot(&loader->seen, &s[SLOTS_AHEAD].chain);
		if (count - i > CHAINS_AHEAD)
			seen_fetch_chain(&loader->seen, &s[CHAINS_AHEAD].chain);
		struct queue_item item = { .time_ns = s->time_ns, .chain = seen_find(&loader->seen, &s->chain), .period = s->period, .id = s->id, .pid = s->pid,
		                           .tid = s->tid, .cpu = s->cpu };
		queue_add(&loader->queue, &item);
	}
}

void light_forget(struct loader *loader)
{
	loader->light_forgotten++;
}

static struct light_thread *thread_of(struct loader *loader, int32_t pid, int32_t tid)
{
	struct light_thread *thread = &loader->light_threads[(uint32_t)tid % LIGHT_THREADS];
	if (thread->maps != NULL && thread->pid == pid && thread->tid == tid && thread->forgotten == loader->light_forgotten)
		return thread;
	*thread = (struct light_thread){ .pid = pid, .tid = tid, .forgotten = loader->light_forgotten,
	                                 .comm = loader_comm(loader, spaces_thread(loader->spaces, pid, tid)),
	                                 .maps = spaces_process(loader->spaces, pid)->maps, .kernel = spaces_process(loader->spaces, -1)->maps };
	return thread;
}

// The chain is taken apart and looked up frame by frame.
static struct seen_result work_out(struct loader *loader, const struct light_thread *thread, const struct seen_chain *seen,
                                   const struct perf_event_attr *attr)
{
	struct profile_sample sample = { 0 };
	struct record record = { .type = PERF_RECORD_SAMPLE, .misc = seen->misc, .sample.ip = seen->ip, .sample.callchain = seen->words,
	                         .sample.callchain_count = seen->callchain_count, .sample.raw_size = seen->raw_size };
	if (seen->raw_size > 0)
		record.sample.raw = (const uint8_t *)(seen->words + seen->callchain_count);
	chain_from_sample(&loader->chain, &record, attr, &sample);
	struct seen_result result = { .generation = thread->maps->generation, .kernel_generation = thread->kernel->generation, .end = sample.end,
	                              .splice = sample.splice, .is_kernel = sample.is_kernel, .is_known = true };
	result.stack = chain_intern(loader, thread->tid, &loader->chain, thread->maps, thread->kernel, sample.end == END_BY_NAME);
	return result;
}

static const struct seen_result *result_of(struct loader *loader, const struct light_thread *thread, struct seen_chain *seen,
                                           const struct perf_event_attr *attr)
{
	struct seen_result *results = seen->results;
	for (size_t i = 0; i < SEEN_RESULTS; i++) {
		const struct seen_result *r = &results[i];
		if (r->is_known && r->generation == thread->maps->generation && r->kernel_generation == thread->kernel->generation)
			return r;
	}
	for (size_t i = SEEN_RESULTS - 1; i > 0; i--)
		results[i] = results[i - 1];
	results[0] = work_out(loader, thread, seen, attr);
	return &results[0];
}

static void find_context(struct loader *loader, const struct queue_item *light, const struct seen_result *result, struct light_thread *thread)
{
	const struct seen_chain *seen = light->chain;
	if (thread->has_context && thread->cpu == light->cpu && thread->source_event == seen->event && thread->end == result->end &&
	    thread->splice == result->splice && thread->is_kernel == result->is_kernel)
		return;
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, seen->event)->attr;
	uint32_t event = loader_event(loader, seen->event, true);
	struct sample_context context = { .pid = light->pid, .tid = light->tid, .cpu = light->cpu, .comm = thread->comm, .event = event,
	                                  .end = result->end, .splice = result->splice, .is_kernel = result->is_kernel, .is_idle = light->pid == 0 };
	thread->has_context = true;
	thread->cpu = light->cpu;
	thread->source_event = seen->event;
	thread->end = result->end;
	thread->splice = result->splice;
	thread->is_kernel = result->is_kernel;
	thread->event = event;
	thread->context = samples_context(&loader->profile->samples, &context);
	thread->weight = loader_weight(0, attr, &loader->profile->events.data[event]);
	loader->has_samples = true;
	loader->has_chains |= (attr->sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
	loader->has_foreign_chains |= result->end == END_BY_NAME;
}

void light_take(struct loader *loader, const struct queue_item *light)
{
	struct seen_chain *seen = light->chain;
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, seen->event)->attr;
	account_sample(loader, seen->event, light->id, light->period, light->time_ns, light->cpu);
	jit_advance(loader, light->time_ns);
	struct light_thread *thread = thread_of(loader, light->pid, light->tid);
	const struct seen_result *result = result_of(loader, thread, seen, attr);
	find_context(loader, light, result, thread);
	bool has_weight = (attr->sample_type & PERF_SAMPLE_PERIOD) != 0 && light->period > 0;
	struct sample_point point = { .time_ns = light->time_ns, .weight = has_weight ? light->period : thread->weight, .stack = result->stack,
	                              .context = thread->context };
	if (loader->raw.jobs.count == 0) {
		samples_add_point(&loader->profile->samples, &point);
	} else {
		struct profile_sample sample = samples_row(&loader->profile->samples, &point);
		raw_add_known(loader, &sample);
	}
	seen_done(&loader->seen, seen);
}
