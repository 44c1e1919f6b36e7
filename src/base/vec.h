// Growable arrays: `VEC(struct mapping) maps;` is {data, count, capacity}, zero-initialized to start.
#ifndef PERFSAMPLE_BASE_VEC_H
#define PERFSAMPLE_BASE_VEC_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define VEC(type) struct { type *data; size_t count, capacity; }

// Makes room for `extra` more elements; the capacity doubles as long as that is little, then grows by half.
#define vec_reserve(v, extra) \
	((v)->data = vec_grown((v)->data, &(v)->capacity, (v)->count + (extra), sizeof(*(v)->data)))
// Appends a value.
#define vec_push(v, ...) (vec_reserve(v, 1), (v)->data[(v)->count++] = (__VA_ARGS__))
// Appends a zeroed element and yields its address, valid until the next growth.
#define vec_add(v) (vec_reserve(v, 1), memset(&(v)->data[(v)->count], 0, sizeof(*(v)->data)), &(v)->data[(v)->count++])
#define vec_clear(v) ((v)->count = 0)
#define vec_release(v) (free((v)->data), (v)->data = NULL, (v)->count = (v)->capacity = 0)

static inline void *vec_grown(void *data, size_t *capacity, size_t need, size_t size)
{
	return __builtin_expect(need <= *capacity, 1) ? data : mem_grow(data, capacity, need, size);
}

#endif
