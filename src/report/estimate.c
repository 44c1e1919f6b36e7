#include "report/estimate.h"

#include <math.h>

double clopper_pearson_lo(double k, double n, double conf)
{
	double half = (1 - conf) / 2;
	if (!(n > 0) || k <= 0)
		return 0;
	return k >= n ? pow(half, 1 / n) : beta_quantile(half, k, n - k + 1);
}

double clopper_pearson_hi(double k, double n, double conf)
{
	double half = (1 - conf) / 2;
	if (!(n > 0))
		return 1;
	if (k <= 0)
		return -expm1(log(half) / n); // 1 - half^(1/n)
	return k < n ? beta_quantile(1 - half, k + 1, n - k) : 1;
}

struct interval clopper_pearson(double k, double n, double conf)
{
	return (struct interval){ clopper_pearson_lo(k, n, conf), clopper_pearson_hi(k, n, conf) };
}

struct interval wilson(double k, double n, double conf)
{
	if (!(n > 0))
		return (struct interval){ 0, 1 };
	double z = normal_quantile(1 - (1 - conf) / 2), z2 = z * z, p = k / n;
	double middle = p + z2 / (2 * n), half = z * sqrt(p * (1 - p) / n + z2 / (4 * n * n)), scale = 1 + z2 / n;
	return (struct interval){ k <= 0 ? 0 : (middle - half) / scale, k >= n ? 1 : (middle + half) / scale };
}

// Ratio estimator, linearised (Cochran 1977); von Neumann 1941.
struct block_result block_deff(const double *n, const double *k, size_t blocks)
{
	struct block_result r = { .deff = 1, .von_neumann = 2 };
	double sum_n = 0, sum_k = 0;
	for (size_t j = 0; j < blocks; j++) {
		sum_n += n[j];
		sum_k += k[j];
	}
	r.p = sum_n > 0 ? sum_k / sum_n : 0;
	if (!(sum_k > 0) || sum_k >= sum_n || blocks < 3)
		return r;
	double squares = 0, differences = 0, products = 0, previous = 0;
	for (size_t j = 0; j < blocks; j++) {
		double e = k[j] - r.p * n[j];
		squares += e * e;
		if (j > 0) {
			differences += (e - previous) * (e - previous);
			products += e * previous;
		}
		previous = e;
	}
	double b = (double)blocks;
	r.variance = b / (b - 1) * squares / (sum_n * sum_n);
	r.deff = r.variance / (r.p * (1 - r.p) / sum_n);
	if (squares > 0) {
		r.von_neumann = differences / squares;
		r.lag1 = products / squares;
	}
	r.z_vn = (2 - r.von_neumann) / (2 * sqrt((b - 2) / (b * b - 1)));
	return r;
}

double block_ratio(size_t blocks, double conf)
{
	double p = 1 - (1 - conf) / 2;
	return blocks > 1 ? normal_quantile(p) / student_quantile(p, (double)blocks - 1) : 1;
}

double effective_n(double n, double deff, double ratio)
{
	return fmin(n, n / fmax(deff, 1) * ratio * ratio);
}

struct interval workload_interval(double k, double n, double deff, size_t blocks, double conf, double *n_eff)
{
	double effective = n > 0 ? effective_n(n, deff, block_ratio(blocks, conf)) : 0;
	if (n_eff != NULL)
		*n_eff = effective;
	return clopper_pearson(n > 0 ? k * effective / n : 0, effective, conf);
}

double loss_lo(double k, double n, double lost, double effective, double conf)
{
	double all = n + lost, scale = effective / all;
	return all > 0 ? clopper_pearson_lo(k * scale, all * scale, conf) : 0;
}

double loss_hi(double k, double n, double lost, double effective, double conf)
{
	double all = n + lost, scale = effective / all;
	return all > 0 ? clopper_pearson_hi((k + lost) * scale, all * scale, conf) : 1;
}

struct loss_bounds loss_bounds(double k, double n, double lost, double deff, size_t blocks, double conf)
{
	double all = n + lost;
	if (!(all > 0))
		return (struct loss_bounds){ { 0, 1 }, { 0, 1 } };
	double effective = effective_n(all, deff, block_ratio(blocks, conf));
	return (struct loss_bounds){
		.set = { k / all, (k + lost) / all },
		.outer = { loss_lo(k, n, lost, effective, conf), loss_hi(k, n, lost, effective, conf) },
	};
}

double sign_test(double k_i, double k_j, double deff)
{
	double d = fmax(deff, 1), larger = fmax(k_i, k_j) / d, smaller = fmin(k_i, k_j) / d;
	return larger > 0 ? fmin(1, 2 * beta_cdf(0.5, larger, smaller + 1)) : 1;
}

// The published constants at 90, 95 and 99 %; between and beyond them z_{1-alpha/4} / 2, rounded up to the next 0.02, which is what they come from.
double simultaneous_half_width(double n_eff, double conf)
{
	if (!(n_eff > 0))
		return 1;
	double c = conf == 0.90 ? 1.00 : conf == 0.95 ? 1.13 : conf == 0.99 ? 1.40 : normal_quantile(1 - (1 - conf) / 4) / 2 + 0.02;
	return fmin(1, c / sqrt(n_eff));
}

double smallest_seen(double n, double conf)
{
	return n > 0 ? -expm1(log1p(-conf) / n) : 1;
}

double largest_unseen(double n, double conf)
{
	return n > 0 ? -expm1(log((1 - conf) / 2) / n) : 1;
}

double samples_for_half_width(double p, double half_width, double conf)
{
	double z = normal_quantile(1 - (1 - conf) / 2);
	return ceil(z * z * p * (1 - p) / (half_width * half_width));
}

double samples_to_separate(double p1, double p2, double conf, double power)
{
	double z = normal_quantile(1 - (1 - conf) / 2) + normal_quantile(power), d = p1 - p2;
	return ceil(z * z * (p1 + p2 - d * d) / (d * d));
}

double samples_per_run(double p1, double p2, double conf, double power)
{
	double z = normal_quantile(1 - (1 - conf) / 2) + normal_quantile(power), d = p1 - p2;
	return ceil(z * z * (p1 * (1 - p1) + p2 * (1 - p2)) / (d * d));
}

double kish_n(double sum_w, double sum_w2)
{
	return sum_w2 > 0 ? sum_w * sum_w / sum_w2 : 0;
}
