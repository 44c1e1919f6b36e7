// The wide layout: every interval beside its row (statistics, section 14).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/text.h"

enum { HEAD = 13 };

static void head(struct text *t, const char *word)
{
	buf_printf(t->out, "%-*s", HEAD, word);
}

static void write_title(struct text *t)
{
	const struct report_event *e = t->event;
	buf_string(t->out, "perfsample report  ");
	text_target(t);
	buf_string(t->out, "  event ");
	text_name(t->out, e->name, 40);
	if (e->source->comb_periods[0] > 0)
		buf_printf(t->out, "  period %.6f + %.6f ms (%.0f Hz)", (double)e->source->comb_periods[0] / 1e6, (double)e->source->comb_periods[1] / 1e6,
		           1e9 / (double)e->source->period);
	else if (e->source->is_clock && e->source->period > 0)
		buf_printf(t->out, "  period %.6f ms (%.0f Hz)", (double)e->source->period / 1e6, 1e9 / (double)e->source->period);
	else if (e->source->is_freq)
		buf_printf(t->out, "  %llu Hz", (unsigned long long)e->source->frequency);
	else
		buf_printf(t->out, "  period %llu", (unsigned long long)e->source->period);
	buf_printf(t->out, "  %.1f s", t->report->seconds);
	if (t->report->profile->meta.cpus_online > 0)
		buf_printf(t->out, "  %u CPUs", t->report->profile->meta.cpus_online);
	if (e->source->is_clock)
		buf_printf(t->out, "  %.1f CPU-s", e->cpu_seconds);
	buf_byte(t->out, '\n');
}

static void write_denominator(struct text *t)
{
	const struct report_event *e = t->event;
	struct buf verdict = { 0 };
	buf_string(&verdict, verdict_word(e->verdict));
	for (size_t i = 0; i < e->caveats.count; i++) {
		const char *text = e->caveats.data[i].text;
		bool repeats = strncmp(text, "no ranking: ", 12) == 0; // the word stands there
		buf_printf(&verdict, "%s%s", i == 0 ? ": " : "; ", repeats ? text + 12 : text);
	}
	text_wrapped(t, "verdict", HEAD, t->width, buf_text(&verdict));
	buf_release(&verdict);
	head(t, "denominator");
	buf_string(t->out, e->source->excludes_kernel ? "user samples only (kernel excluded): user " : "all samples: user ");
	text_share_of(t->out, e->user_share, e->n);
	buf_string(t->out, ", kernel ");
	text_share_of(t->out, e->kernel_share, e->n);
	buf_string(t->out, ", [unknown] ");
	text_share_of(t->out, e->unresolved_share, e->n);
	if (e->idle_excluded > 0) {
		buf_string(t->out, "; idle apart: ");
		text_short_percent(t->out, e->idle_excluded);
		buf_string(t->out, " of the time");
	}
	buf_byte(t->out, '\n');
}

static void write_samples(struct text *t)
{
	const struct report_event *e = t->event;
	double all = (double)(e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed);
	head(t, "samples");
	text_count(t->out, e->taken);
	buf_string(t->out, " kept   ");
	if (e->is_loss_known) {
		text_count(t->out, e->lost);
		buf_string(t->out, " lost (");
		text_loss_percent(t->out, e->lost_share);
		buf_string(t->out, ")   ");
	} else {
		buf_string(t->out, "lost: not known   ");
	}
	if (e->can_expect && e->expected > 0) {
		buf_printf(t->out, "silent %s", e->silent < 0 ? "-" : "");
		text_loss_percent(t->out, fabs(e->silent) / e->expected);
	} else {
		buf_string(t->out, "silent not measurable");
	}
	buf_printf(t->out, "   throttled %.3g s", e->throttled_s);
	if (all > 0)
		buf_printf(t->out, "   stacks complete %.1f%%", floor_to(100 * (double)(e->stacks_complete + e->stacks_joined) / all, 1));
	if (all > 0) {
		buf_byte(t->out, '\n');
		head(t, "stacks");
		text_guessed(t->out, e);
	}
	buf_byte(t->out, '\n');
	head(t, "overhead");
	if (e->recorder_cpu_s > 0) {
		buf_string(t->out, "accounted ");
		if (e->is_brief) {
			buf_printf(t->out, "%.0f ms of CPU time", 1e3 * e->recorder_cpu_s);
		} else {
			text_loss_percent(t->out, e->recorder_share);
			buf_string(t->out, " of one CPU");
		}
		if (e->accounted_s > 0 && e->cpu_seconds > 0 && !e->is_filtered) {
			buf_string(t->out, ", and ");
			text_loss_percent(t->out, e->accounted_s / e->cpu_seconds);
			buf_string(t->out, " of the program's CPU time");
		}
		buf_string(t->out, ";  A/B not measured\n");
	} else {
		buf_string(t->out, "not recorded\n");
	}
}

