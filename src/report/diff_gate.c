// The gate of diff --fail-over: yes and no only where the interval says so.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/diff.h"

static const struct diff_row *find(const struct diff *diff, const char *function)
{
	for (size_t i = 0; i < diff->rows.count; i++)
		if (strcmp(diff->rows.data[i].name, function) == 0)
			return &diff->rows.data[i];
	return NULL;
}

// A change is `ratio` - 1; the whole interval on one side of the limit decides.
static void decide(const struct diff *diff, struct gate_result *r, const char *what, double ratio, struct interval ci, double limit)
{
	char change[120];
	snprintf(change, sizeof(change), "%.60s %+.1f%% [%+.1f, %+.1f]", what, 100 * (ratio - 1), 100 * (ci.lo - 1), 100 * (ci.hi - 1));
	if (diff->is_within) {
		r->gate = GATE_INCONCLUSIVE;
		snprintf(r->text, sizeof(r->text), "inconclusive: %s, but fewer than 3 runs on a side: run-to-run differences not measured", change);
	} else if (ci.lo - 1 > limit) {
		r->gate = GATE_FAILS;
		snprintf(r->text, sizeof(r->text), "%s: more than %g%%", change, 100 * limit);
	} else if (ci.hi - 1 <= limit) {
		r->gate = GATE_PASSES;
		snprintf(r->text, sizeof(r->text), "%s: not more than %g%%", change, 100 * limit);
	} else {
		r->gate = GATE_INCONCLUSIVE;
		snprintf(r->text, sizeof(r->text), "inconclusive: %s holds %g%%; record more runs", change, 100 * limit);
	}
}

bool diff_gate(const struct diff *diff, double limit, const char *function, struct gate_result *r, struct err *err)
{
	*r = (struct gate_result){ .gate = GATE_INCONCLUSIVE };
	if (function == NULL) {
		if (diff->total.has)
			decide(diff, r, "total", diff->total.ratio, diff->total.ci, limit);
		else
			snprintf(r->text, sizeof(r->text), "inconclusive: only shares can be compared");
		return true;
	}
	r->row = find(diff, function);
	if (r->row == NULL)
		return err_set(err, STATUS_USAGE, "--fail-over: no function '%s' on either side", function);
	if (r->row->has_ratio && r->row->state == DIFF_LOSS) {
		snprintf(r->text, sizeof(r->text), "inconclusive: %.60s is not robust to loss", function);
	} else if (r->row->has_ratio) {
		decide(diff, r, function, r->row->ratio, r->row->ratio_ci, limit);
	} else if (!(r->row->k[1] > 0) && !diff->is_within) {
		r->gate = GATE_PASSES;
		snprintf(r->text, sizeof(r->text), "%.60s is gone", function);
	} else {
		snprintf(r->text, sizeof(r->text), "inconclusive: too few samples of %.60s", function);
	}
	return true;
}
