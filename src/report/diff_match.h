// Which functions of two sides' recordings are the same. Inside the comparison only.
#ifndef PERFSAMPLE_REPORT_DIFF_MATCH_H
#define PERFSAMPLE_REPORT_DIFF_MATCH_H

#include "report/digest.h"

struct diff_match {
	const char *name, *dso;
	const struct digest_row **rows; // of every run, base's before new's; NULL: not sampled there
	size_t base_runs;
};
struct diff_matches {
	struct arena arena;
	VEC(struct diff_match) rows;
	const struct digest *const *base, *const *new_;
	size_t base_runs, new_runs;
};

// By name and file. Names that are addresses say nothing where the builds of a file differ: functions without a name are one row "[unknown]" then, and those that are
// told apart by address go by their name alone. A function told apart by its source file is the same where it stood alone and was not told apart. What is left, by name alone where that is the only one of its name on either side (a binary that was renamed).
void diff_match(struct diff_matches *matches, const struct digest *const *base, size_t base_runs, const struct digest *const *new_, size_t new_runs);
void diff_matches_release(struct diff_matches *matches);
const struct digest_row *diff_match_row(const struct diff_match *match, int side, size_t run);
// "gone", "gone (inlined into f)", "new", "new (inlined into f before)"; NULL: on both sides. `k`: samples of each side.
const char *diff_match_note(const struct diff_matches *matches, const struct diff_match *match, const double *k, struct arena *arena);

#endif
