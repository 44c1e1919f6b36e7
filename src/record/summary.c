#include "record/summary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/size_text.h"
#include "record/ledger.h"
#include "unwind/unwind.h"

enum { COLUMNS = 80, INDENT = 12 }; // strlen("perfsample: ")
enum { RANKABLE = 100 };            // samples; the verdict of a report is NO RANKING below

// 60,150
static const char *grouped(uint64_t value, char text[SIZE_TEXT_BYTES])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value), used = 0;
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			text[used++] = ',';
		text[used++] = digits[i];
	}
	text[used] = '\0';
	return text;
}

// 0.07%, 3.0%, 12.0%
static const char *percent(double share, char text[SIZE_TEXT_BYTES])
{
	snprintf(text, SIZE_TEXT_BYTES, share < 0.01 ? "%.2f%%" : "%.1f%%", 100 * share);
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

static double lost_share(const struct summary_event *event)
{
	uint64_t lost = event->lost + event->dropped;
	return lost > 0 ? (double)lost / (double)(lost + event->taken) : 0;
}

double summary_lost_share(const struct summary *summary)
{
	double most = 0;
	for (size_t i = 0; i < summary->events.count; i++)
		most = fmax(most, summary->events.data[i].samples ? lost_share(&summary->events.data[i]) : 0);
	return most;
}

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
	return event->is_clock && event->expected >= 0 && event->running_ns < event->period;
}

static double bad_stacks(const struct summary *summary, uint64_t count)
{
	uint64_t all = summary->complete + summary->joined + summary->truncated + summary->failed;
	return all > 0 ? (double)count / (double)all : 0;
}

bool summary_is_sound(const struct summary *summary)
{
	const struct summary_event *event = main_event(summary);
	return !summary->is_short && event->taken >= RANKABLE && summary_lost_share(summary) <= summary->max_loss && silent_share(event) < 0.01 &&
	       bad_stacks(summary, summary->truncated + summary->failed) < 0.05;
}

static void say_what(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
	buf_printf(text, "%s samples of %s", grouped(main_event(summary)->taken, a), summary->comm);
	if (summary->ids.count == 1)
		buf_printf(text, "[%d]", summary->ids.data[0]);
	else if (summary->ids.count > 1)
		buf_printf(text, " and %zu more", summary->ids.count - 1);
	if (summary->processes > 1)
		buf_printf(text, " (%s processes, %s threads)", grouped(summary->processes, a), grouped(summary->threads, b));
	else
		buf_printf(text, " (%u thread%s)", summary->threads, summary->threads == 1 ? "" : "s");
	buf_printf(text, ", %.1f s", summary->seconds);
	if (summary->has_cpu_seconds)
		buf_printf(text, ", %.1f CPU-s", summary->cpu_seconds);
	paragraph(out, text);
}

static void add_silent(const struct summary_event *event, struct buf *text)
{
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
	double silent = silent_of(event);
	if (event->expected < 0)
		buf_string(text, "silent not measurable");
	else
		buf_printf(text, "silent %s%s (%s)", silent < 0 ? "-" : "", grouped((uint64_t)fabs(silent), a), percent(silent_share(event), b));
}

static void say_sound(const struct summary *summary, struct buf *out, struct buf *text)
{
	const struct summary_event *event = main_event(summary);
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
	buf_printf(text, "sound: lost %s (%s), ", grouped(event->lost + event->dropped, a), percent(summary_lost_share(summary), b));
	add_silent(event, text);
	if (summary->complete + summary->joined + summary->truncated + summary->failed > 0)
		buf_printf(text, ", stacks complete %.1f%%", 100 * bad_stacks(summary, summary->complete + summary->joined));
	paragraph(out, text);
}

// Only the first event's losses are kept by the second.
static void say_loss(const struct summary *summary, const struct summary_event *event, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES], b[SIZE_TEXT_BYTES];
	bool is_main = event == main_event(summary);
	if (!event->samples || lost_share(event) <= 0)
		return;
	buf_printf(text, "CARE: %s%slost %s (%s)", is_main ? "" : event->name, is_main ? "" : " ", grouped(event->lost + event->dropped, a),
	           percent(lost_share(event), b));
	if (is_main && summary->lost_span.to_s > summary->lost_span.from_s && event->lost > 0)
		buf_printf(text, ", +%.0f to +%.0f s", summary->lost_span.from_s, summary->lost_span.to_s);
	if (event->dropped > 0)
		buf_printf(text, "; %s of them dropped by the recorder", grouped(event->dropped, a));
	if (is_main && summary->stuck_lost > 0)
		buf_printf(text, ": a ring of the kernel stood still%s%s", summary->stuck_lost < event->lost ? " for " : "",
		           summary->stuck_lost < event->lost ? grouped(summary->stuck_lost, a) : "");
	if (summary->loss_reason != NULL && event->lost > (is_main ? summary->stuck_lost : 0))
		buf_printf(text, "%s %s", is_main && summary->stuck_lost > 0 ? "; of the others," : ":", summary->loss_reason);
	paragraph(out, text);
}

static double share_that_ends(const struct summary *summary, enum unwind_end end)
{
	return (size_t)end < summary->end_count ? bad_stacks(summary, summary->ends[end]) : 0;
}

