// Experiments with the statistics (src/DESIGN.md, Statistics, 13): simulated programs whose true shares are known, through the report's own model.
// bench/stats_coverage.c runs them long, tests/unit/stats_coverage.c short. Every one draws from its own seed: the same figures each time.
#ifndef PERFSAMPLE_TESTS_COVERAGE_H
#define PERFSAMPLE_TESTS_COVERAGE_H

#include <math.h>

#include "report/diff.h"
#include "report/plan.h"
#include "report/trials.h"
#include "tests/synthetic.h"

struct coverage_random { uint64_t state; };

static double coverage_uniform(struct coverage_random *r)
{
	r->state = r->state * 6364136223846793005u + 1442695040888963407u;
	return ((double)(r->state >> 11) + 0.5) / 9007199254740992.0;
}

// ---------------------------------------------------------------- 2: Clopper-Pearson, exactly

// Least coverage over a grid of p, by summing the binomial over every k whose interval holds p.
__attribute__((unused)) static double coverage_exact(int n, int grid)
{
	double least = 1;
	struct interval *intervals = mem_alloc(((size_t)n + 1) * sizeof(*intervals));
	for (int k = 0; k <= n; k++)
		intervals[k] = clopper_pearson(k, n, 0.95);
	for (int g = 1; g < grid; g++) {
		double p = (double)g / grid, sum = 0;
		for (int k = 0; k <= n; k++)
			if (intervals[k].lo <= p && p <= intervals[k].hi)
				sum += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) + (n - k) * log1p(-p));
		least = fmin(least, sum);
	}
	free(intervals);
	return least;
}

// ---------------------------------------------------------------- programs

enum { COVERAGE_FUNCTIONS = 4 };
static const double coverage_shares[COVERAGE_FUNCTIONS] = { 0.50, 0.30, 0.15, 0.05 };
static const char *const coverage_names[COVERAGE_FUNCTIONS] = { "A", "B", "C", "D" };

struct coverage_program { struct profile profile; uint32_t stacks[COVERAGE_FUNCTIONS]; double truth[COVERAGE_FUNCTIONS]; uint64_t visits[COVERAGE_FUNCTIONS]; };

static void coverage_start(struct coverage_program *c, double seconds)
{
	memset(c->truth, 0, sizeof(c->truth));
	memset(c->visits, 0, sizeof(c->visits));
	syn_init(&c->profile, seconds);
	for (size_t f = 0; f < COVERAGE_FUNCTIONS; f++)
		c->stacks[f] = syn_stack(&c->profile, syn_function(&c->profile, coverage_names[f], "app"), PROFILE_NONE);
}

// Renewal: stays in a function for exponential times, the next one drawn by share; sampled every `period_s`. D stays `d_factor` times as long.
static void coverage_changed(struct coverage_program *c, struct coverage_random *r, double seconds, double dwell_s, double period_s, double d_factor)
{
	coverage_start(c, seconds);
	double at = 0, next = period_s * coverage_uniform(r);
	int last = -1;
	while (at < seconds) {
		double u = coverage_uniform(r), stay_s = -dwell_s * log(coverage_uniform(r));
		int f = 0;
		for (double sum = coverage_shares[0]; u > sum && f + 1 < COVERAGE_FUNCTIONS; sum += coverage_shares[f])
			f++;
		double end = fmin(seconds, at + stay_s * (f == COVERAGE_FUNCTIONS - 1 ? d_factor : 1));
		c->truth[f] += (end - at) / seconds;
		c->visits[f] += f != last;
		last = f;
		for (; next < end; next += period_s)
			syn_sample(&c->profile, next, c->stacks[f], 1);
		at = end;
	}
	syn_account(&c->profile, 0, 0);
}

static void coverage_renewal(struct coverage_program *c, struct coverage_random *r, double seconds, double dwell_s, double period_s)
{
	coverage_changed(c, r, seconds, dwell_s, period_s, 1);
}

// A loop of `cycle_s`, its functions at fixed places in it, from a random phase.
__attribute__((unused)) static void coverage_locked(struct coverage_program *c, struct coverage_random *r, double seconds, double cycle_s, double period_s)
{
	coverage_start(c, seconds);
	double phase = coverage_uniform(r);
	memcpy(c->truth, coverage_shares, sizeof(c->truth));
	for (double at = period_s * coverage_uniform(r); at < seconds; at += period_s) {
		double place = fmod(at / cycle_s + phase, 1);
		int f = 0;
		for (double sum = coverage_shares[0]; place > sum && f + 1 < COVERAGE_FUNCTIONS; sum += coverage_shares[f])
			f++;
		syn_sample(&c->profile, at, c->stacks[f], 1);
	}
	syn_account(&c->profile, 0, 0);
}

