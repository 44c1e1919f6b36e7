// The heap that mem_expect_much makes: as good as any other, up to its end and beyond.
#include "base/mem.h"
#include "base/vec.h"
#include "tests/tap.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
	enum { BLOCKS = 200, BLOCK_BYTES = 1 << 20 };
	void *before = mem_string("before");
	uint8_t *blocks[BLOCKS];
	bool is_zero = true, is_kept = true;
	mem_expect_much();
	for (int round = 0; round < 2; round++) { // what is freed comes again, and is zeroed
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = mem_zero(BLOCK_BYTES, 1);
			is_zero &= blocks[i][0] == 0 && memcmp(blocks[i], blocks[i] + 1, BLOCK_BYTES - 1) == 0;
			memset(blocks[i], i + 1, BLOCK_BYTES);
		}
		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = mem_resize(blocks[i], 2, BLOCK_BYTES);
			is_kept &= blocks[i][0] == (uint8_t)(i + 1) && blocks[i][BLOCK_BYTES - 1] == (uint8_t)(i + 1);
		}
		for (int i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
	uint8_t *aligned = mem_zero_aligned(4096, 3 * BLOCK_BYTES), *sparse = mem_sparse(BLOCK_BYTES);
	ok((uintptr_t)aligned % 4096 == 0 && aligned[0] == 0 && memcmp(aligned, aligned + 1, 3 * BLOCK_BYTES - 1) == 0, "aligned, and zeroed where memory was used before");
	ok(sparse[0] == 0 && sparse[BLOCK_BYTES - 1] == 0, "pages that nobody has touched are zeroes");
	sparse[BLOCK_BYTES - 1] = 1;
	mem_pages_free(sparse, BLOCK_BYTES);
	free(aligned);
	VEC(uint64_t) grown = { 0 };
	size_t moves = 0, wrong = 0;
	for (uint64_t i = 0; i < 1 << 20; i++) {
		moves += grown.count == grown.capacity;
		vec_push(&grown, i);
	}
	for (uint64_t i = 0; i < grown.count; i++)
		wrong += grown.data[i] != i;
	ok(wrong == 0 && moves < 30 && grown.capacity <= grown.count * 3 / 2 + 8, "an array that grows to 8 MiB: %zu times, by half at last", moves);
	vec_release(&grown);
	ok(is_zero, "zeroed");
	ok(is_kept, "kept as it grows");
	is_str(before, "before", "what was there before stays");
	free(before);
	return tap_done();
}
