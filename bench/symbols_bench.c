// Microseconds an address: names, inline chains and lines of COUNT addresses spread over a file's code, as a recording would ask for them.
//
//   symbols_bench FILE COUNT [names]        one tab-separated line: addresses, with a name, inlined frames, µs/address
//   symbols_bench FILE COUNT list           the addresses (vaddr, hexadecimal), for a peer to look up
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "symbols/symbolizer.h"

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int main(int argc, char **argv)
{
	struct image *image;
	struct err err = { 0 };
	size_t count = argc >= 3 ? strtoul(argv[2], NULL, 10) : 0;
	bool names = argc > 3 && strcmp(argv[3], "names") == 0, list = argc > 3 && strcmp(argv[3], "list") == 0;
	if (count == 0 || count > 1000000 || !image_open_path(&image, argv[1], &err)) {
		fprintf(stderr, "symbols_bench: %s\n", count == 0 ? "usage: symbols_bench FILE COUNT [names|list]" : err.text);
		return 2;
	}
	const struct image_section *text = image_find_section(image, ".text");
	if (text == NULL || text->size == 0)
		return 2;
	struct symbol_query *queries = mem_zero(count, sizeof(*queries));
	double start = now_us();
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = !names, .no_lines = names, .use_host_files = true, .no_cache = true };
	struct symbolizer *symbolizer = symbolizer_new(&options);
	struct symbol_image wanted = { .kind = SYMBOL_IMAGE_FILE, .path = argv[1], .image = image, .map_fd = -1 };
	uint32_t id = symbolizer_image(symbolizer, &wanted);
	for (size_t i = 0; i < count; i++) {
		uint64_t into = text->size / count * i + i * 7 % 16;
		queries[i] = (struct symbol_query){ .image = id, .image_addr = text->offset + (into < text->size ? into : 0) };
		if (list)
			printf("0x%llx\n", (unsigned long long)(text->vaddr + (into < text->size ? into : 0)));
	}
	if (!list) {
		size_t named = 0, inlined = 0;
		symbolizer_resolve(symbolizer, queries, count, 0, NULL);
		for (size_t i = 0; i < count; i++) {
			const struct symbol_result *result = symbolizer_lookup(symbolizer, id, queries[i].image_addr);
			named += result->frames[0].name != NULL;
			inlined += result->count - 1;
		}
		printf("%zu\t%zu\t%zu\t%.3f\n", count, named, inlined, (now_us() - start) / (double)count);
	}
	symbolizer_free(symbolizer);
	image_release(image);
	free(queries);
	return 0;
}
