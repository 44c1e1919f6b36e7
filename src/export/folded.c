// One line per distinct stack, "comm;root;…;leaf COUNT", in the order of the text.
//
// Samples are counted by what is in front of the stack and by the stack itself. Each distinct stack is then followed once into a tree of
// labels, where stacks that differ in addresses alone meet; and the tree is written in the order that its lines have.
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/sort.h"
#include "export/counts.h"
#include "export/exporter.h"
#include "export/place.h"
#include "export/stack_text.h"

enum { NONE = 0xffffffff };
enum { FEW = 4 };
enum { DRAINED_BYTES = 64 * 1024 }; // stays in the second-level cache

// What stands before the frames; compared byte by byte, so no padding.
struct front { uint32_t comm, mark; int32_t pid, tid; };
_Static_assert(sizeof(struct front) == 16, "no padding");

struct tally { uint32_t stack, next; /* of the same front; NONE: the last */ uint64_t count, samples; }; // a stack may have several

struct node {
	uint32_t parent, label, first_child, next_sibling; // NONE: there is none
	uint64_t count, samples;                           // of stacks that end here
};

struct place { uint32_t front, node; }; // where a stack of the profile is in the tree, below this front

// A node to be written: as the end of a line, or as what stands before its children.
struct pending { uint32_t node; bool is_end; size_t prefix_size; };

enum { OUTSIDE_KERNEL, INSIDE_KERNEL, GUESSED, MARKINGS }; // what stands behind one line's name by its frame

struct folding {
	const struct export_input *input;
	const struct profile *profile;
	struct intern fronts, labels;
	VEC(uint32_t) first_tally;       // by front
	VEC(struct tally) tallies;
	VEC(struct node) nodes;
	struct hash_map node_of;         // (parent, label), of parents that have more than FEW children
	uint32_t first_root;
	struct place *places;            // by the profile's node
	VEC(uint32_t) path;
	uint32_t *label_of_name;         // without marks, by intern id of the name; 0: not asked yet
	uint32_t *label_of_line;         // with marks, MARKINGS for each line of the profile's chains; 0: not yet
	struct buf text;
	VEC(struct pending) pending;
};

// ---------------------------------------------------------------- samples

static uint32_t front_of(struct folding *f, const struct profile_sample *sample)
{
	const char *mark = stack_mark(sample->end);
	struct front front = { .comm = sample->comm, .mark = mark == NULL ? 0 : mark[1] == 't' ? 1 : 2 };
	if (f->input->with_pid || f->input->with_tid || sample->comm == 0)
		front.pid = sample->pid;
	if (f->input->with_tid)
		front.tid = sample->tid;
	uint32_t id = intern_bytes(&f->fronts, (const char *)&front, sizeof(front));
	while (f->first_tally.count <= id)
		vec_push(&f->first_tally, NONE);
	return id;
}

static void count_samples(struct folding *f)
{
	struct export_counts counts;
	uint32_t *fronts = mem_zero(f->profile->samples.contexts.count + 1, sizeof(*fronts)); // by context, which says all of it; 0: not asked yet
	export_counts_read(&counts, f->input);
	vec_reserve(&f->tallies, counts.rows.count);
	for (size_t i = 0; i < counts.rows.count; i++) {
		const struct export_count *row = &counts.rows.data[i];
		uint32_t *front = &fronts[row->context];
		if (*front == 0) {
			struct profile_sample sample = export_count_sample(f->profile, row);
			*front = front_of(f, &sample);
		}
		uint32_t *first = &f->first_tally.data[*front], next = *first;
		*first = (uint32_t)f->tallies.count;
		vec_push(&f->tallies, (struct tally){ .stack = row->stack, .next = next, .count = f->input->by_period ? row->weight : row->samples,
		         .samples = row->samples });
	}
	vec_release(&counts.rows);
	free(fronts);
}

// ---------------------------------------------------------------- labels

