// Any bytes as a perf-PID.map: no crash, and every span names an entry that covers it.
#include "symbols/jit_map.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jit_map map = { 0 };
	jit_map_parse(&map, (const char *)data, size);
	for (size_t i = 0; i < map.spans.count; i++) {
		uint64_t start = map.spans.data[i].start;
		const struct jit_entry *found = jit_map_find(&map, start);
		if ((found != NULL) != (map.spans.data[i].entry != UINT32_MAX) || (found != NULL && (start < found->start || start >= found->end)))
			abort();
		if (i > 0 && start <= map.spans.data[i - 1].start)
			abort();
	}
	// Divided, it is the same.
	struct jit_map blocks = { 0 };
	jit_map_add(&blocks, (const char *)data, size / 3);
	jit_map_add(&blocks, (const char *)data + size / 3, size - size / 3);
	jit_map_end(&blocks);
	if (blocks.entries.count != map.entries.count || blocks.skipped != map.skipped || blocks.odd_at != map.odd_at || blocks.is_cut != map.is_cut)
		abort();
	jit_map_release(&blocks);
	jit_map_release(&map);
	return 0;
}
