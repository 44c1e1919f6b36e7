// Firefox Profiler's processed profile format, version 48 (its docs-developer/CHANGELOG-formats.md; newer viewers upgrade it): tables of a
// thread are columns, and refer to each other by row.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/json_write.h"
#include "export/notes.h"
#include "export/place.h"

enum { NONE = 0xffffffff };
enum { GECKO_VERSION = 27, PROCESSED_VERSION = 48 };
enum category { CATEGORY_OTHER, CATEGORY_USER, CATEGORY_KERNEL, CATEGORY_JIT, CATEGORY_INCOMPLETE, CATEGORY_COUNT };
static const char *const categories[CATEGORY_COUNT][2] = { // colours are of the viewer's list; the grey one is its default
	{ "Other", "grey" }, { "User", "yellow" }, { "Kernel", "orange" }, { "JIT", "magenta" }, { "Incomplete stack", "red" },
};
enum { RESOURCE_LIBRARY = 1 };
static const uint64_t MOST_SAFE_INTEGER = (1ull << 53) - 1; // of JavaScript

// What belongs to one thread: rows in the order of first use.
struct tables {
	struct intern strings;
	VEC(uint32_t) nodes, steps, places, dsos; // what each row is
	uint32_t *row_of_node, *row_of_step, *row_of_place, *row_of_dso; // NONE: not in this thread
};

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct export_stacks stacks;
	struct export_threads threads;
	struct tables t;
	VEC(uint32_t) libs;      // dsos, by row of the profile's table
	uint32_t *lib_of_dso;
	bool is_clock;
	double mean_period;      // with by_period, of events that are no clocks
	struct buf *out, name;
};

static double ms_since_start(const struct writer *w, uint64_t time_ns)
{
	uint64_t start_ns = w->profile->meta.start_ns;
	return time_ns > start_ns ? (double)(time_ns - start_ns) / 1e6 : 0; // a sample of no time stands at the start
}

static uint32_t shown_string(struct writer *w, const char *text)
{
	return intern_bytes(&w->t.strings, text, strlen(text));
}

static enum category category_of(const struct writer *w, const struct export_step *step)
{
	if (step->is_mark)
		return CATEGORY_INCOMPLETE;
	if (export_step_is_kernel(w->profile, step))
		return CATEGORY_KERNEL;
	uint32_t dso = w->profile->frames.data[step->frame].dso;
	if (dso == PROFILE_NONE)
		return CATEGORY_OTHER;
	return w->profile->dsos.data[dso].pid != 0 && profile_text(w->profile, w->profile->dsos.data[dso].path)[0] != '[' ? CATEGORY_JIT : CATEGORY_USER;
}

// ---------------------------------------------------------------- rows

static uint32_t resource_row(struct writer *w, uint32_t dso)
{
	if (w->t.row_of_dso[dso] == NONE) {
		w->t.row_of_dso[dso] = (uint32_t)w->t.dsos.count;
		vec_push(&w->t.dsos, dso);
	}
	if (w->lib_of_dso[dso] == NONE) {
		w->lib_of_dso[dso] = (uint32_t)w->libs.count;
		vec_push(&w->libs, dso);
	}
	return w->t.row_of_dso[dso];
}

static uint32_t func_row(struct writer *w, uint32_t place)
{
	if (w->t.row_of_place[place] == NONE) {
		w->t.row_of_place[place] = (uint32_t)w->t.places.count;
		vec_push(&w->t.places, place);
		if (export_place_dso(w->profile, place) != PROFILE_NONE)
			resource_row(w, export_place_dso(w->profile, place));
	}
	return w->t.row_of_place[place];
}

static uint32_t frame_row(struct writer *w, uint32_t step)
{
	if (w->t.row_of_step[step] == NONE) {
		w->t.row_of_step[step] = (uint32_t)w->t.steps.count;
		vec_push(&w->t.steps, step);
		func_row(w, w->stacks.steps.data[step].place);
	}
	return w->t.row_of_step[step];
}

