// The narrow layout: what fits 80 columns and is read in an incident. Its words are those of perfsample-report(1).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "export/text.h"

enum { NARROW = 80, HEAD = 10, SHARE_WIDTH = 6, RANGE_WIDTH = 9, TOTAL_WIDTH = 7 };

static bool is_cut(const struct report_event *e, double at_least)
{
	double all = (double)(e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed);
	return all > 0 && (double)(e->stacks_truncated + e->stacks_failed) >= at_least * all;
}

static void head(struct text *t, const char *word)
{
	buf_printf(t->out, "%-*s", HEAD, word);
}

// ---------------------------------------------------------------- header

static void write_target(struct text *t)
{
	const struct profile_meta *meta = &t->report->profile->meta;
	text_target(t);
	if (!t->event->is_filtered && meta->processes_seen > t->event->processes && meta->processes_seen > 1)
		buf_printf(t->out, ", %zu of %u processes", t->event->processes, meta->processes_seen); // the others have no sample
	else if (t->event->processes > 1 && t->event->processes > meta->target_ids.count)
		buf_printf(t->out, ", %zu processes", t->event->processes);
	size_t threads = meta->target_threads > t->event->threads ? meta->target_threads : t->event->threads;
	if (threads > 0)
		buf_printf(t->out, ", %zu thread%s", threads, threads == 1 ? "" : "s");
	if (meta->host != 0) {
		buf_string(t->out, ", on ");
		text_name(t->out, profile_text(t->report->profile, meta->host), 40);
	}
	if (meta->start_wall_ns != 0) {
		buf_string(t->out, ", ");
		text_start(t);
	}
	if (t->event->source->counts_by_weight) // no times
		buf_byte(t->out, '\n');
	else
		buf_printf(t->out, ", %.1f s\n", t->report->seconds);
}

static size_t certain_ranks(const struct text *t)
{
	const struct report_event *e = t->event;
	size_t certain = 0;
	while (certain < e->function_count && certain < e->rows.count && e->rows.data[certain].rank_lo == certain + 1
	       && e->rows.data[certain].rank_hi == certain + 1)
		certain++;
	return certain;
}

static void write_certain(struct buf *out, size_t certain)
{
	if (certain == 1)
		buf_string(out, "Rank 1");
	else if (certain == 2)
		buf_string(out, "Ranks 1 and 2");
	else
		buf_printf(out, "Ranks 1 to %zu", certain);
}

// The next two groups of rows that may stand in another order.
static void write_swaps(struct text *t, size_t certain)
{
	const struct report_event *e = t->event;
	size_t at = certain;
	const char *separator = "; ";
	for (int group = 0; group < 2 && at < t->shown && at < e->function_count; group++) {
		size_t last = e->rows.data[at].rank_hi;
		for (size_t i = at; i < last && i < t->shown; i++)
			if (e->rows.data[i].rank_hi > last && e->rows.data[i].rank_lo <= e->rows.data[at].rank_hi)
				last = e->rows.data[i].rank_hi;
		if (last <= at + 1)
			break;
		if (last > t->shown) {
			buf_printf(t->out, "%sfrom %zu on no firm order", separator, at + 1);
			return;
		}
		buf_printf(t->out, "%s%zu-%zu may swap", separator, at + 1, last);
		separator = ", ";
		at = last;
	}
}

static void write_reason_of_no_ranking(struct text *t)
{
	const struct report_event *e = t->event;
	double gone = e->lost + e->dropped, loss = gone > 0 ? gone / (gone + e->taken) : 0;
	if (e->n == 0) {
		const char *why = "no samples";
		for (size_t i = 0; i < e->caveats.count; i++)
			why = e->caveats.data[i].code == CAVEAT_FEW_SAMPLES ? e->caveats.data[i].text : why;
		buf_printf(t->out, ": %s", why);
	} else if (loss > 0.10) {
		buf_string(t->out, ": loss ");
		text_loss_percent(t->out, loss);
		buf_string(t->out, "; the rows are bounds, in no order that holds");
	} else if (e->n < 100) {
		buf_printf(t->out, e->is_weighted ? ": as good as %.0f sample%s, fewer than 100: run only" : ": %.0f sample%s, fewer than 100: run only", e->n,
		           round(e->n) == 1 ? "" : "s");
	} else {
		buf_string(t->out, ": shares from ");
		text_short_percent(t->out, e->multiplexed);
		buf_string(t->out, " of the time (counters shared with other events)");
	}
}

