// Hashing under a key, and one map: 64-bit key to 32-bit value. Tables keyed by more store an index and compare themselves.
//
// What is hashed comes from files and other people's programs, and a table that probes is quadratic in keys that share a place. So every hash is made under a
// key that the process draws at its start (getrandom(2)) and nothing shows: whoever does not know it cannot choose words that collide. Hashes therefore differ
// from run to run. None goes into a file or an output, and no table is walked in the order of its slots.
#ifndef PERFSAMPLE_BASE_HASH_H
#define PERFSAMPLE_BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HASH_KEYS = 6 };
extern uint64_t hash_keys[HASH_KEYS] __attribute__((visibility("hidden"))); // drawn before main(), not changed afterwards; odd

// Both halves of a product: each bit of either factor reaches all of it. A factor of 0 makes it 0 whatever the other one is, so what others may choose is never
// a factor as it stands: with a key over it nobody knows which word would be that 0.
static inline uint64_t hash_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Two words under keys of their own; `which`, below HASH_KEYS / 2, chooses them. Those of different `which` may be xored; hash_end makes a hash of it.
static inline uint64_t hash_two(uint64_t a, uint64_t b, unsigned which)
{
	return hash_fold(a ^ hash_keys[2 * which], b ^ hash_keys[2 * which + 1]);
}

// Folded once more: once leaves words at even distances at even distances.
static inline uint64_t hash_end(uint64_t x)
{
	return hash_fold(x ^ hash_keys[2], hash_keys[3]);
}

static inline uint64_t hash_u64(uint64_t x)
{
	return hash_end(hash_fold(x ^ hash_keys[0], hash_keys[1]));
}

static inline uint64_t hash_pair(uint64_t a, uint64_t b)
{
	return hash_u64(hash_fold(a ^ hash_keys[4], hash_keys[5]) ^ b);
}

uint64_t hash_bytes(const void *bytes, size_t size);
// The same in every process, for what is shown (a colour by a name): never for a table.
uint64_t hash_bytes_fixed(const void *bytes, size_t size);

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
