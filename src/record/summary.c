#include "record/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/size_text.h"
#include "record/ledger.h"
#include "unwind/unwind.h"

enum { COLUMNS = 80, INDENT = 12 }; // strlen("perfsample: ")

static const char *grouped(uint64_t value, char text[JUDGE_TEXT_BYTES])
{
	return judge_count((double)value, text);
}

// 0.07%, 3.0%, 12.0%
static const char *percent(double share, char text[JUDGE_TEXT_BYTES])
{
	snprintf(text, JUDGE_TEXT_BYTES, share < 0.01 ? "%.2f%%" : "%.1f%%", 100 * share);
	return text;
}

// One paragraph, wrapped at words, later lines indented under the first.
static void paragraph(struct buf *out, struct buf *text)
{
	struct buf escaped = { 0 };
	escape_terminal(&escaped, buf_text(text), text->size);
	buf_string(out, "perfsample: ");
	size_t column = INDENT;
	for (const char *at = buf_text(&escaped); *at != '\0';) {
		size_t length = strcspn(at, " ");
		if (column > INDENT && column + length > COLUMNS - 1) {
			buf_string(out, "\n            ");
			column = INDENT;
		}
		buf_add(out, at, length);
		column += length;
		at += length;
		if (*at == ' ') {
			size_t next = strcspn(at + 1, " ");
			if (column + 1 + next <= COLUMNS - 1)
				buf_byte(out, ' ');
			column++;
			at++;
		}
	}
	buf_byte(out, '\n');
	buf_release(&escaped);
	buf_clear(text);
}

static const struct summary_event *main_event(const struct summary *summary)
{
	static const struct summary_event none = { .name = "", .expected = -1 };
	return summary->events.count > 0 ? &summary->events.data[0] : &none;
}

static double taken_of(const struct summary_event *event) // idle ones apart
{
	return (double)(event->taken - event->idle);
}

static double lost_share(const struct summary_event *event)
{
	double lost = (double)(event->lost + event->dropped);
	return lost > 0 ? lost / (lost + taken_of(event)) : 0;
}

double summary_lost_share(const struct summary *summary)
{
	double most = 0;
	for (size_t i = 0; i < summary->events.count; i++)
		most = fmax(most, summary->events.data[i].samples ? lost_share(&summary->events.data[i]) : 0);
	return most;
}

// In the file's identity what we dropped stands apart.
static double silent_of(const struct summary_event *event)
{
	return event->expected - (double)(event->taken + event->idle_unsampled + event->others + event->lost + event->dropped); // idle ones are taken too
}

static double silent_share(const struct summary_event *event)
{
	return event->expected > 0 ? silent_of(event) / event->expected : 0;
}

static bool below_one_period(const struct summary_event *event)
{
	uint64_t seen = event->taken + event->others + event->lost + event->dropped;
	return event->is_clock && event->expected >= 0 && event->running_ns > 0 && event->running_ns < event->period && seen == 0;
}

static uint64_t stacks_of(const struct summary *summary)
{
	return summary->complete + summary->joined + summary->truncated + summary->failed;
}

// Stacks are those of all events together: judged with the first.
static struct evidence evidence_of(const struct summary *summary, const struct summary_event *event)
{
	bool is_main = event == main_event(summary), can_expect = event->expected >= 0;
	double throttled = is_main ? summary->throttled_seconds : 0, period_ns = event->is_clock ? (double)event->period : 0;
	return (struct evidence){
		.taken = taken_of(event), .lost = (double)event->lost, .dropped = (double)event->dropped, .is_loss_known = true, .can_expect = can_expect,
		.expected = can_expect ? event->expected : 0, .silent = can_expect ? silent_of(event) + (double)event->dropped : 0, .begun = event->begun,
		.throttled_s = throttled, .throttled = period_ns > 0 ? throttled * 1e9 / period_ns : 0, .n = taken_of(event), .is_below_period = below_one_period(event),
		.ran_ns = (double)event->running_ns, .period_ns = period_ns, .is_by_task = summary->is_by_task, .silent_reason = !is_main ? NULL : summary->silent_reason != NULL ? summary->silent_reason : "", .multiplexed = event->multiplexed > 0 ? event->multiplexed : 1,
		.complete = is_main ? summary->complete : 0, .joined = is_main ? summary->joined : 0, .truncated = is_main ? summary->truncated : 0,
		.failed = is_main ? summary->failed : 0, .ends = is_main ? summary->ends : NULL, .stack_bytes = summary->stack_bytes,
		.shortened = is_main ? (double)summary->shortened : 0, .sideband_lost = is_main ? (double)summary->sideband_lost : 0, .max_loss = summary->max_loss,
	};
}

struct passing_on {
	summary_found_fn *found;
	void *context;
	const char *event;
};

