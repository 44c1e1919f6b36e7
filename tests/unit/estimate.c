// The numeric core against a table of its own (mpmath 1.2 at 40 digits), limits, and coverage by enumeration (statistics, target 2).
#include "tests/tap.h"

#include "report/estimate_more.h"

static void test_special(void)
{
	static const double ibeta[][4] = { { 0.3, 0.5, 10, 0.991677495137535787 }, { 0.9, 0.5, 3, 0.999675025320728917 },
		{ 0.7, 7.5, 5.5, 0.813712378673906711 }, { 0.01, 40, 3000, 0.0530377667803636099 }, { 0.5, 300, 281, 0.215088448992425199 },
		{ 1e-06, 2, 1000000.0, 0.264241485536709795 } };
	for (size_t i = 0; i < sizeof(ibeta) / sizeof(ibeta[0]); i++)
		is_close(beta_cdf(ibeta[i][0], ibeta[i][1], ibeta[i][2]), ibeta[i][3], 1e-10, "I_%g(%g, %g)", ibeta[i][0], ibeta[i][1], ibeta[i][2]);
	static const double student[][3] = { { 0.975, 9, 2.262157162798205 }, { 0.975, 19, 2.09302405440830932 },
		{ 0.995, 4, 4.60409487134999205 }, { 0.6, 19, 0.256922819796154668 } };
	for (size_t i = 0; i < sizeof(student) / sizeof(student[0]); i++) {
		is_close(student_quantile(student[i][0], student[i][1]), student[i][2], 1e-12, "t(%g) at %g", student[i][1], student[i][0]);
		is_close(student_quantile(1 - student[i][0], student[i][1]), -student[i][2], 1e-12, "and its mirror");
		is_close(student_cdf(student[i][2], student[i][1]), student[i][0], 1e-12, "and back");
	}
	static const double normal[][2] = { { 0.975, 1.95996398454005386 }, { 0.995, 2.57582930354890045 }, { 0.6, 0.253347103135799741 },
		{ 1e-9, -5.99780701500768686 }, { 1e-40, -13.3109213714251709 } };
	for (size_t i = 0; i < sizeof(normal) / sizeof(normal[0]); i++) {
		is_close(normal_quantile(normal[i][0]), normal[i][1], 1e-14, "normal quantile at %g", normal[i][0]);
		ok(fabs(normal_cdf(normal[i][1]) / normal[i][0] - 1) < 1e-12, "and back");
	}
	static const double chi2[][3] = { { 0.025, 3.7, 0.3945768753415167 }, { 0.975, 3.7, 10.6180552483524594 }, { 0.5, 1, 0.454936423119572752 },
		{ 0.99, 40, 63.690739751564459 } };
	for (size_t i = 0; i < sizeof(chi2) / sizeof(chi2[0]); i++) {
		is_close(chi2_quantile(chi2[i][0], chi2[i][1]), chi2[i][2], 1e-12, "chi2(%g) at %g", chi2[i][1], chi2[i][0]);
		is_close(chi2_upper(chi2[i][2], chi2[i][1]), 1 - chi2[i][0], 1e-12, "and back");
	}
}

static void test_intervals(void)
{
	static const double cp[][5] = { { 0, 10, 0.95, 0, 0.308497107818760762 }, { 10, 10, 0.95, 0.691502892181239238, 1 },
		{ 1, 50, 0.95, 0.000506227983040829518, 0.106469545711499903 }, { 3, 1000, 0.99, 0.000338144529066493371, 0.0109337774204052409 },
		{ 412, 4000, 0.95, 0.0937479005090010374, 0.112836450829465511 }, { 2.5, 33.25, 0.95, 0.0127093799704269426, 0.221602754504945869 },
		{ 59, 60150, 0.9, 0.000780772316667310426, 0.0012182040929842637 } };
	for (size_t i = 0; i < sizeof(cp) / sizeof(cp[0]); i++) {
		struct interval c = clopper_pearson(cp[i][0], cp[i][1], cp[i][2]);
		is_close(c.lo, cp[i][3], 1e-10, "Clopper-Pearson %g of %g, lower", cp[i][0], cp[i][1]);
		is_close(c.hi, cp[i][4], 1e-10, "Clopper-Pearson %g of %g, upper", cp[i][0], cp[i][1]);
	}
	struct interval nothing = clopper_pearson(0, 0, 0.95);
	ok(nothing.lo == 0 && nothing.hi == 1, "no samples: anything is possible");
	double n_eff;
	struct interval plain = clopper_pearson(50, 1000, 0.95), wide = workload_interval(50, 1000, 5, 20, 0.95, &n_eff);
	ok(wide.lo < plain.lo && wide.hi > plain.hi, "a design effect widens");
	is_close(n_eff, 1000 / 5.0 * pow(1.95996398454005424 / 2.09302405440830932, 2), 1e-12, "n_eff");
	struct interval never = workload_interval(50, 1000, 0.1, 0, 0.95, &n_eff);
	ok(never.lo == plain.lo && never.hi == plain.hi && n_eff == 1000, "and is never taken below 1");
	struct loss_bounds l = loss_bounds(50, 1000, 100, 1, 0, 0.95);
	is_close(l.set.lo, 50 / 1100.0, 1e-15, "identified set, lower");
	is_close(l.set.hi, 150 / 1100.0, 1e-15, "identified set, upper");
	ok(l.outer.lo < l.set.lo && l.outer.hi > l.set.hi, "the outer interval spans it");
	is_close(smallest_seen(60150, 0.95), 1 - pow(0.05, 1 / 60150.0), 1e-10, "smallest share seen");
	is_close(simultaneous_half_width(60150, 0.95), 1.13 / sqrt(60150), 1e-15, "Fitzpatrick and Scott");
	ok(simultaneous_half_width(60150, 0.96) > simultaneous_half_width(60150, 0.95), "more confidence, more width");
	is_close(sign_test(5, 5, 1), 1, 1e-15, "equal counts are not told apart");
	is_close(sign_test(10, 0, 1), 2 * pow(0.5, 10), 1e-12, "ten against none");
}