static uint32_t label_of_text(struct folding *f)
{
	return intern_bytes(&f->labels, f->text.data, f->text.size);
}

// stackcollapse's convention: a function without a name shows where it is, in brackets.
static void unknown_name(const struct folding *f, const struct stack_step *step, struct buf *out)
{
	const struct profile_dso *dso = step_dso(f->profile, step);
	const char *name = dso != NULL ? profile_text(f->profile, dso->short_name) : "unknown";
	bool is_bracketed = name[0] == '[';
	if (!is_bracketed)
		buf_byte(out, '[');
	escape_folded(out, name, strlen(name));
	if (!is_bracketed)
		buf_byte(out, ']');
}

static uint32_t label_of_name(struct folding *f, uint32_t name)
{
	if (f->label_of_name[name] == 0) {
		buf_clear(&f->text);
		escape_folded(&f->text, intern_text(&f->profile->names, name), intern_length(&f->profile->names, name));
		f->label_of_name[name] = label_of_text(f);
	}
	return f->label_of_name[name];
}

static unsigned marking_of(const struct folding *f, const struct profile_frame *frame)
{
	if (frame->is_kernel)
		return INSIDE_KERNEL;
	return f->input->guess_marks && frame_via_is_guessed(frame->via) ? GUESSED : OUTSIDE_KERNEL;
}

static uint32_t make_label(struct folding *f, const struct stack_step *step)
{
	const struct profile_frame *frame = &f->profile->frames.data[step->frame];
	const struct profile_function *function = step_function(f->profile, step);
	bool is_named = function != NULL && function->is_known, is_kernel = f->input->kernel_marks && frame->is_kernel;
	bool is_inlined = f->input->inline_marks && !is_kernel && frame->line_count > 0 && f->profile->chains.data[step->line].is_inlined;
	uint32_t plain = is_named ? label_of_name(f, function->name) : 0;
	const char *mark = is_named && f->input->function_marks != NULL ? f->input->function_marks[function - f->profile->functions.data] : NULL;
	bool is_guessed = marking_of(f, frame) == GUESSED;
	if (is_named && !f->input->addrs && !is_kernel && !is_inlined && !is_guessed && mark == NULL)
		return plain;
	buf_clear(&f->text);
	if (is_named)
		buf_add(&f->text, intern_text(&f->labels, plain), intern_length(&f->labels, plain));
	else
		unknown_name(f, step, &f->text);
	if (f->input->addrs)
		buf_printf(&f->text, " <%llx>", (unsigned long long)step_shown_addr(f->profile, step));
	if (is_kernel || is_inlined)
		buf_string(&f->text, is_kernel ? "_[k]" : "_[i]");
	else if (mark != NULL)
		buf_string(&f->text, mark);
	if (is_guessed)
		buf_string(&f->text, "_[g]");
	return label_of_text(f);
}

static uint32_t label_of(struct folding *f, const struct stack_step *step)
{
	const struct profile_frame *frame = &f->profile->frames.data[step->frame];
	if (f->input->addrs || frame->line_count == 0)
		return make_label(f, step);
	uint32_t *label = &f->label_of_line[MARKINGS * (size_t)step->line + marking_of(f, frame)];
	if (*label == 0)
		*label = make_label(f, step);
	return *label;
}

// ---------------------------------------------------------------- the tree

static uint32_t add_child(struct folding *f, uint32_t parent, uint32_t label)
{
	uint32_t id = (uint32_t)f->nodes.count, *first = parent != NONE ? &f->nodes.data[parent].first_child : &f->first_root;
	struct node node = { .parent = parent, .label = label, .first_child = NONE, .next_sibling = *first };
	*first = id;
	vec_push(&f->nodes, node);
	return id;
}