static void pass_on(void *context, enum caveat_code code, double value, enum verdict verdict, const char *text)
{
	const struct passing_on *to = context;
	to->found(to->context, to->event, code, value, verdict, text);
}

void summary_caveats(const struct summary *summary, summary_found_fn *found, void *context)
{
	for (size_t i = 0; i < summary->events.count; i++) {
		struct evidence evidence = evidence_of(summary, &summary->events.data[i]);
		struct passing_on to = { found, context, summary->events.data[i].name };
		if (summary->events.data[i].samples)
			(void)judge_samples(&evidence, pass_on, &to);
	}
	for (size_t i = 0; i < summary->notes.count; i++)
		if (summary->notes.data[i].bears || summary->notes.data[i].is_care)
			found(context, NULL, CAVEAT_RECORDED, 1, summary->notes.data[i].is_care ? VERDICT_CARE : VERDICT_SOUND, summary->notes.data[i].text);
	if (summary->is_short)
		found(context, NULL, CAVEAT_CUT_OFF, 1, VERDICT_CARE, "what was sampled after the last whole write is not in the file");
}

enum verdict summary_verdict(const struct summary *summary)
{
	enum verdict worst = summary->is_short || summary->has_bad_decision ? VERDICT_CARE : VERDICT_SOUND;
	for (size_t i = 0; i < summary->events.count; i++) {
		struct evidence evidence = evidence_of(summary, &summary->events.data[i]);
		enum verdict verdict = summary->events.data[i].samples ? judge_samples(&evidence, NULL, NULL) : VERDICT_SOUND;
		worst = verdict > worst ? verdict : worst;
	}
	return summary->events.count > 0 ? worst : VERDICT_NO_RANKING;
}

bool summary_is_honest(const struct summary *summary, struct err *err)
{
	for (size_t i = 0; i < summary->events.count; i++) {
		struct evidence evidence = evidence_of(summary, &summary->events.data[i]);
		if (summary->events.data[i].samples && !judge_is_honest(&evidence, summary->events.data[i].name, err))
			return false;
	}
	return true;
}

static void say_what(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[JUDGE_TEXT_BYTES], b[JUDGE_TEXT_BYTES], c[JUDGE_TEXT_BYTES];
	const struct summary_event *event = main_event(summary);
	double taken = taken_of(event);
	buf_printf(text, "%s sample%s of %s", judge_count(taken, a), plural(taken), summary->comm);
	if (summary->ids.count == 1)
		buf_printf(text, "[%d]", summary->ids.data[0]);
	else if (summary->ids.count > 1)
		buf_printf(text, " and %zu more", summary->ids.count - 1);
	if (summary->processes_seen > summary->processes && summary->processes_seen > 1)
		buf_printf(text, " (%s of %s processes, %s thread%s)", grouped(summary->processes, a), grouped(summary->processes_seen, b), grouped(summary->threads, c),
		           plural((double)summary->threads));
	else if (summary->processes > 1)
		buf_printf(text, " (%s processes, %s threads)", grouped(summary->processes, a), grouped(summary->threads, b));
	else
		buf_printf(text, " (%u thread%s)", summary->threads, plural((double)summary->threads));
	buf_printf(text, ", %.1f s", summary->seconds);
	if (summary->has_cpu_seconds)
		buf_printf(text, ", %.1f CPU-s", summary->cpu_seconds);
	if (event->idle > 0)
		buf_printf(text, "; %s more of idle CPUs, in no share", grouped(event->idle, a));
	paragraph(out, text);
}

static void add_silent(const struct summary_event *event, struct buf *text)
{
	char a[JUDGE_TEXT_BYTES], b[JUDGE_TEXT_BYTES];
	double silent = silent_of(event);
	if (event->expected < 0)
		buf_string(text, "silent not measurable");
	else
		buf_printf(text, "silent %s%s (%s)", silent < 0 ? "-" : "", grouped((uint64_t)fabs(silent), a), percent(silent_share(event), b));
}

static void say_sound(const struct summary *summary, struct buf *out, struct buf *text)
{
	const struct summary_event *event = main_event(summary);
	char a[JUDGE_TEXT_BYTES], b[JUDGE_TEXT_BYTES];
	buf_printf(text, "sound: lost %s (%s), ", grouped(event->lost + event->dropped, a), percent(summary_lost_share(summary), b));
	add_silent(event, text);
	if (stacks_of(summary) > 0)
		buf_printf(text, ", stacks complete %s", judge_whole_percent((double)(summary->complete + summary->joined) / (double)stacks_of(summary), a));
	paragraph(out, text);
}

struct saying {
	const struct summary *summary;
	const struct summary_event *event;
	struct buf *out, *text;
};

