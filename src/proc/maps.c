#include "proc/maps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/search.h"

struct maps *maps_retain(struct maps *maps)
{
	__atomic_add_fetch(&maps->references, 1, __ATOMIC_RELAXED);
	return maps;
}

void maps_release(struct maps *maps)
{
	// Counted atomically: a sample set aside is let go by another thread than the one that applies records.
	if (maps == NULL || __atomic_sub_fetch(&maps->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	__atomic_sub_fetch(&maps->pool->bytes, sizeof(*maps) + maps->capacity * sizeof(maps->items[0]), __ATOMIC_RELAXED);
	maps_pool_release(maps->pool);
	free(maps);
}

uint32_t maps_lower_bound(const struct maps *maps, uint64_t addr)
{
	return (uint32_t)first_not(0, maps->count, i, maps->items[i].end <= addr);
}

const struct mapping *maps_find(const struct maps *maps, uint64_t addr)
{
	uint32_t i = maps_lower_bound(maps, addr);
	return i < maps->count && maps->items[i].start <= addr ? &maps->items[i] : NULL;
}

static size_t maps_bytes(uint32_t capacity)
{
	return sizeof(struct maps) + capacity * sizeof(struct mapping);
}

struct maps_pool *maps_pool_new(void)
{
	struct maps_pool *pool = NEW(struct maps_pool);
	pool->users = 1;
	pool->limit_bytes = MAPS_POOL_BYTES;
	return pool;
}

void maps_pool_release(struct maps_pool *pool)
{
	if (__atomic_sub_fetch(&pool->users, 1, __ATOMIC_ACQ_REL) == 0)
		free(pool);
}

static uint32_t next_generation(struct maps_pool *pool)
{
	if (++pool->generation == 0)
		pool->generation = 1;
	return pool->generation;
}

struct maps *maps_new(struct maps_pool *pool, uint32_t capacity)
{
	struct maps *maps = mem_alloc(maps_bytes(capacity));
	*maps = (struct maps){ .references = 1, .generation = next_generation(pool), .capacity = capacity, .pool = pool };
	__atomic_add_fetch(&pool->users, 1, __ATOMIC_RELAXED);
	__atomic_add_fetch(&pool->bytes, maps_bytes(capacity), __ATOMIC_RELAXED);
	return maps;
}

// `maps` with room for `extra` more mappings and nobody else holding it, the old reference given up; NULL: a limit is reached.
static struct maps *maps_writable(struct maps *maps, uint32_t extra)
{
	uint32_t need = maps->count + extra;
	// Only whoever holds a reference can make another, so a count of one cannot rise meanwhile.
	bool alone = __atomic_load_n(&maps->references, __ATOMIC_ACQUIRE) == 1;

	if (need > MAPS_LIMIT || ((!alone || need > maps->capacity) &&
	                          __atomic_load_n(&maps->pool->bytes, __ATOMIC_RELAXED) + maps_bytes(need) > maps->pool->limit_bytes))
		return NULL;
	if (alone) {
		if (need > maps->capacity) {
			uint32_t capacity = need + need / 2 + 8;
			__atomic_add_fetch(&maps->pool->bytes, maps_bytes(capacity) - maps_bytes(maps->capacity), __ATOMIC_RELAXED);
			maps = mem_resize(maps, 1, maps_bytes(capacity));
			maps->capacity = capacity;
		}
		maps->generation = next_generation(maps->pool);
		return maps;
	}
	struct maps *copy = maps_new(maps->pool, need + need / 4 + 4);
	memcpy(copy->items, maps->items, maps->count * sizeof(maps->items[0]));
	copy->count = maps->count;
	maps_release(maps);
	return copy;
}

struct mapping mapping_from(const struct mapping *m, uint64_t start)
{
	struct mapping tail = *m;
	tail.pgoff += start - m->start;
	tail.start = start;
	return tail;
}

struct maps *maps_replace(struct maps *maps, uint64_t start, uint64_t end, const struct mapping *put, bool *refused)
{
	uint32_t first = maps_lower_bound(maps, start), last = first;
	while (last < maps->count && maps->items[last].start < end)
		last++;
	if (first == last && put == NULL)
		return maps;
	if (put != NULL && last == first + 1 && memcmp(&maps->items[first], put, sizeof(*put)) == 0)
		return maps;

	struct mapping pieces[3];
	uint32_t count = 0;
	if (first < last && maps->items[first].start < start) {
		pieces[count] = maps->items[first];
		pieces[count++].end = start;
	}
	if (put != NULL)
		pieces[count++] = *put;
	if (first < last && maps->items[last - 1].end > end)
		pieces[count++] = mapping_from(&maps->items[last - 1], end);

	struct maps *changed = maps_writable(maps, count);
	if (changed == NULL) {
		*refused = true;
		return maps;
	}
	maps = changed;
	memmove(&maps->items[first + count], &maps->items[last], (maps->count - last) * sizeof(maps->items[0]));
	memcpy(&maps->items[first], pieces, count * sizeof(pieces[0]));
	maps->count = maps->count - (last - first) + count;
	return maps;
}
