// A sorted run of mappings, shared and copied on change. Private to space.c.
#ifndef PERFSAMPLE_PROC_MAPS_H
#define PERFSAMPLE_PROC_MAPS_H

#include "proc/space.h"

enum { MAPS_LIMIT = 1 << 16 };                    // mappings of a process: vm.max_map_count's default counts data too
#define MAPS_POOL_BYTES ((uint64_t)1 << 30) // of all: a file may say that thousands of processes each changed a large map

// What the maps of one `struct spaces` share. It lives as long as the last of them.
struct maps_pool {
	uint64_t bytes;      // atomic: maps are released by other threads too
	uint64_t limit_bytes;
	uint32_t users;      // atomic: maps, and the spaces
	uint32_t generation; // last one given out
};

struct maps_pool *maps_pool_new(void);
void maps_pool_release(struct maps_pool *pool);
// Empty, with one reference.
struct maps *maps_new(struct maps_pool *pool, uint32_t capacity);
// Ends whatever lies in [start, end) and puts `put` there (NULL: a hole); what sticks out on either side stays. The caller's reference
// passes to the result, which is `maps` itself when nobody else holds it, nothing changes, or a limit is reached (*refused, then).
struct maps *maps_replace(struct maps *maps, uint64_t start, uint64_t end, const struct mapping *put, bool *refused);
// The first mapping that ends behind `addr`.
uint32_t maps_lower_bound(const struct maps *maps, uint64_t addr);
// The part of `m` from `start` on.
struct mapping mapping_from(const struct mapping *m, uint64_t start);

#endif
