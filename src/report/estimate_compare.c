// Two recordings, many hosts, paired trials: pure formulas of sections 8 to 10.
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "report/estimate_more.h"

struct interval newcombe(double k1, double n1, double k2, double n2, double conf)
{
	double p1 = k1 / n1, p2 = k2 / n2;
	struct interval a = wilson(k1, n1, conf), b = wilson(k2, n2, conf);
	return (struct interval){ p1 - p2 - hypot(p1 - a.lo, b.hi - p2), p1 - p2 + hypot(a.hi - p1, p2 - b.lo) };
}

// Score statistic of p1 - p2 = d at the restricted maximum likelihood, whose cubic is solved in closed form.
static double score_z(double k1, double n1, double k2, double n2, double d)
{
	double n = n1 + n2, k = k1 + k2;
	double l3 = n, l2 = (n1 + 2 * n2) * d - n - k, l1 = (n2 * d - n - 2 * k2) * d + k, l0 = k2 * d * (1 - d);
	double t = l2 / (3 * l3), q = t * t * t - l1 * l2 / (6 * l3 * l3) + l0 / (2 * l3);
	double u = copysign(sqrt(fmax(t * t - l1 / (3 * l3), 0)), q);
	double ratio = u != 0 ? q / (u * u * u) : 0;
	double angle = (M_PI + acos(fmax(-1, fmin(1, ratio)))) / 3;
	double p2 = 2 * u * cos(angle) - t;
	for (int i = 0; i < 3; i++) { // small shares are a difference of large terms: Newton gives the lost digits back
		double slope = (3 * l3 * p2 + 2 * l2) * p2 + l1, error = ((l3 * p2 + l2) * p2 + l1) * p2 + l0;
		if (slope != 0 && fabs(error / slope) < 1e-6)
			p2 -= error / slope;
	}
	p2 = fmax(0, fmin(1, p2));
	double p1 = fmax(0, fmin(1, p2 + d));
	double variance = (p1 * (1 - p1) / n1 + p2 * (1 - p2) / n2) * n / (n - 1), difference = k1 / n1 - k2 / n2 - d;
	return variance > 0 ? difference / sqrt(variance) : difference == 0 ? 0 : copysign(INFINITY, difference);
}

static double score_limit(double k1, double n1, double k2, double n2, double z, double inside, double outside)
{
	for (int i = 0; i < 200; i++) {
		double middle = (inside + outside) / 2;
		if (middle == inside || middle == outside)
			break;
		if (fabs(score_z(k1, n1, k2, n2, middle)) <= z)
			inside = middle;
		else
			outside = middle;
	}
	return inside;
}

struct interval miettinen_nurminen(double k1, double n1, double k2, double n2, double conf)
{
	double d = k1 / n1 - k2 / n2, z = normal_quantile(1 - (1 - conf) / 2);
	return (struct interval){ score_limit(k1, n1, k2, n2, z, d, -1), score_limit(k1, n1, k2, n2, z, d, 1) };
}

// What Welch's test depends on, at the quantiles of each: the sample variances of the two sides, which are chi2 over their degrees of freedom, with the limit
// of t for each pair; and the error with which the variance was foretold, by which the wanted effect is missed.
enum { WELCH_GRID = 24 };
struct welch_grid { double variances[WELCH_GRID], critical[WELCH_GRID][WELCH_GRID], foretold[WELCH_GRID]; size_t foretold_count; };

static double grid_quantile(size_t i, double df)
{
	return chi2_quantile(((double)i + 0.5) / WELCH_GRID, df) / df;
}

static double welch_power(const struct welch_grid *g, double effect) // given those the test is normal
{
	double sum = 0;
	for (size_t i = 0; i < WELCH_GRID; i++)
		for (size_t j = 0; j < WELCH_GRID; j++)
			for (size_t f = 0; f < g->foretold_count; f++)
				sum += normal_cdf(effect * g->foretold[f] - g->critical[i][j] * sqrt((g->variances[i] + g->variances[j]) / 2));
	return sum / (double)(WELCH_GRID * WELCH_GRID * g->foretold_count);
}