// What the figures are of, where no more can be said: "these 30 s"; counts of other tools have no times.
static void write_these(struct text *t)
{
	if (t->event->source->counts_by_weight) {
		buf_string(t->out, "these samples");
		return;
	}
	buf_string(t->out, "these ");
	text_seconds(t->out, t->report->seconds);
}

static void write_verdict(struct text *t)
{
	static const char *const colors[] = { "\033[32m", "\033[33m", "\033[31m" };
	const struct report_event *e = t->event;
	head(t, "verdict");
	buf_printf(t->out, "%s%s%s", t->in->color ? colors[e->verdict] : "", verdict_word(e->verdict), t->in->color ? "\033[m" : "");
	size_t certain = certain_ranks(t);
	if (e->verdict == VERDICT_NO_RANKING) {
		write_reason_of_no_ranking(t);
	} else if (e->function_count == 1) {
		buf_string(t->out, ". One function has all the samples");
	} else if (certain >= e->function_count) {
		buf_string(t->out, e->verdict == VERDICT_SOUND ? ". All ranks are certain" : ". All ranks hold");
	} else if (e->verdict == VERDICT_SOUND) {
		buf_string(t->out, ". ");
		if (certain > 0) {
			write_certain(t->out, certain);
			buf_string(t->out, certain == 1 ? " is certain" : " are certain");
		} else {
			buf_string(t->out, "No rank is certain");
		}
		write_swaps(t, certain);
	} else if (certain == 0) {
		buf_string(t->out, ". No firm order in ");
		write_these(t);
	} else {
		buf_string(t->out, ". ");
		write_certain(t->out, certain);
		buf_string(t->out, certain == 1 ? " holds for " : " hold for ");
		write_these(t);
		buf_string(t->out, "; below that, no firm order");
	}
	buf_byte(t->out, '\n');
}

static void write_cpu(struct text *t)
{
	const struct report_event *e = t->event;
	if (e->source->is_clock) {
		head(t, "CPU used");
		buf_printf(t->out, "%.1f s", e->cpu_seconds);
		if (t->report->seconds > 0)
			buf_printf(t->out, " = %.1f CPUs busy", e->cpu_seconds / t->report->seconds);
		buf_string(t->out, "; user ");
	} else {
		head(t, "event");
		text_name(t->out, e->name, 40);
		buf_string(t->out, "; user ");
	}
	text_share_of(t->out, e->user_share, e->n);
	if (e->source->excludes_kernel) {
		buf_string(t->out, " (kernel not sampled)");
	} else {
		buf_string(t->out, ", kernel ");
		text_share_of(t->out, e->kernel_share, e->n);
	}
	buf_string(t->out, e->unresolved_share > 0.05 ? ", UNRESOLVED " : ", unresolved ");
	text_share_of(t->out, e->unresolved_share, e->n);
	buf_byte(t->out, '\n');
	if (e->idle_excluded > 0) {
		head(t, "idle");
		buf_string(t->out, "host ");
		text_short_percent(t->out, 1 - e->idle_excluded);
		buf_printf(t->out, " busy (%.1f of %u CPUs); shares are of busy time\n", e->cpu_seconds / fmax(t->report->seconds, 1e-9),
		           t->report->profile->meta.cpus_online);
	}
}

static void write_span(struct text *t, const struct report_event *e)
{
	if (e->loss_to_s > e->loss_from_s)
		buf_printf(t->out, ", +%.0f to +%.0f s", e->loss_from_s, e->loss_to_s);
	else if (e->loss_windows_p >= 0)
		buf_string(t->out, e->loss_windows_p < 0.001 ? ", in bursts" : ", no burst");
}

