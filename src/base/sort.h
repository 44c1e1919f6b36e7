// Sorting: numbers with what belongs to them, and anything by a comparison. Of equal keys the first stays first, which the C library does not promise: glibc does it while
// there is memory for it, others never do. So nothing else sorts here, and the same input gives the same order everywhere.
#ifndef PERFSAMPLE_BASE_SORT_H
#define PERFSAMPLE_BASE_SORT_H

#include <stddef.h>
#include <stdint.h>

struct sort_item {
	uint64_t key;
	uint32_t value;
};

// By key; of equal keys the first stays first.
void sort_items(struct sort_item *items, size_t count);

typedef int sort_compare_fn(const void *a, const void *b);
typedef int sort_compare_with_fn(const void *a, const void *b, void *context);
// As the C library has them, and stable. `base` may be NULL where there is nothing to sort.
void sort_stable(void *base, size_t count, size_t size, sort_compare_fn *compare);
void sort_stable_with(void *base, size_t count, size_t size, sort_compare_with_fn *compare, void *context);

#endif
