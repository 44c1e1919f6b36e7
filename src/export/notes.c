#include "export/notes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "base/plural.h"
#include "export/counts.h"
#include "export/place.h"
#include "export/text.h"
#include "report/left_out.h"

const struct report_event *export_report_event(const struct export_input *input)
{
	for (size_t i = 0; input->report != NULL && i < input->report->events.count; i++)
		if (input->report->events.data[i].source == &input->profile->events.data[input->event])
			return &input->report->events.data[i];
	return NULL;
}

static void add(struct export_notes *notes, struct buf *text)
{
	struct buf line = { 0 };
	escape_terminal(&line, buf_text(text), text->size);
	buf_text(&line);
	vec_push(&notes->lines, buf_detach(&line));
	buf_clear(text);
}

void export_unit(const struct export_input *input, struct buf *out)
{
	const struct profile_event *e = input->event < input->profile->events.count ? &input->profile->events.data[input->event] : NULL;
	buf_string(out, e == NULL || !input->by_period ? "samples" : e->is_clock ? "CPU time" : profile_text(input->profile, e->name));
}

static uint64_t kept_samples(const struct export_input *input)
{
	struct export_counts counts;
	uint64_t count = 0;
	export_counts_read(&counts, input);
	for (size_t i = 0; i < counts.rows.count; i++)
		count += counts.rows.data[i].samples;
	vec_release(&counts.rows);
	return count;
}