static void write_missing(struct text *t)
{
	const struct report_event *e = t->event;
	double silent = e->can_expect ? e->silent : 0;
	bool is_silent = e->can_expect && silent >= 0.01 * e->expected && e->expected > 0;
	if (e->lost_share >= t->report->options.max_loss && e->lost > 0) {
		buf_string(t->out, "; LOST ");
		text_count(t->out, e->lost);
		buf_string(t->out, " (");
		text_loss_percent(t->out, e->lost_share);
		buf_byte(t->out, ')');
		write_span(t, e);
	} else if (is_silent || !e->can_expect) {
		if (e->lost > 0) {
			buf_string(t->out, "; lost ");
			text_count(t->out, e->lost);
			buf_string(t->out, " (");
			text_loss_percent(t->out, e->lost_share);
			buf_byte(t->out, ')');
			write_span(t, e);
		} else {
			buf_string(t->out, e->is_loss_known ? "; none lost" : "; lost: not known");
		}
	} else if (e->lost + silent > 0) {
		buf_string(t->out, "; missing ");
		text_count(t->out, e->lost + silent);
		buf_string(t->out, " (");
		text_loss_percent(t->out, (e->lost + silent) / e->expected);
		buf_byte(t->out, ')');
		if (e->lost > 0)
			write_span(t, e);
		else
			buf_string(t->out, ", no burst");
	} else {
		buf_string(t->out, "; none missing");
	}
	if (is_silent) {
		buf_byte(t->out, '\n');
		head(t, "");
		buf_string(t->out, "SILENT ");
		text_count(t->out, silent);
		buf_string(t->out, " (");
		text_loss_percent(t->out, silent / e->expected);
		buf_string(t->out, silent > e->begun ? "): due by CPU time and never taken" : "): begun, not over at the end");
	}
	if (e->whole_silent > 0 && e->whole_silent >= 0.01 * e->whole_expected) {
		buf_byte(t->out, '\n');
		head(t, "");
		buf_string(t->out, "SILENT ");
		text_count(t->out, e->whole_silent);
		buf_string(t->out, " (");
		text_loss_percent(t->out, e->whole_silent / e->whole_expected);
		buf_string(t->out, ") of the whole recording; of this part: not known");
	}
}

static void write_samples(struct text *t)
{
	const struct report_event *e = t->event;
	head(t, "samples");
	text_count(t->out, e->taken);
	if (e->is_filtered) {
		buf_string(t->out, " chosen of ");
		text_count(t->out, e->unfiltered);
	}
	if (t->report->options.idle && e->idle > 0) {
		buf_string(t->out, " and ");
		text_count(t->out, e->idle);
		buf_string(t->out, " of idle CPUs");
	}
	if (e->source->is_clock && e->source->period > 0) {
		buf_printf(t->out, ", one per %.4g ms of CPU time", (double)e->source->period / 1e6);
	} else if (e->source->is_freq && e->source->frequency > 0) {
		buf_printf(t->out, ", at %llu Hz", (unsigned long long)e->source->frequency);
	} else if (e->source->period > 0) {
		buf_string(t->out, e->source->period == 1 ? ", every event" : ", one per ");
		if (e->source->period > 1) {
			text_count(t->out, (double)e->source->period);
			buf_string(t->out, " events");
		}
	}
	write_missing(t);
	buf_byte(t->out, '\n');
	if (!e->can_expect && !e->is_filtered && e->source->is_accounted) {
		head(t, "");
		buf_string(t->out, "silent not measurable\n");
	}
	if (e->is_weighted) {
		head(t, "");
		buf_string(t->out, "periods vary: as good as ");
		text_count(t->out, e->n);
		buf_string(t->out, " samples of equal weight\n");
	}
}

static void write_guessed(struct text *t, double all)
{
	const struct report_event *e = t->event;
	if ((double)e->stacks_guessed < 0.001 * all && (double)e->ends[UNWIND_ROOT_GUESSED] < 0.001 * all)
		return;
	head(t, "");
	text_guessed(t->out, e);
	buf_byte(t->out, '\n');
}

