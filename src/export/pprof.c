// pprof's profile.proto, in protobuf's wire format (protobuf.dev, "Encoding"): the whole message is fields of varints and of bytes with their
// length in front, so it is written directly. Field numbers are those of the public schema, github.com/google/pprof/proto/profile.proto.
//
// A function is a place, a location a frame with its inline chain, a mapping a binary. Addresses are those of the binary itself: one binary
// may be mapped at different addresses in different processes, and is one mapping here.
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "export/counts.h"
#include "export/notes.h"
#include "export/place.h"
#include "profile/vias.h"

enum { WIRE_VARINT = 0, WIRE_BYTES = 2 };
enum profile_field { // message Profile
	PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_MAPPING = 3, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRING = 6,
	PROFILE_TIME_NS = 9, PROFILE_DURATION_NS = 10, PROFILE_PERIOD_TYPE = 11, PROFILE_PERIOD = 12, PROFILE_COMMENT = 13, PROFILE_DEFAULT_TYPE = 14,
};
enum { NOTED_ROWS = 10 }; // functions whose intervals the comments tell

// What makes two samples one; compared byte by byte, so no padding.
struct sample_key { uint32_t comm, stack, end, cpu; int32_t pid, tid; };
_Static_assert(sizeof(struct sample_key) == 24, "no padding");
struct sample_value { uint64_t count, weight; };

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct intern strings, keys;
	VEC(struct sample_value) values; // by id of keys
	bool *uses_place, *uses_frame, *uses_mark, *uses_dso;
	uint64_t *dso_limit;             // highest address seen in it, + 1
	struct vias vias;
	struct buf *out, part, inner;
};

// ---------------------------------------------------------------- the wire format

static void put_varint(struct buf *out, unsigned field, uint64_t value)
{
	buf_uleb(out, field << 3 | WIRE_VARINT); // a varint is ULEB128
	buf_uleb(out, value);
}

static void put_number(struct buf *out, unsigned field, uint64_t value)
{
	if (value != 0) // proto3 leaves out what is the default
		put_varint(out, field, value);
}

static void put_bytes(struct buf *out, unsigned field, const void *bytes, size_t size)
{
	buf_uleb(out, field << 3 | WIRE_BYTES);
	buf_uleb(out, size);
	buf_add(out, bytes, size);
}

static void put_message(struct buf *out, unsigned field, struct buf *message)
{
	put_bytes(out, field, message->data, message->size);
	buf_clear(message);
}

// ---------------------------------------------------------------- strings

// Names are another's data: controls spelled out, and valid UTF-8, which proto3 asks for.
static uint32_t string_id(struct writer *w, const char *text)
{
	struct buf shown = { 0 };
	escape_terminal(&shown, text, strlen(text));
	uint32_t id = intern_bytes(&w->strings, shown.data, shown.size);
	buf_release(&shown);
	return id;
}

static void put_value_type(struct writer *w, unsigned field, const char *type, const char *unit)
{
	put_number(&w->part, 1, string_id(w, type));
	put_number(&w->part, 2, string_id(w, unit));
	put_message(w->out, field, &w->part);
}

// ---------------------------------------------------------------- samples

static void count_samples(struct writer *w)
{
	vec_push(&w->values, (struct sample_value){ 0 }); // id 0: the empty string
	struct export_counts counts;
	export_counts_read(&counts, w->input);
	for (size_t i = 0; i < counts.rows.count; i++) {
		const struct export_count *row = &counts.rows.data[i];
		struct profile_sample s = export_count_sample(w->profile, row);
		struct sample_key key = { .comm = s.comm, .stack = s.stack, .end = s.end, .cpu = s.cpu, .pid = s.pid, .tid = s.tid };
		uint32_t id = intern_bytes(&w->keys, (const char *)&key, sizeof(key));
		if (id == w->values.count)
			vec_push(&w->values, (struct sample_value){ 0 });
		w->values.data[id].count += row->samples;
		w->values.data[id].weight += row->weight;
	}
	vec_release(&counts.rows);
}

// Stacks that were counted elsewhere have no other value than their number.
static bool counts_alone(const struct writer *w)
{
	return w->input->event < w->profile->events.count && w->profile->events.data[w->input->event].counts_by_weight;
}

