// Quantiles, histogram buckets, sampled allocations, weights, loss by window: pure formulas of sections 4, 5, 11 and 12.
#include <math.h>

#include "base/search.h"
#include "report/estimate_more.h"

static double binomial_cdf(double x, double n, double q) // P(X <= x)
{
	return x < 0 ? 0 : x >= n ? 1 : beta_cdf(1 - q, n - x, x + 1);
}

struct quantile_ranks quantile_ranks(uint64_t n, double q, double conf)
{
	double half = (1 - conf) / 2, count = (double)n;
	struct quantile_ranks r = { .point = (uint64_t)fmax(1, ceil(count * q - 1e-9 * count * q)) };
	if (n == 0)
		return (struct quantile_ranks){ 0 };
	// The largest l with P(X <= l - 1) <= half, and the smallest u with P(X <= u - 1) >= 1 - half.
	r.lo = first_not(1, n + 1, l, binomial_cdf((double)l - 1, count, q) <= half) - 1;
	const uint64_t hi = first_not(1, n + 1, u, binomial_cdf((double)u - 1, count, q) < 1 - half);
	r.coverage = binomial_cdf((double)hi - 1, count, q) - binomial_cdf((double)r.lo - 1, count, q);
	r.hi = hi > n ? 0 : hi;
	return r;
}

uint32_t bucket_index(unsigned sub_bits, uint64_t value)
{
	if (value >> sub_bits == 0)
		return (uint32_t)value;
	unsigned exponent = 63 - (unsigned)__builtin_clzll(value);
	return ((exponent - sub_bits + 1) << sub_bits) + (uint32_t)(value >> (exponent - sub_bits)) - (1u << sub_bits);
}

void bucket_bounds(unsigned sub_bits, uint32_t index, uint64_t *lo, uint64_t *hi)
{
	uint32_t octave = index >> sub_bits, within = index & ((1u << sub_bits) - 1);
	if (octave == 0) {
		*lo = *hi = index;
		return;
	}
	unsigned shift = octave - 1;
	*lo = (uint64_t)(within + (1u << sub_bits)) << shift;
	*hi = *lo + ((uint64_t)1 << shift) - 1;
}

double inclusion_probability(double size, double rate)
{
	return -expm1(-size / rate);
}

struct site_estimate allocation_site(const double *sizes, size_t count, double rate, double conf)
{
	struct site_estimate r = { 0 };
	double seen = 0, half = (1 - conf) / 2;
	for (size_t i = 0; i < count; i++) {
		double pi = inclusion_probability(sizes[i], rate), bytes = sizes[i] / pi;
		seen += sizes[i];
		r.objects += 1 / pi;
		r.bytes += bytes;
		r.variance += bytes * bytes * (1 - pi);
	}
	double y = r.bytes, v = r.variance, next_v = v + rate * rate, next_y = y + rate;
	if (v > 0)
		r.ci.lo = v / (2 * y) * chi2_quantile(half, 2 * y * y / v);
	r.ci.lo = fmax(r.ci.lo, seen);
	r.ci.hi = next_v / (2 * next_y) * chi2_quantile(1 - half, 2 * next_y * next_y / next_v);
	return r;
}

// Variance of sum k / sum n over windows, as in block_deff; only those of the wanted kind.
static double window_share(const double *n, const double *lost, const double *k, size_t windows, bool lossy, size_t *count, double *variance)
{
	double sum_n = 0, sum_k = 0, squares = 0;
	*count = 0;
	for (size_t w = 0; w < windows; w++)
		if ((lost[w] > 0) == lossy) {
			sum_n += n[w];
			sum_k += k[w];
			++*count;
		}
	double p = sum_n > 0 ? sum_k / sum_n : 0, b = (double)*count;
	for (size_t w = 0; w < windows; w++)
		if ((lost[w] > 0) == lossy) {
			double e = k[w] - p * n[w];
			squares += e * e;
		}
	*variance = *count > 1 && sum_n > 0 ? b / (b - 1) * squares / (sum_n * sum_n) : 0;
	return p;
}

struct window_loss loss_windows(const double *n, const double *lost, const double *k, size_t windows)
{
	struct window_loss r = { .p = 1 };
	double sum_n = 0, sum_k = 0, sum_lost = 0, imputed = 0, imputed_n = 0;
	for (size_t w = 0; w < windows; w++) {
		sum_n += n[w];
		sum_k += k[w];
		sum_lost += lost[w];
		if (n[w] > 0) {
			imputed += (n[w] + lost[w]) * k[w] / n[w];
			imputed_n += n[w] + lost[w];
		}
	}
	r.naive = sum_n > 0 ? sum_k / sum_n : 0;
	r.imputed = imputed_n > 0 ? imputed / imputed_n : 0;
	double all = sum_n + sum_lost, rate = all > 0 ? sum_lost / all : 0;
	if (rate > 0 && rate < 1 && windows > 1) {
		for (size_t w = 0; w < windows; w++) {
			double expected = rate * (n[w] + lost[w]);
			if (expected > 0)
				r.chi2 += (lost[w] - expected) * (lost[w] - expected) / (expected * (1 - rate));
		}
		r.p = chi2_upper(r.chi2, (double)windows - 1);
	}
	double variance_lossy, variance_clean;
	double lossy = window_share(n, lost, k, windows, true, &r.lossy, &variance_lossy);
	double clean = window_share(n, lost, k, windows, false, &r.clean, &variance_clean);
	if (r.lossy >= 2 && r.clean >= 2 && variance_lossy + variance_clean > 0)
		r.z = (lossy - clean) / sqrt(variance_lossy + variance_clean);
	return r;
}

void window_sums_add(struct window_sums *sums, double n, double k)
{
	sums->windows++;
	sums->n += n;
	sums->nn += n * n;
	sums->k += k;
	sums->kk += k * k;
	sums->kn += k * n;
}

static double sums_variance(const struct window_sums *s, double p) // as window_share
{
	double squares = fmax(0, s->kk - 2 * p * s->kn + p * p * s->nn);
	return s->n > 0 && s->windows > 1 ? s->windows / (s->windows - 1) * squares / (s->n * s->n) : 0;
}

struct tied_loss tied_loss(const struct window_sums *lossy, const struct window_sums *clean)
{
	struct tied_loss r = { .p = 1 };
	double p1 = lossy->n > 0 ? lossy->k / lossy->n : 0, p2 = clean->n > 0 ? clean->k / clean->n : 0;
	double variance = sums_variance(lossy, p1) + sums_variance(clean, p2), fewer = fmin(lossy->windows, clean->windows);
	r.difference = p1 - p2;
	if (fewer < TIED_MIN_WINDOWS || !(variance > 0))
		return r;
	r.z = r.difference / sqrt(variance);
	r.p = 2 * student_cdf(-fabs(r.z), fewer - 1);
	return r;
}

struct weighted_share weighted_share(const double *weights, const double *hits, size_t count)
{
	struct weighted_share r = { 0 };
	double squares = 0, in = 0, largest = 0;
	for (size_t i = 0; i < count; i++) {
		r.sum += weights[i];
		squares += weights[i] * weights[i];
		in += weights[i] * hits[i];
		largest = fmax(largest, weights[i]);
	}
	r.compound_se = sqrt(squares);
	if (r.sum > 0) {
		r.share = in / r.sum;
		r.n = kish_n(r.sum, squares);
		r.largest_share = largest / r.sum;
	}
	return r;
}