struct coverage_result { size_t cells, covered, flagged, unflagged, unflagged_covered, few, few_flagged; };

static void coverage_count(struct coverage_result *sum, const struct coverage_program *c, bool run)
{
	struct report_options options = report_defaults();
	struct report r;
	struct err err = { 0 };
	if (!report_build(&r, &c->profile, &options, &err))
		abort();
	for (size_t f = 0; f < COVERAGE_FUNCTIONS; f++) {
		const struct report_row *row = syn_row(&r.events.data[0], coverage_names[f]);
		// One that was never sampled has no row: its share is said to be at most the largest unseen.
		struct interval i = row == NULL ? (struct interval){ 0, r.events.data[0].largest_unseen } : run ? row->self.run : row->self.workload;
		double truth = run ? c->truth[f] : coverage_shares[f];
		bool covered = i.lo <= truth && truth <= i.hi, flagged = row == NULL || (row->self.flags & (ROW_FEW | ROW_TREND | ROW_RUN_ONLY)) != 0;
		sum->cells++;
		sum->covered += covered;
		sum->flagged += flagged;
		sum->unflagged += !flagged;
		sum->unflagged_covered += !flagged && covered;
		sum->few += c->visits[f] < 10;
		sum->few_flagged += c->visits[f] < 10 && flagged;
	}
	report_release(&r);
}

// 5: the workload interval against the program's own shares.
__attribute__((unused)) static struct coverage_result coverage_workload(double dwell_s, double seconds, int rounds)
{
	struct coverage_result sum = { 0 };
	struct coverage_random r = { 11 };
	for (int i = 0; i < rounds; i++) {
		struct coverage_program c;
		coverage_renewal(&c, &r, seconds, dwell_s, SYN_PERIOD_NS / 1e9);
		coverage_count(&sum, &c, false);
		profile_release(&c.profile);
	}
	return sum;
}

// 3 and 4, simulated: the run interval against what the run was; loops in step with the clock.
__attribute__((unused)) static struct coverage_result coverage_run(double dwell_s, double cycle_s, double period_s, double seconds, int rounds)
{
	struct coverage_result sum = { 0 };
	struct coverage_random r = { 12 };
	for (int i = 0; i < rounds; i++) {
		struct coverage_program c;
		if (cycle_s > 0)
			coverage_locked(&c, &r, seconds, cycle_s, period_s);
		else
			coverage_renewal(&c, &r, seconds, dwell_s, period_s);
		coverage_count(&sum, &c, true);
		profile_release(&c.profile);
	}
	return sum;
}

// ---------------------------------------------------------------- 7: comparing

static const double COVERAGE_DIFF_DWELL_S = 0.002;

// A run of work that takes `seconds` when D is as it was.
static struct digest coverage_digest(struct coverage_random *r, double factor, double seconds, uint64_t at)
{
	struct coverage_program c;
	struct digest d;
	struct err err = { 0 };
	static const struct digest_options options = { .confidence = 0.95 };
	coverage_changed(&c, r, seconds * (1 + coverage_shares[3] * (factor - 1)), COVERAGE_DIFF_DWELL_S, SYN_PERIOD_NS / 1e9, factor);
	c.profile.meta.start_wall_ns = at;
	if (!digest_build(&d, &c.profile, "simulated", &options, &err))
		abort();
	profile_release(&c.profile);
	return d;
}

// What plan says of so many runs a side for D, by a pilot recording of a minute.
__attribute__((unused)) static struct plan coverage_plan(struct coverage_random *r, double change, size_t runs)
{
	struct digest pilot = coverage_digest(r, 1, 60, 0);
	struct plan_input in = { .goal = PLAN_CHANGE, .share = coverage_shares[3], .change = change, .confidence = 0.95, .power = 0.8,
		.period_s = SYN_PERIOD_NS / 1e9, .cpus_busy = 1, .runs = runs, .functions = COVERAGE_FUNCTIONS };
	for (size_t i = 0; i < pilot.rows.count; i++)
		if (strcmp(pilot.rows.data[i].name, "D") == 0) {
			in.deff = pilot.rows.data[i].deff;
			in.deff_df = (double)pilot.rows.data[i].blocks - 1;
		}
	digest_release(&pilot);
	return plan_for(&in);
}

struct coverage_diff { int any, found, false_ones, rounds; double seconds; };