static void put_label_text(struct writer *w, const char *key, const char *text)
{
	put_number(&w->inner, 1, string_id(w, key));
	put_number(&w->inner, 2, string_id(w, text));
	put_message(&w->part, 3, &w->inner);
}

static void put_label_number(struct writer *w, const char *key, int64_t number)
{
	put_number(&w->inner, 1, string_id(w, key));
	put_number(&w->inner, 3, (uint64_t)number);
	put_number(&w->inner, 4, string_id(w, key)); // the unit: what pprof takes where none is told; without it a 0 would not be a number
	put_message(&w->part, 3, &w->inner);
}

static uint64_t mark_location(const struct writer *w, enum stack_mark_id mark)
{
	return w->profile->frames.count + 1 + mark;
}

static enum stack_mark_id mark_of(const struct sample_key *key)
{
	if (stack_mark((enum unwind_end)key->end) == NULL)
		return key->stack == PROFILE_NONE ? MARK_EMPTY : MARK_COUNT;
	return stack_mark((enum unwind_end)key->end)[1] == 't' ? MARK_TRUNCATED : MARK_FAILED;
}

static void put_locations(struct writer *w, const struct sample_key *key)
{
	for (uint32_t node = key->stack; node != PROFILE_NONE; node = w->profile->nodes.data[node].parent) { // the leaf first
		uint32_t frame = w->profile->nodes.data[node].frame;
		w->uses_frame[frame] = true;
		buf_uleb(&w->inner, (uint64_t)frame + 1);
	}
	enum stack_mark_id mark = mark_of(key);
	if (mark != MARK_COUNT) {
		w->uses_mark[mark] = true;
		buf_uleb(&w->inner, mark_location(w, mark));
	}
	put_message(&w->part, 1, &w->inner);
}

// For -tagfocus and -tagignore: how frames were found that no CFI led to, and the root.
static void put_guesses(struct writer *w, const struct sample_key *key)
{
	uint16_t found = vias_of_stack(&w->vias, w->profile, key->stack);
	for (unsigned via = 0; via < VIA_COUNT; via++)
		if (frame_via_is_guessed(via) && (found >> via & 1) != 0)
			put_label_text(w, "guessed", frame_via_name(via));
	if (key->end == UNWIND_ROOT_GUESSED)
		put_label_text(w, "guessed", "root");
}

static void put_sample(struct writer *w, const struct sample_key *key, const struct sample_value *value)
{
	put_locations(w, key);
	buf_uleb(&w->inner, value->count);
	if (!counts_alone(w))
		buf_uleb(&w->inner, value->weight);
	put_message(&w->part, 2, &w->inner);
	put_label_number(w, "pid", key->pid);
	put_label_number(w, "tid", key->tid);
	if (key->cpu != UINT32_MAX)
		put_label_number(w, "cpu", key->cpu);
	if (key->comm != 0)
		put_label_text(w, "comm", profile_text(w->profile, key->comm));
	if (mark_of(key) == MARK_TRUNCATED || mark_of(key) == MARK_FAILED)
		put_label_text(w, "unwind_end", unwind_end_name((enum unwind_end)key->end));
	put_guesses(w, key);
	put_message(w->out, PROFILE_SAMPLE, &w->part);
}

// ---------------------------------------------------------------- locations, functions, mappings

static void put_line(struct writer *w, const struct export_step *step)
{
	w->uses_place[step->place] = true;
	put_number(&w->inner, 1, (uint64_t)step->place + 1);
	put_number(&w->inner, 2, export_step_line(w->profile, step));
	put_message(&w->part, 4, &w->inner);
}

static void put_location(struct writer *w, uint32_t id)
{
	const struct profile_frame *frame = &w->profile->frames.data[id];
	put_number(&w->part, 1, (uint64_t)id + 1);
	if (frame->dso != PROFILE_NONE) {
		w->uses_dso[frame->dso] = true;
		if (frame->image_addr >= w->dso_limit[frame->dso])
			w->dso_limit[frame->dso] = frame->image_addr < UINT64_MAX ? frame->image_addr + 1 : frame->image_addr;
		put_number(&w->part, 2, (uint64_t)frame->dso + 1);
	}
	put_number(&w->part, 3, frame->dso != PROFILE_NONE ? frame->image_addr : frame->addr);
	uint32_t from = w->input->inlines || frame->line_count == 0 ? 0 : frame->line_count - 1;
	bool has_aliases = false;
	for (uint32_t i = from; i < (frame->line_count > 0 ? frame->line_count : 1); i++) { // innermost first, as inline chains stand
		struct export_step step = export_step_of(w->profile, id, frame->first_line + i);
		put_line(w, &step);
		has_aliases |= export_place_is_known(w->profile, step.place) && w->profile->functions.data[step.place].aliases != 0;
	}
	put_number(&w->part, 5, has_aliases); // is_folded: the name stands for one of several functions that share this code
	put_message(w->out, PROFILE_LOCATION, &w->part);
}

