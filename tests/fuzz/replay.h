// A fuzz target is LLVMFuzzerTestOneInput. Without libFuzzer (-DWITH_LIBFUZZER -fsanitize=fuzzer) this main replays the files named, or,
// with a number N, feeds N variations of them (bytes changed, doubled, cut) from a fixed seed: a fuzzer for compilers without one.
#ifndef PERFSAMPLE_TESTS_FUZZ_REPLAY_H
#define PERFSAMPLE_TESTS_FUZZ_REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifndef WITH_LIBFUZZER
static uint64_t replay_next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

// A heap block of exactly the input's size, so that a sanitizer sees each read past its end.
static void replay_one(const uint8_t *data, size_t size)
{
	uint8_t *exact = malloc(size + (size == 0));
	memcpy(exact, data, size);
	LLVMFuzzerTestOneInput(exact, size);
	free(exact);
}

static void replay_variations(const uint8_t *data, size_t size, unsigned long count)
{
	uint64_t state = 1;
	uint8_t *changed = malloc(2 * size + 1);
	for (unsigned long n = 0; n < count && size > 0; n++) {
		size_t length = size;
		memcpy(changed, data, size);
		for (uint64_t changes = 1 + replay_next(&state) % 8; changes > 0; changes--) {
			size_t at = replay_next(&state) % length;
			switch (replay_next(&state) % 5) {
			case 0: changed[at] = (uint8_t)replay_next(&state); break;
			case 1: changed[at] ^= (uint8_t)(1u << replay_next(&state) % 8); break;
			case 2: changed[at] = (uint8_t)(replay_next(&state) % 2 ? 0xff : 0); break;
			case 3: length = at + 1; break;
			default:
				if (at + 8 <= length)
					memset(changed + at, replay_next(&state) % 2 ? 0xff : 0, 8);
			}
		}
		replay_one(changed, length);
	}
	free(changed);
}

int main(int argc, char **argv)
{
	unsigned long variations = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	for (int i = variations > 0 ? 2 : 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (f == NULL) {
			perror(argv[i]);
			return 1;
		}
		uint8_t *data = NULL;
		size_t size = 0, n;
		do {
			data = realloc(data, size + 65536);
			n = fread(data + size, 1, 65536, f);
			size += n;
		} while (n > 0);
		fclose(f);
		replay_one(data, size);
		replay_variations(data, size, variations);
		free(data);
	}
	return 0;
}
#endif

#endif
