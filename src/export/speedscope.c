// speedscope's own file format (speedscope.app/file-format-schema.json): sampled profiles, one a thread, the busiest shown first.
#include <stdlib.h>
#include <string.h>

#include "export/json_write.h"
#include "base/plural.h"
#include "export/notes.h"
#include "export/place.h"

enum { NONE = 0xffffffff };

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct export_stacks stacks;
	struct export_threads threads;
	bool is_clock;           // weights are ns of CPU time; else samples, or with by_period what the event counted
	uint32_t *frame_of;      // by place; NONE: not in the file
	VEC(uint32_t) frames;    // places, by index in the file
	VEC(uint32_t) file_step; // by frame: a step that tells its file
	VEC(uint32_t) path;      // steps of a stack, leaf first
	struct buf *out;
};

static uint32_t frame_index(struct writer *w, uint32_t step)
{
	uint32_t *frame = &w->frame_of[w->stacks.steps.data[step].place];
	if (*frame == NONE) {
		*frame = (uint32_t)w->frames.count;
		vec_push(&w->frames, w->stacks.steps.data[step].place);
		vec_push(&w->file_step, step);
	}
	return *frame;
}

static void put_stack(struct writer *w, const struct profile_sample *sample)
{
	vec_clear(&w->path);
	for (uint32_t node = export_stack_of(&w->stacks, sample); node != PROFILE_NONE; node = w->stacks.nodes.data[node].parent)
		vec_push(&w->path, w->stacks.nodes.data[node].step);
	json_open_array(w->out, NULL);
	for (size_t i = w->path.count; i-- > 0;)
		json_put_u64(w->out, NULL, frame_index(w, w->path.data[i]));
	json_close_array(w->out);
}

// The samples [first, first + count) of threads.samples, as a profile.
static void put_profile(struct writer *w, const char *name, size_t first, size_t count)
{
	uint64_t total = 0;
	json_open_object(w->out, NULL);
	json_put_text(w->out, "type", "sampled");
	json_put_shown(w->out, "name", name);
	json_put_text(w->out, "unit", w->is_clock ? "nanoseconds" : "none");
	json_open_array(w->out, "samples");
	for (size_t i = first; i < first + count; i++)
		put_stack(w, samples_get(&w->profile->samples, w->threads.samples.data[i], &(struct profile_sample){ 0 }));
	json_close_array(w->out);
	json_open_array(w->out, "weights");
	for (size_t i = first; i < first + count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&w->profile->samples, w->threads.samples.data[i], &s_row);
		uint64_t weight = w->is_clock || w->input->by_period ? s->weight : profile_sample_count(w->profile, s);
		total += weight;
		json_put_u64(w->out, NULL, weight);
	}
	json_close_array(w->out);
	json_put_u64(w->out, "startValue", 0);
	json_put_u64(w->out, "endValue", total);
	json_close_object(w->out);
}

static void put_profiles(struct writer *w)
{
	struct buf name = { 0 };
	size_t busiest = 0;
	json_open_array(w->out, "profiles");
	if (w->input->merge_threads || w->threads.threads.count == 0) {
		buf_printf(&name, "%zu thread%s", w->threads.threads.count, plural((double)w->threads.threads.count));
		put_profile(w, buf_text(&name), 0, w->threads.samples.count);
	}
	for (size_t i = 0; i < w->threads.threads.count && !w->input->merge_threads; i++) {
		const struct export_thread *t = &w->threads.threads.data[i];
		buf_clear(&name);
		export_thread_name(w->profile, t, &name);
		put_profile(w, buf_text(&name), t->first, t->count);
		const struct export_thread *most = &w->threads.threads.data[busiest];
		if (w->input->by_period ? t->weight > most->weight : t->count > most->count)
			busiest = i;
	}
	json_close_array(w->out);
	json_put_u64(w->out, "activeProfileIndex", busiest);
	buf_release(&name);
}

static void put_frames(struct writer *w)
{
	struct buf name = { 0 };
	json_open_object(w->out, "shared");
	json_open_array(w->out, "frames");
	for (size_t i = 0; i < w->frames.count; i++) {
		const char *file = export_step_file(w->profile, &w->stacks.steps.data[w->file_step.data[i]]);
		buf_clear(&name);
		export_place_name(w->profile, w->frames.data[i], &name);
		json_open_object(w->out, NULL);
		json_put_shown(w->out, "name", buf_text(&name));
		if (*file != '\0')
			json_put_shown(w->out, "file", file);
		json_close_object(w->out);
	}
	json_close_array(w->out);
	json_close_object(w->out);
	buf_release(&name);
}

// The format has no place for comments: loss stands in the name that the viewer shows, all of it in the exporter's.
static void put_about(struct writer *w)
{
	struct buf text = { 0 };
	struct export_notes notes;
	json_put_text(w->out, "$schema", "https://www.speedscope.app/file-format-schema.json");
	export_title(w->input, &text);
	json_put_shown(w->out, "name", buf_text(&text));
	buf_clear(&text);
	buf_string(&text, "perfsample " PERFSAMPLE_VERSION);
	export_notes_read(&notes, w->input, 0);
	for (size_t i = 0; i < notes.lines.count; i++)
		buf_printf(&text, "; %s", notes.lines.data[i]);
	export_notes_release(&notes);
	json_put_text(w->out, "exporter", buf_text(&text));
	buf_release(&text);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	size_t places = export_place_count(input->profile);
	struct writer w = {
		.input = input, .profile = input->profile, .out = out, .frame_of = mem_alloc(places * sizeof(uint32_t)),
		.is_clock = input->event < input->profile->events.count && input->profile->events.data[input->event].is_clock,
	};
	memset(w.frame_of, 0xff, places * sizeof(uint32_t));
	export_stacks_init(&w.stacks, input);
	export_threads_read(&w.threads, input);
	json_open_object(out, NULL);
	put_about(&w);
	put_profiles(&w);
	put_frames(&w);
	json_close_object(out);
	buf_byte(out, '\n');
	export_stacks_release(&w.stacks);
	export_threads_release(&w.threads);
	free(w.frame_of);
	vec_release(&w.frames);
	vec_release(&w.file_step);
	vec_release(&w.path);
	return true;
}

const struct exporter exporter_speedscope = {
	.name = "speedscope", .extension = "speedscope.json", .description = "speedscope's file format, a profile a thread", .write = write,
};