static void put_functions(struct writer *w)
{
	struct buf name = { 0 };
	const char **files = mem_zero(export_place_count(w->profile), sizeof(*files));
	for (size_t i = 0; i < w->profile->chains.count; i++) { // the file where its first line is
		const struct profile_line *line = &w->profile->chains.data[i];
		if (line->file != 0 && files[line->function] == NULL)
			files[line->function] = profile_text(w->profile, line->file);
	}
	for (uint32_t place = 0; place < export_place_count(w->profile); place++) {
		if (!w->uses_place[place])
			continue;
		buf_clear(&name);
		export_place_name(w->profile, place, &name);
		bool is_known = export_place_is_known(w->profile, place);
		const char *linkage = is_known ? profile_text(w->profile, w->profile->functions.data[place].linkage_name) : "";
		put_number(&w->part, 1, (uint64_t)place + 1);
		put_number(&w->part, 2, string_id(w, buf_text(&name)));
		put_number(&w->part, 3, string_id(w, *linkage != '\0' ? linkage : buf_text(&name)));
		if (is_known && files[place] != NULL)
			put_number(&w->part, 4, string_id(w, files[place]));
		put_message(w->out, PROFILE_FUNCTION, &w->part);
	}
	free(files);
	buf_release(&name);
}

static void put_mapping(struct writer *w, uint32_t id)
{
	const struct profile_dso *dso = &w->profile->dsos.data[id];
	char hex[2 * sizeof(dso->build_id.bytes) + 1];
	put_number(&w->part, 1, (uint64_t)id + 1);
	put_number(&w->part, 3, w->dso_limit[id]);
	put_number(&w->part, 5, string_id(w, profile_text(w->profile, dso->path)));
	if (dso->build_id.size > 0)
		put_number(&w->part, 6, string_id(w, build_id_hex(&dso->build_id, hex)));
	for (unsigned field = 7; field <= 10; field++) // functions, files, lines and inlined frames are resolved: nothing is to be looked up
		put_number(&w->part, field, field < 10 || w->input->inlines);
	put_message(w->out, PROFILE_MAPPING, &w->part);
}

// pprof takes the first mapping for the program itself: the one that most stacks begin in.
static uint32_t main_dso(const struct writer *w)
{
	uint64_t *counts = mem_zero(w->profile->dsos.count + 1, sizeof(*counts));
	uint32_t best = 0;
	for (size_t i = 0; i < w->profile->dsos.count; i++) {
		const char *name = profile_text(w->profile, w->profile->dsos.data[i].short_name);
		const char *comm = profile_text(w->profile, w->profile->meta.target_comm);
		if (*comm != '\0' && strncmp(name, comm, 15) == 0) { // TASK_COMM_LEN is 16
			free(counts);
			return (uint32_t)i;
		}
	}
	for (size_t i = 0; i < w->profile->samples.count; i++) {
		struct profile_sample sample = samples_at(&w->profile->samples, i);
		uint32_t node = export_keeps(w->input, &sample) ? sample.stack : PROFILE_NONE;
		uint32_t dso = node != PROFILE_NONE ? w->profile->frames.data[w->profile->nodes.data[node].frame].dso : PROFILE_NONE;
		bool is_user = dso != PROFILE_NONE && !w->profile->frames.data[w->profile->nodes.data[node].frame].is_kernel;
		if (is_user && ++counts[dso] > counts[best])
			best = dso;
	}
	free(counts);
	return best;
}