// Callers stand in rows before their callees.
static uint32_t stack_row(struct writer *w, uint32_t leaf)
{
	size_t from = w->t.nodes.count;
	for (uint32_t node = leaf; node != PROFILE_NONE && w->t.row_of_node[node] == NONE; node = w->stacks.nodes.data[node].parent)
		vec_push(&w->t.nodes, node);
	for (size_t i = from, j = w->t.nodes.count; i + 1 < j; i++) {
		uint32_t node = w->t.nodes.data[i];
		w->t.nodes.data[i] = w->t.nodes.data[--j];
		w->t.nodes.data[j] = node;
	}
	for (size_t i = from; i < w->t.nodes.count; i++) {
		w->t.row_of_node[w->t.nodes.data[i]] = (uint32_t)i;
		frame_row(w, w->stacks.nodes.data[w->t.nodes.data[i]].step);
	}
	return w->t.row_of_node[leaf];
}

static void reset_tables(struct writer *w)
{
	struct tables *t = &w->t;
	for (size_t i = 0; i < t->nodes.count; i++)
		t->row_of_node[t->nodes.data[i]] = NONE;
	for (size_t i = 0; i < t->steps.count; i++)
		t->row_of_step[t->steps.data[i]] = NONE;
	for (size_t i = 0; i < t->places.count; i++)
		t->row_of_place[t->places.data[i]] = NONE;
	for (size_t i = 0; i < t->dsos.count; i++)
		t->row_of_dso[t->dsos.data[i]] = NONE;
	vec_clear(&t->nodes);
	vec_clear(&t->steps);
	vec_clear(&t->places);
	vec_clear(&t->dsos);
	intern_release(&t->strings);
	intern_init(&t->strings);
}

// ---------------------------------------------------------------- columns

// A column of `count` numbers made by an expression of the row `i`.
#define COLUMN(w, key, count, put) do { \
	json_open_array((w)->out, (key)); \
	for (size_t i = 0; i < (count); i++) \
		put; \
	json_close_array((w)->out); } while (0)

static void null_column(struct writer *w, const char *key, size_t count)
{
	COLUMN(w, key, count, json_put_null(w->out, NULL));
}

static void put_samples(struct writer *w, const struct export_thread *t)
{
	json_open_object(w->out, "samples");
	const uint32_t *rows = w->threads.samples.data + t->first;
	const struct samples *samples = &w->profile->samples;
	COLUMN(w, "stack", t->count, json_put_u64(w->out, NULL, stack_row(w, export_stack_of(&w->stacks, samples_get(samples, rows[i], &(struct profile_sample){ 0 })))));
	COLUMN(w, "time", t->count, json_put_fixed(w->out, NULL, ms_since_start(w, samples_at(samples, rows[i]).time_ns), 6));
	if (w->is_clock)
		COLUMN(w, "weight", t->count, json_put_fixed(w->out, NULL, (double)samples_at(samples, rows[i]).weight / 1e6, 6));
	else if (w->mean_period > 0) // the format knows no events: a sample is worth as many average ones
		COLUMN(w, "weight", t->count, json_put_fixed(w->out, NULL, (double)samples_at(samples, rows[i]).weight / w->mean_period, 9));
	else
		COLUMN(w, "weight", t->count, json_put_u64(w->out, NULL, profile_sample_count(w->profile, samples_get(samples, rows[i], &(struct profile_sample){ 0 }))));
	json_put_text(w->out, "weightType", w->is_clock ? "tracing-ms" : "samples");
	json_put_u64(w->out, "length", t->count);
	json_close_object(w->out);
}

static double mean_period(const struct writer *w)
{
	double sum = 0;
	for (size_t i = 0; i < w->threads.threads.count; i++)
		sum += (double)w->threads.threads.data[i].weight;
	return w->threads.samples.count > 0 ? sum / (double)w->threads.samples.count : 0;
}