static void write_combs(struct text *t, const struct report_aliasing *a)
{
	buf_string(t->out, a->is_suspected ? "ALIASING SUSPECTED: two combs (" : "two combs (");
	text_count(t->out, a->samples[0]);
	buf_string(t->out, " + ");
	text_count(t->out, a->samples[1]);
	buf_printf(t->out, a->is_suspected ? " samples) differ: chi2 p = %.1g" : " samples) agree: chi2 p = %.2g", a->p);
	if (a->is_suspected)
		buf_byte(t->out, '\n');
	else
		buf_printf(t->out, "; an error above %.1f pp would have shown\n", ceil_to(100 * a->detectable, 1));
}

// Of what the worst case adds, where not all of it is lost samples.
static void write_missing_parts(struct text *t)
{
	const struct report_event *e = t->event;
	if (strcmp(text_lost_word(e), "lost") == 0)
		return;
	buf_string(t->out, ": lost ");
	text_count(t->out, e->lost);
	if (e->dropped > 0) {
		buf_string(t->out, ", dropped ");
		text_count(t->out, e->dropped);
	}
	if (e->can_expect && e->silent > 0) {
		buf_string(t->out, e->dropped > 0 ? ", silent with these " : ", silent ");
		text_count(t->out, e->silent);
	}
}

static const struct report_caveat *caveat_of(const struct report_event *e, enum caveat_code code)
{
	for (size_t i = 0; i < e->caveats.count; i++)
		if (e->caveats.data[i].code == code)
			return &e->caveats.data[i];
	return NULL;
}

// What was tested, and what was not: a loop in step is seen at one place, so a recording whose clock ran on undisturbed tells nothing of it.
static void write_aliasing(struct text *t)
{
	const struct report_event *e = t->event;
	const struct report_lockstep *l = &e->lockstep;
	head(t, "aliasing");
	if (e->aliasing.is_tested) {
		write_combs(t, &e->aliasing);
		return;
	}
	const struct report_caveat *resonance = caveat_of(e, CAVEAT_RESONANCE);
	buf_string(t->out, resonance != NULL ? resonance->text : "period resonates with none of the usual loop periods (1-50 ms)");
	if (!l->is_tested) {
		buf_string(t->out, "; others not tested\n");
		return;
	}
	buf_string(t->out, "\n             ");
	buf_printf(t->out, l->is_suspected ? "ALIASING SUSPECTED: other functions are seen after each of %zu restarts of the clock (%.0f%% other, elsewhere %.0f%%; p = %.1g)\n"
	           : "the clock was started anew %zu times: %.0f%% other functions after it, elsewhere %.0f%% (p = %.2g); a function that has less than some 10%% of a loop may stay unseen\n",
	           l->restarts, 100 * fmax(l->at_restarts, 0), 100 * fmax(l->elsewhere, 0), l->p);
}

static void write_loss(struct text *t)
{
	const struct report_event *e = t->event;
	if (e->source->is_clock || e->aliasing.is_tested)
		write_aliasing(t);
	head(t, "loss");
	if (e->missing <= 0) {
		buf_string(t->out, e->is_loss_known ? "none\n" : "none in the file; what was lost is not known\n");
	} else if (!e->is_lossy) {
		text_loss_percent(t->out, e->missing / (e->n + e->missing));
		buf_printf(t->out, ": moves no row by more than %.2f pp\n", ceil_to(100 * e->missing / (e->n + e->missing), 2));
	} else {
		text_loss_percent(t->out, e->missing / (e->n + e->missing));
		write_missing_parts(t);
		if (e->loss_windows_p >= 0)
			buf_printf(t->out, e->loss_windows_p < 0.001 ? "; in bursts (p = %.1g)" : "; no burst (p = %.2g)", e->loss_windows_p);
		if (e->loss_to_s > e->loss_from_s)
			buf_printf(t->out, ", +%.0f to +%.0f s", e->loss_from_s, e->loss_to_s);
		if (e->tied_to != NULL) {
			buf_string(t->out, "; tied to: ");
			text_name(t->out, e->tied_to, 60);
			buf_printf(t->out, " (q = %.1g)", e->tied_q);
		}
		if (e->worst_second_share > 0) {
			buf_printf(t->out, "; worst second +%llu s: ", (unsigned long long)e->worst_second_at);
			text_loss_percent(t->out, e->worst_second_share);
		}
		buf_byte(t->out, '\n');
	}
}