// Where the first event's losses lie, and why; only of that one it is known.
static void add_loss_place(const struct saying *s)
{
	const struct summary *summary = s->summary;
	const struct summary_event *event = s->event;
	char a[JUDGE_TEXT_BYTES];
	bool is_main = event == main_event(summary);
	if (is_main && summary->lost_span.to_s > summary->lost_span.from_s)
		buf_printf(s->text, ", +%.0f to +%.0f s", summary->lost_span.from_s, summary->lost_span.to_s);
	if (is_main && summary->stuck_lost > 0)
		buf_printf(s->text, ": a ring of the kernel stood still%s%s", summary->stuck_lost < event->lost ? " for " : "",
		           summary->stuck_lost < event->lost ? grouped(summary->stuck_lost, a) : "");
	if (summary->loss_reason != NULL && event->lost > (is_main ? summary->stuck_lost : 0))
		buf_printf(s->text, "%s %s", is_main && summary->stuck_lost > 0 ? "; of the others," : ":", summary->loss_reason);
}

static void say_found(void *context, enum caveat_code code, double value, enum verdict verdict, const char *what)
{
	const struct saying *s = context;
	bool is_main = s->event == main_event(s->summary);
	if (verdict != VERDICT_SOUND)
		buf_printf(s->text, "%s: ", verdict_word(verdict));
	if (!is_main)
		buf_printf(s->text, "%s: ", s->event->name);
	if (code == CAVEAT_LOST) {
		char a[JUDGE_TEXT_BYTES], b[JUDGE_TEXT_BYTES];
		buf_printf(s->text, "lost %s sample%s (%s)", grouped(s->event->lost, a), plural((double)s->event->lost), judge_percent(value, b));
		add_loss_place(s);
	} else {
		buf_string(s->text, what);
	}
	paragraph(s->out, s->text);
}

static void say_findings(const struct summary *summary, struct buf *out, struct buf *text)
{
	for (size_t i = 0; i < summary->events.count; i++) {
		struct saying saying = { summary, &summary->events.data[i], out, text };
		struct evidence evidence = evidence_of(summary, saying.event);
		if (saying.event->samples)
			(void)judge_samples(&evidence, say_found, &saying);
	}
	if (summary->unjudged > 0) {
		buf_string(text, "stacks by frame pointers: whether they reach their root is told by names, which perfsample report looks up");
		paragraph(out, text);
	}
	bool goes_on = summary->ends != NULL && stacks_of(summary) > 0 && summary->others_by_go >= 0.5 &&
	               summary->ends[UNWIND_OTHER_STACK] * 100 >= stacks_of(summary);
	if (goes_on) { // a runtime's that changes stacks
		buf_string(text, summary->others_by_c < 0.5 ? "frame pointers lead from a thread's stack to its others: --call-graph fp" : "C code was called on another stack of its thread");
		paragraph(out, text);
	}
	if (summary->is_short) {
		buf_string(text, "CARE: what was sampled after the last whole write is not in the file");
		paragraph(out, text);
	}
}

static void say_event(const struct summary_event *event, struct buf *out, struct buf *text)
{
	char a[JUDGE_TEXT_BYTES];
	if (!event->samples)
		return;
	if (event->is_freq)
		buf_printf(text, "%s at %s Hz", event->name, grouped(event->frequency, a));
	else if (event->is_clock)
		buf_printf(text, "%s every %.6f ms", event->name, (double)event->period / 1e6);
	else
		buf_printf(text, "%s, every %s", event->name, grouped(event->period, a));
	if (event->because != NULL)
		buf_printf(text, " (%s)", event->because);
	paragraph(out, text);
}

static void say_uncopied(const struct summary *summary, struct buf *out, struct buf *text)
{
	static const char *const reasons[UNCOPIED_COUNT] = {
		[UNCOPIED_TAGGED] = "the stack pointer has a tag", [UNCOPIED_NO_ROOM] = "the record was full",
		[UNCOPIED_ABSENT] = "the stack pointer's page was not in memory",
	};
	char a[JUDGE_TEXT_BYTES];
	for (int i = 0; summary->uncopied != NULL && i < UNCOPIED_COUNT; i++)
		if (summary->uncopied[i] > 0) {
			buf_printf(text, "stacks not copied, registers were: %s: %s", grouped(summary->uncopied[i], a), reasons[i]);
			paragraph(out, text);
		}
}