static void recorded(struct export_notes *notes, const struct export_input *input, struct buf *text)
{
	const struct profile_meta *meta = &input->profile->meta;
	if (meta->argv.count > 0) {
		buf_string(text, "recorded by:");
		for (size_t i = 0; i < meta->argv.count; i++)
			buf_printf(text, " %s", profile_text(input->profile, meta->argv.data[i]));
		add(notes, text);
	}
	time_t start = (time_t)(meta->start_wall_ns / 1000000000);
	struct tm utc;
	char when[64];
	if (meta->start_wall_ns != 0 && gmtime_r(&start, &utc) != NULL && strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%SZ", &utc) > 0)
		buf_printf(text, "from %s, ", when);
	buf_printf(text, "%.3f s", input->report != NULL ? input->report->seconds : (double)(meta->end_ns - meta->start_ns) / 1e9);
	if (meta->host != 0)
		buf_printf(text, ", on %s", profile_text(input->profile, meta->host));
	if (meta->kernel != 0)
		buf_printf(text, ", Linux %s", profile_text(input->profile, meta->kernel));
	add(notes, text);
}

static void sampled(struct export_notes *notes, const struct export_input *input, const struct report_event *e, struct buf *text)
{
	const struct profile_event *source = &input->profile->events.data[input->event];
	double taken = e != NULL ? e->taken : (double)kept_samples(input);
	text_count(text, taken);
	buf_printf(text, " sample%s of %s", plural(taken), profile_text(input->profile, source->name));
	if (source->is_freq)
		buf_printf(text, ", %llu a second", (unsigned long long)source->frequency);
	else if (source->is_clock)
		buf_printf(text, ", one per %.6g ms of CPU time", (double)source->period / 1e6);
	else if (source->period > 0)
		buf_printf(text, ", one per %llu", (unsigned long long)source->period);
	if (e != NULL && e->is_filtered)
		buf_printf(text, ", selected from %.0f", e->unfiltered);
	add(notes, text);
	if (input->by_period) {
		buf_string(text, "the samples' periods differ: shares are of ");
		export_unit(input, text);
		buf_string(text, ", not of the number of samples");
		add(notes, text);
	}
	if (report_left_out(input->profile, input->event, text) > 0) {
		struct buf line = { 0 };
		buf_printf(&line, "not in it, other events of the recording: %s", buf_text(text));
		buf_clear(text);
		add(notes, &line);
		buf_release(&line);
	}
}

static void missing(struct export_notes *notes, const struct report_event *e, struct buf *text)
{
	if (!e->is_loss_known) {
		buf_string(text, "lost: not known");
		add(notes, text);
		return;
	}
	buf_string(text, "lost ");
	text_count(text, e->lost);
	buf_string(text, " (");
	text_loss_percent(text, e->lost_share);
	buf_string(text, e->can_expect ? "), silent " : "), silent not measurable");
	if (e->can_expect)
		text_count(text, e->silent);
	if (e->loss_to_s > e->loss_from_s)
		buf_printf(text, ", lost between +%.1f and +%.1f s", e->loss_from_s, e->loss_to_s);
	if (e->dropped > 0)
		buf_printf(text, ", dropped %.0f", e->dropped);
	if (e->shortened > 0)
		buf_printf(text, ", shortened %.0f", e->shortened);
	if (e->throttled_s > 0)
		buf_printf(text, ", throttled %.3f s", e->throttled_s);
	add(notes, text);
}

static void stacks(struct export_notes *notes, const struct report_event *e, struct buf *text)
{
	static const char *const names[] = { "complete", "joined", "truncated", "unwind failed" };
	const uint64_t counts[] = { e->stacks_complete, e->stacks_joined, e->stacks_truncated, e->stacks_failed };
	buf_string(text, "stacks:");
	for (size_t i = 0; i < 4; i++)
		buf_printf(text, "%s %s %llu", i > 0 ? "," : "", names[i], (unsigned long long)counts[i]);
	bool is_first = true;
	for (size_t i = 0; i < UNWIND_END_COUNT; i++) {
		if (e->ends[i] == 0 || unwind_end_is_root((enum unwind_end)i) || i == UNWIND_NOT_USER)
			continue;
		buf_printf(text, "%s %s %llu", is_first ? "; not at their root because:" : ",", unwind_end_name((enum unwind_end)i),
		           (unsigned long long)e->ends[i]);
		is_first = false;
	}
	if (e->stacks_guessed > 0)
		buf_printf(text, "; with a guessed frame %llu", (unsigned long long)e->stacks_guessed);
	if (e->ends[UNWIND_ROOT_GUESSED] > 0)
		buf_printf(text, "; with a guessed root %llu", (unsigned long long)e->ends[UNWIND_ROOT_GUESSED]);
	add(notes, text);
}

static void verdict(struct export_notes *notes, const struct report_event *e, struct buf *text)
{
	buf_printf(text, "verdict: %s", verdict_name(e->verdict));
	add(notes, text);
	for (size_t i = 0; i < e->caveats.count; i++) {
		buf_printf(text, "caveat: %s", e->caveats.data[i].text);
		add(notes, text);
	}
}

static void intervals(struct export_notes *notes, const struct export_input *input, const struct report_event *e, size_t rows, struct buf *text)
{
	while (rows > e->rows.count || (rows > 0 && e->rows.data[rows - 1].self.samples <= 0))
		rows--;
	if (rows == 0)
		return;
	buf_printf(text, "self %% of the first %zu functions, and the range it lies in, %.0f%% sure for one:", rows, 100 * input->report->options.confidence);
	add(notes, text);
	for (size_t i = 0; i < rows; i++) {
		const struct report_row *row = &e->rows.data[i];
		buf_printf(text, "%.2f%% %.2f-%.2f%s", 100 * row->self.share, 100 * row->shown.lo, 100 * row->shown.hi, text_mark(row));
		for (size_t key = 0; key < KEY_COUNT; key++)
			if (row->keys[key] != NULL)
				buf_printf(text, " %s", row->keys[key]);
		add(notes, text);
	}
}

void export_notes_read(struct export_notes *notes, const struct export_input *input, size_t rows)
{
	struct buf text = { 0 };
	*notes = (struct export_notes){ 0 };
	const struct report_event *e = input->event < input->profile->events.count ? export_report_event(input) : NULL;
	recorded(notes, input, &text);
	if (input->event < input->profile->events.count)
		sampled(notes, input, e, &text);
	if (e != NULL) {
		missing(notes, e, &text);
		stacks(notes, e, &text);
		verdict(notes, e, &text);
		intervals(notes, input, e, rows, &text);
	}
	buf_release(&text);
}

void export_notes_of_samples(struct export_notes *notes, const struct export_input *input)
{
	struct buf text = { 0 };
	*notes = (struct export_notes){ 0 };
	const struct report_event *e = export_report_event(input);
	if (e != NULL && e->source->is_sampling) {
		sampled(notes, input, e, &text);
		missing(notes, e, &text);
		stacks(notes, e, &text);
		report_verdict_of_samples(e, &text);
		if (text.size > 0)
			add(notes, &text);
	}
	buf_release(&text);
}

void export_notes_release(struct export_notes *notes)
{
	for (size_t i = 0; i < notes->lines.count; i++)
		free(notes->lines.data[i]);
	vec_release(&notes->lines);
}

void export_title(const struct export_input *input, struct buf *out)
{
	const struct profile_meta *meta = &input->profile->meta;
	const struct report_event *e = input->event < input->profile->events.count ? export_report_event(input) : NULL;
	buf_string(out, meta->target_comm != 0 ? profile_text(input->profile, meta->target_comm) : "perfsample");
	buf_string(out, " (");
	double taken = e != NULL ? e->taken : (double)kept_samples(input);
	text_count(out, taken);
	buf_printf(out, " sample%s", plural(taken));
	if (input->by_period) {
		buf_string(out, " weighed by ");
		export_unit(input, out);
	}
	if (e != NULL) {
		buf_string(out, ", lost ");
		if (e->is_loss_known)
			text_loss_percent(out, e->lost_share);
		else
			buf_string(out, "not known");
		uint64_t cut = e->stacks_truncated + e->stacks_failed, all = cut + e->stacks_complete + e->stacks_joined;
		if (cut > 0) {
			buf_string(out, ", stacks not whole ");
			text_loss_percent(out, (double)cut / (double)all);
		}
	}
	buf_byte(out, ')');
}
