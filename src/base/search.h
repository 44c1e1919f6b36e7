// Binary search for a place in order, where bsearch(3) finds equals only (C++: std::partition_point).
//
//     size_t next = first_not(0, rows.count, i, rows.data[i].start <= addr); // rows[next - 1], if there is one, is the last at or before addr
#ifndef PERFSAMPLE_BASE_SEARCH_H
#define PERFSAMPLE_BASE_SEARCH_H

#include <stddef.h>

// Of the numbers from `low` to `high` - 1, the first that `condition` does not hold for; `high`: it holds for all. `i` is what the condition calls the number
// that it is asked about. It must hold for no number behind one that it does not hold for.
#define first_not(low, high, i, condition) \
	({ \
		size_t first_ = (low), end_ = (high); \
		while (first_ < end_) { \
			const size_t i = first_ + (end_ - first_) / 2; \
			if (condition) \
				first_ = i + 1; \
			else \
				end_ = i; \
		} \
		first_; \
	})

#endif
