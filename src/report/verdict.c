// Caveats and the verdict (perfsample-report(1), VERDICT).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/build.h"
#include "report/resonance.h"

static const double NO_RANKING_LOSS = 0.10, SILENT_CARE = 0.01, CUT_CARE = 0.05, CUT_SAID = 0.01, UNRESOLVED_CARE = 0.05;
static const double MULTIPLEXED_CARE = 0.9, MULTIPLEXED_REFUSED = 0.25, LOSS_SAID = 0.001, MASKED_SAID = 0.05;
enum { FIRST_ROWS = 5, MIN_SAMPLES = 100 };

const char *caveat_name(enum caveat_code code)
{
	static const char *const names[] = { "lost", "silent", "truncated", "unresolved", "multiplexed", "few_samples", "throttled", "cut_off",
		"resonance", "dropped", "sideband_lost", "salvaged", "few_visits", "trend", "short_tasks", "other", "tied_loss", "unknown_loss", "masked", "aliasing" };
	return (size_t)code < sizeof(names) / sizeof(names[0]) ? names[code] : "other";
}

const char *verdict_name(enum verdict verdict)
{
	return verdict == VERDICT_SOUND ? "sound" : verdict == VERDICT_CARE ? "care" : "no_ranking";
}

const char *verdict_word(enum verdict verdict)
{
	return verdict == VERDICT_SOUND ? "sound" : verdict == VERDICT_CARE ? "CARE" : "NO RANKING";
}

static void write_verdict(const struct report_event *e, unsigned codes, struct buf *out)
{
	const char *separator = ": ";
	buf_string(out, verdict_word(e->verdict));
	for (size_t i = 0; i < e->caveats.count; i++) {
		const struct report_caveat *c = &e->caveats.data[i];
		if ((codes & 1u << c->code) == 0 || (!c->is_care && e->verdict == VERDICT_CARE))
			continue;
		bool repeats = strncmp(c->text, "no ranking: ", 12) == 0; // the verdict's word stands there
		buf_printf(out, "%s%s", separator, repeats ? c->text + 12 : c->text);
		separator = "; ";
	}
}

void report_verdict(const struct report_event *event, struct buf *out)
{
	if (event->verdict != VERDICT_SOUND)
		write_verdict(event, ~0u, out);
}

void report_verdict_of_samples(const struct report_event *event, struct buf *out)
{
	static const unsigned own = 1u << CAVEAT_LOST | 1u << CAVEAT_SILENT | 1u << CAVEAT_DROPPED | 1u << CAVEAT_TRUNCATED
		| 1u << CAVEAT_MULTIPLEXED;
	bool has_any = false;
	for (size_t i = 0; i < event->caveats.count; i++)
		has_any |= event->caveats.data[i].is_care && (own & 1u << event->caveats.data[i].code) != 0;
	if (has_any)
		write_verdict(event, own | 1u << CAVEAT_FEW_SAMPLES | 1u << CAVEAT_THROTTLED, out);
}

static void add(struct build *b, enum caveat_code code, double value, enum verdict at_least, const char *text)
{
	vec_push(&b->event->caveats, (struct report_caveat){ code, text, value, at_least != VERDICT_SOUND });
	if (at_least > b->event->verdict)
		b->event->verdict = at_least;
}
#define ADD(b, code, value, at_least, ...) add(b, code, value, at_least, report_printf((b)->report, __VA_ARGS__))

// Two digits where that is below one per cent, one decimal above.
static const char *percent(struct build *b, double share)
{
	return report_printf(b->report, fabs(share) >= 0.00995 ? "%.1f%%" : "%.2g%%", 100 * share);
}

// A clock's timer fires after a whole period: a target that ran for less has no sample, and lacks none.
static bool ran_below_one_period(const struct report_event *e)
{
	const struct profile_event *source = e->source;
	return e->can_expect && source->is_clock && !source->counts_cpus && !e->is_filtered && e->taken + e->idle + e->others + e->lost + e->dropped == 0 &&
		source->time_running_ns > 0 && source->time_running_ns < source->period;
}

