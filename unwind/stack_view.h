// The copy of a thread's stack, and what a read outside it means.
#ifndef PERFSAMPLE_UNWIND_STACK_VIEW_H
#define PERFSAMPLE_UNWIND_STACK_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "unwind/unwind.h"

struct stack_view {
	const uint8_t *bytes;
	uint64_t start; // address of bytes[0]
	uint64_t size;
	uint64_t asked;    // bytes that were to be copied, `size` or more
	uint64_t top;      // end of the thread's stack, 0: not known
	uint64_t addr_end; // no address of user space from here on
	uint16_t machine;  // EM_*: what its registers' numbers mean
	uint8_t word_bytes;
	unwind_read_fn *read; // what is not in the copy; NULL: nothing
	void *read_context;
};

static inline bool stack_word_elsewhere(const struct stack_view *view, uint64_t addr, uint64_t *out)
{
	return view->read != NULL && (addr & (uint64_t)(view->word_bytes - 1)) == 0 && view->read(view->read_context, addr, view->word_bytes, out);
}

// One word of the target, little-endian as every architecture we know. false: not to be had, or misaligned.
static inline bool stack_word(const struct stack_view *view, uint64_t addr, uint64_t *out)
{
	uint64_t offset = addr - view->start;

	if (view->word_bytes == 8) {
		if (offset >= view->size || view->size - offset < 8 || (addr & 7) != 0)
			return stack_word_elsewhere(view, addr, out);
		memcpy(out, view->bytes + offset, 8);
	} else {
		uint32_t word;
		if (offset >= view->size || view->size - offset < 4 || (addr & 3) != 0)
			return stack_word_elsewhere(view, addr, out);
		memcpy(&word, view->bytes + offset, 4);
		*out = word;
	}
	return true;
}

// Why stack_word failed. Past the copy's end the stack goes on, unless its top is known to be below. Where more was to be copied, a page of it was not in memory.
static inline enum unwind_end stack_miss(const struct stack_view *view, uint64_t addr)
{
	if (addr < view->start || addr >= view->addr_end || (addr & (uint64_t)(view->word_bytes - 1)) != 0)
		return UNWIND_BAD_READ;
	if (view->top != 0 && addr >= view->top)
		return UNWIND_BAD_READ;
	return addr - view->start < view->asked && view->size < view->asked ? UNWIND_ABSENT_PAGE : UNWIND_TRUNCATED;
}

#endif
