// Hashing, and one map: 64-bit key to 32-bit value. Tables keyed by more store an index and compare themselves.
#ifndef PERFSAMPLE_BASE_HASH_H
#define PERFSAMPLE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A finalizer with full avalanche (the "splitmix64" constants of Steele, Lea & Flood 2014).
static inline uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 30;
	x *= 0xbf58476d1ce4e5b9u;
	x ^= x >> 27;
	x *= 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b)
{
	return hash_u64(hash_u64(a + 0x9e3779b97f4a7c15u) ^ b);
}

uint64_t hash_bytes(const void *bytes, size_t size);

struct hash_slot {
	uint64_t key;
	uint32_t value;
	bool used;
};

// Open addressing, linear probing, at most three quarters full. A zeroed struct is an empty map.
struct hash_map {
	struct hash_slot *slots;
	size_t count, capacity;
};

// The value's place, or NULL. Valid until the next hash_map_put.
uint32_t *hash_map_get(const struct hash_map *map, uint64_t key);
// Makes room for `count` keys in all.
void hash_map_reserve(struct hash_map *map, size_t count);
// The value's place, made with `initial` when the key was new; `*is_new` (may be NULL) tells.
uint32_t *hash_map_put(struct hash_map *map, uint64_t key, uint32_t initial, bool *is_new);
bool hash_map_remove(struct hash_map *map, uint64_t key);
void hash_map_clear(struct hash_map *map);
void hash_map_release(struct hash_map *map);

#endif
