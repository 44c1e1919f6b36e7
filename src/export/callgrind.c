// callgrind's profile format (valgrind's manual, "Callgrind Format Specification"), for KCachegrind and callgrind_annotate.
//
// Costs are samples and, of clocks, ns of CPU time, of other events their number; what shares are of stands first. Inlined functions are called functions. How often a function was called is not known to a
// sampling profiler: `calls=` tells in how many samples the call was seen.
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/sort.h"
#include "export/counts.h"
#include "export/notes.h"
#include "export/place.h"

enum { NONE = 0xffffffff };
enum { NOTED_ROWS = 10 };

struct cost { uint64_t samples, weight; };
// Self cost of a place at a line (callee NONE), or what a call from there to another place cost. Compared byte by byte, so no padding.
struct arc_key { uint32_t place, file, line, callee; };
_Static_assert(sizeof(struct arc_key) == 16, "no padding");

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	struct export_stacks stacks;
	struct intern arcs;
	VEC(struct cost) costs;        // by arc
	VEC(uint64_t) stamps;          // by arc: the last sample that counted there, + 1: recursion counts once
	bool *was_named, *was_filed, *was_objected; // names stand once, then their number does
	uint32_t *file_of;             // of a place: intern id of its first line's file
	struct cost total;
	bool is_clock, has_weights;
	struct buf *out, name;
};

// ---------------------------------------------------------------- counting

static uint32_t step_file_id(const struct writer *w, const struct export_step *step)
{
	return step->line != PROFILE_NONE ? w->profile->chains.data[step->line].file : 0;
}

static void count_arc(struct writer *w, const struct export_step *step, uint32_t callee, const struct cost *cost, uint64_t stamp)
{
	struct arc_key key = { step->place, step_file_id(w, step), export_step_line(w->profile, step), callee };
	uint32_t id = intern_bytes(&w->arcs, (const char *)&key, sizeof(key));
	if (id == w->costs.count) {
		vec_push(&w->costs, (struct cost){ 0 });
		vec_push(&w->stamps, 0);
	}
	if (w->file_of[step->place] == NONE)
		w->file_of[step->place] = key.file;
	if (w->stamps.data[id] == stamp)
		return;
	w->stamps.data[id] = stamp;
	w->costs.data[id].samples += cost->samples;
	w->costs.data[id].weight += cost->weight;
}

static void count_stack(struct writer *w, uint32_t leaf, const struct cost *cost, uint64_t stamp)
{
	const struct export_step *callee = NULL;
	for (uint32_t node = leaf; node != PROFILE_NONE; node = w->stacks.nodes.data[node].parent) {
		const struct export_step *step = &w->stacks.steps.data[w->stacks.nodes.data[node].step];
		count_arc(w, step, callee != NULL ? callee->place : NONE, cost, stamp);
		callee = step;
	}
	w->total.samples += cost->samples;
	w->total.weight += cost->weight;
}

static void count_samples(struct writer *w)
{
	struct export_counts counts;
	VEC(struct cost) by_leaf = { 0 }; // one walk a stack, not a sample
	export_counts_read(&counts, w->input);
	for (size_t i = 0; i < counts.rows.count; i++) {
		const struct export_count *row = &counts.rows.data[i];
		struct profile_sample sample = export_count_sample(w->profile, row);
		uint32_t leaf = export_stack_of(&w->stacks, &sample);
		while (by_leaf.count <= leaf)
			vec_push(&by_leaf, (struct cost){ 0 });
		by_leaf.data[leaf].samples += row->samples;
		by_leaf.data[leaf].weight += row->weight;
	}
	vec_release(&counts.rows);
	for (uint32_t leaf = 0; leaf < by_leaf.count; leaf++)
		if (by_leaf.data[leaf].samples > 0)
			count_stack(w, leaf, &by_leaf.data[leaf], (uint64_t)leaf + 1);
	vec_release(&by_leaf);
}

// ---------------------------------------------------------------- writing

static void escaped_line(struct writer *w, const char *text)
{
	escape_terminal(w->out, text, strlen(text));
	buf_byte(w->out, '\n');
}

// "fn=(12) name" the first time, "fn=(12)" from then on.
static void put_place(struct writer *w, const char *key, uint32_t place)
{
	buf_printf(w->out, "%s=(%u)", key, place + 1);
	if (!w->was_named[place]) {
		buf_clear(&w->name);
		export_place_name(w->profile, place, &w->name);
		buf_byte(w->out, ' ');
		escape_terminal(w->out, buf_text(&w->name), w->name.size);
		w->was_named[place] = true;
	}
	buf_byte(w->out, '\n');
}

static void put_object(struct writer *w, const char *key, uint32_t place)
{
	uint32_t dso = export_place_dso(w->profile, place), id = dso != PROFILE_NONE ? dso : (uint32_t)w->profile->dsos.count;
	buf_printf(w->out, "%s=(%u)", key, id + 1);
	if (!w->was_objected[id]) {
		const char *path = dso != PROFILE_NONE ? profile_text(w->profile, w->profile->dsos.data[dso].path) : "???";
		buf_byte(w->out, ' ');
		escape_terminal(w->out, path, strlen(path));
		w->was_objected[id] = true;
	}
	buf_byte(w->out, '\n');
}

static void put_file(struct writer *w, const char *key, uint32_t file)
{
	buf_printf(w->out, "%s=(%u)", key, file + 1);
	if (!w->was_filed[file]) {
		const char *text = file != 0 ? profile_text(w->profile, file) : "???";
		buf_byte(w->out, ' ');
		escape_terminal(w->out, text, strlen(text));
		w->was_filed[file] = true;
	}
	buf_byte(w->out, '\n');
}