static void write_stacks(struct text *t)
{
	const struct report_event *e = t->event;
	double all = (double)(e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed);
	if (!(all > 0))
		return;
	double cut = (double)(e->stacks_truncated + e->stacks_failed) / all;
	if (is_cut(e, 0.05)) {
		struct buf line = { 0 };
		text_cut(t, &line);
		buf_string(&line, ": a total is \"at least\"");
		text_wrapped(t, "stacks", HEAD, NARROW, buf_text(&line));
		buf_release(&line);
		write_guessed(t, all);
		return;
	}
	head(t, "stacks");
	buf_printf(t->out, "%.1f%% complete", floor_to(100 * (1 - cut), 1));
	if (e->stacks_joined > 0) {
		buf_string(t->out, " (");
		text_short_percent(t->out, (double)e->stacks_joined / all);
		buf_string(t->out, " joined)");
	}
	if (is_cut(e, 0.01))
		buf_string(t->out, ": a total is \"at least\"\n");
	else if (cut > 0)
		buf_printf(t->out, ", so a total is at most %.1f points too low\n", ceil_to(100 * cut, 1));
	else
		buf_byte(t->out, '\n');
	write_guessed(t, all);
}

static void write_profiler(struct text *t)
{
	const struct report_event *e = t->event;
	head(t, "profiler");
	if (e->recorder_cpu_s > 0) {
		buf_string(t->out, "used ");
		if (e->is_brief) {
			buf_printf(t->out, "%.0f ms of CPU time; ", 1e3 * e->recorder_cpu_s);
		} else {
			text_short_percent(t->out, e->recorder_share);
			buf_string(t->out, " of one CPU; ");
		}
		if (e->accounted_s > 0 && e->cpu_seconds > 0 && !e->is_filtered) {
			buf_string(t->out, "by its books it took ");
			text_short_percent(t->out, e->accounted_s / e->cpu_seconds);
			buf_string(t->out, " of the CPU time used\n");
		} else {
			buf_string(t->out, "what it cost the program was not measured\n");
		}
	} else {
		buf_string(t->out, "what it cost was not recorded\n");
	}
}

static void write_notes(struct text *t)
{
	const struct report_event *e = t->event;
	for (size_t i = 0; i < e->caveats.count; i++) {
		const struct report_caveat *c = &e->caveats.data[i];
		switch (c->code) {
		case CAVEAT_RESONANCE:
		case CAVEAT_ALIASING:
			text_wrapped(t, "aliasing", HEAD, NARROW, c->text);
			break;
		case CAVEAT_CUT_OFF:
		case CAVEAT_DROPPED:
		case CAVEAT_THROTTLED:
		case CAVEAT_SIDEBAND_LOST:
		case CAVEAT_SALVAGED:
		case CAVEAT_SHORT_TASKS:
		case CAVEAT_TIED_LOSS:
		case CAVEAT_MASKED:
		case CAVEAT_OTHER:
		case CAVEAT_SHORTENED:
		case CAVEAT_RECORDED:
		case CAVEAT_UNKNOWN_LOSS:
			text_wrapped(t, "note", HEAD, NARROW, c->text);
			break;
		default: // said in its own line
			break;
		}
	}
}

// ---------------------------------------------------------------- what the range is

static bool any_shown(const struct text *t, unsigned flag, bool only_others)
{
	for (size_t i = 0; i < t->shown; i++)
		if (((t->event->rows.data[i].flags & flag) != 0) != only_others)
			return true;
	return false;
}

static void write_workload_range(struct text *t, const char *what)
{
	const struct report_event *e = t->event;
	double conf = t->report->options.confidence;
	bool usual = conf == 0.95;
	char times[40], rows[60] = "for one row";
	const char *of = usual ? "20" : "100";
	snprintf(times, sizeof(times), "%g times", usual ? 19 : 100 * conf);
	if (t->report->options.simultaneous)
		snprintf(rows, sizeof(rows), "for all %zu functions at once", e->function_count);
	if (e->is_lossy) {
		struct buf line = { 0 };
		buf_printf(&line, "where %s %% would be in a long recording of this load, whatever the %s samples were, %s in %s %s", what,
		           text_lost_word(e), times, of, rows);
		text_wrapped(t, "range", HEAD, NARROW, buf_text(&line));
		buf_release(&line);
		return;
	}
	head(t, "range");
	buf_printf(t->out, "where %s %% would be in a long recording of this load, %s\n", what, times);
	head(t, "");
	buf_printf(t->out, "in %s %s", of, rows);
	if (!t->report->options.simultaneous)
		buf_printf(t->out, "; for all rows at once allow %.1f points either way", ceil_to(100 * e->simultaneous_half_width, 1));
	buf_byte(t->out, '\n');
}

