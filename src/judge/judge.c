#include "judge/judge.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const double NO_RANKING_LOSS = 0.10, LOSS_SAID = 0.001, SILENT_SAID = 0.01, CUT_CARE = 0.05, CUT_SAID = 0.01;
static const double MULTIPLEXED_CARE = 0.9, MULTIPLEXED_REFUSED = 0.25;

const char *caveat_name(enum caveat_code code)
{
	static const char *const names[] = { "lost", "silent", "truncated", "unresolved", "multiplexed", "few_samples", "throttled", "cut_off",
		"resonance", "dropped", "sideband_lost", "salvaged", "few_visits", "trend", "short_tasks", "other", "tied_loss", "unknown_loss", "masked", "aliasing",
		"failed", "shortened", "recorded" };
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

enum stack_class stack_class_of(uint8_t end, uint8_t splice)
{
	switch (end) {
	case UNWIND_ROOT:
	case UNWIND_ROOT_GUESSED:
		return splice != 0 ? STACK_JOINED : STACK_COMPLETE; // exact or checked
	case UNWIND_NOT_USER:
		return STACK_COMPLETE;
	case UNWIND_TRUNCATED:
	case UNWIND_DEPTH_LIMIT:
	case UNWIND_ABSENT_PAGE:
		return STACK_TRUNCATED;
	default:
		return STACK_FAILED;
	}
}

// ---------------------------------------------------------------- words

const char *judge_percent(double share, char text[JUDGE_TEXT_BYTES])
{
	snprintf(text, JUDGE_TEXT_BYTES, fabs(share) >= 0.00995 ? "%.1f%%" : fabs(share) >= 0.0000995 ? "%.2f%%" : "%.2g%%", 100 * share);
	return text;
}

const char *judge_whole_percent(double share, char text[JUDGE_TEXT_BYTES])
{
	snprintf(text, JUDGE_TEXT_BYTES, "%.1f%%", floor(1000 * share + 1e-9) / 10);
	return text;
}

const char *judge_count(double count, char text[JUDGE_TEXT_BYTES])
{
	char digits[JUDGE_TEXT_BYTES];
	int length = snprintf(digits, sizeof(digits), "%.0f", fmin(fabs(count), 1e18)), used = 0;
	for (int i = 0; i < length && used < JUDGE_TEXT_BYTES - 2; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	text[used] = '\0';
	return text;
}

// ---------------------------------------------------------------- what is missing

double judge_missing(const struct evidence *e)
{
	double hidden = e->dropped + e->throttled;
	if (e->can_expect && e->silent > hidden)
		hidden = e->silent;
	return e->lost + hidden;
}

static double share_of(double part, double rest)
{
	return part > 0 ? part / (part + rest) : 0;
}

// Lost and dropped of what was taken; with silence, where that is measured, of all that was due.
double judge_missing_share(const struct evidence *e)
{
	double counted = share_of(e->lost + e->dropped, e->taken);
	if (!e->can_expect || !(e->expected > 0))
		return counted;
	double hidden = fmax(e->dropped, e->silent - e->begun);
	return fmax(counted, (e->lost + fmax(0, hidden)) / e->expected);
}

// ---------------------------------------------------------------- findings

struct judging {
	const struct evidence *e;
	judge_found_fn *found;
	void *context;
	enum verdict verdict;
};

__attribute__((format(printf, 5, 6))) static void find(struct judging *j, enum caveat_code code, double value, enum verdict verdict, const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (verdict > j->verdict)
		j->verdict = verdict;
	if (j->found != NULL)
		j->found(j->context, code, value, verdict, text);
}

static enum verdict care_if(bool care)
{
	return care ? VERDICT_CARE : VERDICT_SOUND;
}

// Whether a part of what is missing makes CARE: by itself, or, where none does, as a part worth saying of a sum that does.
static bool is_care(const struct evidence *e, double share)
{
	double silent = e->can_expect && e->expected > 0 ? (e->silent - e->begun) / e->expected : 0;
	double largest = fmax(silent, fmax(share_of(e->lost, e->taken), share_of(e->dropped, e->taken)));
	return share > 0 && (share >= e->max_loss || (share >= LOSS_SAID && largest < e->max_loss && judge_missing_share(e) >= e->max_loss));
}

static void judge_lost(struct judging *j)
{
	const struct evidence *e = j->e;
	char count[JUDGE_TEXT_BYTES], percent[JUDGE_TEXT_BYTES];
	double lost = share_of(e->lost, e->taken), dropped = share_of(e->dropped, e->taken);
	bool is_refused = share_of(e->lost + e->dropped, e->taken) > NO_RANKING_LOSS;
	if (is_refused && e->lost > 0)
		find(j, CAVEAT_LOST, lost, VERDICT_NO_RANKING, "no ranking: loss %s", judge_percent(lost, percent));
	else if (lost >= LOSS_SAID || is_care(e, lost))
		find(j, CAVEAT_LOST, lost, care_if(is_care(e, lost)), "lost %s sample%s (%s)", judge_count(e->lost, count), plural(e->lost), judge_percent(lost, percent));
	if (e->dropped > 0)
		find(j, CAVEAT_DROPPED, dropped, is_refused ? VERDICT_NO_RANKING : care_if(is_care(e, dropped)), "the recorder dropped %s sample%s (%s)",
		     judge_count(e->dropped, count), plural(e->dropped), judge_percent(dropped, percent));
}

static void judge_silent(struct judging *j)
{
	const struct evidence *e = j->e;
	char count[JUDGE_TEXT_BYTES], percent[JUDGE_TEXT_BYTES];
	bool is_known = e->can_expect && e->expected > 0 && !e->is_below_period; // before a whole period no tick is due, though expected may round to 1
	double share = is_known ? e->silent / e->expected : 0;
	double beyond = is_known ? (e->silent - e->begun) / e->expected : 0;
	bool care = is_care(e, beyond);
	if (share <= -SILENT_SAID)
		find(j, CAVEAT_SILENT, share, VERDICT_CARE, "%s sample%s more than were due (%s)", judge_count(e->silent, count), plural(-e->silent), judge_percent(-share, percent));
	else if (care || (share >= SILENT_SAID && beyond > 0))
		find(j, CAVEAT_SILENT, share, care_if(care), "%s sample%s due and never came (%s)%s%s", judge_count(e->silent, count), e->silent == 1 ? " was" : "s were",
		     judge_percent(share, percent), e->silent_reason == NULL ? "" : e->silent_reason[0] != '\0' ? ": " : ", for a reason that is not known",
		     e->silent_reason != NULL ? e->silent_reason : "");
	else if (share >= SILENT_SAID)
		find(j, CAVEAT_SILENT, share, VERDICT_SOUND, "%s sample%s never came (%s): their periods were begun and not over at the end, at most one for each CPU",
		     judge_count(e->silent, count), plural(e->silent), judge_percent(share, percent));
	double whole = e->whole_silent > 0 ? e->whole_silent / e->whole_expected : 0;
	if (whole >= SILENT_SAID || (whole > 0 && whole >= e->max_loss))
		find(j, CAVEAT_SILENT, whole, care_if(whole >= e->max_loss), "%s sample%s of the whole recording %s due and never came (%s): how many of this part is not known",
		     judge_count(e->whole_silent, count), plural(e->whole_silent), e->whole_silent == 1 ? "was" : "were", judge_percent(whole, percent));
	// The kernel's timer of a task starts with one whole period: what ends before it was never sampled. And the event's clock runs from before the
	// timer is armed at a switch to the task until after it is stopped at the next (kernel/events/core.c, perf_swevent_start_hrtimer): measured
	// 0.43 to 0.62 us a switch.
	if (e->is_by_task && e->silent_reason == NULL && e->period_ns > 0 && share >= SILENT_SAID)
		find(j, CAVEAT_SHORT_TASKS, share, VERDICT_SOUND, "with per-task events each new task starts with one whole period, unsampled (%.3g ms), and each switch to a task "
		     "leaves some 0.5 us", e->period_ns / 1e6);
}

static void judge_counter(struct judging *j)
{
	const struct evidence *e = j->e;
	char count[JUDGE_TEXT_BYTES], percent[JUDGE_TEXT_BYTES];
	if (e->throttled_s > 0)
		find(j, CAVEAT_THROTTLED, e->throttled_s, VERDICT_SOUND, "the kernel throttled sampling for %.2g s", e->throttled_s);
	if (e->sideband_lost > 0)
		find(j, CAVEAT_SIDEBAND_LOST, e->sideband_lost, VERDICT_SOUND, "%s record%s of mappings and tasks %s lost: some names may be wrong",
		     judge_count(e->sideband_lost, count), plural(e->sideband_lost), e->sideband_lost == 1 ? "was" : "were");
	if (e->shortened > 0)
		find(j, CAVEAT_SHORTENED, e->shortened, VERDICT_SOUND, "%s stack cop%s shortened: images were slow to open", judge_count(e->shortened, count),
		     e->shortened == 1 ? "y was" : "ies were");
	if (e->multiplexed < MULTIPLEXED_CARE)
		find(j, CAVEAT_MULTIPLEXED, e->multiplexed, e->multiplexed < MULTIPLEXED_REFUSED ? VERDICT_NO_RANKING : VERDICT_CARE, "shares from %s of the time",
		     judge_percent(e->multiplexed, percent));
}

static uint64_t ends_of(const struct evidence *e, enum unwind_end end)
{
	return e->ends != NULL ? e->ends[end] : 0;
}

// In the words that `ends` allow: each reason by itself.
static void judge_truncated(struct judging *j, double all, enum verdict verdict)
{
	const struct evidence *e = j->e;
	char percent[JUDGE_TEXT_BYTES], deep[64] = "deeper than the copy";
	uint64_t absent = ends_of(e, UNWIND_ABSENT_PAGE), limit = ends_of(e, UNWIND_DEPTH_LIMIT), other = absent + limit < e->truncated ? e->truncated - absent - limit : 0;
	if (e->stack_bytes >= 1024)
		snprintf(deep, sizeof(deep), "deeper than the %.0f KB a sample holds", round(e->stack_bytes / 1024.0));
	const struct { uint64_t count; const char *how, *why; } parts[] = {
		{ other, "truncated", deep }, { absent, "cut", "a page of the stack was not in memory" },
		{ limit, "cut", e->stack_bytes > 0 ? "more frames than a record holds" : "more frames than kernel.perf_event_max_stack" },
	};
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		double share = all > 0 ? (double)parts[i].count / all : 0;
		if (share >= LOSS_SAID)
			find(j, CAVEAT_TRUNCATED, share, verdict, "%s of the stacks are %s: %s", judge_percent(share, percent), parts[i].how, parts[i].why);
	}
}

static void judge_stacks(struct judging *j)
{
	const struct evidence *e = j->e;
	char percent[JUDGE_TEXT_BYTES];
	double all = (double)(e->complete + e->joined + e->truncated + e->failed), other = all > 0 ? (double)ends_of(e, UNWIND_OTHER_STACK) / all : 0;
	double probed = all > 0 ? (double)ends_of(e, UNWIND_UPROBE_TRAMPOLINE) / all : 0, failed = all > 0 ? (double)e->failed / all - other - probed : 0;
	double bad = all > 0 ? (double)(e->truncated + e->failed) / all : 0;
	if (bad < CUT_SAID)
		return;
	enum verdict verdict = care_if(bad >= CUT_CARE);
	judge_truncated(j, all, verdict);
	if (failed >= LOSS_SAID)
		find(j, CAVEAT_FAILED, failed, verdict, "%s of the stacks could not be unwound to a root", judge_percent(failed, percent));
	if (probed >= LOSS_SAID)
		find(j, CAVEAT_FAILED, probed, verdict, "%s of the stacks end where a return probe has replaced the return address", judge_percent(probed, percent));
	if (other >= LOSS_SAID)
		find(j, CAVEAT_FAILED, other, verdict, "%s of the stacks go on on another stack of their thread (Go), which was not read", judge_percent(other, percent));
}

static void judge_number(struct judging *j)
{
	const struct evidence *e = j->e;
	char count[JUDGE_TEXT_BYTES];
	if (e->is_below_period)
		find(j, CAVEAT_FEW_SAMPLES, 0, VERDICT_NO_RANKING, "it ran for %.3g ms of CPU time, less than one period of %.3g ms: nothing could be sampled", e->ran_ns / 1e6,
		     e->period_ns / 1e6);
	else if (e->n == 0)
		find(j, CAVEAT_FEW_SAMPLES, 0, VERDICT_NO_RANKING, "no samples");
	else if (e->n < JUDGE_SAMPLES_LEAST)
		find(j, CAVEAT_FEW_SAMPLES, e->n, VERDICT_NO_RANKING, "%s sample%s, fewer than %d: nothing can be ranked", judge_count(e->n, count), plural(round(e->n)),
		     JUDGE_SAMPLES_LEAST);
}

enum verdict judge_samples(const struct evidence *evidence, judge_found_fn *found, void *context)
{
	struct judging j = { evidence, found, context, VERDICT_SOUND };
	judge_lost(&j);
	judge_silent(&j);
	judge_counter(&j);
	judge_stacks(&j);
	judge_number(&j);
	return j.verdict;
}

bool judge_is_honest(const struct evidence *e, const char *event, struct err *err)
{
	double share = judge_missing_share(e), whole = e->whole_silent > 0 ? e->whole_silent / e->whole_expected : 0;
	if (share > e->max_loss) {
		double lost = e->lost + e->dropped, silent = e->can_expect ? fmax(0, e->silent - e->dropped) : 0;
		return err_set(err, STATUS_STRICT, "--strict: %s misses %.2f%% of its samples (lost %.0f, silent %.0f), more than %.2f%%", event, 100 * share, lost, silent,
		               100 * e->max_loss);
	}
	if (whole > e->max_loss)
		return err_set(err, STATUS_STRICT, "--strict: %.2f%% of %s's samples never came in the whole recording, more than %.2f%%", 100 * whole, event, 100 * e->max_loss);
	if (judge_samples(e, NULL, NULL) == VERDICT_NO_RANKING)
		return err_set(err, STATUS_STRICT, "--strict: no ranking of %s can be given", event);
	return true;
}
