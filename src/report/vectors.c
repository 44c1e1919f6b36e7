#include "report/vectors.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "report/estimate_more.h"

enum { MAX_COLUMNS = 16 };

struct numbers { VEC(double) v; };

struct table {
	char *text;              // cut up
	char *columns[MAX_COLUMNS];
	size_t column_count;
	VEC(char *) cells;       // row by row
	size_t rows;
	double tolerance;
	struct vectors_result *result;
	struct buf *report;
};

static const char *cell(const struct table *t, size_t row, size_t column)
{
	return t->cells.data[row * t->column_count + column];
}

static double number(const struct table *t, size_t row, size_t column)
{
	return strtod(cell(t, row, column), NULL);
}

static struct numbers list(const struct table *t, size_t row, size_t column)
{
	struct numbers n = { 0 };
	for (const char *s = cell(t, row, column); *s != '\0';) {
		char *end;
		double value = strtod(s, &end);
		if (end == s)
			break;
		vec_push(&n.v, value);
		s = *end == ',' ? end + 1 : end;
	}
	return n;
}

static void compare(struct table *t, size_t row, size_t column, double got)
{
	double wanted = number(t, row, column);
	double difference = wanted == 0 ? fabs(got) : fabs(got - wanted) / fabs(wanted);
	bool good = wanted == 0 ? difference <= 1e-12 : difference <= t->tolerance;
	if (isnan(got))
		good = false;
	t->result->cells++;
	if (difference > t->result->worst || t->result->cells == 1) {
		t->result->worst = difference;
		snprintf(t->result->where, sizeof(t->result->where), "row %zu, %s", row + 1, t->columns[column]);
	}
	if (!good && t->result->wrong++ < 20)
		buf_printf(t->report, "row %zu, %s: wanted %.17g, got %.17g\n", row + 1, t->columns[column], wanted, got);
}

// Compares the columns from `first` on with the numbers given.
static void compare_all(struct table *t, size_t row, size_t first, const double *got, size_t count)
{
	for (size_t i = 0; i < count; i++)
		compare(t, row, first + i, got[i]);
}
#define COMPARE(t, row, first, ...) \
	compare_all(t, row, first, (const double[]){ __VA_ARGS__ }, sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))

static void check_ibeta(struct table *t, size_t r)
{
	COMPARE(t, r, 3, beta_cdf(number(t, r, 2), number(t, r, 0), number(t, r, 1)));
}

static void check_quantile(struct table *t, size_t r)
{
	double df = number(t, r, 1), p = number(t, r, 2);
	const char *kind = cell(t, r, 0);
	COMPARE(t, r, 3, strcmp(kind, "norm") == 0 ? normal_quantile(p) : strcmp(kind, "t") == 0 ? student_quantile(p, df) : chi2_quantile(p, df));
}

static void check_binomial(struct table *t, size_t r)
{
	double k = number(t, r, 0), n = number(t, r, 1), conf = number(t, r, 2), half = (1 - conf) / 2;
	struct interval w = wilson(k, n, conf), cp = clopper_pearson(k, n, conf);
	COMPARE(t, r, 3, w.lo, w.hi, cp.lo, cp.hi);
	COMPARE(t, r, 7, k == 0 ? 0 : beta_quantile(half, k + 0.5, n - k + 0.5), k == n ? 1 : beta_quantile(1 - half, k + 0.5, n - k + 0.5));
}

static void check_neff(struct table *t, size_t r)
{
	double k = number(t, r, 0), n = number(t, r, 1), conf = number(t, r, 4), n_eff;
	struct interval cp = workload_interval(k, n, number(t, r, 2), (size_t)number(t, r, 3), conf, &n_eff);
	COMPARE(t, r, 5, n_eff, k * n_eff / n);
	// The interval by the table's own effective counts: with k_eff near 0 the lower limit (1e-25) has their error ten times over.
	double table_n = number(t, r, 5), table_k = number(t, r, 6);
	struct interval own = clopper_pearson(table_k, table_n, conf), w = wilson(table_k, table_n, conf);
	COMPARE(t, r, 7, own.lo, own.hi, w.lo, w.hi);
	compare(t, r, 8, cp.hi);
}

