// Any bytes as the RAW data of a sample.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/note.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct note note;
	uint8_t kinds[64];
	size_t covered, raw_size, capacity = size > 0 ? data[0] % 65 : 0;
	uint8_t *copy = malloc(size + 1);
	memcpy(copy, data, size);
	if (note_decode(copy, size, &note, kinds, capacity, &covered, &raw_size)) {
		if (raw_size > size || note.end >= UNWIND_END_COUNT || note.splice > SPLICE_CHECKED)
			abort();
		for (size_t i = 0; i < covered && i < capacity; i++) {
			if (kinds[i] >> 4 > FRAME_INTERRUPTED)
				abort();
		}
	} else if (raw_size != size || covered != 0) {
		abort();
	}
	free(copy);
	return 0;
}

#ifndef FUZZER_HAS_MAIN
#include "tests/fuzz/replay.h"
#endif