// Seconds 0: each comparison as long as plan says, by a pilot recording of its own.
__attribute__((unused)) static struct coverage_diff coverage_compare(double factor, uint64_t runs, double seconds, int rounds)
{
	enum { MOST_RUNS = 8 };
	struct coverage_random r = { 13 };
	struct coverage_diff sum = { .rounds = rounds };
	struct diff_options options = { .confidence = 0.95, .fdr = 0.05, .units = { (double)runs, (double)runs } };
	for (int i = 0; i < rounds; i++) {
		struct digest digests[2 * MOST_RUNS];
		const struct digest *sides[2 * MOST_RUNS];
		struct diff diff;
		struct err err = { 0 };
		double length_s = seconds > 0 ? seconds : coverage_plan(&r, factor - 1, runs).seconds;
		sum.seconds += length_s / rounds;
		for (uint64_t d = 0; d < 2 * runs; d++) {
			digests[d] = coverage_digest(&r, d < runs ? 1 : factor, length_s, 1000 + 10 * (d % runs) + d / runs);
			sides[d] = &digests[d];
		}
		if (!diff_build(&diff, sides, runs, sides + runs, runs, &options, &err))
			abort();
		sum.any += diff.found > 0;
		for (size_t row = 0; row < diff.rows.count; row++) {
			bool is_d = strcmp(diff.rows.data[row].name, "D") == 0, found = diff.rows.data[row].state == DIFF_FOUND;
			sum.found += is_d && found;
			sum.false_ones += !is_d && found;
		}
		diff_release(&diff);
		for (size_t d = 0; d < 2 * runs; d++)
			digest_release(&digests[d]);
	}
	return sum;
}

// ---------------------------------------------------------------- 6: loss

struct coverage_loss { int tied, covered, rounds; };

// 60 s; D runs in bursts of 50 ms, and 30 % of its samples are lost, or as many at any time.
__attribute__((unused)) static struct coverage_loss coverage_lossy(bool while_d, int rounds)
{
	struct coverage_random r = { 14 };
	struct coverage_loss sum = { .rounds = rounds };
	for (int i = 0; i < rounds; i++) {
		struct coverage_program c;
		coverage_renewal(&c, &r, 60, 0.05, SYN_PERIOD_NS / 1e9);
		struct profile *p = &c.profile;
		struct samples kept = { 0 };
		uint64_t lost[60] = { 0 }, all = 0;
		for (size_t s = 0; s < p->samples.count; s++) {
			struct profile_sample sample = samples_at(&p->samples, s);
			size_t second = (size_t)((double)(sample.time_ns - p->meta.start_ns) / 1e9);
			// At random: the ring overflows in one second of three, whoever runs.
			bool exposed = while_d ? sample.stack == c.stacks[3] : (second * 2654435761u + (size_t)i * 40503u) % 3 == 0;
			if (exposed && coverage_uniform(&r) < (while_d ? 0.3 : 0.05)) {
				lost[second < 60 ? second : 59]++;
				all++;
				continue;
			}
			samples_add(&kept, &sample);
		}
		samples_release(&p->samples);
		p->samples = kept;
		for (uint64_t w = 0; w < 60; w++)
			if (lost[w] > 0)
				vec_push(&p->losses, (struct profile_loss){ p->meta.start_ns + w * 1000000000u, p->meta.start_ns + w * 1000000000u + 999999999u, lost[w], 0, 0, false });
		syn_account(p, all, 0);
		struct report_options options = report_defaults();
		struct report report;
		struct err err = { 0 };
		if (!report_build(&report, p, &options, &err))
			abort();
		const struct report_row *d = syn_row(&report.events.data[0], "D");
		sum.tied += while_d ? (d->flags & ROW_TIED_LOSS) != 0 : report.events.data[0].tied_to != NULL;
		sum.covered += d->self.worst_case.lo <= c.truth[3] && c.truth[3] <= d->self.worst_case.hi;
		report_release(&report);
		profile_release(p);
	}
	return sum;
}

// ---------------------------------------------------------------- 8: trials without an effect

__attribute__((unused)) static int coverage_trials(int rounds)
{
	enum { PAIRS = 10 };
	struct coverage_random r = { 15 };
	int holds = 0;
	for (int i = 0; i < rounds; i++) {
		double off[PAIRS], on[PAIRS];
		for (size_t p = 0; p < PAIRS; p++) {
			double drift = 0.01 * (double)p;
			off[p] = exp(drift + (trials_on_first(p) ? 0.005 : 0) + 0.01 * normal_quantile(coverage_uniform(&r)));
			on[p] = exp(drift + (trials_on_first(p) ? 0 : 0.005) + 0.01 * normal_quantile(coverage_uniform(&r)));
		}
		struct trials t = trials_estimate(off, on, PAIRS, false, 0.95);
		holds += t.ci.lo <= 0 && t.ci.hi >= 0;
	}
	return holds;
}

#endif
