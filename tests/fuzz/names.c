// Any bytes as feature 255: decoded, and what was understood is encoded and decoded again to the same.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct names names = { 0 }, again = { 0 };
	struct err err = { 0 };
	uint8_t *copy = malloc(size + 1);
	memcpy(copy, data, size);
	if (names_decode(&names, copy, size, &err)) {
		struct buf first = { 0 }, second = { 0 };
		names_encode(&names, &first);
		if (!names_decode(&again, first.data, first.size, &err))
			abort();
		names_encode(&again, &second);
		if (first.size != second.size || memcmp(first.data, second.data, first.size) != 0)
			abort();
		buf_release(&first);
		buf_release(&second);
	} else if (err.status != STATUS_INPUT || strstr(err.text, "0x") == NULL) {
		abort();
	}
	names_release(&names);
	names_release(&again);
	free(copy);
	return 0;
}

#ifndef FUZZER_HAS_MAIN
#include "tests/fuzz/replay.h"
#endif
