// Trace event JSON ("Trace Event Format", Chromium's document), for timelines: Perfetto, chrome://tracing.
//
// Samples are points; the viewers show spans. A sample stands for the interval before it; what consecutive samples of a thread share, from the
// root on, is one span, and a gap between them ends all spans. So a span is as long as sampling saw it, not from call to return.
#include <stdlib.h>
#include <string.h>

#include "export/json_write.h"
#include "base/plural.h"
#include "export/notes.h"
#include "export/place.h"

struct open { uint32_t place; bool is_guessed; };

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct export_stacks stacks;
	struct export_threads threads;
	double interval_ns;
	VEC(struct open) open, path; // root first
	struct buf *out;
	struct buf name;
};

static void put_event(struct writer *w, const char *phase, double time_ns, int32_t pid, int32_t tid)
{
	json_open_object(w->out, NULL);
	json_put_text(w->out, "ph", phase);
	json_put_fixed(w->out, "ts", time_ns / 1e3, 3); // µs
	json_put_i64(w->out, "pid", pid);
	json_put_i64(w->out, "tid", tid);
}

// Ends carry the name too: the format lets them go without, but not every reader does.
static void put_edge(struct writer *w, const struct export_thread *t, bool is_begin, double time_ns, const struct open *at)
{
	uint32_t dso = export_place_dso(w->profile, at->place);
	put_event(w, is_begin ? "B" : "E", time_ns, t->pid, t->tid);
	buf_clear(&w->name);
	export_place_name(w->profile, at->place, &w->name);
	json_put_shown(w->out, "name", buf_text(&w->name));
	if (is_begin)
		json_put_shown(w->out, "cat", dso != PROFILE_NONE ? profile_text(w->profile, w->profile->dsos.data[dso].short_name) : "perfsample");
	if (is_begin && at->is_guessed) {
		json_open_object(w->out, "args");
		json_put_text(w->out, "guessed", "found without CFI");
		json_close_object(w->out);
	}
	json_close_object(w->out);
}

static void close_down_to(struct writer *w, const struct export_thread *t, double time_ns, size_t depth)
{
	while (w->open.count > depth)
		put_edge(w, t, false, time_ns, &w->open.data[--w->open.count]);
}

static void read_path(struct writer *w, const struct profile_sample *sample)
{
	vec_clear(&w->path);
	for (uint32_t node = export_stack_of(&w->stacks, sample); node != PROFILE_NONE; node = w->stacks.nodes.data[node].parent) {
		const struct export_step *step = &w->stacks.steps.data[w->stacks.nodes.data[node].step];
		vec_push(&w->path, (struct open){ step->place, export_step_is_guessed(w->profile, step) });
	}
	for (size_t i = 0, j = w->path.count; i + 1 < j; i++) {
		struct open swapped = w->path.data[i];
		w->path.data[i] = w->path.data[--j];
		w->path.data[j] = swapped;
	}
}

static void put_spans(struct writer *w, const struct export_thread *t)
{
	double last = -1; // ns since the start, of the sample before
	vec_clear(&w->open);
	for (size_t i = t->first; i < t->first + t->count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&w->profile->samples, w->threads.samples.data[i], &s_row);
		uint64_t start_ns = w->profile->meta.start_ns;
		double at = s->time_ns > start_ns ? (double)(s->time_ns - start_ns) : 0, from = at - w->interval_ns;
		if (last >= 0 && from < last + w->interval_ns / 2)
			from = last;
		else
			close_down_to(w, t, last, 0);
		if (from < 0)
			from = 0; // the first interval began before the recording
		read_path(w, s);
		size_t shared = 0;
		while (shared < w->open.count && shared < w->path.count && w->open.data[shared].place == w->path.data[shared].place)
			shared++;
		close_down_to(w, t, from, shared);
		for (size_t k = shared; k < w->path.count; k++) {
			put_edge(w, t, true, from, &w->path.data[k]);
			vec_push(&w->open, w->path.data[k]);
		}
		last = at > 0 ? at : 0;
	}
	close_down_to(w, t, last, 0);
}

static void put_metadata(struct writer *w, const struct export_thread *t, const char *what, const char *name)
{
	put_event(w, "M", 0, t->pid, t->tid);
	json_put_text(w->out, "name", what);
	json_open_object(w->out, "args");
	json_put_shown(w->out, "name", name);
	json_close_object(w->out);
	json_close_object(w->out);
}

static void put_names(struct writer *w)
{
	struct hash_map processes = { 0 };
	for (size_t i = 0; i < w->threads.threads.count; i++) {
		const struct export_thread *t = &w->threads.threads.data[i];
		bool is_new;
		hash_map_put(&processes, (uint32_t)t->pid, 0, &is_new);
		if (is_new && t->process != 0)
			put_metadata(w, t, "process_name", profile_text(w->profile, t->process));
		buf_clear(&w->name);
		export_thread_name(w->profile, t, &w->name);
		put_metadata(w, t, "thread_name", buf_text(&w->name));
	}
	hash_map_release(&processes);
}

// Where samples are missing, across all threads: an instant of the whole trace.
static void put_losses(struct writer *w)
{
	for (size_t i = 0; i < w->profile->losses.count; i++) {
		const struct profile_loss *loss = &w->profile->losses.data[i];
		if (loss->is_sideband || loss->event != w->input->event || loss->count == 0)
			continue;
		put_event(w, "i", (double)(int64_t)(loss->to_ns - w->profile->meta.start_ns), 0, 0);
		buf_clear(&w->name);
		buf_printf(&w->name, "lost %llu sample%s", (unsigned long long)loss->count, plural((double)loss->count));
		json_put_text(w->out, "name", buf_text(&w->name));
		json_put_text(w->out, "cat", "lost");
		json_put_text(w->out, "s", "g");
		json_close_object(w->out);
	}
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	struct writer w = { .input = input, .profile = input->profile, .out = out };
	struct export_notes notes;
	export_stacks_init(&w.stacks, input);
	export_threads_read(&w.threads, input);
	w.interval_ns = export_interval_ns(input, &w.threads);
	json_open_object(out, NULL);
	json_put_text(out, "displayTimeUnit", "ms");
	json_open_object(out, "otherData");
	json_put_text(out, "exporter", "perfsample " PERFSAMPLE_VERSION);
	export_notes_read(&notes, input, 0);
	json_open_array(out, "notes");
	for (size_t i = 0; i < notes.lines.count; i++)
		json_put_text(out, NULL, notes.lines.data[i]);
	json_close_array(out);
	export_notes_release(&notes);
	json_close_object(out);
	json_open_array(out, "traceEvents");
	put_names(&w);
	put_losses(&w);
	for (size_t i = 0; i < w.threads.threads.count; i++)
		put_spans(&w, &w.threads.threads.data[i]);
	json_close_array(out);
	json_close_object(out);
	buf_byte(out, '\n');
	export_stacks_release(&w.stacks);
	export_threads_release(&w.threads);
	vec_release(&w.open);
	vec_release(&w.path);
	buf_release(&w.name);
	return true;
}

const struct exporter exporter_chrome = {
	.name = "chrome", .extension = "trace.json", .description = "trace event JSON for timelines: Perfetto, chrome://tracing", .write = write,
};
