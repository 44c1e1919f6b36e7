// Which reads of a stack belong to its copy.
#include "unwind/stack_tail.h"

#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

enum { COPY = 16384, READ = 40000 };

static uint8_t copy[COPY], bytes[COPY];

static void fresh(void)
{
	for (size_t i = 0; i < COPY; i++)
		bytes[i] = (uint8_t)(i * 31 + (i >> 8));
	memcpy(copy, bytes, COPY);
}

int main(void)
{
	fresh();
	ok(stack_tail_match(bytes, READ, copy, COPY, true) == STACK_TAIL_EXACT, "the whole copy is as it was: exact");
	ok(stack_tail_match(bytes, READ, copy, COPY, false) == STACK_TAIL_CHECKED, "but checked where the thread may have run on");

	unsigned wrong = 0;
	for (size_t at = 0; at < COPY; at++) { // each byte counts
		fresh();
		bytes[at] ^= 0x10;
		enum stack_tail got = stack_tail_match(bytes, READ, copy, COPY, true);
		bool is_above = at >= COPY - STACK_TAIL_OVERLAP_BYTES;
		wrong += got != (is_above ? STACK_TAIL_NONE : STACK_TAIL_CHECKED);
	}
	ok(wrong == 0, "one byte differs: in the upper 4 KiB none, below them checked (%u wrong)", wrong);

	fresh();
	ok(stack_tail_match(bytes, COPY, copy, COPY, true) == STACK_TAIL_NONE, "nothing beyond the copy");
	ok(stack_tail_match(bytes, COPY - 100, copy, COPY, true) == STACK_TAIL_NONE, "less than the copy");
	ok(stack_tail_match(bytes, READ, copy, STACK_TAIL_OVERLAP_BYTES - 8, true) == STACK_TAIL_NONE, "a copy too short to compare");
	ok(stack_tail_match(bytes, READ, copy, STACK_TAIL_OVERLAP_BYTES, true) == STACK_TAIL_EXACT, "a copy of 4 KiB");
	return tap_done();
}
