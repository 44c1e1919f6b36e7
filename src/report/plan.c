#include "report/plan.h"

#include <math.h>

#include "report/estimate_more.h"

// What diff does with several runs a side: Welch's test of ln t, at the level that the smallest q of so many functions asks for. A run's ln t varies by
// v = deff (1 - p) / (n p) because it was sampled, and in the next order by 3/2 v^2 more. What became slower stays longer at each visit: its samples cluster
// by that much more.
static double samples_for_change(const struct plan_input *in, double changed_share, double deff)
{
	double alpha = (1 - in->confidence) / fmax(1, (double)in->functions), effect = log1p(in->change);
	double wanted = welch_effect(in->runs, alpha, in->power, in->deff_df), changed_deff = 1 + (deff - 1) * (1 + in->change);
	double variance = deff * (1 - in->share) / in->share + changed_deff * (1 - changed_share) / changed_share; // of one sample a run
	double n = variance * wanted * wanted / ((double)in->runs * effect * effect);
	return ceil(n * (1 + 1.5 * variance / 2 / n));
}

static double half_width_of(double share, double n, double confidence)
{
	struct interval ci = clopper_pearson(share * n, n, confidence);
	return (ci.hi - ci.lo) / 2;
}

// Samples of equal weight whose exact interval is as narrow: some per cent more than the normal formula says.
static double exact_samples(double share, double half_width, double confidence, double start)
{
	double low = start / 2, high = start;
	while (half_width_of(share, high, confidence) > half_width && high < 1e15)
		high *= 2;
	for (int i = 0; i < 60 && high - low > 0.5; i++) {
		double middle = low + (high - low) / 2;
		if (half_width_of(share, middle, confidence) > half_width)
			low = middle;
		else
			high = middle;
	}
	return high;
}

// The range that the planned recording will print is made of its own design effect, as its blocks tell it, and of Student's t; and the plan is made of one that the
// former recording's blocks told. Their quotient varies as F does, so the width is met with probability `power` where it is planned for F's quantile. By the
// mean alone it was met in 10 of 24 recordings.
static double samples_for_width(const struct plan_input *in, double independent)
{
	if (!(in->deff_df > 0))
		return independent * fmax(1, in->deff);
	double x = beta_quantile(in->power, PLAN_BLOCKS_DF / 2.0, in->deff_df / 2), f = in->deff_df * x / (PLAN_BLOCKS_DF * (1 - x));
	double upper = 1 - (1 - in->confidence) / 2, t = student_quantile(upper, PLAN_BLOCKS_DF) / normal_quantile(upper);
	// Widths go with the share too, which both recordings tell with an error: the logarithms' errors add up as their squares do.
	double p = in->share, slope = (1 - 2 * p) / (p * (1 - p)), planned = in->half_width / normal_quantile(upper);
	double variance = slope * slope * (planned * planned + (in->share_n > 0 ? p * (1 - p) / in->share_n : 0));
	double margin = hypot(log(fmax(1, f)), normal_quantile(fmax(0.5, in->power)) * sqrt(variance));
	return exact_samples(p, in->half_width, in->confidence, independent) * fmax(1, in->deff) * exp(margin) * t * t;
}

struct plan plan_for(const struct plan_input *in)
{
	struct plan p = { .at_least = !(in->deff > 0), .longer = in->deff > 2 };
	switch (in->goal) {
	case PLAN_WITHIN:
		p.samples = samples_for_half_width(in->share, in->half_width, in->confidence);
		break;
	case PLAN_CHANGE: // only this function changes: the whole grows by what it does
		p.changed_share = in->share * (1 + in->change) / (1 + in->share * in->change);
		p.samples = samples_for_change(in, p.changed_share, 1);
		p.recorded = samples_for_change(in, p.changed_share, fmax(1, in->deff));
		break;
	case PLAN_RANK:
		p.samples = samples_to_separate(in->share, in->other, in->confidence, in->power);
		break;
	case PLAN_SEEN: // 1 - (1 - p)^n >= conf
		p.samples = ceil(log1p(-in->confidence) / log1p(-in->share));
		break;
	}
	if (in->goal == PLAN_WITHIN) {
		p.recorded = ceil(samples_for_width(in, p.samples));
		p.is_assured = in->deff_df > 0;
	} else if (in->goal != PLAN_CHANGE) {
		p.recorded = ceil(p.samples * fmax(1, in->deff));
	}
	p.seconds = p.recorded * in->period_s / fmax(in->cpus_busy, 1e-6);
	return p;
}