static const struct export_step *step_of_row(const struct writer *w, size_t stack)
{
	return &w->stacks.steps.data[w->stacks.nodes.data[w->t.nodes.data[stack]].step];
}

static void put_prefix(struct writer *w, uint32_t node)
{
	uint32_t parent = w->stacks.nodes.data[node].parent;
	if (parent != PROFILE_NONE)
		json_put_u64(w->out, NULL, w->t.row_of_node[parent]);
	else
		json_put_null(w->out, NULL);
}

static void put_stack_table(struct writer *w)
{
	size_t count = w->t.nodes.count;
	json_open_object(w->out, "stackTable");
	COLUMN(w, "frame", count, json_put_u64(w->out, NULL, w->t.row_of_step[w->stacks.nodes.data[w->t.nodes.data[i]].step]));
	COLUMN(w, "prefix", count, put_prefix(w, w->t.nodes.data[i]));
	COLUMN(w, "category", count, json_put_u64(w->out, NULL, category_of(w, step_of_row(w, i))));
	COLUMN(w, "subcategory", count, json_put_u64(w->out, NULL, export_step_is_guessed(w->profile, step_of_row(w, i)))); // 0 or 1
	json_put_u64(w->out, "length", count);
	json_close_object(w->out);
}

static void put_address(struct writer *w, const struct export_step *step)
{
	uint64_t addr = step->is_mark ? UINT64_MAX : w->profile->frames.data[step->frame].image_addr;
	json_put_i64(w->out, NULL, addr <= MOST_SAFE_INTEGER && w->profile->frames.data[step->frame].dso != PROFILE_NONE ? (int64_t)addr : -1);
}

// How many functions this one is inlined into, at its address.
static uint32_t inline_depth(const struct writer *w, const struct export_step *step)
{
	if (step->is_mark || step->line == PROFILE_NONE || !w->input->inlines)
		return 0;
	const struct profile_frame *frame = &w->profile->frames.data[step->frame];
	return frame->first_line + frame->line_count - 1 - step->line;
}

static void put_line(struct writer *w, const struct export_step *step)
{
	uint32_t line = export_step_line(w->profile, step);
	if (line > 0)
		json_put_u64(w->out, NULL, line);
	else
		json_put_null(w->out, NULL);
}

static void put_frame_table(struct writer *w)
{
	size_t count = w->t.steps.count;
#define STEP (&w->stacks.steps.data[w->t.steps.data[i]])
	json_open_object(w->out, "frameTable");
	COLUMN(w, "address", count, put_address(w, STEP));
	COLUMN(w, "inlineDepth", count, json_put_u64(w->out, NULL, inline_depth(w, STEP)));
	COLUMN(w, "category", count, json_put_u64(w->out, NULL, category_of(w, STEP)));
	COLUMN(w, "subcategory", count, json_put_u64(w->out, NULL, export_step_is_guessed(w->profile, STEP)));
	COLUMN(w, "func", count, json_put_u64(w->out, NULL, w->t.row_of_place[STEP->place]));
	COLUMN(w, "line", count, put_line(w, STEP));
#undef STEP
	null_column(w, "nativeSymbol", count);
	COLUMN(w, "innerWindowID", count, json_put_u64(w->out, NULL, 0));
	null_column(w, "implementation", count);
	null_column(w, "column", count);
	json_put_u64(w->out, "length", count);
	json_close_object(w->out);
}

static uint32_t place_string(struct writer *w, uint32_t place)
{
	buf_clear(&w->name);
	export_place_name(w->profile, place, &w->name);
	return shown_string(w, buf_text(&w->name));
}

