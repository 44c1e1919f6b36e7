// perfsample-export/1: samples, stacks and frames as JSON, for programs. The schema is schema/perfsample-export-1.json.
#include <string.h>

#include "export/json_write.h"
#include "export/notes.h"
#include "export/place.h"

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct export_stacks stacks;
	struct buf *out;
};

static void put_about(struct writer *w)
{
	const struct profile_meta *meta = &w->profile->meta;
	const struct profile_event *e = w->input->event < w->profile->events.count ? &w->profile->events.data[w->input->event] : NULL;
	json_put_text(w->out, "schema", "perfsample-export/1");
	json_put_text(w->out, "tool", "perfsample " PERFSAMPLE_VERSION);
	json_open_array(w->out, "argv");
	for (size_t i = 0; i < meta->argv.count; i++)
		json_put_text(w->out, NULL, profile_text(w->profile, meta->argv.data[i]));
	json_close_array(w->out);
	json_open_object(w->out, "event");
	json_put_name(w->out, "name", e != NULL ? profile_text(w->profile, e->name) : "");
	json_put_text(w->out, "weight_unit", e != NULL && e->is_clock ? "nanoseconds" : "count");
	if (e != NULL && !e->is_freq && e->period > 0)
		json_put_u64(w->out, "period", e->period);
	else
		json_put_null(w->out, "period");
	if (e != NULL && e->is_freq)
		json_put_u64(w->out, "frequency", e->frequency);
	else
		json_put_null(w->out, "frequency");
	json_close_object(w->out);
	json_put_u64(w->out, "start_ns", meta->start_ns);
	if (meta->start_wall_ns != 0)
		json_put_u64(w->out, "start_wall_ns", meta->start_wall_ns);
	else
		json_put_null(w->out, "start_wall_ns");
}

static void put_totals(struct writer *w)
{
	const struct report_event *e = w->input->event < w->profile->events.count ? export_report_event(w->input) : NULL;
	struct export_notes notes;
	if (e != NULL) {
		json_open_object(w->out, "totals");
		json_put_number(w->out, "taken", e->taken);
		json_put_number(w->out, "lost", e->lost);
		if (e->can_expect)
			json_put_number(w->out, "silent", e->silent);
		else
			json_put_null(w->out, "silent");
		json_put_number(w->out, "dropped", e->dropped);
		json_put_number(w->out, "shortened", e->shortened);
		json_put_u64(w->out, "complete", e->stacks_complete);
		json_put_u64(w->out, "joined", e->stacks_joined);
		json_put_u64(w->out, "truncated", e->stacks_truncated);
		json_put_u64(w->out, "failed", e->stacks_failed);
		json_put_u64(w->out, "guessed", e->stacks_guessed);
		json_close_object(w->out);
	}
	json_open_array(w->out, "notes");
	export_notes_read(&notes, w->input, 0);
	for (size_t i = 0; i < notes.lines.count; i++)
		json_put_text(w->out, NULL, notes.lines.data[i]);
	export_notes_release(&notes);
	json_close_array(w->out);
}

static void put_samples(struct writer *w)
{
	json_open_array(w->out, "samples");
	for (size_t i = 0; i < w->profile->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&w->profile->samples, i, &s_row);
		if (!export_keeps(w->input, s))
			continue;
		json_open_object(w->out, NULL);
		json_put_u64(w->out, "time_ns", s->time_ns);
		json_put_i64(w->out, "pid", s->pid);
		json_put_i64(w->out, "tid", s->tid);
		if (s->cpu != UINT32_MAX)
			json_put_u64(w->out, "cpu", s->cpu);
		json_put_name(w->out, "comm", profile_text(w->profile, s->comm));
		json_put_u64(w->out, "weight", s->weight);
		json_put_u64(w->out, "stack", export_stack_of(&w->stacks, s));
		json_put_text(w->out, "end", unwind_end_name((enum unwind_end)s->end));
		json_close_object(w->out);
	}
	json_close_array(w->out);
}

static void put_stacks(struct writer *w)
{
	json_open_array(w->out, "stacks"); // a row a node: its caller's row or null, and its frame
	for (size_t i = 0; i < w->stacks.nodes.count; i++) {
		const struct export_node *node = &w->stacks.nodes.data[i];
		json_open_array(w->out, NULL);
		if (node->parent != PROFILE_NONE)
			json_put_u64(w->out, NULL, node->parent);
		else
			json_put_null(w->out, NULL);
		json_put_u64(w->out, NULL, node->step);
		json_close_array(w->out);
	}
	json_close_array(w->out);
}

static void put_address(struct writer *w, const struct export_step *step)
{
	const struct profile_frame *frame = &w->profile->frames.data[step->frame];
	struct stack_step shown = { .frame = step->frame };
	json_put_hex(w->out, "addr", step_shown_addr(w->profile, &shown));
	if (frame->dso != PROFILE_NONE) {
		const struct profile_dso *dso = &w->profile->dsos.data[frame->dso];
		char hex[2 * sizeof(dso->build_id.bytes) + 1];
		json_put_name(w->out, "dso", profile_text(w->profile, dso->path));
		if (dso->build_id.size > 0)
			json_put_text(w->out, "build_id", build_id_hex(&dso->build_id, hex));
	}
}

static void put_frames(struct writer *w)
{
	struct buf name = { 0 };
	json_open_array(w->out, "frames");
	for (size_t i = 0; i < w->stacks.steps.count; i++) {
		const struct export_step *step = &w->stacks.steps.data[i];
		json_open_object(w->out, NULL);
		buf_clear(&name);
		export_place_name(w->profile, step->place, &name);
		json_put_name(w->out, "name", buf_text(&name));
		json_put_text(w->out, "kind", step->is_mark ? "mark" : export_step_is_kernel(w->profile, step) ? "kernel" : "user");
		if (!step->is_mark) {
			json_put_bool(w->out, "known", export_place_is_known(w->profile, step->place));
			json_put_bool(w->out, "named", export_place_is_known(w->profile, step->place) && profile_function_is_named(&w->profile->functions.data[step->place]));
			json_put_bool(w->out, "inlined", export_step_is_inlined(w->profile, step));
			json_put_text(w->out, "via", frame_via_name(w->profile->frames.data[step->frame].via));
			put_address(w, step);
		}
		if (export_step_line(w->profile, step) > 0) {
			json_put_name(w->out, "file", export_step_file(w->profile, step));
			json_put_u64(w->out, "line", export_step_line(w->profile, step));
		}
		json_close_object(w->out);
	}
	json_close_array(w->out);
	buf_release(&name);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	struct writer w = { .input = input, .profile = input->profile, .out = out };
	export_stacks_init(&w.stacks, input);
	json_open_object(out, NULL);
	put_about(&w);
	put_totals(&w);
	put_samples(&w);
	put_stacks(&w);
	put_frames(&w);
	json_close_object(out);
	buf_byte(out, '\n');
	export_stacks_release(&w.stacks);
	return true;
}

const struct exporter exporter_samples = {
	.name = "samples", .extension = "json", .description = "samples, stacks and frames as JSON, perfsample-export/1", .write = write,
};