static void check_blocks(struct table *t, size_t r)
{
	struct numbers n = list(t, r, 2), k = list(t, r, 3);
	struct block_result b = block_deff(n.v.data, k.v.data, n.v.count < k.v.count ? n.v.count : k.v.count);
	double sum_n = 0, sum_k = 0, n_eff;
	for (size_t i = 0; i < n.v.count && i < k.v.count; i++) {
		sum_n += n.v.data[i];
		sum_k += k.v.data[i];
	}
	struct interval cp = workload_interval(sum_k, sum_n, b.deff, n.v.count, 0.95, &n_eff);
	COMPARE(t, r, 4, b.p, b.deff, b.lag1, b.von_neumann, b.z_vn, n_eff, cp.lo, cp.hi);
	vec_release(&n.v);
	vec_release(&k.v);
}

static void check_weights(struct table *t, size_t r)
{
	struct numbers w = list(t, r, 1), hit = list(t, r, 2);
	struct weighted_share s = weighted_share(w.v.data, hit.v.data, w.v.count < hit.v.count ? w.v.count : hit.v.count);
	struct interval cp = clopper_pearson(s.share * s.n, s.n, 0.95);
	COMPARE(t, r, 3, s.share, s.n, cp.lo, cp.hi, s.sum, s.compound_se, s.largest_share);
	vec_release(&w.v);
	vec_release(&hit.v);
}

static void check_loss_bounds(struct table *t, size_t r)
{
	double k = number(t, r, 0), n = number(t, r, 1), lost = number(t, r, 2);
	struct loss_bounds b = loss_bounds(k, n, lost, 1, 0, number(t, r, 3));
	COMPARE(t, r, 4, lost / (n + lost), k / n, b.set.lo, b.set.hi, b.outer.lo, b.outer.hi);
}

static void check_loss_windows(struct table *t, size_t r)
{
	struct numbers n = list(t, r, 1), lost = list(t, r, 2), k = list(t, r, 3);
	size_t windows = n.v.count;
	if (lost.v.count == windows && k.v.count == windows) {
		struct window_loss w = loss_windows(n.v.data, lost.v.data, k.v.data, windows);
		COMPARE(t, r, 4, w.naive, w.imputed, w.chi2, w.p, w.z);
	}
	vec_release(&n.v);
	vec_release(&lost.v);
	vec_release(&k.v);
}

static void check_diff(struct table *t, size_t r)
{
	double k1 = number(t, r, 0), n1 = number(t, r, 1), k2 = number(t, r, 2), n2 = number(t, r, 3), conf = number(t, r, 4);
	struct interval n = newcombe(k1, n1, k2, n2, conf), m = miettinen_nurminen(k1, n1, k2, n2, conf);
	double z = pooled_z(k1, n1, k2, n2);
	COMPARE(t, r, 5, k1 / n1 - k2 / n2, n.lo, n.hi, m.lo, m.hi, z, erfc(fabs(z) * M_SQRT1_2));
}

static void check_diff_deff(struct table *t, size_t r)
{
	double d1 = number(t, r, 2), d2 = number(t, r, 5);
	struct interval n = newcombe(number(t, r, 0) / d1, number(t, r, 1) / d1, number(t, r, 3) / d2, number(t, r, 4) / d2, 0.95);
	COMPARE(t, r, 6, n.lo, n.hi);
}

// Rows of one set stand together; the whole set is computed at its first row.
static void check_fdr(struct table *t, size_t r)
{
	if (number(t, r, 1) != 0)
		return;
	size_t count = 1;
	while (r + count < t->rows && number(t, r + count, 0) == number(t, r, 0))
		count++;
	double *p = mem_alloc(4 * count * sizeof(*p));
	for (size_t i = 0; i < count; i++)
		p[i] = number(t, r + i, 2);
	for (size_t how = 0; how < 3; how++)
		adjust_p(p, count, (enum adjustment)how, p + (how + 1) * count);
	for (size_t i = 0; i < count; i++)
		COMPARE(t, r + i, 3, p[count + i], p[2 * count + i], p[3 * count + i]);
	free(p);
}

static void check_quantile_ci(struct table *t, size_t r)
{
	struct quantile_ranks q = quantile_ranks((uint64_t)number(t, r, 0), number(t, r, 1), number(t, r, 2));
	COMPARE(t, r, 3, (double)q.point, (double)q.lo, (double)q.hi, q.coverage);
}

