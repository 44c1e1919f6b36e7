// A sorted run of mappings, shared and copied on change. Private to space.c.
#ifndef PERFSAMPLE_PROC_MAPS_H
#define PERFSAMPLE_PROC_MAPS_H

#include "proc/space.h"

// Empty, with one reference. `generation` is the last one given out among the maps of a `struct spaces`.
struct maps *maps_new(uint32_t *generation, uint32_t capacity);
// Ends whatever lies in [start, end) and puts `put` there (NULL: a hole); what sticks out on either side stays. The caller's reference
// passes to the result, which is `maps` itself when nobody else holds it or nothing changes.
struct maps *maps_replace(uint32_t *generation, struct maps *maps, uint64_t start, uint64_t end, const struct mapping *put);
// The first mapping that ends behind `addr`.
uint32_t maps_lower_bound(const struct maps *maps, uint64_t addr);
// The part of `m` from `start` on.
struct mapping mapping_from(const struct mapping *m, uint64_t start);

#endif
