// Paired trials of one thing with and without another (statistics, section 10): pure functions of numbers.
#ifndef PERFSAMPLE_REPORT_TRIALS_H
#define PERFSAMPLE_REPORT_TRIALS_H

#include "base/buf.h"
#include "report/estimate.h"

enum { TRIALS_MIN_PAIRS = 5, TRIALS_PILOT_PAIRS = 5 };

struct trials { // of one metric; change > 0: the second side costs more
	size_t pairs;
	double off, on;               // geometric means
	double change;                // exp(mean of y) - 1, y = ln(on / off), or ln(off / on) where more is better
	struct interval ci;
	double upper;                 // one-sided 95 %
	double deviation;             // s of y
	bool has_wilcoxon, disagrees; // of fewer than 10 pairs; disagrees: Hodges-Lehmann's estimate is outside the interval, or the tests differ
	double hodges_lehmann, wilcoxon_p;
};

// The order of pair `pair`: ABBA, so that a drift that is linear over four trials cancels.
static inline bool trials_on_first(size_t pair)
{
	return pair % 2 == 1;
}

struct trials trials_estimate(const double *off, const double *on, size_t pairs, bool higher_is_better, double conf);
// Pairs until a change of `target` is found with `power`, when y deviates by `deviation`: ((t_{1-a/2} + t_{power}) s / d)^2, t iterated.
size_t trials_pairs_needed(double deviation, double target, double conf, double power);
// Wilcoxon's signed-rank test, exact for up to 25 values, two-sided; zeros are left out, ties get middle ranks (then the p is that of the table for
// untied ranks, rounded up).
double wilcoxon_signed_rank(const double *y, size_t count);
double hodges_lehmann(const double *y, size_t count); // median of the means of all pairs of values, each with itself too

// "0.6% [-0.2, 1.4], 20 pairs: not distinguishable from 0; at most 1.3%". Never a negative overhead as a gain.
void trials_text(const struct trials *trials, struct buf *out);

#endif
