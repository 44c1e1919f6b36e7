#include "report/trials.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "report/estimate_more.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

double hodges_lehmann(const double *y, size_t count)
{
	size_t means = count * (count + 1) / 2, at = 0;
	if (count == 0)
		return 0;
	double *all = mem_alloc(means * sizeof(*all));
	for (size_t i = 0; i < count; i++)
		for (size_t j = i; j < count; j++)
			all[at++] = (y[i] + y[j]) / 2;
	sort_stable(all, means, sizeof(*all), by_value);
	double median = means % 2 != 0 ? all[means / 2] : (all[means / 2 - 1] + all[means / 2]) / 2;
	free(all);
	return median;
}

// P(W <= w) of the sum of the ranks 1..n with random signs, by counting subsets.
static double signed_rank_cdf(size_t n, double w)
{
	size_t most = n * (n + 1) / 2;
	double *ways = mem_zero(most + 1, sizeof(*ways)), below = 0;
	ways[0] = 1;
	for (size_t rank = 1; rank <= n; rank++)
		for (size_t sum = most; sum >= rank; sum--)
			ways[sum] += ways[sum - rank];
	for (size_t sum = 0; sum <= most && (double)sum <= w; sum++)
		below += ways[sum];
	free(ways);
	return below / pow(2, (double)n);
}

struct ranked { double size; bool positive; };

static int by_size(const void *a, const void *b)
{
	return by_value(&((const struct ranked *)a)->size, &((const struct ranked *)b)->size);
}

double wilcoxon_signed_rank(const double *y, size_t count)
{
	enum { EXACT = 25 };
	struct ranked *r = mem_alloc((count + 1) * sizeof(*r));
	size_t n = 0;
	double positive = 0, p;
	for (size_t i = 0; i < count; i++)
		if (y[i] != 0)
			r[n++] = (struct ranked){ fabs(y[i]), y[i] > 0 };
	sort_stable(r, n, sizeof(*r), by_size);
	for (size_t i = 0; i < n;) {
		size_t end = i + 1;
		while (end < n && r[end].size == r[i].size)
			end++;
		for (size_t j = i; j < end; j++)
			positive += r[j].positive ? (double)(i + 1 + end) / 2 : 0;
		i = end;
	}
	double all = (double)n * (double)(n + 1) / 2, smaller = fmin(positive, all - positive);
	if (n <= EXACT)
		p = 2 * signed_rank_cdf(n, ceil(smaller));
	else
		p = 2 * normal_cdf((smaller + 0.5 - all / 2) / sqrt(all * (2 * (double)n + 1) / 12));
	free(r);
	return fmin(1, p);
}

static double geometric_mean(const double *x, size_t count)
{
	double sum = 0;
	for (size_t i = 0; i < count; i++)
		sum += log(x[i]) / (double)count;
	return exp(sum);
}

struct trials trials_estimate(const double *off, const double *on, size_t pairs, bool higher_is_better, double conf)
{
	struct overhead_estimate e = higher_is_better ? overhead_pairs(off, on, pairs, conf) : overhead_pairs(on, off, pairs, conf);
	struct trials t = { .pairs = pairs, .off = geometric_mean(off, pairs), .on = geometric_mean(on, pairs), .change = e.overhead, .ci = e.ci,
		.upper = e.upper_one_sided };
	double *y = mem_alloc((pairs + 1) * sizeof(*y)), mean = 0, squares = 0;
	for (size_t i = 0; i < pairs; i++) {
		y[i] = higher_is_better ? log(off[i] / on[i]) : log(on[i] / off[i]);
		mean += y[i] / (double)pairs;
	}
	for (size_t i = 0; i < pairs; i++)
		squares += (y[i] - mean) * (y[i] - mean);
	t.deviation = pairs > 1 ? sqrt(squares / (double)(pairs - 1)) : 0;
	if (pairs >= TRIALS_MIN_PAIRS && pairs < 10) {
		t.has_wilcoxon = true;
		t.hodges_lehmann = expm1(hodges_lehmann(y, pairs));
		t.wilcoxon_p = wilcoxon_signed_rank(y, pairs);
		// With 5 pairs the least p is 0.0625: a test that cannot reject does not disagree.
		bool can_reject = pow(2, 1 - (double)pairs) <= 1 - conf, rejects = t.ci.lo > 0 || t.ci.hi < 0;
		t.disagrees = t.hodges_lehmann < t.ci.lo || t.hodges_lehmann > t.ci.hi || (can_reject && rejects != (t.wilcoxon_p <= 1 - conf));
	}
	free(y);
	return t;
}

size_t trials_pairs_needed(double deviation, double target, double conf, double power)
{
	enum { MOST = 1000000 };
	double m = TRIALS_MIN_PAIRS;
	if (!(target > 0))
		return MOST;
	for (int i = 0; i < 100; i++) {
		double t = student_quantile(1 - (1 - conf) / 2, m - 1) + student_quantile(power, m - 1);
		double next = ceil(t * t * deviation * deviation / (target * target));
		next = fmin(MOST, fmax(TRIALS_MIN_PAIRS, next));
		if (next == m)
			break;
		m = i > 50 ? fmax(m, next) : next; // two values may take turns: the larger one
	}
	return (size_t)m;
}

void trials_text(const struct trials *t, struct buf *out)
{
	double hair = 1e-9, lo = floor(1000 * t->ci.lo + hair) / 10 + 0.0, hi = ceil(1000 * t->ci.hi - hair) / 10 + 0.0; // + 0.0: no -0
	if (t->pairs < TRIALS_MIN_PAIRS) {
		buf_printf(out, "%zu pair%s: too few for an interval", t->pairs, t->pairs == 1 ? "" : "s");
		return;
	}
	buf_printf(out, "%.1f%% [%.1f, %.1f], %zu pairs", 100 * t->change + 0.0, lo, hi, t->pairs);
	if (t->ci.lo <= 0 && t->ci.hi >= 0)
		buf_printf(out, ": not distinguishable from 0; at most %.1f%%", fmax(0, ceil(1000 * t->upper - hair) / 10));
	else if (t->ci.hi < 0)
		buf_printf(out, ": less with it than without: the trials differ in something else, no gain is claimed");
	else
		buf_printf(out, "; at most %.1f%%", ceil(1000 * t->upper - hair) / 10);
}