// Most nodes have few children, which stand near each other: the index, which is memory that is waited for, is for the others.
static uint32_t child(struct folding *f, uint32_t parent, uint32_t label)
{
	uint32_t id = parent != NONE ? f->nodes.data[parent].first_child : f->first_root, few = 0;
	for (; id != NONE && few < FEW; id = f->nodes.data[id].next_sibling, few++)
		if (f->nodes.data[id].label == label)
			return id;
	if (few < FEW)
		return add_child(f, parent, label);
	if (id != NONE) {
		const uint32_t *known = hash_map_get(&f->node_of, (uint64_t)parent << 32 | label);
		if (known != NULL)
			return *known;
	}
	uint32_t made = add_child(f, parent, label);
	uint32_t last = id != NONE ? f->nodes.data[made].next_sibling : NONE; // those that are in the index
	for (uint32_t at = made; at != last; at = f->nodes.data[at].next_sibling)
		(void)hash_map_put(&f->node_of, (uint64_t)parent << 32 | f->nodes.data[at].label, at, NULL);
	return made;
}

static uint32_t front_node(struct folding *f, const struct front *front)
{
	const char *comm = profile_text(f->profile, front->comm);
	buf_clear(&f->text);
	if (*comm != '\0')
		escape_folded(&f->text, comm, strlen(comm));
	else
		buf_printf(&f->text, ":%d", front->pid);
	if (f->input->with_tid)
		buf_printf(&f->text, "-%d/%d", front->pid, front->tid);
	else if (f->input->with_pid)
		buf_printf(&f->text, "-%d", front->pid);
	uint32_t node = child(f, NONE, label_of_text(f));
	if (front->mark != 0)
		node = child(f, node, intern_string(&f->labels, front->mark == 1 ? "[truncated]" : "[unwind failed]"));
	return node;
}

static uint32_t frame_node(struct folding *f, uint32_t node, uint32_t frame)
{
	const struct profile_frame *row = &f->profile->frames.data[frame];
	if (row->line_count == 0)
		return child(f, node, label_of(f, &(struct stack_step){ .frame = frame, .line = row->first_line }));
	// The function that has the code stands last; what is inlined into it follows on the way to the leaf.
	uint32_t last = f->input->inlines ? 0 : row->line_count - 1;
	for (uint32_t i = row->line_count; i-- > last;)
		node = child(f, node, label_of(f, &(struct stack_step){ .frame = frame, .line = row->first_line + i }));
	return node;
}

static uint32_t stack_node(struct folding *f, uint32_t front, uint32_t top, uint32_t stack)
{
	vec_clear(&f->path);
	for (; stack != PROFILE_NONE && f->places[stack].front != front; stack = f->profile->nodes.data[stack].parent)
		vec_push(&f->path, stack);
	uint32_t node = stack != PROFILE_NONE ? f->places[stack].node : top;
	while (f->path.count > 0) {
		uint32_t at = f->path.data[--f->path.count];
		node = frame_node(f, node, f->profile->nodes.data[at].frame);
		f->places[at] = (struct place){ .front = front, .node = node };
	}
	return node;
}

static void grow_tree(struct folding *f)
{
	for (uint32_t id = 1; id < f->fronts.entries.count; id++) { // 0 is the empty text, which is no front
		struct front front;
		memcpy(&front, intern_text(&f->fronts, id), sizeof(front));
		uint32_t top = front_node(f, &front);
		for (uint32_t t = f->first_tally.data[id]; t != NONE; t = f->tallies.data[t].next) {
			uint32_t node = stack_node(f, id, top, f->tallies.data[t].stack);
			f->nodes.data[node].count += f->tallies.data[t].count;
			f->nodes.data[node].samples += f->tallies.data[t].samples;
		}
	}
}

// ---------------------------------------------------------------- lines

