// Where the loss lies: the worst second, the span, bursts, and the rows it is tied to (statistics, section 5).
#include <math.h>
#include <stdlib.h>

#include "judge/loss.h"
#include "report/build.h"
#include "report/estimate_more.h"

enum { POINTS = 512 }; // samples read at a time

struct windows { double *kept, *lost; size_t count; double length_ns; };

static struct windows windows_of(const struct build *b, double length_ns)
{
	enum { MAX_WINDOWS = 1 << 20 };
	double span = (double)(b->report->to_ns - b->report->from_ns);
	if (span / length_ns > MAX_WINDOWS)
		length_ns = span / MAX_WINDOWS;
	struct windows w = { .count = (size_t)(span / length_ns) + 1, .length_ns = length_ns };
	if (w.count > 1 && (double)(w.count - 1) * length_ns >= span)
		w.count--;
	w.kept = mem_zero(w.count, sizeof(double));
	w.lost = mem_zero(w.count, sizeof(double));
	return w;
}

static size_t window_at(const struct build *b, const struct windows *w, uint64_t time_ns)
{
	double offset = time_ns > b->report->from_ns ? (double)(time_ns - b->report->from_ns) : 0;
	size_t at = (size_t)(offset / w->length_ns);
	return at < w->count ? at : w->count - 1;
}

static void fill_windows(const struct build *b, struct windows *w)
{
	const struct samples *samples = &b->profile->samples;
	bool *keeps = filter_contexts(&b->options->filter, b->profile);
	struct sample_point points[POINTS];
	for (size_t at = 0, count; (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			uint32_t context = points[i].context;
			if (samples->contexts.data[context].event == b->event_id && keeps[context] && filter_keeps_time(&b->options->filter, points[i].time_ns))
				w->kept[window_at(b, w, points[i].time_ns)]++;
		}
	}
	free(keeps);
	for (size_t i = 0; i < b->profile->losses.count; i++)
		if (build_counts_loss(b, &b->profile->losses.data[i])) {
			const struct profile_loss *loss = &b->profile->losses.data[i];
			loss_spread(w->lost, w->count, w->length_ns, b->report->from_ns, b->report->to_ns,
			            &(struct loss){ .from_ns = loss->from_ns, .to_ns = loss->to_ns, .count = loss->count });
		}
}

static void find_worst_second(struct report_event *event, const struct windows *w)
{
	for (size_t i = 0; i < w->count; i++) {
		double share = w->lost[i] > 0 ? w->lost[i] / (w->lost[i] + w->kept[i]) : 0;
		if (share > event->worst_second_share) {
			event->worst_second_share = share;
			event->worst_second_at = (uint64_t)((double)i * w->length_ns / 1e9);
		}
	}
}

// ---------------------------------------------------------------- is it tied to a row?

struct tie_sums { struct window_sums lossy, clean; double imputed, now; };

struct tie_pass {
	struct tie_sums *rows;          // by row of the tally
	VEC(uint32_t) touched;          // with a sample in the window that is being filled
	struct window_sums lossy, clean; // of rows that have none there: n alone
	double imputed_n, n;
};

static void close_window(struct tie_pass *pass, double lost)
{
	if (pass->n + lost > 0)
		window_sums_add(lost > 0 ? &pass->lossy : &pass->clean, pass->n, 0);
	if (pass->n > 0)
		pass->imputed_n += pass->n + lost;
	for (size_t i = 0; i < pass->touched.count; i++) {
		struct tie_sums *row = &pass->rows[pass->touched.data[i]];
		window_sums_add(lost > 0 ? &row->lossy : &row->clean, pass->n, row->now);
		row->imputed += (pass->n + lost) * row->now / pass->n;
		row->now = 0;
	}
	vec_clear(&pass->touched);
	pass->n = 0;
}

static void count_row(struct tie_pass *pass, uint32_t row)
{
	if (pass->rows[row].now == 0)
		vec_push(&pass->touched, row);
	pass->rows[row].now++;
}