static void say_cut(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES];
	double deep = share_that_ends(summary, UNWIND_TRUNCATED), absent = share_that_ends(summary, UNWIND_ABSENT_PAGE),
	       limit = share_that_ends(summary, UNWIND_DEPTH_LIMIT);
	if (deep > 0.001) {
		buf_printf(text, "CARE: stacks truncated %s (deeper than the %u KB a sample holds)", percent(deep, a), (summary->stack_bytes + 1023) / 1024);
		paragraph(out, text);
	}
	if (absent > 0.001) {
		buf_printf(text, "CARE: stacks cut %s, where a page of the stack was not in memory", percent(absent, a));
		paragraph(out, text);
	}
	if (limit > 0.001) {
		buf_printf(text, "CARE: stacks cut %s, of more frames than a record holds", percent(limit, a));
		paragraph(out, text);
	}
}

static void say_care(const struct summary *summary, struct buf *out, struct buf *text)
{
	const struct summary_event *event = main_event(summary);
	char a[SIZE_TEXT_BYTES];
	if (event->taken < RANKABLE) {
		if (event->taken == 0)
			buf_printf(text, "CARE: no sample was taken%s", summary->unseen_execs > 0  ? ": the kernel ended the target's events" :
			           below_one_period(event) ? ": the target used less CPU time than one period" : "");
		else
			buf_printf(text, "CARE: %s sample%s: below %d nothing can be ranked", grouped(event->taken, a), event->taken == 1 ? "" : "s", RANKABLE);
		paragraph(out, text);
	}
	if (summary->is_short) {
		buf_string(text, "CARE: what was sampled after the last whole write is not in the file");
		paragraph(out, text);
	}
	for (size_t i = 0; i < summary->events.count; i++)
		say_loss(summary, &summary->events.data[i], out, text);
	say_cut(summary, out, text);
	if (bad_stacks(summary, summary->failed) >= 0.01) {
		const double other = share_that_ends(summary, UNWIND_OTHER_STACK);
		buf_printf(text, "CARE: stacks not unwound to their root %s", percent(bad_stacks(summary, summary->failed), a));
		if (other >= 0.01) // a runtime's that changes stacks
			buf_printf(text, ": %s go on on another stack of the thread (Go), which was not read%s", percent(other, a),
			           summary->others_by_c < 0.5 ? "; frame pointers lead there: --call-graph fp" : "; C code was called there");
		const double probed = share_that_ends(summary, UNWIND_UPROBE_TRAMPOLINE);
		if (probed > 0.001)
			buf_printf(text, ", %s as return probes have replaced return addresses", percent(probed, a));
		paragraph(out, text);
	}
	if (silent_share(event) >= 0.01 && !below_one_period(event)) {
		buf_printf(text, "CARE: ");
		add_silent(event, text);
		buf_printf(text, ": %s", summary->silent_reason != NULL ? summary->silent_reason : silent_of(event) <= event->begun
		           ? "periods that were begun and not over at the end, at most one for each CPU" : "ticks that were due by CPU time and never came, for a reason that is not known");
		paragraph(out, text);
	}
}

static void say_event(const struct summary_event *event, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES];
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
	char a[SIZE_TEXT_BYTES];
	for (int i = 0; summary->uncopied != NULL && i < UNCOPIED_COUNT; i++)
		if (summary->uncopied[i] > 0) {
			buf_printf(text, "stacks not copied, registers were: %s: %s", grouped(summary->uncopied[i], a), reasons[i]);
			paragraph(out, text);
		}
}

static void say_notes(const struct summary *summary, struct buf *out, struct buf *text)
{
	char a[SIZE_TEXT_BYTES];
	for (size_t i = 0; i < summary->notes.count; i++) {
		buf_string(text, summary->notes.data[i]);
		paragraph(out, text);
	}
	if (summary->strangers > 0) {
		buf_printf(text, "%s samples of others on %s CPU%s were taken and dropped: who runs there pays for them; --per-task spares them", grouped(summary->strangers, a),
		           summary->cpus == 1 ? "this" : "these", summary->cpus == 1 ? "" : "s");
		paragraph(out, text);
	}
	if (main_event(summary)->idle_unsampled > 0) {
		buf_printf(text, "%s ticks of idle CPUs gave no sample: idle by /proc/stat, not silent", grouped(main_event(summary)->idle_unsampled, a));
		paragraph(out, text);
	}
	say_uncopied(summary, out, text);
	if (summary->shortened > 0) {
		buf_printf(text, "%s stack copies were shortened: images were slow to open", grouped(summary->shortened, a));
		paragraph(out, text);
	}
	if (summary->sideband_lost > 0) {
		buf_printf(text, "%s records of mappings and processes were lost; /proc was read again", grouped(summary->sideband_lost, a));
		paragraph(out, text);
	}
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
	char a[SIZE_TEXT_BYTES];
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
	buf_printf(text, " (tick %.1f us x %s samples", cost->unit.tick_ns / 1e3, grouped(cost->ticks, a));
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
	if (!summary->has_cpu_seconds || used >= 0.1 || summary->seconds < 1)
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
	bool sound = summary_is_sound(summary);
	if (sound)
		say_sound(summary, out, &text);
	else
		say_care(summary, out, &text);
	for (size_t i = 0; i < summary->events.count; i++)
		if (sound || i > 0 || summary->events.data[i].because != NULL)
			say_event(&summary->events.data[i], out, &text);
	say_notes(summary, out, &text);
	if (sound) {
		buf_printf(&text, "the recorder used %.1f%% of one CPU", 100 * summary->recorder_share);
	} else {
		add_silent(main_event(summary), &text);
		buf_printf(&text, ", throttled %.*f s; recorder used %.1f%% of one CPU", summary->throttled_seconds < 0.05 ? 0 : 1,
		           summary->throttled_seconds, 100 * summary->recorder_share);
	}
	paragraph(out, &text);
	say_cost(summary, out, &text);
	say_hint(summary, out, &text);
	say_file(summary, out, &text);
	buf_release(&text);
}
