// The statistics against programs whose shares are known: what each interval promises, and how often it keeps it. Bounded: about a minute.
#include <stdio.h>
#include <time.h>

#include "tests/coverage.h"

static int failures;

static void line(const char *what, double got, const char *wanted, bool good)
{
	printf("%-66s %7.3f  %-9s %s\n", what, got, wanted, good ? "kept" : "MISSED");
	fflush(stdout);
	failures += !good;
}

static void exact(void)
{
	static const int sizes[] = { 10, 50, 100, 1000 };
	char what[100];
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		double least = coverage_exact(sizes[i], 400);
		snprintf(what, sizeof(what), "2  Clopper-Pearson, least coverage over 400 p, n = %d", sizes[i]);
		line(what, least, ">= 0.950", least >= 0.95 - 1e-9);
	}
}

static void runs(void)
{
	static const struct { const char *name; double dwell_s, cycle_s, period_s, seconds, least, most; } cases[] = {
		{ "short: dwell 20 us, 772 Hz", 20e-6, 0, 1.295295e-3, 2, 0.92, 1 }, { "mid: dwell 1 ms", 1e-3, 0, 1.295295e-3, 2, 0.92, 1 },
		{ "long: dwell 50 ms", 50e-3, 0, 1.295295e-3, 2, 0.92, 1 }, { "inc: cycle 0.7368 ms", 0, 0.7368e-3, 1.295295e-3, 0.5, 0.92, 1 },
		{ "lock: cycle 1 ms, default period", 0, 1e-3, 1.295295e-3, 0.5, 0.95, 1 }, { "lock: cycle 4 ms, default period", 0, 4e-3, 1.295295e-3, 0.5, 0.95, 1 },
		{ "lock: cycle 10 ms, default period", 0, 10e-3, 1.295295e-3, 0.5, 0.95, 1 }, { "lock: cycle 1 ms, period 1 ms (must fail)", 0, 1e-3, 1e-3, 0.5, 0, 0.7 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char what[120];
		struct coverage_result r = coverage_run(cases[i].dwell_s, cases[i].cycle_s, cases[i].period_s, cases[i].seconds, 300);
		double coverage = (double)r.covered / (double)r.cells;
		snprintf(what, sizeof(what), "%d  run interval, %s", cases[i].cycle_s > 0.0009 ? 4 : 3, cases[i].name);
		char wanted[20];
		snprintf(wanted, sizeof(wanted), cases[i].most < 1 ? "< %.3f" : ">= %.3f", cases[i].most < 1 ? cases[i].most : cases[i].least);
		line(what, coverage, wanted, coverage >= cases[i].least && coverage <= cases[i].most);
	}
}

static void workloads(void)
{
	static const double dwells_s[] = { 20e-6, 1e-3, 20e-3, 200e-3 };
	static const double spans_s[] = { 10, 60 };
	for (size_t s = 0; s < 2; s++)
		for (size_t i = 0; i < sizeof(dwells_s) / sizeof(dwells_s[0]); i++) {
			char what[120];
			if (spans_s[s] > 10 && dwells_s[i] < 1e-3)
				continue; // millions of visits: long to draw, and no clustering to see
			struct coverage_result r = coverage_workload(dwells_s[i], spans_s[s], spans_s[s] > 10 ? 100 : 300);
			double coverage = r.unflagged > 0 ? (double)r.unflagged_covered / (double)r.unflagged : 1;
			snprintf(what, sizeof(what), "5  workload interval, dwell %g ms, %g s: %zu of %zu rows unflagged", 1e3 * dwells_s[i], spans_s[s], r.unflagged, r.cells);
			line(what, coverage, ">= 0.930", coverage >= 0.93);
			if (r.few > 0) {
				double flagged = (double)r.few_flagged / (double)r.few;
				snprintf(what, sizeof(what), "5    rows with fewer than 10 visits that are flagged (%zu)", r.few);
				line(what, flagged, ">= 0.950", flagged >= 0.95);
			}
		}
}

static void comparisons(void)
{
	static const size_t runs[] = { 3, 4, 6, 8 };
	struct coverage_diff null = coverage_compare(1, 6, 10, 100);
	line("7  no change: a discovery (6 runs a side)", (double)null.any / null.rounds, "<= 0.100", null.any <= 0.10 * null.rounds);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		char what[120];
		struct coverage_diff changed = coverage_compare(1.3, runs[i], 0, 300);
		snprintf(what, sizeof(what), "7  D (5%%) 30%% slower is found, %zu runs a side of %.0f s, by plan", runs[i], changed.seconds);
		line(what, (double)changed.found / changed.rounds, ">= 0.800", changed.found >= 0.80 * changed.rounds);
	}
}

static void others(void)
{
	struct coverage_loss tied = coverage_lossy(true, 100), random = coverage_lossy(false, 100);
	line("6  worst case holds D, lost while it runs", (double)tied.covered / tied.rounds, ">= 0.950", tied.covered >= 0.95 * tied.rounds);
	line("6    and is called tied to it", (double)tied.tied / tied.rounds, ">= 0.800", tied.tied >= 0.80 * tied.rounds);
	line("6  random loss called tied", (double)random.tied / random.rounds, "<= 0.080", random.tied <= 0.08 * random.rounds);
	comparisons();
	int holds = coverage_trials(1000);
	line("8  trials without an effect: the interval holds 0", holds / 1000.0, ">= 0.930", holds >= 930);
}

int main(void)
{
	struct timespec from, to;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
	printf("target of src/DESIGN.md, Statistics, 13 (simulated)                      found  wanted\n");
	exact();
	runs();
	workloads();
	others();
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &to);
	printf("%d missed; %.0f s of CPU time\n", failures, (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9);
	return failures > 0;
}
