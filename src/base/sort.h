// Sorting numbers with what belongs to them.
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

#endif