static void write_range(struct text *t)
{
	const struct report_event *e = t->event;
	const char *what = t->children ? "total" : "self";
	double seconds = t->report->seconds;
	bool few = any_shown(t, ROW_FEW | ROW_RUN_ONLY, false), firm = any_shown(t, ROW_FEW | ROW_RUN_ONLY, true);
	if (firm) {
		write_workload_range(t, what);
	} else {
		head(t, "range");
		buf_printf(t->out, "%s %% in ", what);
		write_these(t);
		buf_printf(t->out, e->is_lossy ? ", whatever the %s samples were\n" : "\n", text_lost_word(e));
	}
	if (any_shown(t, ROW_FEW, false)) {
		uint64_t visits = text_fewest_visits(t);
		if (firm)
			buf_printf(t->out, "~         too few visits (%llu) to foretell another ", (unsigned long long)visits);
		else
			buf_printf(t->out, "~         phases too long (%llu visit%s) to say how another ", (unsigned long long)visits, visits == 1 ? "" : "s");
		text_seconds(t->out, seconds);
		buf_string(t->out, firm ? ": this run's range\n" : " would look\n");
	} else if (few) {
		buf_string(t->out, e->source->counts_by_weight ? "~         no times: how far another recording may differ cannot be said\n"
		           : "~         run only: fewer than 100 samples\n");
	}
	if (any_shown(t, ROW_TREND, false))
		buf_string(t->out, "^         share drifts during the recording: the true range is wider\n");
	if (any_shown(t, ROW_ALIASING, false))
		buf_string(t->out, "!         aliasing suspected\n");
	if (any_shown(t, ROW_TIED_LOSS, false))
		buf_string(t->out, "*         loss tied to this row: worst case shown\n");
}

// ---------------------------------------------------------------- table

static int decimals_of(double share)
{
	return 100 * share >= 0.995 || share == 0 ? 1 : 2;
}

static void write_total(struct text *t, const struct report_row *row)
{
	char text[32];
	const struct row_measure *m = &row->total;
	if (!t->children && is_cut(t->event, 0.01)) {
		double percent = 100 * m->share;
		if (percent >= 1)
			snprintf(text, sizeof(text), ">=%2.0f", floor_to(percent, 0));
		else
			snprintf(text, sizeof(text), ">=%.*f", percent >= 0.1 ? 1 : 2, floor_to(percent, percent >= 0.1 ? 1 : 2));
	} else {
		const struct row_measure *other = t->children ? &row->self : m;
		snprintf(text, sizeof(text), "%.*f", decimals_of(other->share), 100 * other->share);
	}
	buf_printf(t->out, "  %*s", TOTAL_WIDTH, text);
}

static void write_row(struct text *t, const struct report_row *row, size_t rank_columns, bool marked)
{
	char rank[32], range[64];
	const struct row_measure *m = text_measure(t, row);
	int decimals = decimals_of(m->share);
	text_rank(t, row, rank, sizeof(rank));
	snprintf(range, sizeof(range), "%.*f-%.*f", decimals, floor_to(100 * row->shown.lo, decimals), decimals, ceil_to(100 * row->shown.hi, decimals));
	buf_printf(t->out, "%*s  ", (int)rank_columns, rank);
	if (t->event->verdict == VERDICT_NO_RANKING && t->event->lost_share > 0.10)
		buf_printf(t->out, "%*s", SHARE_WIDTH, "-"); // the kept samples' share would pass for an estimate
	else
		buf_printf(t->out, "%*.*f", SHARE_WIDTH, decimals, 100 * m->share);
	buf_printf(t->out, "  %*s", RANGE_WIDTH, range);
	if (marked)
		buf_printf(t->out, "%-1s", text_mark(row));
	write_total(t, row);
	buf_string(t->out, "  ");
	text_label(t, row, rank_columns + 2 + SHARE_WIDTH + 2 + RANGE_WIDTH + marked + 2 + TOTAL_WIDTH + 2);
	if (row->call_count > 0)
		text_calls(t, row, rank_columns + 4);
}

