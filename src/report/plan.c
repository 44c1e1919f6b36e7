#include "report/plan.h"

#include <math.h>

#include "report/estimate.h"

struct plan plan_for(const struct plan_input *in)
{
	struct plan p = { .at_least = !(in->deff > 0), .longer = in->deff > 2 };
	switch (in->goal) {
	case PLAN_WITHIN:
		p.samples = samples_for_half_width(in->share, in->half_width, in->confidence);
		break;
	case PLAN_CHANGE: // only this function changes: the whole grows by what it does
		p.changed_share = in->share * (1 + in->change) / (1 + in->share * in->change);
		p.samples = samples_per_run(in->share, p.changed_share, in->confidence, in->power);
		break;
	case PLAN_RANK:
		p.samples = samples_to_separate(in->share, in->other, in->confidence, in->power);
		break;
	case PLAN_SEEN: // 1 - (1 - p)^n >= conf
		p.samples = ceil(log1p(-in->confidence) / log1p(-in->share));
		break;
	}
	p.recorded = ceil(p.samples * fmax(1, in->deff));
	p.seconds = p.recorded * in->period_s / fmax(in->cpus_busy, 1e-6);
	return p;
}
