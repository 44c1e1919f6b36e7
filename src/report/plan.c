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
	if (in->goal != PLAN_CHANGE)
		p.recorded = ceil(p.samples * fmax(1, in->deff));
	p.seconds = p.recorded * in->period_s / fmax(in->cpus_busy, 1e-6);
	return p;
}
