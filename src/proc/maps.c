#include "proc/maps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct maps *maps_retain(struct maps *maps)
{
	__atomic_add_fetch(&maps->references, 1, __ATOMIC_RELAXED);
	return maps;
}

void maps_release(struct maps *maps)
{
	// Counted atomically: a sample set aside is let go by another thread than the one that applies records.
	if (maps != NULL && __atomic_sub_fetch(&maps->references, 1, __ATOMIC_ACQ_REL) == 0)
		free(maps);
}

uint32_t maps_lower_bound(const struct maps *maps, uint64_t addr)
{
	uint32_t low = 0, high = maps->count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (maps->items[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

const struct mapping *maps_find(const struct maps *maps, uint64_t addr)
{
	uint32_t i = maps_lower_bound(maps, addr);
	return i < maps->count && maps->items[i].start <= addr ? &maps->items[i] : NULL;
}

static uint32_t next_generation(uint32_t *generation)
{
	if (++*generation == 0)
		*generation = 1;
	return *generation;
}

struct maps *maps_new(uint32_t *generation, uint32_t capacity)
{
	struct maps *maps = mem_alloc(sizeof(*maps) + capacity * sizeof(maps->items[0]));
	*maps = (struct maps){ .references = 1, .generation = next_generation(generation), .capacity = capacity };
	return maps;
}

// `maps` with room for `extra` more mappings and nobody else holding it; the old reference is given up.
static struct maps *maps_writable(uint32_t *generation, struct maps *maps, uint32_t extra)
{
	uint32_t need = maps->count + extra;
	// Only whoever holds a reference can make another, so a count of one cannot rise meanwhile.
	if (__atomic_load_n(&maps->references, __ATOMIC_ACQUIRE) == 1) {
		if (need > maps->capacity) {
			maps->capacity = need + need / 2 + 8;
			maps = mem_resize(maps, 1, sizeof(*maps) + maps->capacity * sizeof(maps->items[0]));
		}
		maps->generation = next_generation(generation);
		return maps;
	}
	struct maps *copy = maps_new(generation, need + need / 4 + 4);
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

struct maps *maps_replace(uint32_t *generation, struct maps *maps, uint64_t start, uint64_t end, const struct mapping *put)
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

	maps = maps_writable(generation, maps, count);
	memmove(&maps->items[first + count], &maps->items[last], (maps->count - last) * sizeof(maps->items[0]));
	memcpy(&maps->items[first], pieces, count * sizeof(pieces[0]));
	maps->count = maps->count - (last - first) + count;
	return maps;
}
