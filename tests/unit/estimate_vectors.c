// Every table of vectors of the corpus within 1e-8 (statistics, target 1).
#include "tests/tap.h"

#include "report/vectors.h"

static void check(const char *name)
{
	char relative[256];
	snprintf(relative, sizeof(relative), "stats/%s.tsv", name);
	const char *path = corpus_file(relative);
	if (path == NULL) {
		skip("no corpus (PERFSAMPLE_CORPUS)", "%s", name);
		return;
	}
	struct buf text = { 0 }, report = { 0 };
	FILE *f = fopen(path, "rb");
	char chunk[4096];
	for (size_t n; (n = fread(chunk, 1, sizeof(chunk), f)) > 0;)
		buf_add(&text, chunk, n);
	fclose(f);
	struct vectors_result result;
	struct err err = { 0 };
	bool good = vectors_check(buf_text(&text), 1e-8, &result, &report, &err);
	ok(good && result.wrong == 0 && result.cells >= result.rows && result.rows > 0, "%s: %zu rows, %zu cells, worst %.2g at %s", name,
	   result.rows, result.cells, result.worst, result.where);
	if (!good)
		diag("%s", err.text);
	if (report.size > 0)
		printf("# %s", buf_text(&report));
	buf_release(&text);
	buf_release(&report);
}

int main(void)
{
	static const char *const names[] = { "ibeta", "quantile", "binomial_ci", "neff_ci", "block_deff", "weights", "loss_bounds", "loss_windows",
		"diff", "diff_deff", "fdr", "quantile_ci", "planning", "ranks", "alloc_weight", "alloc_site", "overhead_pairs", "merge_hosts",
		"hist_bucket" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		check(names[i]);

	struct vectors_result result;
	struct err err = { 0 };
	struct buf report = { 0 };
	ok(!vectors_check("x\ty\n1\t2\n", 1e-8, &result, &report, &err) && err.status == STATUS_INPUT, "an unknown table is refused");
	ok(!vectors_check("sub_bits\tvalue\tindex\tlo\thi\n7\t1\n", 1e-8, &result, &report, &err) && strstr(err.text, "row 1") != NULL,
	   "a short row is refused by its number");
	ok(vectors_check("a\tb\tx\tI_x(a,b)\n1\t1\t0.5\t0.51\n", 1e-8, &result, &report, &err) && result.wrong == 1, "a wrong number is seen");
	buf_release(&report);
	return tap_done();
}
