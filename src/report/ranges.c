// Intervals of rows, and what they leave of the ranks (statistics, sections 1, 4, 5 and 6).
//
// An interval takes some microseconds, and a report shows twenty rows of thousands: they are made for the rows that are asked for, and of the
// others where a rank depends on them.
#include <math.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"
#include "report/build.h"

enum { RUN_INTERVALS = 1 << 12 };

struct run_interval { double k; struct interval range; }; // k 0: none yet

struct ranges {
	const struct build *b;
	double conf, n, missing;
	size_t blocks;                  // in which the event ran
	double block_ratio, half_ratio; // of so many blocks, and of half as many
	struct run_interval *runs;      // by a hash of k
};

static struct row_measure *ordering(const struct ranges *r, struct report_row *row)
{
	return r->b->options->children ? &row->total : &row->self;
}

// ---------------------------------------------------------------- intervals

// The rows of few samples are many, and those of as many samples have one run interval.
static struct interval run_interval(const struct ranges *r, double k)
{
	struct run_interval *known = &r->runs[hash_u64((uint64_t)k) % RUN_INTERVALS];
	if (!(known->k == k && k > 0))
		*known = (struct run_interval){ k, clopper_pearson(k, r->n, r->conf) };
	return known->range;
}

// `n` as the measure's blocks and design effect leave it.
static double effective(const struct ranges *r, double n, const struct row_measure *m)
{
	return m->blocks == 0 ? n : effective_n(n, m->deff, m->blocks == r->blocks ? r->block_ratio : r->half_ratio);
}

static void find_intervals(const struct ranges *r, struct row_measure *m)
{
	double n = r->n, missing = r->missing, all = effective(r, n + missing, m);
	if (m->has_intervals)
		return;
	m->has_intervals = true;
	m->run = m->workload = run_interval(r, m->samples);
	if ((m->flags & ROW_RUN_ONLY) == 0) {
		double left = effective(r, n, m);
		m->workload = clopper_pearson(m->samples * left / n, left, r->conf); // as workload_interval
	}
	m->worst_case = m->workload;
	if (missing > 0)
		m->worst_case = (struct interval){ loss_lo(m->samples, n, missing, all, r->conf), loss_hi(m->samples, n, missing, all, r->conf) };
	if (m->truncated_elsewhere > 0)
		m->worst_case.hi = loss_hi(m->samples + m->truncated_elsewhere, n, missing, all, r->conf);
}

// The one range that is printed: the workload interval; the worst case where loss counts; with too few visits this run's, widened by loss.
static void choose_shown(const struct ranges *r, struct report_row *row)
{
	const struct row_measure *m = ordering(r, row);
	bool worst = r->b->event->is_lossy || (row->flags & ROW_TIED_LOSS) != 0;
	double missing = worst ? r->missing : 0;
	if (!row->shown_is_run)
		row->shown = worst ? m->worst_case : m->workload;
	else
		row->shown = missing > 0 ? loss_bounds(m->samples, r->n, missing, 1, 0, r->conf).outer : m->run;
}

static void complete_row(const struct ranges *r, struct report_row *row)
{
	struct row_measure *self = &row->self, *total = &row->total;
	find_intervals(r, self);
	if (total->samples == self->samples && total->deff == self->deff && total->blocks == self->blocks &&
	    total->truncated_elsewhere == self->truncated_elsewhere) { // a leaf: most functions are
		total->run = self->run;
		total->workload = self->workload;
		total->worst_case = self->worst_case;
		total->has_intervals = true;
	}
	find_intervals(r, total);
	choose_shown(r, row);
}

// ---------------------------------------------------------------- ranks

static int by_double(const void *a, const void *c)
{
	double x = *(const double *)a, y = *(const double *)c;
	return x < y ? -1 : x > y;
}

static size_t count_below(const double *sorted, size_t count, double value) // elements < value
{
	return first_not(0, count, i, sorted[i] < value);
}

// Where loss counts, and for rows whose own uncertainty is not known, the ranks that the worst-case ends leave are possible too.
static bool is_widened(const struct ranges *r, const struct report_row *row)
{
	return r->b->event->is_lossy || row->shown_is_run || (row->flags & ROW_TIED_LOSS) != 0;
}

