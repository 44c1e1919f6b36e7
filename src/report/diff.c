#include "report/diff.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "report/diff_match.h"
#include "report/estimate_more.h"

enum { MIN_RUNS = 3, MIN_TESTED = 10, FEW_VISITS = 20 };
static const double MIN_EFFECTIVE = 5, LOSS_MATTERS = 0.01, POWER_Z = 0.8416212335729143; // of 80 %

const char *diff_state_name(enum diff_state state)
{
	static const char *const names[] = { "differs", "not distinguishable", "not robust to loss", "too few visits", "one run a side", "too few samples" };
	return names[state];
}

// ---------------------------------------------------------------- two sides

struct work {
	struct diff *diff;
	const struct digest *const *runs[2];
	double per_run[2];        // units of one run
};

static double value_of(const struct work *w, int side, double share, double amount, double seconds, size_t runs)
{
	switch (w->diff->metric) {
	case METRIC_UNIT:
		return share * amount / (w->per_run[side] * (double)runs);
	case METRIC_SECOND:
		return share * amount / seconds;
	case METRIC_SHARE:
		break;
	}
	return share;
}

static void sum_side(struct work *w, int side, size_t runs)
{
	struct diff_side *s = &w->diff->sides[side];
	double lost = 0, kept = 0;
	s->runs = runs;
	for (size_t i = 0; i < runs; i++) {
		const struct digest *d = w->runs[side][i];
		s->n += d->n;
		s->amount += d->amount;
		s->seconds += d->seconds;
		lost += d->missing;
		kept += d->n;
	}
	s->lost_share = lost > 0 ? lost / (lost + kept) : 0;
	s->units = w->diff->options.units[side];
	w->per_run[side] = runs > 0 ? s->units / (double)runs : 0;
}

static void choose_metric(struct diff *diff)
{
	const struct diff_side *s = diff->sides;
	bool amounts = s[0].amount > 0 && s[1].amount > 0;
	if (amounts && s[0].units > 0 && s[1].units > 0)
		diff->metric = METRIC_UNIT;
	else if (amounts && s[0].seconds > 0 && s[1].seconds > 0)
		diff->metric = METRIC_SECOND;
	else
		diff->metric = METRIC_SHARE;
}

// ---------------------------------------------------------------- tests

struct change { double estimate, se, df; };

static double p_of(struct change c)
{
	if (!(c.se > 0))
		return c.estimate == 0 ? 1 : 0;
	return fmin(1, 2 * student_cdf(-fabs(c.estimate) / c.se, c.df));
}

static struct interval ci_of(struct change c, double conf)
{
	double t = student_quantile(1 - (1 - conf) / 2, c.df);
	return (struct interval){ c.estimate - t * c.se, c.estimate + t * c.se };
}

static double detectable_of(struct change c, double conf)
{
	return (student_quantile(1 - (1 - conf) / 2, c.df) + POWER_Z) * c.se;
}

// Welch 1947, with Satterthwaite's degrees of freedom: second side less the first.
static struct change welch(const double *x, size_t nx, const double *y, size_t ny)
{
	double mean[2] = { 0, 0 }, v[2] = { 0, 0 };
	const double *data[2] = { x, y };
	size_t count[2] = { nx, ny };
	for (int s = 0; s < 2; s++) {
		for (size_t i = 0; i < count[s]; i++)
			mean[s] += data[s][i] / (double)count[s];
		for (size_t i = 0; i < count[s]; i++)
			v[s] += (data[s][i] - mean[s]) * (data[s][i] - mean[s]) / (double)(count[s] - 1) / (double)count[s];
	}
	double both = v[0] + v[1], parts = v[0] * v[0] / (double)(nx - 1) + v[1] * v[1] / (double)(ny - 1);
	return (struct change){ mean[1] - mean[0], sqrt(both), parts > 0 ? both * both / parts : (double)(nx + ny - 2) };
}

// ---------------------------------------------------------------- the whole

// Relative variance of a side's amount, from how the samples of its blocks of time vary.
static double block_variance(const struct work *w, int side, double *blocks)
{
	double sum = 0, n = 0;
	*blocks = 0;
	for (size_t r = 0; r < w->diff->sides[side].runs; r++) {
		const struct digest *d = w->runs[side][r];
		double mean = 0, squares = 0, b = DIGEST_BLOCKS;
		for (size_t j = 0; j < DIGEST_BLOCKS; j++)
			mean += d->block_n[j] / b;
		for (size_t j = 0; j < DIGEST_BLOCKS; j++)
			squares += (d->block_n[j] - mean) * (d->block_n[j] - mean);
		sum += b * squares / (b - 1);
		n += b * mean;
		*blocks += b - 1;
	}
	return n > 0 ? sum / (n * n) : 0;
}

