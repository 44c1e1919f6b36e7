#include "load/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
	TABLE_BYTES_MOST = 32 << 20, // of chains in one table
	FIRST_SLOTS = 4096, FIRST_SOURCES = 256,
	NEAR_SOURCES = 256,
	AT_ONCE = 32,                // samples looked up together, so that one waits for memory while others are
};

struct seen_slot { uint64_t hash; void *entry; };
struct seen_slots { struct seen_slot *data; size_t count, capacity; }; // capacity a power of two, at most half full

struct seen_table {
	struct arena arena;
	struct seen_slots chains, sources;
	struct seen_source *near[NEAR_SOURCES]; // met lately
	struct seen_table *next, *before; // in the list of all
	size_t waiting;         // of who applies: samples that have come and are not done
};

static void slots_init(struct seen_slots *slots, size_t capacity)
{
	*slots = (struct seen_slots){ .data = mem_zero(capacity, sizeof(*slots->data)), .capacity = capacity };
}

static void slots_grow(struct seen_slots *slots)
{
	struct seen_slots old = *slots;
	slots_init(slots, old.capacity * 2);
	slots->count = old.count;
	size_t mask = slots->capacity - 1;
	for (size_t i = 0; i < old.capacity; i++) {
		if (old.data[i].entry == NULL)
			continue;
		size_t at = old.data[i].hash & mask;
		while (slots->data[at].entry != NULL)
			at = (at + 1) & mask;
		slots->data[at] = old.data[i];
	}
	free(old.data);
}

static void free_table(struct seen *seen, struct seen_table *table)
{
	pthread_mutex_lock(&seen->lock);
	*(table->before != NULL ? &table->before->next : &seen->all) = table->next;
	if (table->next != NULL)
		table->next->before = table->before;
	pthread_mutex_unlock(&seen->lock);
	arena_release(&table->arena);
	free(table->chains.data);
	free(table->sources.data);
	free(table);
}

void seen_init(struct seen *seen)
{
	*seen = (struct seen){ 0 };
	pthread_mutex_init(&seen->lock, NULL);
}

void seen_release(struct seen *seen)
{
	while (seen->all != NULL)
		free_table(seen, seen->all);
	pthread_mutex_destroy(&seen->lock);
	*seen = (struct seen){ 0 };
}

size_t seen_tables(struct seen *seen)
{
	size_t count = 0;
	pthread_mutex_lock(&seen->lock);
	for (const struct seen_table *table = seen->all; table != NULL; table = table->next)
		count++;
	pthread_mutex_unlock(&seen->lock);
	return count;
}

struct seen_table *seen_begin(struct seen *seen)
{
	if (seen->filling != NULL && seen->filling->arena.bytes <= TABLE_BYTES_MOST)
		return seen->filling;
	struct seen_table *table = NEW(struct seen_table);
	slots_init(&table->chains, FIRST_SLOTS);
	slots_init(&table->sources, FIRST_SOURCES);
	pthread_mutex_lock(&seen->lock);
	table->next = seen->all;
	if (table->next != NULL)
		table->next->before = table;
	seen->all = table;
	pthread_mutex_unlock(&seen->lock);
	return seen->filling = table;
}

void seen_came(struct seen *seen, struct seen_table *table, size_t count)
{
	struct seen_table *last = seen->coming;
	seen->coming = table;
	table->waiting += count;
	if (last != NULL && last != table && last->waiting == 0)
		free_table(seen, last);
}

void seen_done(struct seen *seen, struct seen_chain *chain)
{
	struct seen_table *table = chain->table;
	if (--table->waiting == 0 && table != seen->coming)
		free_table(seen, table);
}

// ---------------------------------------------------------------- sources