static void put_tables(struct writer *w)
{
	for (uint32_t i = 0; i < w->profile->frames.count; i++)
		if (w->uses_frame[i])
			put_location(w, i);
	for (enum stack_mark_id mark = 0; mark < MARK_COUNT; mark++) {
		if (!w->uses_mark[mark])
			continue;
		struct export_step step = export_mark_step(w->profile, mark);
		put_number(&w->part, 1, mark_location(w, mark));
		put_line(w, &step);
		put_message(w->out, PROFILE_LOCATION, &w->part);
	}
	put_functions(w);
	uint32_t first = main_dso(w);
	for (uint32_t i = 0; i < w->profile->dsos.count; i++) { // `first`, then the others
		uint32_t dso = i == 0 ? first : i <= first ? i - 1 : i;
		if (w->uses_dso[dso])
			put_mapping(w, dso);
	}
}

// ---------------------------------------------------------------- the message

static void put_about(struct writer *w)
{
	const struct profile_event *e = w->input->event < w->profile->events.count ? &w->profile->events.data[w->input->event] : NULL;
	const struct profile_meta *meta = &w->profile->meta;
	const struct report *report = w->input->report;
	const char *type = e == NULL || e->is_clock ? "cpu" : counts_alone(w) ? "samples" : profile_text(w->profile, e->name);
	const char *unit = e == NULL || e->is_clock ? "nanoseconds" : "count";
	uint64_t from = report != NULL ? report->from_ns : meta->start_ns, to = report != NULL ? report->to_ns : meta->end_ns;
	put_value_type(w, PROFILE_SAMPLE_TYPE, "samples", "count");
	if (!counts_alone(w))
		put_value_type(w, PROFILE_SAMPLE_TYPE, type, unit);
	if (meta->start_wall_ns != 0)
		put_number(w->out, PROFILE_TIME_NS, meta->start_wall_ns + (from > meta->start_ns ? from - meta->start_ns : 0));
	put_number(w->out, PROFILE_DURATION_NS, to > from ? to - from : 0);
	put_value_type(w, PROFILE_PERIOD_TYPE, type, unit);
	if (e != NULL)
		put_number(w->out, PROFILE_PERIOD, e->is_freq && e->is_clock && e->frequency > 0 ? 1000000000 / e->frequency : e->is_freq ? 0 : e->period);
	put_number(w->out, PROFILE_DEFAULT_TYPE, string_id(w, type));
	struct export_notes notes;
	export_notes_read(&notes, w->input, NOTED_ROWS);
	for (size_t i = 0; i < notes.lines.count; i++)
		put_varint(w->out, PROFILE_COMMENT, string_id(w, notes.lines.data[i]));
	export_notes_release(&notes);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct profile *p = input->profile;
	struct writer w = {
		.input = input, .profile = p, .out = out, .uses_place = mem_zero(export_place_count(p), sizeof(bool)),
		.uses_frame = mem_zero(p->frames.count + 1, sizeof(bool)), .uses_mark = mem_zero(MARK_COUNT, sizeof(bool)),
		.uses_dso = mem_zero(p->dsos.count + 1, sizeof(bool)), .dso_limit = mem_zero(p->dsos.count + 1, sizeof(uint64_t)),
	};
	intern_init(&w.strings);
	intern_init(&w.keys);
	put_about(&w);
	count_samples(&w);
	for (uint32_t id = 1; id < w.keys.entries.count; id++) {
		struct sample_key key;
		memcpy(&key, intern_text(&w.keys, id), sizeof(key));
		put_sample(&w, &key, &w.values.data[id]);
	}
	put_tables(&w);
	for (uint32_t id = 0; id < w.strings.entries.count; id++)
		put_bytes(out, PROFILE_STRING, intern_text(&w.strings, id), intern_length(&w.strings, id));
	intern_release(&w.strings);
	intern_release(&w.keys);
	vec_release(&w.values);
	buf_release(&w.part);
	buf_release(&w.inner);
	free(w.uses_place);
	free(w.uses_frame);
	free(w.uses_mark);
	free(w.uses_dso);
	free(w.dso_limit);
	vias_release(&w.vias);
	return true;
}

const struct exporter exporter_pprof = {
	.name = "pprof", .extension = "pb.gz", .description = "pprof's profile.proto: go tool pprof, pprof, Grafana Pyroscope, Speedscope",
	.is_gzipped = true, .write = write,
};