static void write_other(struct text *t, size_t rank_columns, bool marked)
{
	const struct report_event *e = t->event;
	size_t hidden = e->function_count > t->shown ? e->function_count - t->shown : 0;
	bool chosen = t->report->options.filter.symbols != NULL || t->report->options.filter.dsos != NULL;
	if (hidden == 0 || chosen)
		return;
	double sum = 0;
	for (size_t i = t->shown; i < e->rows.count; i++)
		sum += e->rows.data[i].self.share;
	buf_printf(t->out, "%-*s  ", (int)rank_columns, "other");
	if (t->children)
		buf_printf(t->out, "%*s", SHARE_WIDTH, "");
	else
		buf_printf(t->out, "%*.1f", SHARE_WIDTH, 100 * sum);
	struct buf line = { 0 };
	double largest = text_largest_hidden(t, e->is_lossy);
	text_count(&line, (double)hidden);
	buf_string(&line, hidden == 1 ? " function" : " functions");
	if (e->is_lossy)
		buf_printf(&line, "; any one could be up to %.1f%%", ceil_to(100 * largest, 1));
	else
		buf_printf(&line, "%s %.*f%% or less (--top %zu)", hidden == 1 ? "," : ", each", decimals_of(largest), ceil_to(100 * largest, decimals_of(largest)),
		           t->shown + 10);
	// Below the names; further left where it would not fit.
	size_t at = rank_columns + 2 + SHARE_WIDTH, wanted = at + 2 + RANGE_WIDTH + marked + 2 + TOTAL_WIDTH + 2;
	size_t room = t->width > line.size ? t->width - line.size : 0;
	text_pad(t->out, at, wanted <= room ? wanted : room > at + 2 ? room : at + 2);
	buf_add(t->out, line.data, line.size);
	buf_byte(t->out, '\n');
	buf_release(&line);
}

static void write_table(struct text *t)
{
	bool marked = any_shown(t, ROW_FEW | ROW_TREND | ROW_ALIASING | ROW_TIED_LOSS, false);
	size_t rank_columns = text_rank_width(t);
	buf_printf(t->out, "\n%*s  %*s  %*s%s  %*s  ", (int)rank_columns, "rank", SHARE_WIDTH, t->children ? "total%" : "self %", RANGE_WIDTH, "range",
	           marked ? " " : "", TOTAL_WIDTH, t->children ? "self %" : "total %");
	text_label_header(t);
	for (size_t i = 0; i < t->shown; i++)
		write_row(t, &t->event->rows.data[i], rank_columns, marked);
	write_other(t, rank_columns, marked);
}

// ---------------------------------------------------------------- what to do next

// The first neighbours whose ranks overlap, and how much longer a recording would tell them apart at the rank test's level.
static bool write_longer(struct text *t)
{
	const struct report_event *e = t->event;
	for (size_t i = 0; i + 1 < t->shown && i + 1 < e->function_count; i++) {
		const struct report_row *a = &e->rows.data[i], *b = a + 1;
		if (a->rank_hi < b->rank_lo)
			continue;
		const struct row_measure *x = text_measure(t, a), *y = text_measure(t, b);
		double level = 1 - (1 - t->report->options.confidence) / fmax(1, (double)e->function_count - 1);
		double factor = x->share > y->share ? samples_to_separate(x->share, y->share, level, 0.8) * fmax(x->deff, y->deff) / e->n : INFINITY;
		if (factor < 1)
			continue;
		double times = fmax(2, ceil(factor)), seconds = times * t->report->seconds;
		buf_printf(t->out, "to tell %zu from %zu: ", i + 1, i + 2);
		if (seconds > 86400) {
			buf_string(t->out, "not even a day's recording is enough.");
		} else {
			buf_printf(t->out, "record %.0f times longer (", times);
			text_time(t->out, seconds);
			buf_string(t->out, ").");
		}
		return true;
	}
	return false;
}