static void log_values(const struct work *w, int side, double *out)
{
	for (size_t r = 0; r < w->diff->sides[side].runs; r++) {
		const struct digest *d = w->runs[side][r];
		out[r] = log(value_of(w, side, 1, d->amount, d->seconds, 1));
	}
}

static void compare_total(struct work *w)
{
	struct diff *diff = w->diff;
	if (diff->metric == METRIC_SHARE)
		return;
	const struct diff_side *s = diff->sides;
	for (int side = 0; side < 2; side++)
		diff->total.value[side] = value_of(w, side, 1, s[side].amount, s[side].seconds, s[side].runs);
	struct change c;
	if (!diff->is_within) {
		double *x = mem_alloc(s[0].runs * sizeof(*x)), *y = mem_alloc(s[1].runs * sizeof(*y));
		log_values(w, 0, x);
		log_values(w, 1, y);
		c = welch(x, s[0].runs, y, s[1].runs);
		free(x);
		free(y);
	} else {
		double df[2], v = block_variance(w, 0, &df[0]) + block_variance(w, 1, &df[1]);
		c = (struct change){ log(diff->total.value[1] / diff->total.value[0]), sqrt(v), df[0] + df[1] };
	}
	struct interval ci = ci_of(c, diff->options.confidence);
	diff->total.has = true;
	diff->total.ratio = exp(c.estimate);
	diff->total.ci = (struct interval){ exp(ci.lo), exp(ci.hi) };
	diff->total.p = p_of(c);
	diff->total.detectable = expm1(detectable_of(c, diff->options.confidence));
}

// ---------------------------------------------------------------- functions

struct effective { double k, n; };

static void within_runs(struct work *w, struct diff_row *row, const double *blocks)
{
	struct diff *diff = w->diff;
	double conf = diff->options.confidence, v = 0, df = blocks[0] + blocks[1] - 2;
	struct effective e[2];
	bool ratio = true;
	for (int side = 0; side < 2; side++) {
		double n = diff->sides[side].n, deff = row->deff[side];
		e[side] = (struct effective){ row->k[side] / deff, n / deff };
		ratio &= e[side].k >= MIN_EFFECTIVE;
		if (row->k[side] > 0)
			v += deff * (1 - row->share[side]) / (n * row->share[side]);
	}
	struct interval ci = newcombe(e[1].k, e[1].n, e[0].k, e[0].n, conf);
	row->difference_ci = ci;
	if (ratio) {
		struct change c = { log(row->value[1] / row->value[0]), sqrt(v), df };
		struct interval log_ci = ci_of(c, conf);
		row->has_ratio = true;
		row->ratio = exp(c.estimate);
		row->ratio_ci = (struct interval){ exp(log_ci.lo), exp(log_ci.hi) };
		row->p = p_of(c);
		row->detectable = expm1(detectable_of(c, conf));
	} else {
		double z = pooled_z(e[1].k, e[1].n, e[0].k, e[0].n);
		row->p = fmin(1, 2 * student_cdf(-fabs(z), df));
	}
}

// Runs as blocks: what they differ by is what the next run will differ by.
static void between_runs(struct work *w, const struct diff_match *match, struct diff_row *row)
{
	struct diff *diff = w->diff;
	double *values[2], *shares[2], conf = diff->options.confidence;
	bool all = true;
	for (int side = 0; side < 2; side++) {
		size_t runs = diff->sides[side].runs;
		values[side] = mem_zero(runs, sizeof(double));
		shares[side] = mem_zero(runs, sizeof(double));
		for (size_t r = 0; r < runs; r++) {
			const struct digest *d = w->runs[side][r];
			double k = diff_match_row(match, side, r) != NULL ? diff_match_row(match, side, r)->k : 0;
			shares[side][r] = d->n > 0 ? k / d->n : 0;
			values[side][r] = value_of(w, side, shares[side][r], d->amount, d->seconds, 1);
			all &= k > 0;
		}
	}
	struct change difference = welch(shares[0], diff->sides[0].runs, shares[1], diff->sides[1].runs), c = difference;
	row->difference_ci = ci_of(difference, conf);
	if (all) {
		for (int side = 0; side < 2; side++)
			for (size_t r = 0; r < diff->sides[side].runs; r++)
				values[side][r] = log(values[side][r]);
		c = welch(values[0], diff->sides[0].runs, values[1], diff->sides[1].runs);
		struct interval log_ci = ci_of(c, conf);
		row->has_ratio = true;
		row->ratio = exp(c.estimate);
		row->ratio_ci = (struct interval){ exp(log_ci.lo), exp(log_ci.hi) };
		row->detectable = expm1(detectable_of(c, conf));
	}
	row->p = p_of(c);
	for (int side = 0; side < 2; side++) {
		free(values[side]);
		free(shares[side]);
	}
}