static void write_rows_rule(struct text *t)
{
	const struct report_event *e = t->event;
	double conf = 100 * t->report->options.confidence;
	head(t, "rows");
	if (t->report->options.simultaneous)
		buf_printf(t->out, "all %zu intervals hold together, %g%% (each is %.4f%%).  any share here: within +-%.2f pp", e->function_count, conf,
		           100 * e->interval_confidence, ceil_to(100 * e->simultaneous_half_width, 2));
	else
		buf_printf(t->out, "each interval %g%% on its own; about 1 row in %.0f misses.  all rows at once: within +-%.2f pp", conf,
		           100 / fmax(0.01, 100 - conf), ceil_to(100 * e->simultaneous_half_width, 2));
	buf_string(t->out, e->is_lossy ? ", and what is missing besides\n" : "\n");
	head(t, "smallest");
	buf_printf(t->out, "a function with share >= %.4f%% had a %g%% chance to appear;  one that did not is <= %.4f%%", ceil_to(100 * e->smallest_seen, 4), conf,
	           ceil_to(100 * e->largest_unseen, 4));
	if (e->is_lossy)
		buf_printf(t->out, ", whatever the %s samples were", text_lost_word(e));
	buf_string(t->out, "\n\n");
}

// Decimals of a percentage: the digit where the half width has two significant ones, at most 2 unless k >= 1000.
static int decimals_of(const struct row_measure *m, struct interval i)
{
	double half = 100 * (i.hi - i.lo) / 2;
	int decimals = half > 0 ? 1 - (int)floor(log10(half)) : 2;
	int most = m->samples >= 1000 ? 3 : 2;
	return decimals < 0 ? 0 : decimals > most ? most : decimals;
}

static void write_bracket(struct text *t, struct interval i, int decimals, const char *mark)
{
	char text[64];
	snprintf(text, sizeof(text), "[%5.*f, %5.*f]%-1s", decimals, floor_to(100 * i.lo, decimals), decimals, ceil_to(100 * i.hi, decimals), mark);
	buf_printf(t->out, "%-18s", text);
}

static void write_row(struct text *t, const struct report_row *row, size_t rank_columns)
{
	const struct report_event *e = t->event;
	const struct row_measure *m = text_measure(t, row), *other = t->children ? &row->self : &row->total;
	char rank[32], total[64];
	text_rank(t, row, rank, sizeof(rank));
	int decimals = decimals_of(m, row->shown);
	if (e->n > 0)
		buf_printf(t->out, "%*s  %7.*f  ", (int)rank_columns, rank, decimals, 100 * m->share);
	else
		buf_printf(t->out, "%*s  %7s  ", (int)rank_columns, rank, "-");
	if ((row->flags & ROW_RUN_ONLY) != 0)
		buf_printf(t->out, "%-18s", "run only");
	else
		write_bracket(t, m->workload, decimals, text_mark(row));
	if ((row->flags & ROW_ALIASING) != 0)
		buf_printf(t->out, "%-18s", "-"); // the run interval takes the clock for independent of the program
	else
		write_bracket(t, m->run, decimals, "");
	if (e->is_lossy)
		write_bracket(t, m->worst_case, decimals, "");
	double cut = row->total.truncated_elsewhere;
	if (!t->children && cut >= 0.01 * e->n)
		snprintf(total, sizeof(total), "%.1f [%.1f, %.1f]", 100 * other->share, floor_to(100 * other->share, 1),
		         ceil_to(100 * (other->share + cut / e->n), 1));
	else
		snprintf(total, sizeof(total), "%.*f", 100 * other->share < 1 ? 2 : 1, 100 * other->share);
	buf_printf(t->out, "%-18s%6.1f %7llu  ", total, m->deff, (unsigned long long)m->visits);
	text_label(t, row, rank_columns + 2 + 7 + 2 + 18 * (e->is_lossy ? 4 : 3) + 6 + 1 + 7 + 2);
	if (row->call_count > 0)
		text_calls(t, row, rank_columns + 4);
}