static struct seen_source *look_for_source(struct seen_table *table, const struct plain_sample *sample)
{
	struct seen_slots *slots = &table->sources;
	uint64_t hash = hash_pair(hash_pair(sample->id, (uint64_t)(uint32_t)sample->pid << 32 | (uint32_t)sample->tid),
	                          (uint64_t)sample->cpu << 32 | sample->event);
	if (slots->count * 2 >= slots->capacity)
		slots_grow(slots);
	size_t mask = slots->capacity - 1, at = hash & mask;
	for (; slots->data[at].entry != NULL; at = (at + 1) & mask) {
		struct seen_source *source = slots->data[at].entry;
		if (slots->data[at].hash == hash && source->id == sample->id && source->pid == sample->pid && source->tid == sample->tid &&
		    source->cpu == sample->cpu && source->event == sample->event)
			return source;
	}
	struct seen_source *source = arena_alloc(&table->arena, sizeof(*source));
	*source = (struct seen_source){ .id = sample->id, .pid = sample->pid, .tid = sample->tid, .cpu = sample->cpu, .event = sample->event };
	slots->data[at] = (struct seen_slot){ hash, source };
	slots->count++;
	return source;
}

static inline struct seen_source *source_of(struct seen_table *table, const struct plain_sample *sample)
{
	struct seen_source **near = &table->near[((uint32_t)sample->tid + sample->cpu * 37 + sample->event * 101) % NEAR_SOURCES], *source = *near;
	if (source == NULL || source->id != sample->id || source->pid != sample->pid || source->tid != sample->tid || source->cpu != sample->cpu ||
	    source->event != sample->event)
		*near = source = look_for_source(table, sample);
	return source;
}

// ---------------------------------------------------------------- chains

struct plain_sample seen_sample_of(const struct record *record, size_t event)
{
	const struct record_sample *s = &record->sample;
	struct plain_sample sample = { .ip = s->ip, .time_ns = record->id.time_ns, .period = s->period, .pid = record->id.pid, .tid = record->id.tid,
	                                .id = (record->id.has & PERF_SAMPLE_ID) != 0 ? record->id.id : UINT64_MAX, .cpu = record->id.cpu,
	                                .event = (uint32_t)event, .misc = record->misc };
	const uint8_t *end = NULL;
	if (s->callchain != NULL) { // the raw data follows it, if there is any
		sample.bytes = (const uint8_t *)(s->callchain - 1);
		sample.callchain_count = (uint32_t)s->callchain_count;
		end = (const uint8_t *)(s->callchain + s->callchain_count);
	}
	if (s->raw != NULL) {
		sample.bytes = sample.bytes != NULL ? sample.bytes : s->raw - sizeof(uint32_t);
		sample.raw_at = (uint32_t)(s->raw - sample.bytes);
		sample.raw_size = s->raw_size;
		end = s->raw + s->raw_size;
	}
	sample.size = end != NULL ? (uint32_t)(end - sample.bytes) : 0;
	return sample;
}

// What counts is the bytes.
static inline bool is_same(const struct seen_chain *chain, const struct plain_sample *sample)
{
	return chain->ip == sample->ip && chain->event == sample->event && chain->misc == sample->misc && chain->size == sample->size &&
	       (sample->size == 0 || memcmp(chain->words, sample->bytes, sample->size) == 0);
}

static struct seen_chain *add(struct seen_table *table, const struct plain_sample *sample)
{
	struct seen_chain *chain = arena_alloc(&table->arena, sizeof(*chain) + sample->size);
	*chain = (struct seen_chain){ .table = table, .ip = sample->ip, .event = sample->event, .misc = sample->misc, .raw_at = sample->raw_at,
	                              .callchain_count = sample->callchain_count, .raw_size = sample->raw_size, .size = sample->size };
	if (sample->size > 0)
		memcpy(chain->words, sample->bytes, sample->size);
	return chain;
}

// A few words tell nearly all chains apart: where the leaf is and was called from, how long it is, and what stands in its middle, near its root and at its end.
static inline uint64_t quick_hash(const struct plain_sample *s)
{
	enum { FEW = 64 };
	uint64_t more = ((uint64_t)s->event << 16 | s->misc) << 32 | s->size;
	if (s->size < FEW)
		return hash_end(hash_bytes(s->bytes, s->size) ^ hash_two(s->ip, more, 0));
	size_t middle = (s->size / 2) & ~(size_t)7, late = (s->size - s->size / 4) & ~(size_t)7;
	return hash_end(hash_two(s->ip, plain_word(s->bytes, 24), 0) ^ hash_two(plain_word(s->bytes, 32), plain_word(s->bytes, middle), 1) ^
	                hash_two(plain_word(s->bytes, late), plain_word(s->bytes, s->size - 8) ^ more, 2));
}