double welch_effect(size_t runs, double alpha, double power, double variance_df)
{
	double df = (double)runs - 1, lo = 0, hi = 1;
	if (runs < 2)
		return INFINITY;
	struct welch_grid g = { .foretold = { 1 }, .foretold_count = variance_df > 0 ? WELCH_GRID : 1 };
	for (size_t i = 0; i < WELCH_GRID; i++)
		g.variances[i] = grid_quantile(i, df);
	for (size_t i = 0; i < g.foretold_count && variance_df > 0; i++)
		g.foretold[i] = sqrt(grid_quantile(i, variance_df));
	for (size_t i = 0; i < WELCH_GRID; i++)
		for (size_t j = 0; j <= i; j++) {
			double both = g.variances[i] + g.variances[j], squares = g.variances[i] * g.variances[i] + g.variances[j] * g.variances[j];
			g.critical[i][j] = g.critical[j][i] = student_quantile(1 - alpha / 2, both * both / squares * df);
		}
	while (welch_power(&g, hi) < power && hi < 1e6)
		hi *= 2;
	while (hi - lo > 1e-4 * hi) {
		double middle = (lo + hi) / 2;
		if (welch_power(&g, middle) < power)
			lo = middle;
		else
			hi = middle;
	}
	return hi;
}

double pooled_z(double k1, double n1, double k2, double n2)
{
	double p = (k1 + k2) / (n1 + n2), se = sqrt(p * (1 - p) * (1 / n1 + 1 / n2));
	return se > 0 ? (k1 / n1 - k2 / n2) / se : 0;
}

struct ordered { double p; size_t at; };

static int by_p(const void *a, const void *b)
{
	const struct ordered *x = a, *y = b;
	return x->p != y->p ? (x->p < y->p ? -1 : 1) : x->at < y->at ? -1 : x->at > y->at;
}

void adjust_p(const double *p, size_t count, enum adjustment how, double *adjusted)
{
	if (count == 0)
		return;
	struct ordered *order = mem_alloc(count * sizeof(*order));
	double harmonic = 0, m = (double)count;
	for (size_t i = 0; i < count; i++) {
		order[i] = (struct ordered){ p[i], i };
		harmonic += 1 / (double)(i + 1);
	}
	sort_stable(order, count, sizeof(*order), by_p);
	double running = how == ADJUST_HOLM ? 0 : 1;
	for (size_t step = 0; step < count; step++) {
		size_t i = how == ADJUST_HOLM ? step : count - 1 - step;
		if (how == ADJUST_HOLM)
			running = fmax(running, fmin(1, (m - (double)i) * order[i].p));
		else
			running = fmin(running, order[i].p * m * (how == ADJUST_BY ? harmonic : 1) / (double)(i + 1));
		adjusted[order[i].at] = running;
	}
	free(order);
}

struct overhead_estimate overhead_pairs(const double *off, const double *on, size_t pairs, double conf)
{
	double m = (double)pairs, mean = 0, squares = 0;
	for (size_t i = 0; i < pairs; i++)
		mean += log(off[i] / on[i]) / m;
	for (size_t i = 0; i < pairs; i++) {
		double e = log(off[i] / on[i]) - mean;
		squares += e * e;
	}
	if (pairs < 2)
		return (struct overhead_estimate){ pairs > 0 ? expm1(mean) : 0, { -1, INFINITY }, INFINITY };
	double se = sqrt(squares / (m - 1) / m), t = student_quantile(1 - (1 - conf) / 2, m - 1);
	return (struct overhead_estimate){ expm1(mean), { expm1(mean - t * se), expm1(mean + t * se) },
		expm1(mean + student_quantile(0.95, m - 1) * se) };
}

struct hosts_estimate merge_hosts(const double *n, const double *k, const double *weight, size_t hosts, double conf)
{
	struct hosts_estimate r = { .p_heterogeneous = 1 };
	double sum_w = 0, sum_n = 0, sum_k = 0, h = (double)hosts;
	for (size_t i = 0; i < hosts; i++) {
		double p = k[i] / n[i];
		sum_w += weight[i];
		sum_n += n[i];
		sum_k += k[i];
		r.share += weight[i] * p;
		r.largest = fmax(r.largest, p);
	}
	r.share /= sum_w;
	double pooled = sum_k / sum_n;
	for (size_t i = 0; i < hosts; i++) {
		double p = k[i] / n[i], omega = weight[i] / sum_w, e = k[i] - n[i] * pooled;
		r.var_within += omega * omega * p * (1 - p) / n[i];
		if (hosts > 1)
			r.var_cluster += h / (h - 1) * omega * omega * (p - r.share) * (p - r.share);
		if (pooled > 0 && pooled < 1)
			r.q += e * e / (n[i] * pooled * (1 - pooled));
	}
	if (hosts > 1) {
		r.p_heterogeneous = chi2_upper(r.q, h - 1);
		r.i2 = r.q > 0 ? fmax(0, 1 - (h - 1) / r.q) : 0;
	}
	double factor = hosts > 1 ? student_quantile(1 - (1 - conf) / 2, h - 1) : normal_quantile(1 - (1 - conf) / 2);
	double half = factor * sqrt(fmax(r.var_within, r.var_cluster));
	r.ci = (struct interval){ fmax(0, r.share - half), fmin(1, r.share + half) };
	return r;
}
