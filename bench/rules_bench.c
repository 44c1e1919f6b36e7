// What compiling CFI into rules costs: every FDE of an image on its first touch.
//
//   rules_bench FILE…      one line a file, tab-separated: file, FDEs, rows, µs a row, µs to open, the longest single touch in µs, KB of indexes and rules
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "unwind/rule_table.h"

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static bool measure(const char *path)
{
	struct image *image;
	struct unwind_image *cfi;
	struct unwind_counters counters = { 0 };
	struct err err = { 0 };
	double least = 0, opened = 0, longest = 0;
	size_t bytes = 0, fdes = 0;

	if (!image_open_path(&image, path, &err)) {
		fprintf(stderr, "rules_bench: %s\n", err.text);
		return false;
	}
	for (int pass = 0; pass < 4; pass++) { // the last one times each touch
		double start = now_us(), worst = 0;
		unwind_image_new(&cfi, image, true, NULL);
		double ready = now_us();
		counters = (struct unwind_counters){ 0 };
		for (size_t t = 0; t < cfi->table_count; t++)
			for (size_t i = 0; i < cfi->tables[t].fde_count; i++) {
				double before = pass == 3 ? now_us() : 0;
				rule_table_find(cfi, cfi->base + rule_table_ref(&cfi->tables[t], i).start, &counters);
				double took = pass == 3 ? now_us() - before : 0;
				worst = took > worst ? took : worst;
			}
		double all = now_us() - ready;
		if (pass < 3 && (pass == 0 || all < least))
			least = all;
		if (pass == 0 || ready - start < opened)
			opened = ready - start;
		longest = worst;
		bytes = unwind_image_bytes(cfi);
		fdes = (size_t)counters.fdes_compiled;
		unwind_image_free(cfi);
	}
	image_release(image);
	const char *name = strrchr(path, '/');
	printf("%s\t%zu\t%llu\t%.4f\t%.0f\t%.1f\t%zu\n", name != NULL ? name + 1 : path, fdes, (unsigned long long)counters.rows_compiled,
	       counters.rows_compiled > 0 ? least / (double)counters.rows_compiled : 0, opened, longest, bytes / 1024);
	return true;
}

int main(int argc, char **argv)
{
	bool good = argc > 1;

	for (int i = 1; i < argc; i++)
		good = measure(argv[i]) && good;
	return good ? 0 : 1;
}
