// One line per distinct stack, "comm;root;…;leaf COUNT", in the order of the text.
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "export/exporter.h"
#include "export/stack_text.h"

// What makes two samples one line before names are looked at; compared byte by byte, so no padding.
struct stack_key { uint32_t comm, stack; int32_t pid, tid; uint32_t mark; };
_Static_assert(sizeof(struct stack_key) == 20, "no padding");

struct folding {
	const struct export_input *input;
	const struct profile *profile;
	struct intern keys, lines;
	VEC(uint64_t) key_counts, line_counts; // by intern id
	struct stack_steps steps;
	struct buf *names;                     // escaped names by chain line; capacity 0: not yet
};

static bool is_wanted(const struct export_input *input, const struct profile_sample *sample)
{
	if (sample->event != input->event || (sample->is_idle && !input->idle))
		return false;
	return input->filter == NULL || filter_keeps(input->filter, input->profile, sample);
}

static void count_keys(struct folding *f)
{
	intern_init(&f->keys);
	vec_push(&f->key_counts, 0); // id 0: the empty string
	for (size_t i = 0; i < f->profile->samples.count; i++) {
		const struct profile_sample *s = &f->profile->samples.data[i];
		if (!is_wanted(f->input, s))
			continue;
		const char *mark = stack_mark(s->end);
		struct stack_key key = { .comm = s->comm, .stack = s->stack, .mark = mark == NULL ? 0 : mark[1] == 't' ? 1 : 2 };
		if (f->input->with_pid || f->input->with_tid || s->comm == 0)
			key.pid = s->pid;
		if (f->input->with_tid)
			key.tid = s->tid;
		uint32_t id = intern_bytes(&f->keys, (const char *)&key, sizeof(key));
		if (id == f->key_counts.count)
			vec_push(&f->key_counts, 0);
		f->key_counts.data[id]++;
	}
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

static void step_name(struct folding *f, const struct stack_step *step, struct buf *out)
{
	const struct profile_function *function = step_function(f->profile, step);
	if (function == NULL || !function->is_known) {
		unknown_name(f, step, out);
		return;
	}
	struct buf *name = &f->names[step->line];
	if (name->capacity == 0) {
		const char *text = profile_text(f->profile, function->name);
		escape_folded(name, text, strlen(text));
		buf_text(name);
	}
	buf_add(out, name->data, name->size);
}

static void step_text(struct folding *f, const struct stack_step *step, struct buf *out)
{
	const struct profile_frame *frame = &f->profile->frames.data[step->frame];
	buf_byte(out, ';');
	step_name(f, step, out);
	if (f->input->addrs)
		buf_printf(out, " <%llx>", (unsigned long long)step_shown_addr(f->profile, step));
	if (f->input->kernel_marks && frame->is_kernel)
		buf_string(out, "_[k]");
	else if (f->input->inline_marks && frame->line_count > 0 && f->profile->chains.data[step->line].is_inlined)
		buf_string(out, "_[i]");
}

static void line_text(struct folding *f, const struct stack_key *key, struct buf *out)
{
	const char *comm = profile_text(f->profile, key->comm);
	buf_clear(out);
	if (*comm != '\0')
		escape_folded(out, comm, strlen(comm));
	else
		buf_printf(out, ":%d", key->pid);
	if (f->input->with_tid)
		buf_printf(out, "-%d/%d", key->pid, key->tid);
	else if (f->input->with_pid)
		buf_printf(out, "-%d", key->pid);
	if (key->mark != 0)
		buf_string(out, key->mark == 1 ? ";[truncated]" : ";[unwind failed]");
	stack_steps_read(&f->steps, f->profile, key->stack, f->input->inlines);
	for (size_t i = 0; i < f->steps.items.count; i++)
		step_text(f, &f->steps.items.data[i], out);
}

// Different addresses of the same functions are the same line.
static void count_lines(struct folding *f)
{
	struct buf line = { 0 };
	intern_init(&f->lines);
	vec_push(&f->line_counts, 0);
	for (uint32_t k = 1; k < f->keys.entries.count; k++) {
		struct stack_key key;
		memcpy(&key, intern_text(&f->keys, k), sizeof(key));
		line_text(f, &key, &line);
		uint32_t id = intern_bytes(&f->lines, line.data, line.size);
		if (id == f->line_counts.count)
			vec_push(&f->line_counts, 0);
		f->line_counts.data[id] += f->key_counts.data[k];
	}
	buf_release(&line);
}

struct sorted { const char *text; uint32_t id; };

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct sorted *)a)->text, ((const struct sorted *)b)->text); // escaped: no NUL inside
}

static void write_lines(const struct folding *f, struct buf *out)
{
	size_t count = f->lines.entries.count;
	struct sorted *order = mem_zero(count, sizeof(*order));
	for (uint32_t i = 1; i < count; i++)
		order[i - 1] = (struct sorted){ intern_text(&f->lines, i), i };
	qsort(order, count - 1, sizeof(*order), compare);
	for (size_t i = 0; i + 1 < count; i++) {
		buf_add(out, order[i].text, intern_length(&f->lines, order[i].id));
		buf_printf(out, " %llu\n", (unsigned long long)f->line_counts.data[order[i].id]);
	}
	free(order);
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	(void)err;
	size_t lines = input->profile->chains.count;
	struct folding f = { .input = input, .profile = input->profile, .names = mem_zero(lines, sizeof(*f.names)) };
	count_keys(&f);
	count_lines(&f);
	write_lines(&f, out);
	for (size_t i = 0; i < lines; i++)
		buf_release(&f.names[i]);
	free(f.names);
	intern_release(&f.keys);
	intern_release(&f.lines);
	vec_release(&f.key_counts);
	vec_release(&f.line_counts);
	vec_release(&f.steps.items);
	return true;
}

const struct exporter exporter_folded = {
	.name = "folded", .extension = "folded", .description = "one line per distinct stack: comm;root;…;leaf COUNT", .write = write,
};