static void count_windows(struct build *b, const struct windows *w, struct tie_pass *pass)
{
	const struct samples *samples = &b->profile->samples;
	bool *keeps = filter_contexts(&b->options->filter, b->profile);
	struct sample_point points[POINTS];
	size_t window = 0;
	for (size_t at = 0, count; (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) { // in the order of time
			const struct sample_context *c = &samples->contexts.data[points[i].context];
			if (c->event != b->event_id || (c->is_idle && !b->options->idle) || !keeps[points[i].context] ||
			    !filter_keeps_time(&b->options->filter, points[i].time_ns))
				continue;
			for (size_t now = window_at(b, w, points[i].time_ns); window < now; window++)
				close_window(pass, w->lost[window]);
			const struct tally_set *set = tally_rows_of(&b->tally, &points[i]);
			pass->n++;
			if (!b->options->children)
				count_row(pass, set->self_row);
			for (uint32_t m = 0; b->options->children && m < set->count; m++)
				count_row(pass, b->tally.members.data[set->first + m]);
		}
	}
	free(keeps);
	for (; window < w->count; window++)
		close_window(pass, w->lost[window]);
}

// A row's sums hold the windows in which it has samples; what the others add is n alone.
static struct window_sums with_absent(struct window_sums row, const struct window_sums *all)
{
	row.windows = all->windows;
	row.n = all->n;
	row.nn = all->nn;
	return row;
}

static void adjust_ties(struct build *b, double *p, const uint32_t *rows, size_t count)
{
	double *q = mem_alloc((count + 1) * sizeof(*q));
	adjust_p(p, count, ADJUST_BH, q);
	for (size_t i = 0; i < count; i++)
		b->ties[rows[i]].q = q[i];
	free(q);
}

static void test_ties(struct build *b, const struct windows *w)
{
	enum { MIN_SAMPLES = 10 };
	size_t rows = b->tally.rows.count, tested = 0;
	struct tie_pass pass = { .rows = mem_zero(rows + 1, sizeof(*pass.rows)) };
	count_windows(b, w, &pass);
	b->ties = mem_zero(rows + 1, sizeof(*b->ties));
	double *p = mem_alloc((rows + 1) * sizeof(*p));
	uint32_t *which = mem_alloc((rows + 1) * sizeof(*which));
	for (size_t i = 0; i < rows; i++) {
		struct window_sums lossy = with_absent(pass.rows[i].lossy, &pass.lossy), clean = with_absent(pass.rows[i].clean, &pass.clean);
		struct tied_loss tied = tied_loss(&lossy, &clean);
		b->ties[i] = (struct tie){ tied.z, -1, pass.imputed_n > 0 ? pass.rows[i].imputed / pass.imputed_n : -1 };
		bool has_windows = fmin(lossy.windows, clean.windows) >= TIED_MIN_WINDOWS;
		if (has_windows && lossy.k + clean.k >= MIN_SAMPLES) {
			p[tested] = tied.p;
			which[tested++] = (uint32_t)i;
		}
	}
	adjust_ties(b, p, which, tested);
	free(p);
	free(which);
	free(pass.rows);
	vec_release(&pass.touched);
}

void place_losses(struct build *b)
{
	struct report_event *event = b->event;
	event->loss_windows_p = -1;
	if (!(build_located_loss(b) > 0) || !(b->report->seconds > 0))
		return;
	struct windows seconds = windows_of(b, 1e9);
	fill_windows(b, &seconds);
	find_worst_second(event, &seconds);
	struct loss_span span = loss_span(seconds.lost, seconds.count, seconds.length_ns, b->report->seconds);
	event->loss_from_s = span.from_s;
	event->loss_to_s = span.to_s;
	struct windows shorter = { 0 }, *w = &seconds;
	if (b->report->seconds < 20) {
		shorter = windows_of(b, b->report->seconds * 1e9 / 20);
		fill_windows(b, &shorter);
		w = &shorter;
	}
	double *nothing = mem_zero(w->count, sizeof(double));
	if (w->count > 1)
		event->loss_windows_p = loss_windows(w->kept, w->lost, nothing, w->count).p;
	test_ties(b, w);
	free(nothing);
	free(seconds.kept);
	free(seconds.lost);
	free(shorter.kept);
	free(shorter.lost);
}