static void put_func_files(struct writer *w)
{
	uint32_t *files = mem_zero(w->t.places.count + 1, sizeof(*files)); // intern id of the profile
	for (size_t i = w->t.steps.count; i-- > 0;) { // the first step of a function tells its file
		const struct export_step *step = &w->stacks.steps.data[w->t.steps.data[i]];
		if (step->line != PROFILE_NONE && w->profile->chains.data[step->line].file != 0)
			files[w->t.row_of_place[step->place]] = w->profile->chains.data[step->line].file;
	}
	json_open_array(w->out, "fileName");
	for (size_t i = 0; i < w->t.places.count; i++) {
		if (files[i] != 0)
			json_put_u64(w->out, NULL, shown_string(w, profile_text(w->profile, files[i])));
		else
			json_put_null(w->out, NULL);
	}
	json_close_array(w->out);
	free(files);
}

static void put_func_resource(struct writer *w, uint32_t place)
{
	uint32_t dso = export_place_dso(w->profile, place);
	json_put_i64(w->out, NULL, dso != PROFILE_NONE ? (int64_t)w->t.row_of_dso[dso] : -1);
}

static void put_func_table(struct writer *w)
{
	size_t count = w->t.places.count;
	json_open_object(w->out, "funcTable");
	COLUMN(w, "name", count, json_put_u64(w->out, NULL, place_string(w, w->t.places.data[i])));
	COLUMN(w, "isJS", count, json_put_bool(w->out, NULL, false));
	COLUMN(w, "relevantForJS", count, json_put_bool(w->out, NULL, false));
	COLUMN(w, "resource", count, put_func_resource(w, w->t.places.data[i]));
	put_func_files(w);
	null_column(w, "lineNumber", count);
	null_column(w, "columnNumber", count);
	json_put_u64(w->out, "length", count);
	json_close_object(w->out);
}

static void put_resource_table(struct writer *w)
{
	size_t count = w->t.dsos.count;
	const struct profile_dso *dsos = w->profile->dsos.data;
	json_open_object(w->out, "resourceTable");
	COLUMN(w, "lib", count, json_put_u64(w->out, NULL, w->lib_of_dso[w->t.dsos.data[i]]));
	COLUMN(w, "name", count, json_put_u64(w->out, NULL, shown_string(w, profile_text(w->profile, dsos[w->t.dsos.data[i]].short_name))));
	null_column(w, "host", count);
	COLUMN(w, "type", count, json_put_u64(w->out, NULL, RESOURCE_LIBRARY));
	json_put_u64(w->out, "length", count);
	json_close_object(w->out);
	json_open_object(w->out, "nativeSymbols");
	null_column(w, "libIndex", 0);
	null_column(w, "address", 0);
	null_column(w, "name", 0);
	null_column(w, "functionSize", 0);
	json_put_u64(w->out, "length", 0);
	json_close_object(w->out);
}

// Stretches in which the kernel lost samples, shown with the first thread.
static void put_markers(struct writer *w, bool has_losses)
{
	VEC(const struct profile_loss *) losses = { 0 };
	for (size_t i = 0; has_losses && i < w->profile->losses.count; i++)
		if (!w->profile->losses.data[i].is_sideband && w->profile->losses.data[i].event == w->input->event)
			vec_push(&losses, &w->profile->losses.data[i]);
	uint32_t name = losses.count > 0 ? shown_string(w, "lost samples") : 0;
	json_open_object(w->out, "markers");
	null_column(w, "data", losses.count);
	COLUMN(w, "name", losses.count, json_put_u64(w->out, NULL, name));
	COLUMN(w, "startTime", losses.count, json_put_fixed(w->out, NULL, ms_since_start(w, losses.data[i]->from_ns), 6));
	COLUMN(w, "endTime", losses.count, json_put_fixed(w->out, NULL, ms_since_start(w, losses.data[i]->to_ns), 6));
	COLUMN(w, "phase", losses.count, json_put_u64(w->out, NULL, 1)); // an interval
	COLUMN(w, "category", losses.count, json_put_u64(w->out, NULL, CATEGORY_OTHER));
	json_put_u64(w->out, "length", losses.count);
	json_close_object(w->out);
	vec_release(&losses);
}