// Recordings of events with attr.inherit_stat (perfsample 0.1.0 per task, perf record -s).
static void judge_reads(struct build *b)
{
	const struct report_event *e = b->event;
	if (!e->source->lost_counts_reads || !(e->lost > 0))
		return;
	double most = e->expected - (e->taken + e->idle + e->others + e->dropped);
	if (e->can_expect && most < e->lost)
		ADD(b, CAVEAT_OTHER, e->lost, VERDICT_SOUND, "lost counts records that the kernel writes when a task ends, too (attr.inherit_stat): at most %.0f of the %.0f were samples",
		    fmax(most, 0), e->lost);
	else
		ADD(b, CAVEAT_OTHER, e->lost, VERDICT_SOUND, "lost counts records that the kernel writes when a task ends, too (attr.inherit_stat): how many of the %.0f were samples is not known",
		    e->lost);
}

static void judge_loss(struct build *b)
{
	const struct report_event *e = b->event;
	double lost = e->lost_share;
	if (lost > NO_RANKING_LOSS)
		ADD(b, CAVEAT_LOST, lost, VERDICT_NO_RANKING, "no ranking: loss %s", percent(b, lost));
	else if (lost >= LOSS_SAID || (lost > 0 && lost >= b->options->max_loss))
		ADD(b, CAVEAT_LOST, lost, lost >= b->options->max_loss ? VERDICT_CARE : VERDICT_SOUND, "lost %.0f samples (%s)", e->lost, percent(b, lost));
	judge_reads(b);
	if (e->can_expect && e->expected > 0 && fabs(e->silent) >= SILENT_CARE * e->expected)
		ADD(b, CAVEAT_SILENT, e->silent / e->expected, VERDICT_CARE, e->silent > e->begun ? "%.0f samples were due and never came (%s)"
		    : e->silent > 0 ? "%.0f samples never came (%s): their periods were begun and not over at the end, at most one for each CPU" : "%.0f samples more than were due (%s)", fabs(e->silent), percent(b, fabs(e->silent) / e->expected));
	if (e->whole_silent > 0 && e->whole_silent >= SILENT_CARE * e->whole_expected)
		ADD(b, CAVEAT_SILENT, e->whole_silent / e->whole_expected, VERDICT_CARE,
		    "%.0f samples of the whole recording were due and never came (%s): how many of this part is not known", e->whole_silent,
		    percent(b, e->whole_silent / e->whole_expected));
	// The kernel's timer of a task starts with one whole period: what ends before it was never sampled. And the event's clock runs from before the
	// timer is armed at a switch to the task until after it is stopped at the next (kernel/events/core.c, perf_swevent_start_hrtimer): measured
	// 0.43 to 0.62 us a switch.
	bool per_task = strcmp(profile_text(b->profile, b->profile->meta.scope), "events per task and CPU") == 0;
	if (per_task && e->can_expect && e->source->period > 0 && e->silent >= SILENT_CARE * e->expected && e->expected > 0)
		ADD(b, CAVEAT_SHORT_TASKS, e->silent / e->expected, VERDICT_SOUND,
		    "with per-task events each task starts with %.3g ms unsampled, and each switch to a task leaves some 0.5 us",
		    (double)e->source->period / 1e6);
	double dropped = e->dropped > 0 ? e->dropped / (e->dropped + e->taken) : 0;
	if (dropped > 0)
		ADD(b, CAVEAT_DROPPED, dropped, dropped > NO_RANKING_LOSS ? VERDICT_NO_RANKING : dropped >= b->options->max_loss ? VERDICT_CARE
		    : VERDICT_SOUND, "the recorder dropped %.0f samples (%s)", e->dropped, percent(b, dropped));
	if (e->throttled_s > 0)
		ADD(b, CAVEAT_THROTTLED, e->throttled_s, VERDICT_SOUND, "the kernel throttled sampling for %.2g s", e->throttled_s);
	if (e->source->sideband_lost > 0)
		ADD(b, CAVEAT_SIDEBAND_LOST, (double)e->source->sideband_lost, VERDICT_SOUND,
		    "%llu records of mappings and tasks were lost: some names may be wrong", (unsigned long long)e->source->sideband_lost);
}