// No worst case of the measure ends above this. Chernoff's bound on the tail, e^(-n H(k / n, x)) <= e^(-n (x - k / n)^2 / 2x), is at the level alpha / 2
// where n (x - k / n)^2 = 2x ln(2 / alpha); a tenth more is for counts that are not whole.
static double no_end_above(const struct ranges *r, const struct row_measure *m)
{
	double all = r->n + r->missing, n = effective(r, all, m), l = 1.1 * log(2 / (1 - r->conf)) / n;
	double p = (m->samples + r->missing + m->truncated_elsewhere) / all;
	return p + l + sqrt(l * (l + 2 * p));
}

// Lower and upper ends of the first `ranked` rows, sorted, where they can matter to a row of which no lower end is below `least_lo` and no upper end
// below `least_hi`; a bound that cannot matter either in place of the others.
static void find_ends(const struct ranges *r, size_t ranked, double least_lo, double least_hi, double *lo, double *hi)
{
	for (size_t i = 0; i < ranked; i++) {
		struct row_measure *m = ordering(r, &r->b->event->rows.data[i]);
		double highest = no_end_above(r, m);
		lo[i] = m->share; // no interval begins above it
		hi[i] = highest;
		if (lo[i] <= least_hi && highest < least_lo)
			continue;
		find_intervals(r, m);
		lo[i] = m->worst_case.lo;
		hi[i] = m->worst_case.hi;
	}
	sort_stable(lo, ranked, sizeof(*lo), by_double);
	sort_stable(hi, ranked, sizeof(*hi), by_double);
}

static void widen_ranks(const struct ranges *r, size_t ranked, size_t rows)
{
	struct report_event *event = r->b->event;
	double least_lo = INFINITY, least_hi = INFINITY;
	for (size_t i = 0; i < rows; i++)
		if (is_widened(r, &event->rows.data[i])) {
			least_lo = fmin(least_lo, ordering(r, &event->rows.data[i])->worst_case.lo);
			least_hi = fmin(least_hi, ordering(r, &event->rows.data[i])->worst_case.hi);
		}
	if (isinf(least_lo))
		return;
	double *lo = mem_alloc((ranked + 1) * sizeof(*lo)), *hi = mem_alloc((ranked + 1) * sizeof(*hi));
	find_ends(r, ranked, least_lo, least_hi, lo, hi);
	for (size_t i = 0; i < rows; i++) {
		struct report_row *row = &event->rows.data[i];
		if (!is_widened(r, row))
			continue;
		const struct interval *w = &ordering(r, row)->worst_case;
		size_t above = ranked - count_below(lo, ranked, nextafter(w->hi, 2)); // lo_j > hi_i
		size_t below = count_below(hi, ranked, w->lo);                       // hi_j < lo_i
		row->rank_lo = 1 + above < row->rank_lo ? 1 + (uint32_t)above : row->rank_lo;
		row->rank_hi = ranked - below > row->rank_hi ? (uint32_t)(ranked - below) : row->rank_hi;
	}
	free(lo);
	free(hi);
}

// Those asked for, and as many more as their ranks are certain: a verdict names the last of these. All where a filter chooses rows by their names, or
// the worst end of those not shown is printed.
static size_t count_wanted(const struct build *b)
{
	const struct report_event *event = b->event;
	const struct report_filter *filter = &b->options->filter;
	size_t rows = event->rows.count, wanted = b->options->ranges;
	if (wanted > 0 && (event->is_lossy || filter->symbols != NULL || filter->dsos != NULL))
		return rows;
	while (wanted > 0 && wanted < rows && event->rows.data[wanted - 1].rank_lo == wanted && event->rows.data[wanted - 1].rank_hi == wanted)
		wanted++;
	return wanted < rows ? wanted : rows;
}

void find_ranges(struct build *b)
{
	struct report_event *event = b->event;
	struct ranges r = { .b = b, .conf = b->confidence, .n = event->n, .missing = event->missing };
	size_t wanted = count_wanted(b), ranked = event->function_count;
	for (size_t j = 0; j < TALLY_BLOCKS; j++)
		r.blocks += !b->off[j];
	r.block_ratio = block_ratio(r.blocks, r.conf);
	r.half_ratio = block_ratio(r.blocks / 2, r.conf);
	r.runs = mem_zero(RUN_INTERVALS, sizeof(*r.runs));
	for (size_t i = 0; i < wanted; i++)
		complete_row(&r, &event->rows.data[i]);
	widen_ranks(&r, ranked, wanted < ranked ? wanted : ranked);
	free(r.runs);
}