static void write_next_of_care(struct text *t)
{
	const struct report_event *e = t->event;
	struct buf line = { 0 };
	double seconds = t->report->seconds;
	if (e->lost_share >= t->report->options.max_loss && e->loss_to_s > e->loss_from_s) {
		if (e->loss_from_s >= seconds - e->loss_to_s)
			buf_printf(&line, "without the gap: report --time +0,+%.0f. ", e->loss_from_s);
		else
			buf_printf(&line, "without the gap: report --time +%.0f,+%.0f. ", e->loss_to_s, ceil(seconds));
	}
	bool loses = e->lost_share >= t->report->options.max_loss && e->lost > 0;
	uint64_t visits = text_fewest_visits(t);
	bool few = visits != UINT64_MAX && seconds > 0;
	if (few) {
		double factor = fmin(1000, fmax(2, ceil(20 / fmax(1, (double)visits))));
		buf_string(&line, line.size > 0 ? "Better: record " : "record ");
		text_time(&line, factor * seconds);
		buf_string(&line, " or more");
		if (strcmp(profile_text(t->report->profile, t->report->profile->meta.target_kind), "command") == 0)
			buf_string(&line, ", or a command that ends sooner several times: record --repeat 5");
	}
	if (loses)
		buf_string(&line, few ? ", as root (real-time priority loses less). " : "Record as root (real-time priority loses less). ");
	else if (few)
		buf_string(&line, ". ");
	uint32_t copy = t->report->profile->meta.stack_bytes;
	bool is_deep = is_cut(e, 0.05) && 2 * e->ends[UNWIND_TRUNCATED] >= e->stacks_truncated + e->stacks_failed;
	bool is_limit = is_cut(e, 0.05) && 2 * e->ends[UNWIND_DEPTH_LIMIT] >= e->stacks_truncated + e->stacks_failed;
	bool is_other = is_cut(e, 0.05) && 2 * e->ends[UNWIND_OTHER_STACK] >= e->stacks_truncated + e->stacks_failed;
	if (is_deep && (copy == 0 || copy >= 60000))
		buf_string(&line, "64 KB is the kernel's limit. ");
	else if (is_deep)
		buf_string(&line, "Larger stack copies: --call-graph dwarf,65528. ");
	else if (is_limit && copy == 0)
		buf_string(&line, "Longer call chains: sysctl kernel.perf_event_max_stack. ");
	else if (is_other)
		buf_string(&line, "Where a runtime changes stacks (Go), the other one is read while the program stands still: record live, as root. Frame pointers lead on, too, where "
		                  "no C code is in between: --call-graph fp. ");
	if (e->unresolved_share > 0.05)
		buf_string(&line, "What has no name, and why: report --missing. ");
	if (line.size == 0) {
		buf_release(&line);
		return;
	}
	line.size--; // the last blank
	text_wrapped(t, "next", HEAD, NARROW, buf_text(&line));
	buf_release(&line);
}

static void write_next(struct text *t)
{
	const struct report_event *e = t->event;
	if (e->verdict != VERDICT_SOUND) {
		write_next_of_care(t);
		return;
	}
	bool longer = !t->children && t->shown > 1 && write_longer(t);
	if (t->report->options.calls == CALLS_NONE && t->shown > 0)
		buf_printf(t->out, "%sCallers: -g caller\n", longer ? " " : "");
	else if (longer)
		buf_byte(t->out, '\n');
}

void text_narrow(struct text *t)
{
	write_target(t);
	if (!t->event->source->is_sampling) {
		head(t, "event");
		text_name(t->out, t->event->name, 40);
		buf_printf(t->out, ": counts only, %llu\n", (unsigned long long)t->event->source->value);
		return;
	}
	write_verdict(t);
	write_cpu(t);
	write_samples(t);
	write_stacks(t);
	write_profiler(t);
	write_notes(t);
	if (t->shown == 0)
		return;
	text_nameless(t, "names", HEAD, NARROW);
	write_range(t);
	write_table(t);
	write_next(t);
}
