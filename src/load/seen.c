#include "load/seen.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/mem.h"

enum {
	TABLE_BYTES_MOST = 32 << 20, // of chains in one table
	FIRST_SLOTS = 4096,
};

struct seen_slot { uint64_t hash; struct seen_chain *chain; };

struct seen_table {
	struct arena arena;
	struct seen_slot *slots;
	size_t count, capacity; // at most half full
	size_t waiting;         // samples that were given a chain and have not let it go
	struct seen_table *next; // old ones
};

static struct seen_table *new_table(void)
{
	struct seen_table *table = NEW(struct seen_table);
	table->capacity = FIRST_SLOTS;
	table->slots = mem_zero(table->capacity, sizeof(*table->slots));
	return table;
}

static void free_table(struct seen_table *table)
{
	arena_release(&table->arena);
	free(table->slots);
	free(table);
}

void seen_release(struct seen *seen)
{
	if (seen->filling != NULL)
		free_table(seen->filling);
	while (seen->old != NULL) {
		struct seen_table *next = seen->old->next;
		free_table(seen->old);
		seen->old = next;
	}
	seen->filling = NULL;
}

static void free_old(struct seen *seen, struct seen_table *table)
{
	for (struct seen_table **at = &seen->old; *at != NULL; at = &(*at)->next) {
		if (*at == table) {
			*at = table->next;
			free_table(table);
			return;
		}
	}
}

void seen_done(struct seen *seen, struct seen_chain *chain)
{
	struct seen_table *table = chain->table;
	if (--table->waiting == 0 && table != seen->filling)
		free_old(seen, table);
}

static void grow(struct seen_table *table)
{
	size_t capacity = table->capacity * 2, mask = capacity - 1;
	struct seen_slot *slots = mem_zero(capacity, sizeof(*slots));
	for (size_t i = 0; i < table->capacity; i++) {
		if (table->slots[i].chain == NULL)
			continue;
		size_t at = table->slots[i].hash & mask;
		while (slots[at].chain != NULL)
			at = (at + 1) & mask;
		slots[at] = table->slots[i];
	}
	free(table->slots);
	table->slots = slots;
	table->capacity = capacity;
}

// Hashes can be made to collide: what counts is the bytes.
static bool is_same(const struct seen_chain *chain, const struct seen_key *key)
{
	size_t chain_bytes = key->callchain_count * sizeof(uint64_t);
	return chain->ip == key->ip && chain->event == key->event && chain->misc == key->misc && chain->callchain_count == key->callchain_count &&
	       chain->raw_size == key->raw_size && (chain_bytes == 0 || memcmp(chain->words, key->words, chain_bytes) == 0) &&
	       (key->raw_size == 0 || memcmp(chain->words + chain->callchain_count, key->raw, key->raw_size) == 0);
}

// Both parts at once, where the raw data stands behind the chain, as it does in a file.
static uint64_t hash_of(const struct record_sample *sample)
{
	size_t chain_bytes = sample->callchain_count * sizeof(uint64_t);
	const uint8_t *behind = (const uint8_t *)sample->callchain + chain_bytes;
	if (sample->raw_size == 0)
		return hash_bytes(sample->callchain, chain_bytes);
	if (chain_bytes > 0 && sample->raw == behind + sizeof(uint32_t))
		return hash_bytes(sample->callchain, chain_bytes + sizeof(uint32_t) + sample->raw_size);
	return hash_bytes(sample->callchain, chain_bytes) ^ hash_bytes(sample->raw, sample->raw_size);
}

struct seen_key seen_key_of(const struct record *record, size_t event)
{
	const struct record_sample *sample = &record->sample;
	return (struct seen_key){ .hash = hash_of(sample) ^ sample->ip ^ ((uint64_t)event << 16 | record->misc) * 0x9e3779b97f4a7c15u, .ip = sample->ip,
	                          .words = sample->callchain, .raw = sample->raw, .callchain_count = (uint32_t)sample->callchain_count,
	                          .raw_size = sample->raw_size, .event = (uint32_t)event, .misc = record->misc };
}

void seen_fetch_slot(const struct seen *seen, const struct seen_key *key)
{
	const struct seen_table *table = seen->filling;
	if (table != NULL)
		__builtin_prefetch(&table->slots[key->hash & (table->capacity - 1)]);
}

// All of a chain comes into the cache at once, where one line after another would be waited for.
void seen_fetch_chain(const struct seen *seen, const struct seen_key *key)
{
	enum { LINE_BYTES = 64, LINES_MOST = 8 };
	const struct seen_table *table = seen->filling;
	const struct seen_chain *chain = table != NULL ? table->slots[key->hash & (table->capacity - 1)].chain : NULL;
	size_t lines = (sizeof(*chain) + key->callchain_count * sizeof(uint64_t) + key->raw_size) / LINE_BYTES;
	for (size_t i = 0; chain != NULL && i <= lines && i < LINES_MOST; i++)
		__builtin_prefetch((const uint8_t *)chain + i * LINE_BYTES);
}

static struct seen_chain *add(struct seen_table *table, const struct seen_key *key)
{
	size_t chain_bytes = key->callchain_count * sizeof(uint64_t);
	struct seen_chain *chain = arena_alloc(&table->arena, sizeof(*chain) + chain_bytes + key->raw_size);
	chain->table = table;
	chain->ip = key->ip;
	chain->event = key->event;
	chain->misc = key->misc;
	chain->callchain_count = key->callchain_count;
	chain->raw_size = key->raw_size;
	if (chain_bytes > 0)
		memcpy(chain->words, key->words, chain_bytes);
	if (key->raw_size > 0)
		memcpy(chain->words + key->callchain_count, key->raw, key->raw_size);
	return chain;
}

struct seen_chain *seen_find(struct seen *seen, const struct seen_key *key)
{
	uint64_t hash = key->hash;
	struct seen_table *table = seen->filling;
	if (table == NULL || table->arena.bytes > TABLE_BYTES_MOST) {
		if (table != NULL && table->waiting == 0) {
			free_table(table);
		} else if (table != NULL) {
			table->next = seen->old;
			seen->old = table;
		}
		table = seen->filling = new_table();
	}
	if (table->count * 2 >= table->capacity)
		grow(table);
	size_t mask = table->capacity - 1, at = hash & mask;
	struct seen_slot *slot = &table->slots[at];
	while (slot->chain != NULL && (slot->hash != hash || !is_same(slot->chain, key))) {
		at = (at + 1) & mask;
		slot = &table->slots[at];
	}
	if (slot->chain == NULL) {
		*slot = (struct seen_slot){ hash, add(table, key) };
		table->count++;
	}
	table->waiting++;
	return slot->chain;
}
