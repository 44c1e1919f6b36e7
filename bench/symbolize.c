// Names, lines and inline chains of addresses, for comparing with other symbolizers: symbolize [--no-demangle] [--names] [--jobs N] FILE < ADDRESSES
//
// Link-time addresses in hex, one a line. For each, as llvm-symbolizer prints it: a function and its FILE:LINE per line, innermost first, then an
// empty line. With --time: nothing but figures.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/vec.h"
#include "symbols/symbolizer.h"

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void print_text(const char *text, char behind)
{
	fputs_unlocked(text != NULL ? text : "??", stdout);
	putchar_unlocked(behind);
}

static void print(const struct symbol_result *r)
{
	for (size_t i = 0; i < r->count; i++) {
		char digits[16], *at = digits + sizeof(digits) - 1;
		uint32_t line = r->frames[i].line;
		print_text(r->frames[i].name, '\n');
		print_text(r->frames[i].file, ':');
		*at = '\0';
		do
			*--at = (char)('0' + line % 10);
		while ((line /= 10) > 0);
		print_text(at, '\n');
	}
	putchar_unlocked('\n');
}

int main(int argc, char **argv)
{
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = true, .use_host_files = true, .no_cache = true };
	const char *path = NULL;
	bool time_only = false;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--no-demangle") == 0)
			options.demangle = false;
		else if (strcmp(argv[i], "--names") == 0)
			options.inlines = options.lines = false;
		else if (strcmp(argv[i], "--time") == 0)
			time_only = true;
		else if (strcmp(argv[i], "--jobs") == 0 && i + 1 < argc)
			options.jobs = (unsigned)strtoul(argv[++i], NULL, 10);
		else
			path = argv[i];
	}
	struct image *image;
	struct err err;
	if (path == NULL) {
		fprintf(stderr, "usage: symbolize [--no-demangle] [--names] [--jobs N] [--time] FILE < ADDRESSES\n");
		return 2;
	}
	if (!image_open_path(&image, path, &err)) {
		fprintf(stderr, "symbolize: %s\n", err.text);
		return 4;
	}
	double start = now_s();
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .path = path, .build_id = image->build_id, .map_fd = -1 });
	VEC(struct symbol_query) queries = { 0 };
	char line[64];
	while (fgets(line, sizeof(line), stdin) != NULL) {
		uint64_t offset = UINT64_MAX;
		(void)image_vaddr_to_offset(image, strtoull(line, NULL, 16), &offset);
		vec_push(&queries, (struct symbol_query){ id, offset });
	}
	symbolizer_resolve(s, queries.data, queries.count, 0, NULL);
	double seconds = now_s() - start;
	(void)setvbuf(stdout, NULL, _IOFBF, 64 * 1024);
	for (size_t i = 0; !time_only && i < queries.count; i++)
		print(symbolizer_lookup(s, id, queries.data[i].image_addr));
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	if (time_only)
		printf("%zu addresses %.4f s %ld KiB\n", queries.count, seconds, usage.ru_maxrss);
	vec_release(&queries);
	symbolizer_free(s);
	image_release(image);
	return 0;
}
