// Estimation from samples: pure functions of numbers. Formulas, conditions and sources: src/DESIGN.md, Statistics (design of 2026).
// Relative accuracy 1e-8 or better; real-valued k and n are legal throughout.
#ifndef PERFSAMPLE_REPORT_ESTIMATE_H
#define PERFSAMPLE_REPORT_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Regularized incomplete beta I_x(a, b); DLMF 8.17.22 by modified Lentz, prefactor by Loader (2000).
double beta_cdf(double x, double a, double b);
double beta_quantile(double p, double a, double b);
double normal_cdf(double z);
double normal_quantile(double p);               // Wichura 1988, AS 241
double student_quantile(double p, double df);
double student_cdf(double t, double df);
double chi2_quantile(double p, double df);
double chi2_upper(double x, double df);         // P(X > x)

struct interval { double lo, hi; };

// Clopper & Pearson 1934 at confidence `conf`; n = 0: [0, 1].
struct interval clopper_pearson(double k, double n, double conf);
double clopper_pearson_lo(double k, double n, double conf); // one end alone: half the work
double clopper_pearson_hi(double k, double n, double conf);
struct interval wilson(double k, double n, double conf); // inside Newcombe and planning only

// Blocks of equal wall time over all threads together (section 4). n_j, k_j may be weighted sums.
struct block_result { double p, deff /* not floored */, lag1, von_neumann, z_vn, variance; };
struct block_result block_deff(const double *n, const double *k, size_t blocks);

// Korn & Graubard 1998: n_eff = min(n, n / max(deff, 1) * (z / t_{b-1})^2), k_eff = k n_eff / n, then Clopper-Pearson. blocks 0: z for t.
double block_ratio(size_t blocks, double conf); // z / t_{b-1}: as dear as an interval, and the same for all rows of as many blocks
double effective_n(double n, double deff, double block_ratio);
struct interval workload_interval(double k, double n, double deff, size_t blocks, double conf, double *n_eff);

// Identified set and outer interval under loss (section 5; Horowitz & Manski 1995): CP_lo(k, n + L), CP_hi(k + L, n + L), design effect applied.
struct loss_bounds { struct interval set, outer; };
struct loss_bounds loss_bounds(double k, double n, double lost, double deff, size_t blocks, double conf);
// The ends of `outer` with n + L effective samples in place of n + L.
double loss_lo(double k, double n, double lost, double effective, double conf);
double loss_hi(double k, double n, double lost, double effective, double conf);

// Exact sign test of two rows of one profile, min(1, 2 I_{1/2}(max, min + 1)), on k / deff.
double sign_test(double k_i, double k_j, double deff);
// Fitzpatrick & Scott 1987: half width that holds for all shares at once.
double simultaneous_half_width(double n_eff, double conf);
double smallest_seen(double n, double conf);    // share with `conf` chance of at least one sample: 1 - (1 - conf)^(1/n)
double largest_unseen(double n, double conf);   // 1 - (alpha/2)^(1/n)
double samples_to_separate(double p1, double p2, double conf, double power); // two rows of one profile, section 7
double samples_for_half_width(double p, double half_width, double conf);
double samples_per_run(double p1, double p2, double conf, double power);     // of a comparison of two runs
double kish_n(double sum_w, double sum_w2);     // Kish 1965

// Rank intervals of all rows of one profile (Bazylik, Mogstad, Romano, Shaikh & Wilhelm 2021) from the exact sign test at
// (1 - conf) / (rows - 1): lo = 1 + how many are surely larger, hi = rows - how many are surely smaller. `k` descending; the deff of a
// pair is the larger one. O(rows log rows). `deff` NULL: 1.
struct rank_interval { uint32_t lo, hi; };
void rank_intervals(const double *k, const double *deff, size_t rows, double conf, struct rank_interval *ranks);

#endif