static void put_both(struct writer *w, const struct cost *cost)
{
	unsigned long long samples = cost->samples, weight = cost->weight;
	if (!w->has_weights)
		buf_printf(w->out, " %llu\n", samples);
	else
		buf_printf(w->out, " %llu %llu\n", w->input->by_period ? weight : samples, w->input->by_period ? samples : weight);
}

static void put_cost(struct writer *w, uint32_t line, const struct cost *cost)
{
	buf_printf(w->out, "%u", line);
	put_both(w, cost);
}

static uint32_t file_of(const struct writer *w, uint32_t place)
{
	return w->file_of[place] != NONE ? w->file_of[place] : 0;
}

struct sorted { struct arc_key key; uint32_t id; };

static int compare(const void *a, const void *b)
{
	const struct arc_key *x = &((const struct sorted *)a)->key, *y = &((const struct sorted *)b)->key;
	if (x->place != y->place)
		return x->place < y->place ? -1 : 1;
	if ((x->callee == NONE) != (y->callee == NONE)) // a place's own cost first
		return x->callee == NONE ? -1 : 1;
	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->callee > y->callee) - (x->callee < y->callee);
}

static void put_arc(struct writer *w, const struct arc_key *key, const struct cost *cost, uint32_t *file)
{
	if (key->file != *file)
		put_file(w, "fi", *file = key->file);
	if (key->callee != NONE) {
		put_object(w, "cob", key->callee);
		put_file(w, "cfi", file_of(w, key->callee));
		put_place(w, "cfn", key->callee);
		buf_printf(w->out, "calls=%llu 0\n", (unsigned long long)cost->samples);
	}
	put_cost(w, key->line, cost);
}

static void put_arcs(struct writer *w)
{
	size_t count = w->arcs.entries.count - 1;
	struct sorted *order = mem_zero(count + 1, sizeof(*order));
	uint32_t place = NONE, file = 0;
	for (uint32_t id = 1; id <= count; id++) {
		memcpy(&order[id - 1].key, intern_text(&w->arcs, id), sizeof(struct arc_key));
		order[id - 1].id = id;
	}
	sort_stable(order, count, sizeof(*order), compare);
	for (size_t i = 0; i < count; i++) {
		if (order[i].key.place != place) {
			place = order[i].key.place;
			file = file_of(w, place);
			buf_byte(w->out, '\n');
			put_object(w, "ob", place);
			put_file(w, "fl", file);
			put_place(w, "fn", place);
		}
		put_arc(w, &order[i].key, &w->costs.data[order[i].id], &file);
	}
	free(order);
}

static void put_header(struct writer *w)
{
	const struct profile_meta *meta = &w->profile->meta;
	struct export_notes notes;
	buf_string(w->out, "# callgrind format\nversion: 1\ncreator: perfsample " PERFSAMPLE_VERSION "\n");
	if (meta->target_ids.count == 1)
		buf_printf(w->out, "pid: %d\n", meta->target_ids.data[0]);
	buf_string(w->out, "cmd:");
	for (size_t i = 0; i < meta->argv.count; i++) {
		buf_byte(w->out, ' ');
		escape_terminal(w->out, profile_text(w->profile, meta->argv.data[i]), strlen(profile_text(w->profile, meta->argv.data[i])));
	}
	buf_byte(w->out, '\n');
	export_notes_read(&notes, w->input, NOTED_ROWS);
	for (size_t i = 0; i < notes.lines.count; i++) {
		buf_printf(w->out, "desc: Note %zu: ", i + 1);
		escaped_line(w, notes.lines.data[i]);
	}
	export_notes_release(&notes);
	buf_string(w->out, "positions: line\nevent: samples : Samples\n");
	if (w->is_clock)
		buf_string(w->out, "event: ns : CPU time, ns\n");
	else if (w->has_weights)
		buf_string(w->out, "event: count : Events counted\n");
	const char *weight = w->is_clock ? "ns" : w->has_weights ? "count" : "";
	if (w->input->by_period) // viewers show the first
		buf_printf(w->out, "events: %s samples\nsummary:", weight);
	else
		buf_printf(w->out, "events: samples%s%s\nsummary:", *weight != '\0' ? " " : "", weight);
	put_both(w, &w->total);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	const struct profile *p = input->profile;
	size_t places = export_place_count(p);
	struct writer w = {
		.input = input, .profile = p, .out = out, .was_named = mem_zero(places, sizeof(bool)), .file_of = mem_alloc(places * sizeof(uint32_t)),
		.was_filed = mem_zero(p->names.entries.count + 1, sizeof(bool)), .was_objected = mem_zero(p->dsos.count + 1, sizeof(bool)),
		.is_clock = input->event < p->events.count && p->events.data[input->event].is_clock,
	};
	memset(w.file_of, 0xff, places * sizeof(uint32_t));
	intern_init(&w.arcs);
	vec_push(&w.costs, (struct cost){ 0 }); // id 0: the empty string
	vec_push(&w.stamps, 0);
	export_stacks_init(&w.stacks, input);
	count_samples(&w);
	bool counts_alone = input->event < p->events.count && p->events.data[input->event].counts_by_weight;
	w.has_weights = w.is_clock || (w.total.weight > 0 && !counts_alone);
	put_header(&w);
	put_arcs(&w);
	intern_release(&w.arcs);
	vec_release(&w.costs);
	vec_release(&w.stamps);
	buf_release(&w.name);
	free(w.was_named);
	free(w.was_filed);
	free(w.was_objected);
	free(w.file_of);
	export_stacks_release(&w.stacks);
	return true;
}

const struct exporter exporter_callgrind = {
	.name = "callgrind", .extension = "callgrind.out", .description = "callgrind's profile, for KCachegrind and callgrind_annotate", .write = write,
};