// As strcmp of the lines would say, where a label is followed by ';' or by the end: no label holds either.
static int compare(const void *a, const void *b, void *context)
{
	const struct folding *f = context;
	const struct pending *x = a, *y = b;
	const struct intern_entry *s = &f->labels.entries.data[f->nodes.data[x->node].label];
	const struct intern_entry *t = &f->labels.entries.data[f->nodes.data[y->node].label];
	uint32_t common = s->length < t->length ? s->length : t->length;
	int order = memcmp(s->text, t->text, common);
	if (order != 0)
		return order;
	int p = s->length > common ? (uint8_t)s->text[common] : x->is_end ? 0 : ';';
	int q = t->length > common ? (uint8_t)t->text[common] : y->is_end ? 0 : ';';
	return p - q;
}

static void push_children(struct folding *f, uint32_t first, size_t prefix_size)
{
	size_t from = f->pending.count;
	for (uint32_t id = first; id != NONE; id = f->nodes.data[id].next_sibling) {
		const struct node *node = &f->nodes.data[id];
		if (node->count > 0)
			vec_push(&f->pending, (struct pending){ .node = id, .is_end = true, .prefix_size = prefix_size });
		if (node->first_child != NONE)
			vec_push(&f->pending, (struct pending){ .node = id, .prefix_size = prefix_size });
	}
	struct pending *data = f->pending.data + from;
	size_t count = f->pending.count - from;
	if (count > 1)
		sort_stable_with(data, count, sizeof(*data), compare, f);
	for (size_t i = 0; i < count / 2; i++) { // the first is taken first, so it stands last
		struct pending swapped = data[i];
		data[i] = data[count - 1 - i];
		data[count - 1 - i] = swapped;
	}
}

static bool write_lines(struct folding *f, struct buf *out, struct err *err)
{
	const struct export_input *input = f->input;
	struct buf prefix = { 0 };
	bool is_wanted = true;
	push_children(f, f->first_root, 0);
	while (f->pending.count > 0 && is_wanted) {
		struct pending at = f->pending.data[--f->pending.count];
		const struct node *node = &f->nodes.data[at.node];
		prefix.size = at.prefix_size;
		if (prefix.size > 0)
			buf_byte(&prefix, ';');
		buf_add(&prefix, intern_text(&f->labels, node->label), intern_length(&f->labels, node->label));
		if (at.is_end) {
			buf_add(out, prefix.data, prefix.size);
			buf_byte(out, ' ');
			buf_decimal(out, node->count);
			if (f->input->both_counts) {
				buf_byte(out, ' ');
				buf_decimal(out, node->samples);
			}
			buf_byte(out, '\n');
			if (out->size >= DRAINED_BYTES && input->drain != NULL)
				is_wanted = input->drain(input->drain_context, out, err);
		} else {
			push_children(f, node->first_child, prefix.size);
		}
	}
	buf_release(&prefix);
	return is_wanted;
}

static void release(struct folding *f)
{
	intern_release(&f->fronts);
	intern_release(&f->labels);
	vec_release(&f->first_tally);
	vec_release(&f->tallies);
	vec_release(&f->nodes);
	hash_map_release(&f->node_of);
	free(f->places);
	vec_release(&f->path);
	free(f->label_of_name);
	free(f->label_of_line);
	buf_release(&f->text);
	vec_release(&f->pending);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	const struct profile *profile = input->profile;
	struct folding f = {
		.input = input, .profile = profile, .first_root = NONE,
		.places = mem_zero(profile->nodes.count, sizeof(*f.places)),
		.label_of_name = mem_zero(profile->names.entries.count, sizeof(*f.label_of_name)),
		.label_of_line = mem_zero(MARKINGS * profile->chains.count, sizeof(*f.label_of_line)),
	};
	intern_init(&f.fronts);
	intern_init(&f.labels);
	count_samples(&f);
	grow_tree(&f);
	bool is_done = write_lines(&f, out, err);
	release(&f);
	return is_done;
}

const struct exporter exporter_folded = {
	.name = "folded", .extension = "folded", .description = "one line per distinct stack: comm;root;…;leaf COUNT", .write = write,
};