static void check_planning(struct table *t, size_t r)
{
	const char *what = cell(t, r, 0);
	double a = number(t, r, 1), b = number(t, r, 2), level = number(t, r, 3), got = NAN;
	if (strcmp(what, "n_for_halfwidth") == 0)
		got = samples_for_half_width(a, b, level);
	else if (strcmp(what, "p_seen_once") == 0 || strcmp(what, "p_upper_if_unseen_1sided") == 0)
		got = smallest_seen(a, level);
	else if (strcmp(what, "p_upper_if_unseen_cp2") == 0)
		got = largest_unseen(a, level);
	else if (strcmp(what, "n_to_rank") == 0)
		got = samples_to_separate(a, b, 0.95, level);
	else if (strcmp(what, "n_per_run_diff") == 0)
		got = samples_per_run(a, b, 0.95, level);
	COMPARE(t, r, 4, got);
}

static void check_ranks(struct table *t, size_t r)
{
	struct numbers k = list(t, r, 2);
	size_t i = (size_t)number(t, r, 3), rows = k.v.count;
	double deff = number(t, r, 1);
	if (i < rows) {
		double *d = mem_alloc(rows * sizeof(*d));
		struct rank_interval *ranks = mem_alloc(rows * sizeof(*ranks));
		for (size_t j = 0; j < rows; j++)
			d[j] = deff;
		rank_intervals(k.v.data, d, rows, 0.95, ranks);
		if (*cell(t, r, 5) != '\0' && i + 1 < rows)
			COMPARE(t, r, 5, sign_test(k.v.data[i], k.v.data[i + 1], deff));
		COMPARE(t, r, 6, ranks[i].lo, ranks[i].hi);
		free(d);
		free(ranks);
	}
	vec_release(&k.v);
}

static void check_alloc_weight(struct table *t, size_t r)
{
	double size = number(t, r, 0), pi = inclusion_probability(size, number(t, r, 1));
	COMPARE(t, r, 2, pi, 1 / pi, size / pi);
}

static void check_alloc_site(struct table *t, size_t r)
{
	struct numbers sizes = list(t, r, 2);
	struct site_estimate s = allocation_site(sizes.v.data, sizes.v.count, number(t, r, 1), 0.95);
	COMPARE(t, r, 3, s.objects, s.bytes, s.variance, s.ci.lo, s.ci.hi);
	vec_release(&sizes.v);
}

static void check_overhead(struct table *t, size_t r)
{
	struct numbers off = list(t, r, 2), on = list(t, r, 3);
	size_t pairs = off.v.count < on.v.count ? off.v.count : on.v.count;
	struct overhead_estimate o = overhead_pairs(off.v.data, on.v.data, pairs, 0.95);
	COMPARE(t, r, 4, o.overhead, o.ci.lo, o.ci.hi, o.upper_one_sided);
	vec_release(&off.v);
	vec_release(&on.v);
}

static void check_merge(struct table *t, size_t r)
{
	struct numbers n = list(t, r, 2), k = list(t, r, 3), w = list(t, r, 4);
	if (k.v.count == n.v.count && w.v.count == n.v.count && n.v.count > 0) {
		struct hosts_estimate h = merge_hosts(n.v.data, k.v.data, w.v.data, n.v.count, 0.95);
		COMPARE(t, r, 5, h.share, h.var_within, h.var_cluster, h.ci.lo, h.ci.hi, h.q, h.p_heterogeneous, h.i2, h.largest);
	}
	vec_release(&n.v);
	vec_release(&k.v);
	vec_release(&w.v);
}

static void check_buckets(struct table *t, size_t r)
{
	unsigned bits = (unsigned)number(t, r, 0);
	uint64_t value = strtoull(cell(t, r, 1), NULL, 10), lo, hi;
	uint32_t index = bucket_index(bits, value);
	bucket_bounds(bits, index, &lo, &hi);
	// 2^64 - 1 is no double: the bounds are compared as integers.
	COMPARE(t, r, 2, index);
	compare(t, r, 3, lo == strtoull(cell(t, r, 3), NULL, 10) ? number(t, r, 3) : NAN);
	compare(t, r, 4, hi == strtoull(cell(t, r, 4), NULL, 10) ? number(t, r, 4) : NAN);
}