// Counts of a side's runs together; the design effects weigh by what they had.
static void sum_row(struct work *w, const struct diff_match *match, struct diff_row *row, double *blocks, bool *few)
{
	for (int side = 0; side < 2; side++) {
		double weighted = 0;
		uint64_t outside = 0;
		const struct diff_side *s = &w->diff->sides[side];
		for (size_t r = 0; r < s->runs; r++) {
			const struct digest_row *d = diff_match_row(match, side, r);
			if (d == NULL)
				continue;
			row->k[side] += d->k;
			weighted += d->k * d->deff;
			row->visits[side] += d->visits;
			outside += d->visits_outside;
			blocks[side] += (double)(d->blocks > 0 ? d->blocks : DIGEST_BLOCKS);
		}
		row->deff[side] = row->k[side] > 0 ? fmax(1, weighted / row->k[side]) : 1;
		row->share[side] = s->n > 0 ? row->k[side] / s->n : 0;
		row->value[side] = value_of(w, side, row->share[side], s->amount, s->seconds, s->runs);
		blocks[side] = fmax(2, blocks[side]);
		*few |= row->k[side] > 0 && (row->visits[side] < FEW_VISITS || outside < FEW_VISITS);
	}
	row->difference = row->share[1] - row->share[0];
}

// Whether the sides could stand in the other order, had the lost samples been this function's or none of them.
static bool loss_could_turn(const struct work *w, const struct diff_row *row)
{
	double lo[2], hi[2];
	bool matters = false;
	for (int side = 0; side < 2; side++) {
		const struct diff_side *s = &w->diff->sides[side];
		double lost = s->lost_share < 1 ? s->n * s->lost_share / (1 - s->lost_share) : s->n;
		matters |= s->lost_share > LOSS_MATTERS;
		lo[side] = value_of(w, side, row->k[side] / (s->n + lost), s->amount, s->seconds, s->runs);
		hi[side] = value_of(w, side, (row->k[side] + lost) / (s->n + lost), s->amount, s->seconds, s->runs);
	}
	return matters && (row->value[1] > row->value[0] ? lo[1] <= hi[0] : hi[1] >= lo[0]);
}

static void judge_row(struct work *w, struct diff_row *row, bool few)
{
	struct diff *diff = w->diff;
	if (row->q < 0)
		row->state = DIFF_RARE;
	else if (row->q > diff->options.fdr)
		row->state = DIFF_OPEN;
	else if (loss_could_turn(w, row))
		row->state = DIFF_LOSS;
	else if (few)
		row->state = DIFF_FEW;
	else
		row->state = diff->is_within ? DIFF_WITHIN : DIFF_FOUND;
	diff->tested += row->q >= 0;
	diff->found += row->state == DIFF_FOUND;
	diff->open += row->state == DIFF_OPEN;
	diff->fragile += row->state == DIFF_LOSS;
}

static int by_size(const void *a, const void *b)
{
	const struct diff_row *x = a, *y = b;
	bool found[2] = { x->state == DIFF_FOUND, y->state == DIFF_FOUND };
	if (found[0] != found[1])
		return found[0] ? -1 : 1;
	if ((x->state == DIFF_RARE) != (y->state == DIFF_RARE))
		return x->state == DIFF_RARE ? 1 : -1;
	double d = fabs(x->value[1] - x->value[0]), e = fabs(y->value[1] - y->value[0]);
	if (d != e)
		return d > e ? -1 : 1;
	int order = strcmp(x->name, y->name);
	return order != 0 ? order : strcmp(x->dso, y->dso);
}

static void compare_rows(struct work *w, const struct diff_matches *matches)
{
	struct diff *diff = w->diff;
	size_t count = matches->rows.count, tested = 0;
	double *p = mem_alloc((count + 1) * sizeof(*p)), *q = mem_alloc((count + 1) * sizeof(*q));
	bool *few = mem_zero(count + 1, sizeof(*few));
	for (size_t i = 0; i < count; i++) {
		const struct diff_match *match = &matches->rows.data[i];
		struct diff_row *row = vec_add(&diff->rows);
		double blocks[2] = { 0, 0 };
		row->name = arena_string(&diff->arena, match->name, strlen(match->name));
		row->dso = arena_string(&diff->arena, match->dso, strlen(match->dso));
		row->q = -1;
		sum_row(w, match, row, blocks, &few[i]);
		if (diff->is_within)
			within_runs(w, row, blocks);
		else
			between_runs(w, match, row);
		row->note = diff_match_note(matches, match, row->k, &diff->arena);
		if (row->k[0] + row->k[1] >= MIN_TESTED)
			p[tested++] = row->p;
	}
	adjust_p(p, tested, ADJUST_BH, q);
	for (size_t i = 0, at = 0; i < count; i++) {
		struct diff_row *row = &diff->rows.data[i];
		if (row->k[0] + row->k[1] >= MIN_TESTED)
			row->q = q[at++];
		judge_row(w, row, few[i]);
	}
	if (count > 0)
		sort_stable(diff->rows.data, count, sizeof(*diff->rows.data), by_size);
	free(p);
	free(q);
	free(few);
}

