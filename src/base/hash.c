#include "base/hash.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>
#include <time.h>

#include "base/mem.h"

uint64_t hash_keys[HASH_KEYS];

// AT_RANDOM: 16 bytes that the kernel gave this process, for one whose getrandom() is refused or not ready yet.
static void draw(uint64_t *words, size_t count)
{
	if (getrandom(words, count * sizeof(*words), GRND_NONBLOCK) == (ssize_t)(count * sizeof(*words)))
		return;
	const uint8_t *given = (const uint8_t *)getauxval(AT_RANDOM);
	struct timespec now = { 0 };
	uint64_t state[2] = { 0 };
	clock_gettime(CLOCK_REALTIME, &now);
	if (given != NULL)
		memcpy(state, given, sizeof(state));
	for (size_t i = 0; i < count; i++) // the constants of PCG's multiplier and of the golden ratio
		words[i] = state[i % 2] = hash_fold(state[i % 2] ^ 0x9e3779b97f4a7c15u, (state[1 - i % 2] ^ (uint64_t)now.tv_nsec) | 0x5851f42d00000001u) + i;
}

// Before main(): before there are threads, or any table.
__attribute__((constructor)) static void draw_keys(void)
{
	draw(hash_keys, HASH_KEYS);
	for (size_t i = 0; i < HASH_KEYS; i++)
		hash_keys[i] |= 1; // a factor that is even, or 0, would lose what it is multiplied with
}

static uint64_t word_at(const uint8_t *bytes)
{
	uint64_t word;
	memcpy(&word, bytes, sizeof(word));
	return word;
}

// Pairs of words are multiplied, each pair under keys of its place, and the products added: they do not wait for one another, so that a
// call chain of 25 frames takes about as many cycles.
static uint64_t hash_words(const uint8_t *p, size_t size, uint64_t key, uint64_t other)
{
	static const uint64_t step = 0x9e3779b97f4a7c15u, other_step = 0xd1342543de82ef95u;
	uint64_t sums[2] = { size * step, 0 };
	for (; size >= 32; p += 32, size -= 32, key += step, other += other_step) {
		sums[0] += hash_fold(word_at(p) ^ key, word_at(p + 8) ^ other);
		sums[1] += hash_fold(word_at(p + 16) ^ other, word_at(p + 24) ^ key);
	}
	for (; size >= 8; p += 8, size -= 8, key += step)
		sums[0] += hash_fold(word_at(p) ^ key, other);
	uint64_t rest = 0;
	if (size > 0)
		memcpy(&rest, p, size);
	return sums[0] ^ hash_fold(sums[1] ^ key, rest ^ other);
}

uint64_t hash_bytes(const void *bytes, size_t size)
{
	return hash_end(hash_words(bytes, size, hash_keys[4], hash_keys[5]));
}

// The finalizer has full avalanche (the "splitmix64" constants of Steele, Lea & Flood 2014).
uint64_t hash_bytes_fixed(const void *bytes, size_t size)
{
	uint64_t x = hash_words(bytes, size, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu);
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static size_t find(const struct hash_map *map, uint64_t key)
{
	size_t mask = map->capacity - 1, i = hash_u64(key) & mask;
	while (map->slots[i].used && map->slots[i].key != key)
		i = (i + 1) & mask;
	return i;
}

uint32_t *hash_map_get(const struct hash_map *map, uint64_t key)
{
	if (map->count == 0)
		return NULL;
	size_t i = find(map, key);
	return map->slots[i].used ? &map->slots[i].value : NULL;
}

// Fresh memory is written to before it is read: a page that is read first is mapped twice, as zeros and when it is written.
static struct hash_slot *slots_new(size_t capacity)
{
	enum { SLOTS_A_PAGE = 4096 / sizeof(struct hash_slot) };
	struct hash_slot *slots = mem_zero(capacity, sizeof(*slots));
	for (size_t i = 0; i < capacity; i += SLOTS_A_PAGE)
		*(volatile bool *)&slots[i].used = false;
	return slots;
}

static void grow_to(struct hash_map *map, size_t capacity)
{
	struct hash_map old = *map;
	map->capacity = capacity;
	map->slots = slots_new(capacity);
	for (size_t i = 0; i < old.capacity; i++)
		if (old.slots[i].used)
			map->slots[find(map, old.slots[i].key)] = old.slots[i];
	free(old.slots);
}

void hash_map_reserve(struct hash_map *map, size_t count)
{
	size_t capacity = map->capacity > 0 ? map->capacity : 16;
	while (count >= capacity / 4 * 3)
		capacity *= 2;
	if (capacity > map->capacity)
		grow_to(map, capacity);
}

uint32_t *hash_map_put(struct hash_map *map, uint64_t key, uint32_t initial, bool *is_new)
{
	if (map->count * 4 >= map->capacity * 3)
		grow_to(map, map->capacity > 0 ? map->capacity * 2 : 16);
	struct hash_slot *slot = &map->slots[find(map, key)];
	if (is_new != NULL)
		*is_new = !slot->used;
	if (!slot->used) {
		*slot = (struct hash_slot){ .key = key, .value = initial, .used = true };
		map->count++;
	}
	return &slot->value;
}

// Linear probing without tombstones: what follows is moved back (Knuth, TAOCP 3, 6.4, algorithm R).
bool hash_map_remove(struct hash_map *map, uint64_t key)
{
	if (map->count == 0)
		return false;
	size_t mask = map->capacity - 1, hole = find(map, key);
	if (!map->slots[hole].used)
		return false;
	for (size_t i = (hole + 1) & mask; map->slots[i].used; i = (i + 1) & mask) {
		size_t home = hash_u64(map->slots[i].key) & mask;
		if (((i - home) & mask) >= ((i - hole) & mask)) {
			map->slots[hole] = map->slots[i];
			hole = i;
		}
	}
	map->slots[hole].used = false;
	map->count--;
	return true;
}

void hash_map_clear(struct hash_map *map)
{
	if (map->capacity > 0)
		memset(map->slots, 0, map->capacity * sizeof(*map->slots));
	map->count = 0;
}

void hash_map_release(struct hash_map *map)
{
	free(map->slots);
	*map = (struct hash_map){ 0 };
}