static void write_other(struct text *t, size_t rank_columns)
{
	const struct report_event *e = t->event;
	size_t hidden = e->function_count > t->shown ? e->function_count - t->shown : 0;
	if (hidden == 0 || t->children || t->report->options.filter.symbols != NULL || t->report->options.filter.dsos != NULL)
		return;
	double sum = 0;
	for (size_t i = t->shown; i < e->rows.count; i++)
		sum += e->rows.data[i].self.share;
	struct interval run = clopper_pearson(sum * e->n, e->n, t->report->options.confidence);
	buf_printf(t->out, "%-*s  %7.2f  %-18s", (int)rank_columns, "other", 100 * sum, "");
	write_bracket(t, run, 2, "");
	if (e->is_lossy)
		text_pad(t->out, 0, 18);
	buf_byte(t->out, '(');
	text_count(t->out, (double)hidden);
	buf_printf(t->out, e->is_lossy ? " function%s; any one could be up to %.2f%%)\n" : " function%s, each %.2f%% or less)\n", hidden == 1 ? "" : "s",
	           ceil_to(100 * text_largest_hidden(t, e->is_lossy), 2));
}

static void write_marks(struct text *t)
{
	unsigned flags = 0;
	bool longer = false, faster = false;
	for (size_t i = 0; i < t->shown; i++) {
		const struct report_row *row = &t->event->rows.data[i];
		const struct row_measure *m = text_measure(t, row);
		flags |= row->flags;
		if (i < 5) {
			longer |= m->deff > 2;
			faster |= m->deff <= 2;
		}
	}
	if ((flags & ROW_TIED_LOSS) != 0)
		buf_string(t->out, " * loss tied to this row: worst case shown\n");
	if ((flags & ROW_FEW) != 0)
		buf_printf(t->out, " ~ too few visits (%llu): record longer or repeat runs\n", (unsigned long long)text_fewest_visits(t));
	if ((flags & ROW_TREND) != 0)
		buf_string(t->out, " ^ share drifts during the recording: the true range is wider\n");
	if ((flags & ROW_ALIASING) != 0)
		buf_string(t->out, " ! aliasing suspected\n");
	if (t->shown == 0)
		return;
	head(t, "narrower");
	if (longer && !faster)
		buf_string(t->out, "the first rows: record longer (deff > 2); a higher rate will not help them\n");
	else if (longer)
		buf_string(t->out, "rows with deff > 2: record longer, a higher rate will not help them; the others: a higher rate\n");
	else
		buf_string(t->out, "the first rows: a higher rate, or record longer\n");
}

void text_wide(struct text *t)
{
	if (!t->event->source->is_sampling) {
		text_narrow(t);
		return;
	}
	write_title(t);
	write_denominator(t);
	write_samples(t);
	write_loss(t);
	write_rows_rule(t);
	text_nameless(t, "names", HEAD, t->width);
	double conf = 100 * t->report->options.confidence;
	char title[40];
	size_t rank_columns = text_rank_width(t);
	buf_printf(t->out, "%*s  %7s  ", (int)rank_columns, "rank", t->children ? "total %" : "self %");
	snprintf(title, sizeof(title), "workload %g%%", conf);
	buf_printf(t->out, "%-18s", title);
	snprintf(title, sizeof(title), "this run %g%%", conf);
	buf_printf(t->out, "%-18s", title);
	if (t->event->is_lossy)
		buf_printf(t->out, "%-18s", "worst case");
	buf_printf(t->out, "%-18s%6s %7s  ", t->children ? "self %" : "total % (bounds)", "deff", "visits");
	text_label_header(t);
	for (size_t i = 0; i < t->shown; i++)
		write_row(t, &t->event->rows.data[i], rank_columns);
	write_other(t, rank_columns);
	write_marks(t);
}
