// Whether two combs tell the same (statistics, section 3): chi-square of homogeneity over the functions, and the error that would have shown.
#include <math.h>
#include <stdlib.h>

#include "report/build.h"

static const double SUSPECTED_P = 0.001, DETECTABLE_Z = 4.1, LEAST_EXPECTED = 5;

struct two { double k[2]; };

static double chi2_of(struct two row, const double *n, double all)
{
	double chi2 = 0;
	for (int c = 0; c < 2; c++) {
		double expected = (row.k[0] + row.k[1]) * n[c] / all;
		chi2 += expected > 0 ? (row.k[c] - expected) * (row.k[c] - expected) / expected : 0;
	}
	return chi2;
}

// Rows that the combs differ in by themselves, when they differ on the whole.
static void mark_rows(struct build *b, const double *n, double all, size_t tested)
{
	for (size_t i = 0; i < b->tally.rows.count; i++) {
		struct two row = { { (double)(b->tally.rows.data[i].samples - b->tally.rows.data[i].second_comb), (double)b->tally.rows.data[i].second_comb } };
		double share = (row.k[0] + row.k[1]) / all, chi2 = chi2_of(row, n, all);
		if (share < 1)
			chi2 /= 1 - share; // with the rest of the table: a two by two one
		b->aliased[i] = chi2_upper(chi2, 1) < 0.05 / (double)tested;
	}
}

void test_aliasing(struct build *b)
{
	struct report_event *event = b->event;
	struct report_aliasing *a = &event->aliasing;
	if (event->source->comb_periods[1] == 0)
		return;
	double n[2] = { (double)(b->tally.samples - b->tally.second_comb), (double)b->tally.second_comb }, all = n[0] + n[1], largest = 0;
	struct two rest = { { 0, 0 } };
	size_t tested = 0;
	a->is_tested = n[0] > 0 && n[1] > 0;
	a->samples[0] = n[0];
	a->samples[1] = n[1];
	a->p = 1;
	for (size_t i = 0; i < b->tally.rows.count && a->is_tested; i++) {
		struct two row = { { (double)(b->tally.rows.data[i].samples - b->tally.rows.data[i].second_comb), (double)b->tally.rows.data[i].second_comb } };
		double sum = row.k[0] + row.k[1];
		largest = fmax(largest, sum / all);
		if (sum * fmin(n[0], n[1]) / all >= LEAST_EXPECTED) {
			a->chi2 += chi2_of(row, n, all);
			tested++;
		} else {
			rest.k[0] += row.k[0];
			rest.k[1] += row.k[1];
		}
	}
	if ((rest.k[0] + rest.k[1]) * fmin(n[0], n[1]) / fmax(all, 1) >= LEAST_EXPECTED) { // the small ones together are a cell too
		a->chi2 += chi2_of(rest, n, all);
		tested++;
	}
	a->df = tested > 1 ? (double)tested - 1 : 0;
	if (a->df > 0)
		a->p = chi2_upper(a->chi2, a->df);
	if (a->is_tested)
		a->detectable = DETECTABLE_Z * sqrt(largest * (1 - largest) * (1 / n[0] + 1 / n[1]));
	a->is_suspected = a->p < SUSPECTED_P;
	if (!a->is_suspected)
		return;
	b->aliased = mem_zero(b->tally.rows.count + 1, sizeof(*b->aliased));
	mark_rows(b, n, all, tested);
}
