// Estimation beyond one profile's rows: two recordings, many hosts, paired trials, quantiles, sampled allocations, loss by window.
// Pure functions of numbers, as estimate.h. Sections are those of the statistics in src/DESIGN.md.
#ifndef PERFSAMPLE_REPORT_ESTIMATE_MORE_H
#define PERFSAMPLE_REPORT_ESTIMATE_MORE_H

#include "report/estimate.h"

// Two independent shares k1/n1 - k2/n2 (section 8).
struct interval newcombe(double k1, double n1, double k2, double n2, double conf);            // hybrid score, Newcombe 1998
struct interval miettinen_nurminen(double k1, double n1, double k2, double n2, double conf);  // 1985, with N / (N - 1)
double pooled_z(double k1, double n1, double k2, double n2); // 0 when the pooled standard error is 0
// How many standard errors two means of `runs` values each must lie apart for Welch's test (two-sided, level `alpha`) to find it with `power`,
// where the variance was estimated with so many degrees of freedom (0: known) before the experiment was sized by it.
double welch_effect(size_t runs, double alpha, double power, double variance_df);

// Adjusted p of many tests, in the order given (Benjamini & Hochberg 1995, Benjamini & Yekutieli 2001, Holm 1979).
enum adjustment { ADJUST_BH, ADJUST_BY, ADJUST_HOLM };
void adjust_p(const double *p, size_t count, enum adjustment how, double *adjusted);

// Paired trials, y = ln(off / on) for throughput (section 10).
struct overhead_estimate { double overhead; struct interval ci; double upper_one_sided; /* 95 % */ };
struct overhead_estimate overhead_pairs(const double *off, const double *on, size_t pairs, double conf);

// Weighted share over hosts (section 9); counts are effective ones.
struct hosts_estimate { double share, var_within, var_cluster; struct interval ci; double q, p_heterogeneous, i2, largest; };
struct hosts_estimate merge_hosts(const double *n, const double *k, const double *weight, size_t hosts, double conf);

// Order-statistic ranks (1-based) that hold the quantile q (section 11); 0: no finite limit.
struct quantile_ranks { uint64_t point, lo, hi; double coverage; };
struct quantile_ranks quantile_ranks(uint64_t n, double q, double conf);
// Log-linear buckets of relative width 2^-sub_bits, inclusive bounds.
uint32_t bucket_index(unsigned sub_bits, uint64_t value);
void bucket_bounds(unsigned sub_bits, uint32_t index, uint64_t *lo, uint64_t *hi);

// Sampled allocations (section 12): Horvitz & Thompson 1952, interval of Fay & Feuer 1997.
double inclusion_probability(double size, double rate);
struct site_estimate { double objects, bytes, variance; struct interval ci; };
struct site_estimate allocation_site(const double *sizes, size_t count, double rate, double conf);

// Loss by windows of time (section 5): n kept, lost, k in the function.
struct window_loss {
	double naive, imputed; // windows without a kept sample enter neither
	double chi2, p;        // dispersion of the loss over windows; 0 and 1 without loss
	double z;              // share in lossy against clean windows; 0 when either set has fewer than 2
	size_t lossy, clean;
};
struct window_loss loss_windows(const double *n, const double *lost, const double *k, size_t windows);

// Whether loss is tied to a function (section 5): its share in windows with loss against its share in windows without. From sums over the
// windows of a set, so that windows need not be kept: n samples, k of them in the function. Two-sided t with the smaller set's windows - 1
// degrees of freedom; p = 1 where a set has fewer than TIED_MIN_WINDOWS.
enum { TIED_MIN_WINDOWS = 5 };
struct window_sums { double windows, n, nn, k, kk, kn; };
void window_sums_add(struct window_sums *sums, double n, double k);
struct tied_loss { double difference, z, p; };
struct tied_loss tied_loss(const struct window_sums *lossy, const struct window_sums *clean);

// Sums of weights: p, Kish's n, and for weights as such the sum, its compound standard error and the largest one's share.
struct weighted_share { double share, n, sum, compound_se, largest_share; };
struct weighted_share weighted_share(const double *weights, const double *hits, size_t count);

#endif
