// Caveats and the verdict (perfsample-report(1), VERDICT).
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "judge/judge.h"
#include "report/build.h"
#include "report/resonance.h"

static const double UNRESOLVED_CARE = 0.05, MASKED_SAID = 0.05;
enum { FIRST_ROWS = 5 };

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
		| 1u << CAVEAT_FAILED | 1u << CAVEAT_MULTIPLEXED | 1u << CAVEAT_RECORDED;
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

struct evidence report_evidence(const struct report *report, const struct report_event *e)
{
	const struct profile_event *source = e->source;
	bool is_clock = source->is_clock && source->period > 0, is_first = source == &report->profile->events.data[0]; // the one that the recorder spoke of
	return (struct evidence){
		.taken = e->taken, .lost = e->lost, .dropped = e->dropped, .is_loss_known = e->is_loss_known, .can_expect = e->can_expect, .expected = e->expected,
		.silent = e->silent, .begun = e->begun, .whole_expected = e->whole_expected, .whole_silent = e->whole_silent, .throttled_s = e->throttled_s,
		.throttled = is_clock ? e->throttled_s * 1e9 / (double)source->period : 0, .n = e->n, .is_below_period = ran_below_one_period(e),
		.ran_ns = (double)source->time_running_ns, .period_ns = is_clock ? (double)source->period : 0,
		.is_by_task = strcmp(profile_text(report->profile, report->profile->meta.scope), "events per task and CPU") == 0,
		.silent_reason = report->profile->meta.told_silence && is_first ? profile_text(report->profile, report->profile->meta.silent_reason) : NULL, .multiplexed = e->multiplexed,
		.complete = e->stacks_complete, .joined = e->stacks_joined, .truncated = e->stacks_truncated, .failed = e->stacks_failed, .ends = e->ends,
		.stack_bytes = report->profile->meta.stack_bytes, .shortened = e->shortened, .sideband_lost = (double)source->sideband_lost,
		.max_loss = report->options.max_loss,
	};
}

static void found(void *context, enum caveat_code code, double value, enum verdict verdict, const char *text)
{
	ADD((struct build *)context, code, value, verdict, "%s", text);
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

static void judge_names(struct build *b)
{
	const struct report_event *e = b->event;
	if (e->unresolved_share > UNRESOLVED_CARE)
		ADD(b, CAVEAT_UNRESOLVED, e->unresolved_share, VERDICT_CARE, "%s of the samples have no name",
		    percent(b, e->unresolved_share));
	if (e->blocks_off > 0)
		ADD(b, CAVEAT_MULTIPLEXED, (double)e->blocks_off, VERDICT_SOUND, "the event never ran in %zu of 20 parts of the recording: they are left out",
		    e->blocks_off);
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
	for (size_t i = 0; i < meta->careful.count; i++) // of every event
		ADD(b, CAVEAT_RECORDED, 1, e->source->is_sampling ? VERDICT_CARE : VERDICT_SOUND, "%s", profile_text(b->profile, meta->careful.data[i]));
	for (size_t i = 0; is_first && i < meta->bearing.count; i++)
		ADD(b, CAVEAT_RECORDED, 1, VERDICT_SOUND, "%s", profile_text(b->profile, meta->bearing.data[i]));
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
		struct evidence evidence = report_evidence(b->report, b->event);
		(void)judge_samples(&evidence, found, b);
		judge_reads(b);
		judge_names(b);
		judge_rows(b);
		judge_masked(b);
	}
	judge_recording(b);
}