static void say_notes(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[JUDGE_TEXT_BYTES];
	for (size_t i = 0; i < summary->notes.count; i++) {
		buf_printf(text, "%s%s", summary->notes.data[i].is_care ? "CARE: " : "", summary->notes.data[i].text);
		paragraph(out, text);
	}
	if (summary->strangers > 0) {
		buf_printf(text, "%s samples of others on %s CPU%s were taken and dropped: who runs there pays for them; --per-task spares them", grouped(summary->strangers, a),
		           summary->cpus == 1 ? "this" : "these", summary->cpus == 1 ? "" : "s");
		paragraph(out, text);
	}
	if (main_event(summary)->idle_unsampled > 0) {
		buf_printf(text, "%s tick%s of idle CPUs gave no sample: idle by /proc/stat, not silent", grouped(main_event(summary)->idle_unsampled, a),
		           plural((double)main_event(summary)->idle_unsampled));
		paragraph(out, text);
	}
	say_uncopied(summary, out, text);
	if (summary->longest_chain > 127) {
		buf_printf(text, "stacks of up to %s frames: perf shows 127 unless --max-stack", grouped(summary->longest_chain, a));
		paragraph(out, text);
	}
}

static void say_file(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES];
	if (summary->is_gone)
		return; // which the error says
	if (summary->path == NULL)
		buf_printf(text, "streamed %s", size_text(summary->bytes, a));
	else
		buf_printf(text, "wrote %s, %s%s. Next: perfsample report", summary->path, size_text(summary->bytes, a),
		           summary->names_inside ? ", names inside" : "");
	struct buf escaped = { 0 }; // never wrapped: a path is there to be copied
	escape_terminal(&escaped, buf_text(text), text->size);
	buf_printf(out, "perfsample: %s\n", buf_text(&escaped));
	buf_release(&escaped);
	buf_clear(text);
}

static void say_cost(const struct summary *summary, struct buf *out, struct buf *text)
{
	const struct cost *cost = &summary->cost;
	char a[JUDGE_TEXT_BYTES];
	if (!summary->wants_cost)
		return;
	if (summary->cost_refusal != NULL) {
		buf_printf(text, "cost not calibrated: %s", summary->cost_refusal);
		paragraph(out, text);
		return;
	}
	buf_string(text, "cost, accounted: ");
	if (cost->target_cpu_s > 0)
		buf_printf(text, "%s of the target's CPU time", percent(cost_target_s(cost) / cost->target_cpu_s, a));
	else
		buf_printf(text, "%.3f s of CPU time taken from the target", cost_target_s(cost));
	buf_printf(text, " (tick %.1f us x %s sample%s", cost->unit.tick_ns / 1e3, grouped(cost->ticks, a), plural((double)cost->ticks));
	if (cost->copied_kib > 0)
		buf_printf(text, ", copy %.3f us x %s KiB", cost->unit.copy_ns_per_kib / 1e3, grouped((uint64_t)cost->copied_kib, a));
	buf_string(text, ")");
	if (cost->others_ticks > 0)
		buf_printf(text, ", %.3f s of others'", cost_others_s(cost));
	buf_printf(text, "; drain %.1f us a sample of the recorder's. What caches lose is not in it: perfsample overhead", cost_drain_us(cost));
	paragraph(out, text);
}

static void say_hint(const struct summary *summary, struct buf *out, struct buf *text)
{
	double used = summary->seconds > 0 ? summary->cpu_seconds / summary->seconds : 1;
	if (!summary->has_cpu_seconds || used >= 0.1 || summary->seconds < JUDGE_SHARE_LEAST_S)
		return;
	buf_printf(text, "hint  used %.0f%% of one CPU, %u thread%s mostly blocked: this profile can't say why", 100 * used, summary->threads,
	           summary->threads == 1 ? "" : "s");
	if (summary->ids.count == 1 && strcmp(summary->target_kind, "pid") == 0)
		buf_printf(text, "; ps -L -o tid,stat,wchan:32,comm -p %d shows where its threads wait", summary->ids.data[0]);
	paragraph(out, text);
}

void summary_text(const struct summary *summary, struct buf *out)
{
	struct buf text = { 0 };
	say_what(summary, out, &text);
	bool sound = summary_verdict(summary) == VERDICT_SOUND;
	if (sound)
		say_sound(summary, out, &text);
	say_findings(summary, out, &text);
	for (size_t i = 0; i < summary->events.count; i++)
		if (sound || i > 0 || summary->events.data[i].because != NULL)
			say_event(&summary->events.data[i], out, &text);
	say_notes(summary, out, &text);
	if (!sound) {
		add_silent(main_event(summary), &text);
		buf_printf(&text, ", throttled %.*f s; ", summary->throttled_seconds < 0.05 ? 0 : 1, summary->throttled_seconds);
	}
	if (summary->seconds < JUDGE_SHARE_LEAST_S)
		buf_printf(&text, "the recorder used %.0f ms of CPU time", 1e3 * summary->recorder_cpu_seconds);
	else
		buf_printf(&text, "the recorder used %.1f%% of one CPU", 100 * summary->recorder_share);
	paragraph(out, &text);
	say_cost(summary, out, &text);
	say_hint(summary, out, &text);
	say_file(summary, out, &text);
	buf_release(&text);
}