static void judge_samples(struct build *b)
{
	const struct report_event *e = b->event;
	double stacks = (double)(e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed);
	double cut = stacks > 0 ? (double)(e->stacks_truncated + e->stacks_failed) / stacks : 0;
	if (cut >= CUT_SAID)
		ADD(b, CAVEAT_TRUNCATED, cut, cut >= CUT_CARE ? VERDICT_CARE : VERDICT_SOUND, "%s of the stacks do not reach a root",
		    percent(b, cut));
	if (e->unresolved_share > UNRESOLVED_CARE)
		ADD(b, CAVEAT_UNRESOLVED, e->unresolved_share, VERDICT_CARE, "%s of the samples have no name",
		    percent(b, e->unresolved_share));
	if (e->multiplexed < MULTIPLEXED_CARE)
		ADD(b, CAVEAT_MULTIPLEXED, e->multiplexed, e->multiplexed < MULTIPLEXED_REFUSED ? VERDICT_NO_RANKING : VERDICT_CARE,
		    "shares from %s of the time", percent(b, e->multiplexed));
	if (e->blocks_off > 0)
		ADD(b, CAVEAT_MULTIPLEXED, (double)e->blocks_off, VERDICT_SOUND, "the event never ran in %zu of 20 parts of the recording: they are left out",
		    e->blocks_off);
	if (ran_below_one_period(e))
		ADD(b, CAVEAT_FEW_SAMPLES, 0, VERDICT_NO_RANKING, "it ran for %.3g ms of CPU time, less than one period of %.3g ms: nothing could be sampled",
		    (double)e->source->time_running_ns / 1e6, (double)e->source->period / 1e6);
	else if (e->n < MIN_SAMPLES)
		ADD(b, CAVEAT_FEW_SAMPLES, e->n, VERDICT_NO_RANKING, e->n == 0 ? "no samples" : e->n == 1 ? "%.0f sample" : "%.0f samples",
		    e->n);
}

// The largest by self, whatever order the rows are shown in: main holds everything and is never left.
static size_t first_rows(const struct report_event *e, const struct row_measure *first[FIRST_ROWS])
{
	size_t count = 0;
	for (size_t i = 0; i < e->rows.count; i++) {
		const struct row_measure *m = &e->rows.data[i].self;
		if (!(m->samples > 0) || (count == FIRST_ROWS && m->samples <= first[FIRST_ROWS - 1]->samples))
			continue;
		size_t at = count < FIRST_ROWS ? count++ : FIRST_ROWS - 1;
		for (; at > 0 && first[at - 1] != NULL && first[at - 1]->samples < m->samples; at--)
			first[at] = first[at - 1];
		first[at] = m;
	}
	return count;
}

// Named is the row that lossy windows have most surely more of: it runs when samples are lost. The others' shares are wrong because of it.
static void judge_ties(struct build *b, enum verdict at_least)
{
	const struct report_row *named = NULL;
	for (size_t i = 0; i < b->event->rows.count; i++) {
		const struct report_row *row = &b->event->rows.data[i];
		if ((row->flags & ROW_TIED_LOSS) == 0)
			continue;
		double z = b->options->children ? row->total.tied_z : row->self.tied_z;
		if (named == NULL || z > (b->options->children ? named->total.tied_z : named->self.tied_z))
			named = row;
	}
	if (named == NULL)
		return;
	const char *name = named->keys[KEY_SYMBOL] != NULL ? named->keys[KEY_SYMBOL] : "a row";
	b->event->tied_to = name;
	b->event->tied_q = b->options->children ? named->total.tied_q : named->self.tied_q;
	ADD(b, CAVEAT_TIED_LOSS, b->event->tied_q, at_least, "loss is tied to %s: naive share biased, use worst case", name);
}