// ---------------------------------------------------------------- threads and the whole

static void put_thread(struct writer *w, const struct export_thread *t, bool has_losses)
{
	char pid[16];
	struct profile_sample first_row;
	const struct profile_sample *first = samples_get(&w->profile->samples, w->threads.samples.data[t->first], &first_row);
	reset_tables(w);
	snprintf(pid, sizeof(pid), "%d", t->pid);
	json_open_object(w->out, NULL);
	json_put_text(w->out, "processType", "default");
	json_put_shown(w->out, "processName", profile_text(w->profile, t->process));
	json_put_u64(w->out, "processStartupTime", 0);
	json_put_null(w->out, "processShutdownTime");
	json_put_fixed(w->out, "registerTime", ms_since_start(w, first->time_ns), 6);
	json_put_null(w->out, "unregisterTime");
	json_open_array(w->out, "pausedRanges");
	json_close_array(w->out);
	json_put_shown(w->out, "name", profile_text(w->profile, t->comm));
	json_put_bool(w->out, "isMainThread", t->pid == t->tid);
	json_put_text(w->out, "pid", pid);
	json_put_i64(w->out, "tid", t->tid);
	put_samples(w, t);
	put_stack_table(w);
	put_frame_table(w);
	put_func_table(w);
	put_resource_table(w);
	put_markers(w, has_losses);
	json_open_array(w->out, "stringArray");
	for (uint32_t i = 0; i < w->t.strings.entries.count; i++)
		json_put_shown(w->out, NULL, intern_text(&w->t.strings, i));
	json_close_array(w->out);
	json_close_object(w->out);
}

static void put_extra(struct writer *w)
{
	struct export_notes notes;
	json_open_array(w->out, "extra"); // what the viewer shows under "Profile info"
	json_open_object(w->out, NULL);
	json_put_text(w->out, "label", "perfsample");
	json_open_array(w->out, "entries");
	export_notes_read(&notes, w->input, 0);
	for (size_t i = 0; i < notes.lines.count; i++) {
		json_open_object(w->out, NULL);
		json_put_text(w->out, "label", i == 0 ? "Recording" : "Note");
		json_put_text(w->out, "format", "string");
		json_put_text(w->out, "value", notes.lines.data[i]);
		json_close_object(w->out);
	}
	export_notes_release(&notes);
	json_close_array(w->out);
	json_close_object(w->out);
	json_close_array(w->out);
}

static void put_meta(struct writer *w)
{
	const struct profile_meta *meta = &w->profile->meta;
	struct buf title = { 0 };
	json_open_object(w->out, "meta");
	json_put_number(w->out, "interval", export_interval_ns(w->input, &w->threads) / 1e6); // ms
	json_put_fixed(w->out, "startTime", (double)meta->start_wall_ns / 1e6, 3);
	json_put_u64(w->out, "processType", 0);
	export_title(w->input, &title);
	json_put_shown(w->out, "product", buf_text(&title));
	buf_release(&title);
	json_put_text(w->out, "importedFrom", "perfsample " PERFSAMPLE_VERSION);
	json_put_u64(w->out, "stackwalk", 1);
	json_put_bool(w->out, "debug", false);
	json_put_u64(w->out, "version", GECKO_VERSION);
	json_put_u64(w->out, "preprocessedProfileVersion", PROCESSED_VERSION);
	json_put_bool(w->out, "symbolicated", true);
	json_put_text(w->out, "platform", "Linux");
	json_put_shown(w->out, "oscpu", profile_text(w->profile, meta->kernel));
	json_put_shown(w->out, "CPUName", profile_text(w->profile, meta->cpu_desc));
	json_open_array(w->out, "categories");
	for (size_t i = 0; i < CATEGORY_COUNT; i++) {
		json_open_object(w->out, NULL);
		json_put_text(w->out, "name", categories[i][0]);
		json_put_text(w->out, "color", categories[i][1]);
		json_open_array(w->out, "subcategories");
		json_put_text(w->out, NULL, "Other");
		json_put_text(w->out, NULL, "Found without CFI");
		json_close_array(w->out);
		json_close_object(w->out);
	}
	json_close_array(w->out);
	json_open_array(w->out, "markerSchema");
	json_close_array(w->out);
	put_extra(w);
	json_close_object(w->out);
}