// The slot of the chain, or the free one where it belongs; NULL: so many others have its hash that it is to be looked for by another.
static struct seen_slot *slot_of(struct seen_slots *slots, const struct plain_sample *sample, uint64_t hash, size_t others_most)
{
	size_t mask = slots->capacity - 1, at = hash & mask, others = 0;
	for (; slots->data[at].entry != NULL; at = (at + 1) & mask) {
		if (slots->data[at].hash != hash)
			continue;
		if (is_same(slots->data[at].entry, sample))
			break;
		if (++others > others_most)
			return NULL;
	}
	return &slots->data[at];
}

// Chains of a recursion may differ in few words.
static struct seen_slot *slot_by_all(struct seen_slots *slots, const struct plain_sample *sample, uint64_t *hash)
{
	enum { SAME_HASH_MOST = 16 };
	*hash = hash_end(hash_two(hash_bytes(sample->bytes, sample->size), *hash, 0));
	struct seen_slot *slot = slot_of(slots, sample, *hash, SAME_HASH_MOST);
	return slot != NULL ? slot : &slots->data[*hash & (slots->capacity - 1)];
}

static inline struct seen_chain *chain_of(struct seen_table *table, const struct plain_sample *sample, uint64_t hash)
{
	enum { SAME_WORDS_MOST = 4 };
	struct seen_slots *slots = &table->chains;
	if (slots->count * 2 >= slots->capacity)
		slots_grow(slots);
	struct seen_slot *slot = &slots->data[hash & (slots->capacity - 1)];
	if (slot->hash == hash && slot->entry != NULL && is_same(slot->entry, sample))
		return slot->entry;
	slot = slot_of(slots, sample, hash, SAME_WORDS_MOST);
	if (slot == NULL)
		slot = slot_by_all(slots, sample, &hash);
	if (slot->entry == NULL || !is_same(slot->entry, sample)) {
		slots->count += slot->entry == NULL;
		*slot = (struct seen_slot){ hash, add(table, sample) };
	}
	return slot->entry;
}

// All of a chain comes into the cache at once, where one line after another would be waited for; of long ones the rest comes in order.
static inline void fetch_chain(const struct seen_slots *slots, uint64_t hash, size_t size)
{
	enum { LINE = 64 };
	const uint8_t *chain = slots->data[hash & (slots->capacity - 1)].entry;
	__builtin_prefetch(chain);
	__builtin_prefetch(chain + LINE);
	__builtin_prefetch(chain + 2 * LINE);
	__builtin_prefetch(chain + 3 * LINE);
	if (size <= 3 * LINE)
		return;
	__builtin_prefetch(chain + 4 * LINE);
	__builtin_prefetch(chain + 5 * LINE);
}

static void find_some(struct seen_table *table, const struct plain_sample *samples, size_t count, struct queue_item *out)
{
	enum { CHAINS_AHEAD = 6 };
	uint64_t hashes[AT_ONCE];
	for (size_t i = 0; i < count; i++) {
		const struct plain_sample *s = &samples[i];
		hashes[i] = quick_hash(s);
		__builtin_prefetch(&table->chains.data[hashes[i] & (table->chains.capacity - 1)]);
	}
	for (size_t i = 0; i < count && i < CHAINS_AHEAD; i++)
		fetch_chain(&table->chains, hashes[i], samples[i].size);
	for (size_t i = 0; i < count; i++) {
		const struct plain_sample *s = &samples[i];
		if (i + CHAINS_AHEAD < count)
			fetch_chain(&table->chains, hashes[i + CHAINS_AHEAD], samples[i + CHAINS_AHEAD].size);
		out[i] = (struct queue_item){ .time_ns = s->time_ns, .period = s->period, .chain = chain_of(table, s, hashes[i]), .source = source_of(table, s) };
	}
}

void seen_find(struct seen_table *table, const struct plain_sample *samples, size_t count, struct queue_item *out)
{
	for (size_t i = 0, some; i < count; i += some) {
		some = count - i < AT_ONCE ? count - i : AT_ONCE;
		find_some(table, samples + i, some, out + i);
	}
}
