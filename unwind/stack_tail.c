#include "unwind/stack_tail.h"

#include <string.h>

enum stack_tail stack_tail_match(const uint8_t *read, size_t read_size, const uint8_t *copy, size_t copy_size, bool stood_still)
{
	if (copy_size < STACK_TAIL_OVERLAP_BYTES || read_size <= copy_size)
		return STACK_TAIL_NONE;
	size_t above = copy_size - STACK_TAIL_OVERLAP_BYTES;
	if (memcmp(read + above, copy + above, STACK_TAIL_OVERLAP_BYTES) != 0)
		return STACK_TAIL_NONE;
	return stood_still && memcmp(read, copy, above) == 0 ? STACK_TAIL_EXACT : STACK_TAIL_CHECKED;
}
