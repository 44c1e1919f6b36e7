#include "export/plan.h"

#include <math.h>

#include "export/json_write.h"
#include "export/text.h"

void plan_text(const struct plan_input *in, const struct plan *p, struct buf *out)
{
	double conf = 100 * in->confidence;
	buf_string(out, "wanted    ");
	switch (in->goal) {
	case PLAN_WITHIN:
		buf_printf(out, "a share of %.4g%% within +-%.3g points, %g%% sure\n", 100 * in->share, 100 * in->half_width, conf);
		break;
	case PLAN_CHANGE:
		buf_printf(out, "a function of %.4g%% that becomes %.3g%% slower (%.4g%%) found by diff, %g times in 100\n", 100 * in->share, 100 * in->change,
		           100 * p->changed_share, 100 * in->power);
		break;
	case PLAN_RANK:
		buf_printf(out, "functions of %.4g%% and %.4g%% told apart, %g times in 100\n", 100 * in->share, 100 * in->other, 100 * in->power);
		break;
	case PLAN_SEEN:
		buf_printf(out, "a function of %.4g%% seen at all, %g%% sure\n", 100 * in->share, conf);
		break;
	}
	buf_printf(out, "samples   %s", p->at_least ? "at least " : "");
	text_count(out, p->recorded);
	if (in->goal == PLAN_CHANGE)
		buf_printf(out, " a run, %zu runs a side", in->runs);
	if (in->deff > 0)
		buf_printf(out, " (design effect %.1f)", in->deff);
	buf_printf(out, "\ntime      %s", p->at_least ? "at least " : "");
	text_time(out, p->seconds);
	if (in->goal == PLAN_CHANGE)
		buf_string(out, " a run");
	buf_printf(out, " with %.3g CPU%s busy, one sample per %.4g ms\n", in->cpus_busy, in->cpus_busy == 1 ? "" : "s", 1e3 * in->period_s);
	if (p->is_assured)
		buf_printf(out, "note      a recording so long prints a range of +-%.3g points or less %g times in 100\n", 100 * in->half_width, 100 * in->power);
	else if (in->goal == PLAN_WITHIN)
		buf_printf(out, "note      +-%.3g points is the width to be expected at best, not one that is met each time\n", 100 * in->half_width);
	if (p->at_least)
		buf_string(out, "note      how clustered the samples are is not known: -i a former recording of this load\n");
	else if (p->longer)
		buf_string(out, "note      record longer: a higher rate will not help (design effect above 2)\n");
	else
		buf_string(out, "note      a higher rate shortens the time\n");
	if (in->goal == PLAN_CHANGE)
		buf_printf(out, "note      one of %zu functions changes; what runs differ by beyond their sampling is not in it: more runs (--runs) help against that,\n"
		           "          longer ones do not\n", in->functions);
}

void plan_json(const struct plan_input *in, const struct plan *p, struct buf *out)
{
	static const char *const goals[] = { "within", "change", "rank", "seen" };
	json_open_object(out, NULL);
	json_put_text(out, "schema", "perfsample-plan/1");
	json_put_text(out, "goal", goals[in->goal]);
	json_put_number(out, "share", in->share);
	json_put_number(out, "other_share", in->goal == PLAN_RANK ? in->other : NAN);
	json_put_number(out, "half_width", in->goal == PLAN_WITHIN ? in->half_width : NAN);
	json_put_number(out, "change", in->goal == PLAN_CHANGE ? in->change : NAN);
	json_put_number(out, "confidence", in->confidence);
	json_put_number(out, "power", in->power);
	json_put_number(out, "assurance", p->is_assured ? in->power : NAN);
	json_put_number(out, "runs", in->goal == PLAN_CHANGE ? (double)in->runs : NAN);
	json_put_number(out, "functions", in->goal == PLAN_CHANGE ? (double)in->functions : NAN);
	json_put_number(out, "deff", in->deff > 0 ? in->deff : NAN);
	json_put_number(out, "period_seconds", in->period_s);
	json_put_number(out, "cpus_busy", in->cpus_busy);
	json_put_number(out, "independent_samples", p->samples);
	json_put_number(out, "samples", p->recorded);
	json_put_number(out, "seconds", p->seconds);
	json_put_bool(out, "at_least", p->at_least);
	json_put_bool(out, "faster_helps", !p->longer);
	json_close_object(out);
	buf_byte(out, '\n');
}