static void put_libs(struct writer *w)
{
	json_open_array(w->out, "libs");
	for (size_t i = 0; i < w->libs.count; i++) {
		const struct profile_dso *dso = &w->profile->dsos.data[w->libs.data[i]];
		const char *name = profile_text(w->profile, dso->short_name), *path = profile_text(w->profile, dso->path);
		char hex[2 * sizeof(dso->build_id.bytes) + 1];
		json_open_object(w->out, NULL);
		json_put_text(w->out, "arch", "");
		json_put_shown(w->out, "name", name);
		json_put_shown(w->out, "path", path);
		json_put_shown(w->out, "debugName", name);
		json_put_shown(w->out, "debugPath", path);
		json_put_text(w->out, "breakpadId", "");
		if (dso->build_id.size > 0)
			json_put_text(w->out, "codeId", build_id_hex(&dso->build_id, hex));
		else
			json_put_null(w->out, "codeId");
		json_close_object(w->out);
	}
	json_close_array(w->out);
}

static uint32_t *none_array(size_t count)
{
	uint32_t *rows = mem_alloc((count + 1) * sizeof(*rows));
	memset(rows, 0xff, (count + 1) * sizeof(*rows));
	return rows;
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct profile *p = input->profile;
	struct writer w = { .input = input, .profile = p, .out = out, .is_clock = input->event < p->events.count && p->events.data[input->event].is_clock };
	export_stacks_init(&w.stacks, input);
	export_threads_read(&w.threads, input);
	w.mean_period = input->by_period && !w.is_clock ? mean_period(&w) : 0;
	for (size_t i = 0; i < w.threads.samples.count; i++)
		export_stack_of(&w.stacks, samples_get(&p->samples, w.threads.samples.data[i], &(struct profile_sample){ 0 })); // all nodes and steps are known from here on
	w.t.row_of_node = none_array(w.stacks.nodes.count);
	w.t.row_of_step = none_array(w.stacks.steps.count);
	w.t.row_of_place = none_array(export_place_count(p));
	w.t.row_of_dso = none_array(p->dsos.count);
	w.lib_of_dso = none_array(p->dsos.count);
	json_open_object(out, NULL);
	put_meta(&w);
	json_open_array(out, "pages");
	json_close_array(out);
	json_open_array(out, "threads");
	for (size_t i = 0; i < w.threads.threads.count; i++)
		put_thread(&w, &w.threads.threads.data[i], i == 0);
	json_close_array(out);
	put_libs(&w);
	json_close_object(out);
	buf_byte(out, '\n');
	reset_tables(&w);
	intern_release(&w.t.strings);
	vec_release(&w.t.nodes);
	vec_release(&w.t.steps);
	vec_release(&w.t.places);
	vec_release(&w.t.dsos);
	free(w.t.row_of_node);
	free(w.t.row_of_step);
	free(w.t.row_of_place);
	free(w.t.row_of_dso);
	free(w.lib_of_dso);
	vec_release(&w.libs);
	buf_release(&w.name);
	export_stacks_release(&w.stacks);
	export_threads_release(&w.threads);
	return true;
}

const struct exporter exporter_gecko = {
	.name = "gecko", .extension = "gecko.json", .description = "Firefox Profiler (profiler.firefox.com), a track a thread", .write = write,
};