// Interval ends for every k once, then the coverage at each p.
static void test_coverage(double n)
{
	size_t count = (size_t)n + 1;
	struct interval *ci = calloc(count, sizeof(*ci));
	for (size_t k = 0; k < count; k++)
		ci[k] = clopper_pearson((double)k, n, 0.95);
	double least = 1;
	for (int i = 1; i <= 400; i++) {
		double p = i / 401.0, covered = 0, log_pmf = n * log1p(-p); // Bin(n, p) by recurrence
		for (size_t k = 0; k < count; k++) {
			if (ci[k].lo <= p && p <= ci[k].hi)
				covered += exp(log_pmf);
			log_pmf += log((n - (double)k) / ((double)k + 1)) + log(p / (1 - p));
		}
		least = fmin(least, covered);
	}
	ok(least >= 0.95 - 1e-9 && least < 0.99, "least coverage of Clopper-Pearson at n = %g over 400 p: %.4f", n, least);
	free(ci);
}

enum { RANKED = 400 };

// Against the definition, pair by pair, with a design effect of its own for each row.
static size_t wrong_ranks(const double *k, const double *deff, double conf)
{
	struct rank_interval got[RANKED];
	rank_intervals(k, deff, RANKED, conf, got);
	size_t wrong = 0;
	for (size_t i = 0; i < RANKED; i++) {
		uint32_t lo = 1, hi = RANKED;
		for (size_t j = 0; j < RANKED; j++) {
			bool apart = sign_test(k[i], k[j], fmax(deff[i], deff[j])) <= (1 - conf) / (RANKED - 1);
			lo += apart && k[j] > k[i];
			hi -= apart && k[j] < k[i];
		}
		if (got[i].lo != lo || got[i].hi != hi) {
			if (wrong++ == 0)
				diag("row %zu: got %u-%u, wanted %u-%u", i, got[i].lo, got[i].hi, lo, hi);
		}
	}
	ok(got[0].lo == 1 && got[RANKED - 1].hi == RANKED, "ranks reach from the first to the last");
	return wrong;
}

static void test_ranks(void)
{
	static const char *const kinds[] = { "a few large ones and a tail", "a slope of large counts", "fractions of a sample to 40 samples" };
	for (int kind = 0; kind < 3; kind++) {
		double k[RANKED], deff[RANKED];
		unsigned state = 12345;
		for (size_t i = 0; i < RANKED; i++) {
			double left = RANKED - (double)i;
			k[i] = kind == 0 ? (i < 20 ? 8000 / (double)(i + 1) : left) : kind == 1 ? 100000 + 37 * left : 0.001 + 0.1 * left;
			state = state * 1103515245 + 12345;
			deff[i] = 1 + (state >> 16) % 50 / 5.0;
		}
		k[60] = k[59];
		is_u64(wrong_ranks(k, deff, 0.95) + wrong_ranks(k, deff, 0.5), 0, "rank intervals of 400 rows as by the definition: %s", kinds[kind]);
	}
	struct rank_interval got[1];
	double one = 5;
	rank_intervals(&one, NULL, 1, 0.95, got);
	ok(got[0].lo == 1 && got[0].hi == 1, "a single row has rank 1");
	rank_intervals(NULL, NULL, 0, 0.95, got);
}

// Renewal process of two states with exponential dwell, sampled every millisecond for 10 s (statistics, section 13: 1 ms and 20 ms dwell).
// The state is a small generator of our own: the test gives the same figures everywhere.
static double uniform(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(*state >> 11) + 0.5) / 9007199254740992.0;
}

static void test_workload_coverage(double dwell_ms, double share, double raw_at_most)
{
	enum { RUNS = 400, BLOCKS = 20, N = 10000 };
	uint64_t state = (uint64_t)(dwell_ms * 1000) + 7;
	int covered = 0, raw = 0;
	for (int run = 0; run < RUNS; run++) {
		double n[BLOCKS], k[BLOCKS] = { 0 }, next = 0, sum = 0;
		bool in = false;
		for (int i = 0; i < N; i++) {
			while (next <= i) { // every visit draws its function afresh
				in = uniform(&state) < share;
				next += -log(uniform(&state)) * dwell_ms;
			}
			k[i / (N / BLOCKS)] += in;
			sum += in;
		}
		for (int j = 0; j < BLOCKS; j++)
			n[j] = (double)N / BLOCKS;
		struct block_result b = block_deff(n, k, BLOCKS);
		struct interval w = workload_interval(sum, N, b.deff, BLOCKS, 0.95, NULL), c = clopper_pearson(sum, N, 0.95);
		covered += w.lo <= share && share <= w.hi;
		raw += c.lo <= share && share <= c.hi;
	}
	ok(covered >= 0.925 * RUNS, "dwell %g ms, share %g: the workload interval covers %.3f", dwell_ms, share, covered / (double)RUNS);
	ok(raw <= raw_at_most * RUNS, "where without the design effect %.3f do", raw / (double)RUNS);
}

int main(void)
{
	test_special();
	test_intervals();
	test_coverage(10);
	test_coverage(50);
	test_coverage(100);
	test_coverage(1000);
	test_ranks();
	test_workload_coverage(0.02, 0.5, 1);
	test_workload_coverage(1, 0.5, 0.92);
	test_workload_coverage(20, 0.5, 0.5);
	test_workload_coverage(20, 0.05, 0.5);
	return tap_done();
}