// ---------------------------------------------------------------- caveats

static void caveat(struct diff *diff, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void caveat(struct diff *diff, const char *format, ...)
{
	char text[600];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	vec_push(&diff->caveats, arena_string(&diff->arena, text, strlen(text)));
}

static void differing(struct work *w, const char *what, size_t offset)
{
	const char *first = *(const char *const *)((const char *)w->runs[0][0] + offset);
	for (int side = 0; side < 2; side++)
		for (size_t r = 0; r < w->diff->sides[side].runs; r++) {
			const char *other = *(const char *const *)((const char *)w->runs[side][r] + offset);
			if (first[0] == '\0' || other[0] == '\0' || strcmp(first, other) == 0)
				continue;
			caveat(w->diff, "different %s: %s and %s", what, first, other);
			return;
		}
}

// Whether every run of one side was over before the other side's first.
static bool one_after_the_other(const struct work *w)
{
	uint64_t first[2] = { UINT64_MAX, UINT64_MAX }, last[2] = { 0, 0 };
	for (int side = 0; side < 2; side++)
		for (size_t r = 0; r < w->diff->sides[side].runs; r++) {
			uint64_t at = w->runs[side][r]->start_wall_ns;
			first[side] = at < first[side] ? at : first[side];
			last[side] = at > last[side] ? at : last[side];
		}
	return last[0] < first[1] || last[1] < first[0];
}

static void say_left_out(struct work *w)
{
	for (int side = 0; side < 2; side++) {
		for (size_t i = 0; i < w->diff->sides[side].runs; i++) {
			if (w->runs[side][i]->left_out == NULL)
				continue;
			caveat(w->diff, "%s alone is compared; left out: %s", w->diff->event, w->runs[side][i]->left_out);
			return; // one recording's will do
		}
	}
}

static void add_caveats(struct work *w)
{
	struct diff *diff = w->diff;
	if (diff->is_within)
		caveat(diff, diff->sides[0].runs == 1 && diff->sides[1].runs == 1 ? "one run a side: run-to-run differences not measured"
		       : "fewer than 3 runs on a side: run-to-run differences not measured");
	if (one_after_the_other(w))
		caveat(diff, "sides not alternated: drift not excluded");
	say_left_out(w);
	differing(w, "kernels", offsetof(struct digest, kernel));
	differing(w, "CPU models", offsetof(struct digest, cpu));
	differing(w, "hosts", offsetof(struct digest, host));
	for (int side = 0; side < 2; side++)
		if (diff->sides[side].lost_share > LOSS_MATTERS)
			caveat(diff, "%s misses %.1f%% of its samples", side == 0 ? "base" : "new", 100 * diff->sides[side].lost_share);
	if (diff->metric == METRIC_SHARE)
		caveat(diff, "only shares can be compared: they sum to 1, so one function's gain is the others' loss");
}

bool diff_build(struct diff *diff, const struct digest *const *base, size_t base_runs, const struct digest *const *new_, size_t new_runs,
                const struct diff_options *options, struct err *err)
{
	*diff = (struct diff){ .options = *options, .is_within = base_runs < MIN_RUNS || new_runs < MIN_RUNS };
	struct work w = { .diff = diff, .runs = { base, new_ } };
	for (size_t i = 0; i < base_runs; i++)
		if (!digest_comparable(base[0], base[i], err))
			return false;
	for (size_t i = 0; i < new_runs; i++)
		if (!digest_comparable(base[0], new_[i], err))
			return false;
	diff->event = arena_string(&diff->arena, base[0]->event, strlen(base[0]->event));
	diff->is_clock = base[0]->is_clock;
	sum_side(&w, 0, base_runs);
	sum_side(&w, 1, new_runs);
	choose_metric(diff);
	compare_total(&w);
	struct diff_matches matches;
	diff_match(&matches, base, base_runs, new_, new_runs);
	compare_rows(&w, &matches);
	diff_matches_release(&matches);
	add_caveats(&w);
	return true;
}

void diff_release(struct diff *diff)
{
	vec_release(&diff->rows);
	vec_release(&diff->caveats);
	arena_release(&diff->arena);
	*diff = (struct diff){ 0 };
}