static const struct {
	const char *columns; // the header line
	void (*check)(struct table *t, size_t row);
} tables[] = {
	{ "a\tb\tx\tI_x(a,b)", check_ibeta },
	{ "dist\tdf\tp\tx", check_quantile },
	{ "k\tn\tconf\twilson_lo\twilson_hi\tcp_lo\tcp_hi\tjeffreys_lo\tjeffreys_hi", check_binomial },
	{ "k\tn\tdeff\tblocks\tconf\tn_eff\tk_eff\tcp_lo\tcp_hi\twilson_lo\twilson_hi", check_neff },
	{ "set\tblocks\tn_j\tk_j\tp\tdeff\tr1\tvon_neumann\tz_vn\tn_eff\tcp95_lo\tcp95_hi", check_blocks },
	{ "set\tweights\thit\tshare\tkish_neff\tcp95_lo\tcp95_hi\tsum\tse_compound\tmax_share", check_weights },
	{ "k\tn\tlost\tconf\tlost_rate\tnaive\tid_lo\tid_hi\tci_lo\tci_hi", check_loss_bounds },
	{ "set\tn_w\tlost_w\tk_w\tnaive\timputed\tdispersion_chi2\tdispersion_p\tz_lossy_vs_clean", check_loss_windows },
	{ "k1\tn1\tk2\tn2\tconf\tdiff\tnewcombe_lo\tnewcombe_hi\tmn_lo\tmn_hi\tz_pooled\tp_pooled", check_diff },
	{ "k1\tn1\tdeff1\tk2\tn2\tdeff2\tnewcombe95_lo\tnewcombe95_hi", check_diff_deff },
	{ "set\ti\tp\tbh_q\tby_q\tholm_p", check_fdr },
	{ "n\tq\tconf\tpoint_rank\tlo_rank\thi_rank\tcoverage", check_quantile_ci },
	{ "what\ta\tb\tlevel\tvalue", check_planning },
	{ "set\tdeff\tcounts\ti\tk_i\tp_vs_next\trank_lo\trank_hi", check_ranks },
	{ "size\trate\tprob\tweight\tbytes", check_alloc_weight },
	{ "set\trate\tsampled_sizes\tcount_est\tbytes_est\tvar_est\tci95_lo\tci95_hi", check_alloc_site },
	{ "set\tpairs\toff_ops\ton_ops\toverhead\tci95_lo\tci95_hi\tupper95_onesided", check_overhead },
	{ "set\thosts\tn_h\tk_h\tweight_h\tshare\tvar_within\tvar_cluster\tci95_lo\tci95_hi\tQ\tp_het\tI2\tmax_host_share", check_merge },
	{ "sub_bits\tvalue\tindex\tlo\thi", check_buckets },
};

static bool split(struct table *t, struct err *err)
{
	char *line_state, *line = strtok_r(t->text, "\n", &line_state);
	for (char *at = line; at != NULL && t->column_count < MAX_COLUMNS; t->column_count++)
		t->columns[t->column_count] = strsep(&at, "\t");
	while ((line = strtok_r(NULL, "\n", &line_state)) != NULL) {
		size_t cells = 0;
		for (char *at = line; at != NULL; cells++)
			vec_push(&t->cells, strsep(&at, "\t"));
		t->rows++;
		if (cells != t->column_count)
			return err_set(err, STATUS_INPUT, "row %zu has %zu cells, the header %zu", t->rows, cells, t->column_count);
	}
	return true;
}

bool vectors_check(const char *text, double tolerance, struct vectors_result *result, struct buf *report, struct err *err)
{
	*result = (struct vectors_result){ 0 };
	size_t header = strcspn(text, "\r\n");
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		if (strlen(tables[i].columns) != header || memcmp(tables[i].columns, text, header) != 0)
			continue;
		struct table t = { .text = mem_string(text), .tolerance = tolerance, .result = result, .report = report };
		bool good = split(&t, err);
		for (size_t row = 0; good && row < t.rows; row++)
			tables[i].check(&t, row);
		result->rows = t.rows;
		vec_release(&t.cells);
		free(t.text);
		return good;
	}
	return err_set(err, STATUS_INPUT, "line 1: no table of vectors has these columns: %.*s", (int)(header < 200 ? header : 200), text);
}
