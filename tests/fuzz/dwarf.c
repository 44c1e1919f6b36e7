// Any bytes as an ELF file with debug information: symbols and chains are asked for all over it, without crash or endless work.
#include <stdlib.h>

#include "symbols/damage.h"
#include "symbols/symbolizer.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image;
	if (!image_open_bytes(&image, data, size, false, "input", NULL))
		return 0;
	struct damages damages;
	damages_init(&damages);
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = true, .damages = &damages };
	struct symbolizer *s = symbolizer_new(&options), *at_once = symbolizer_new(&options);
	const struct symbol_image wanted = { .path = "input", .image = image, .map_fd = -1 };
	uint32_t id = symbolizer_image(s, &wanted);
	struct symbol_query queries[8 * 64];
	size_t count = 0;
	for (size_t i = 0; i < image->segment_count && i < 8; i++) {
		uint64_t from = image->segments[i].offset, step = image->segments[i].file_size / 64 + 1;
		for (uint64_t n = 0; n < 64 && n * step < image->segments[i].file_size; n++) { // a size may be anything: a sum could wrap
			uint64_t a = n * step;
			queries[count++] = (struct symbol_query){ symbolizer_image(at_once, &wanted), from + a };
			if (symbolizer_lookup(s, id, from + a)->missing == SYMBOL_FOUND)
				(void)symbolizer_callee(s, id, from + a);
		}
	}
	symbolizer_resolve(at_once, queries, count, 0, NULL);
	if (damages.all.count > 1) // the input, and nothing else
		abort();
	symbolizer_free(at_once);
	symbolizer_free(s);
	damages_release(&damages);
	image_release(image);
	return 0;
}
