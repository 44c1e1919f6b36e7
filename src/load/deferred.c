#include "load/deferred.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/loader.h"

enum { WAITING_BYTES_MOST = 64 << 20 };

static void clear(struct deferred *deferred)
{
	for (size_t i = 0; i < deferred->waiting.count; i++)
		free(deferred->waiting.data[i].chain);
	vec_clear(&deferred->waiting);
	deferred->first_free = 0;
	hash_map_clear(&deferred->newest);
	deferred->bytes = 0;
}

void deferred_release(struct deferred *deferred)
{
	clear(deferred); // `unanswered` stays
	vec_release(&deferred->waiting);
	hash_map_release(&deferred->newest);
}

static uint32_t place(struct deferred *deferred)
{
	if (deferred->first_free == 0) {
		(void)vec_add(&deferred->waiting);
		return (uint32_t)deferred->waiting.count - 1;
	}
	uint32_t at = deferred->first_free - 1;
	deferred->first_free = deferred->waiting.data[at].next;
	return at;
}

void deferred_wait(struct loader *loader, struct queued *queued, const struct profile_sample *sample)
{
	struct deferred *deferred = &loader->deferred;
	const struct record_sample *from = &queued->record.sample;
	size_t count = from->callchain_count - 2, bytes = count * sizeof(uint64_t) + sizeof(struct deferred_sample);
	if (deferred->bytes + bytes > WAITING_BYTES_MOST)
		deferred_end(loader);
	struct deferred_sample waiting = { .sample = *sample, .event = queued->event, .ip = from->ip, .cookie = from->callchain[count + 1],
	                                   .chain = mem_alloc((count + 1) * sizeof(uint64_t)), .chain_count = count, .misc = queued->record.misc };
	memcpy(waiting.chain, from->callchain, count * sizeof(uint64_t));
	queue_done(&loader->queue, queued);
	uint32_t *newest = hash_map_put(&deferred->newest, (uint32_t)sample->tid, DEFERRED_NONE, NULL);
	waiting.next = *newest;
	*newest = place(deferred);
	deferred->waiting.data[*newest] = waiting;
	deferred->bytes += bytes;
}

// The sample gets the stack of its own part and what is appended to it; without any it has none of user space.
static void settle(struct loader *loader, uint32_t at, const uint64_t *user, size_t user_count, bool is_answered)
{
	struct deferred *deferred = &loader->deferred;
	struct deferred_sample *waiting = &deferred->waiting.data[at];
	struct record record = { .type = PERF_RECORD_SAMPLE, .misc = waiting->misc, .sample.ip = waiting->ip };
	struct profile_sample sample = waiting->sample;
	size_t count = waiting->chain_count + user_count;
	waiting->chain = mem_resize(waiting->chain, count + 1, sizeof(uint64_t));
	if (user_count > 0)
		memcpy(waiting->chain + waiting->chain_count, user, user_count * sizeof(uint64_t));
	record.sample.callchain = waiting->chain;
	record.sample.callchain_count = count;
	chain_from_sample(&loader->chain, &record, &reader_event_at(loader->reader, waiting->event)->attr, &sample);
	if (!is_answered)
		sample.end = UNWIND_CHAIN_MISSING;
	loader->has_foreign_chains |= sample.end == END_BY_NAME;
	struct maps *maps = spaces_process(loader->spaces, sample.pid)->maps, *kernel = spaces_process(loader->spaces, -1)->maps;
	sample.stack = chain_intern(loader, sample.tid, &loader->chain, maps, kernel, sample.end == END_BY_NAME);
	raw_add_known(loader, &sample);
	deferred->unanswered += !is_answered;
	deferred->bytes -= waiting->chain_count * sizeof(uint64_t) + sizeof(*waiting);
	free(waiting->chain);
	waiting->chain = NULL;
	waiting->next = deferred->first_free;
	deferred->first_free = at + 1;
}

void deferred_answer(struct loader *loader, const struct record *record)
{
	struct deferred *deferred = &loader->deferred;
	const struct record_deferred *answer = &record->deferred;
	const uint32_t *newest = hash_map_get(&deferred->newest, (uint32_t)record->id.tid);
	for (uint32_t at = newest != NULL ? *newest : DEFERRED_NONE, next; at != DEFERRED_NONE; at = next) {
		bool is_answer = deferred->waiting.data[at].cookie == answer->cookie;
		next = deferred->waiting.data[at].next;
		settle(loader, at, answer->callchain, is_answer ? answer->callchain_count : 0, is_answer);
	}
	(void)hash_map_remove(&deferred->newest, (uint32_t)record->id.tid);
}

void deferred_end(struct loader *loader)
{
	struct deferred *deferred = &loader->deferred;
	for (uint32_t i = 0; i < deferred->waiting.count; i++) {
		if (deferred->waiting.data[i].chain != NULL)
			settle(loader, i, NULL, 0, false);
	}
	clear(deferred);
}