// A timer's interrupt waits while interrupts are off and then samples whoever switches them on: what ran before is charged to these (and inlined copies of
// local_irq_enable() cannot be told by name).
static bool switches_interrupts_on(const char *function)
{
	static const char *const names[] = { "_raw_spin_unlock_irq", "_raw_write_unlock_irq", "_raw_read_unlock_irq", "finish_task_switch", "irqentry_exit",
		"exit_to_user_mode", "syscall_exit_to_user_mode", "handle_softirqs", "__do_softirq" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strncmp(function, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

static void judge_masked(struct build *b)
{
	const char *largest = NULL;
	double share = 0, most = 0;
	for (size_t i = 0; b->event->source->is_clock && i < b->event->rows.count; i++) {
		const struct report_row *row = &b->event->rows.data[i];
		const char *name = row->keys[KEY_SYMBOL];
		if (!row->is_kernel || name == NULL || !switches_interrupts_on(name))
			continue;
		share += row->self.share;
		if (row->self.share > most) {
			most = row->self.share;
			largest = name;
		}
	}
	if (share >= MASKED_SAID)
		ADD(b, CAVEAT_MASKED, share, VERDICT_SOUND, "%s of the samples are where the kernel switches interrupts on again (%s and the like): a timer charges "
		    "them with what ran before, while they were off", percent(b, share), largest);
}

static void judge_rows(struct build *b)
{
	const struct row_measure *first[FIRST_ROWS] = { NULL };
	size_t count = first_rows(b->event, first);
	unsigned flags = 0;
	uint64_t visits = UINT64_MAX;
	for (size_t i = 0; i < count && first[i] != NULL; i++) {
		flags |= first[i]->flags;
		if ((first[i]->flags & ROW_FEW) == 0)
			continue;
		uint64_t fewer = first[i]->visits < first[i]->visits_outside ? first[i]->visits : first[i]->visits_outside;
		visits = fewer < visits ? fewer : visits;
	}
	if ((flags & ROW_FEW) != 0)
		ADD(b, CAVEAT_FEW_VISITS, (double)visits, VERDICT_CARE, "too few visits (%llu)", (unsigned long long)visits);
	if ((flags & ROW_TREND) != 0)
		ADD(b, CAVEAT_TREND, 0, VERDICT_CARE, "share drifts during the recording: its true range is wider");
	const struct report_aliasing *a = &b->event->aliasing;
	if (a->is_suspected)
		ADD(b, CAVEAT_RESONANCE, a->p, VERDICT_CARE, "aliasing suspected: two combs of %.0f and %.0f samples differ (chi2 p = %.1g)", a->samples[0],
		    a->samples[1], a->p);
	const struct report_lockstep *l = &b->event->lockstep;
	if (l->is_suspected)
		ADD(b, CAVEAT_ALIASING, l->p, VERDICT_CARE, "aliasing suspected: where the sampling clock was started anew other functions are seen (%.0f%% other, elsewhere %.0f%%; "
		    "%zu times), so a loop keeps step with the period: record --two-combs", 100 * l->at_restarts, 100 * fmax(l->elsewhere, 0), l->restarts);
	judge_ties(b, (flags & ROW_TIED_LOSS) != 0 ? VERDICT_CARE : VERDICT_SOUND);
}

static void judge_recording(struct build *b)
{
	const struct report_event *e = b->event;
	const struct profile_meta *meta = &b->profile->meta;
	bool is_first = b->report->events.count == 1; // what holds for the whole recording is said once
	if (is_first && meta->cut_off)
		ADD(b, CAVEAT_CUT_OFF, 1, VERDICT_SOUND, "recording was cut off");
	if (e->source->uncounted > 0)
		ADD(b, CAVEAT_CUT_OFF, (double)e->source->uncounted, VERDICT_SOUND, "%llu sample%s came after the last counters: how many are missing beside them is not known",
		    (unsigned long long)e->source->uncounted, e->source->uncounted == 1 ? "" : "s");
	double loop_ms;
	if (e->source->is_clock && e->source->period > 0 && e->source->comb_periods[0] == 0 && resonance_is_bad((double)e->source->period / 1e6, &loop_ms))
		ADD(b, CAVEAT_RESONANCE, (double)e->source->period, VERDICT_SOUND, "period near a simple multiple of %.3g ms: locked loops are mis-measured", loop_ms);
	for (size_t i = 0; i < meta->caveats.count; i++) {
		const char *text = profile_text(b->profile, meta->caveats.data[i]);
		if (meta->caveats.data[i] == meta->unknown_loss) // of every event: none of them can be called sound
			ADD(b, CAVEAT_UNKNOWN_LOSS, 1, e->source->is_sampling ? VERDICT_CARE : VERDICT_SOUND, "%s", text);
		else if (is_first && strcmp(text, "recording was cut off") != 0)
			ADD(b, strstr(text, "salvage") != NULL ? CAVEAT_SALVAGED : CAVEAT_OTHER, 1, VERDICT_SOUND, "%s", text);
	}
}

void judge_event(struct build *b)
{
	b->event->verdict = VERDICT_SOUND;
	if (b->event->source->is_sampling) {
		judge_loss(b);
		judge_samples(b);
		judge_rows(b);
		judge_masked(b);
	}
	judge_recording(b);
}
