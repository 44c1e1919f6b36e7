// perf script's text: one paragraph a sample, the leaf first. Readers made for perf's output read it.
#include <string.h>
#include <time.h>

#include "base/escape.h"
#include "export/exporter.h"
#include "export/notes.h"
#include "export/script_fields.h"
#include "export/stack_text.h"
#include "perfdata/note.h"

struct writer {
	const struct export_input *input;
	const struct profile *profile;
	unsigned fields;
	bool *has_calls;     // by event: whether any of its samples has a call chain
	int event_width;     // perf aligns the names of all events
	struct stack_steps steps;
	struct buf *out;
};

static void escaped(struct writer *w, uint32_t text)
{
	const char *s = profile_text(w->profile, text);
	escape_terminal(w->out, s, strlen(s));
}

static void name(struct writer *w, const struct stack_step *step)
{
	const struct profile_frame *frame = &w->profile->frames.data[step->frame];
	const struct profile_function *function = step_function(w->profile, step);
	if (function == NULL || !function->is_known) {
		buf_string(w->out, "[unknown]");
		return;
	}
	escaped(w, function->name);
	// symbol_start is where the lookup address belongs; what is shown is the address itself, one more for a return address.
	if ((w->fields & FIELD_SYMOFF) != 0 && frame->image_addr >= frame->symbol_start)
		buf_printf(w->out, "+0x%llx", (unsigned long long)(frame->image_addr - frame->symbol_start + (frame->kind == FRAME_RETURN)));
}

static void source_line(struct writer *w, const struct stack_step *step)
{
	const struct profile_line *line = step_function(w->profile, step) != NULL ? &w->profile->chains.data[step->line] : NULL;
	buf_string(w->out, "\n  ");
	if (line == NULL || line->file == 0) {
		buf_string(w->out, "??:0");
		return;
	}
	const char *file = profile_text(w->profile, line->file), *slash = strrchr(file, '/');
	const char *base = slash != NULL ? slash + 1 : file;
	escape_terminal(w->out, base, strlen(base));
	buf_printf(w->out, ":%u", line->line);
}

// " name+0x1f (dso)", as perf orders it: an inlined function says so instead of its dso.
static void place(struct writer *w, const struct stack_step *step)
{
	bool is_inlined = step_function(w->profile, step) != NULL && w->profile->chains.data[step->line].is_inlined;
	if ((w->fields & FIELD_SYM) != 0) {
		buf_byte(w->out, ' ');
		name(w, step);
	}
	if ((w->fields & FIELD_DSO) != 0 && !is_inlined) {
		const struct profile_dso *dso = step_dso(w->profile, step);
		buf_string(w->out, " (");
		if (dso != NULL)
			escaped(w, dso->path);
		else
			buf_string(w->out, "[unknown]");
		buf_byte(w->out, ')');
	}
	if ((w->fields & FIELD_SRCLINE) != 0)
		source_line(w, step);
	if (is_inlined)
		buf_string(w->out, " (inlined)");
	else if ((w->fields & FIELD_VIA) != 0) // of the function that has the code
		buf_printf(w->out, " %s", frame_via_name(w->profile->frames.data[step->frame].via));
}

static void frames(struct writer *w, const struct profile_sample *sample, bool has_calls)
{
	stack_steps_read(&w->steps, w->profile, sample->stack, w->input->inlines);
	size_t count = w->steps.items.count;
	if (!has_calls) {
		if (count > 0) {
			const struct stack_step *leaf = &w->steps.items.data[count - 1];
			buf_printf(w->out, " %16llx", (unsigned long long)w->profile->frames.data[leaf->frame].addr);
			place(w, leaf);
		}
		return;
	}
	buf_byte(w->out, '\n');
	for (size_t i = count; i-- > 0;) {
		const struct stack_step *step = &w->steps.items.data[i];
		buf_printf(w->out, "\t%16llx", (unsigned long long)step_shown_addr(w->profile, step));
		place(w, step);
		// Which frames lie beyond the copy is not kept: the outermost one does.
		if (i == 0 && (w->fields & FIELD_VIA) != 0 && sample->splice != SPLICE_NONE)
			buf_printf(w->out, ", joined %s", splice_name(sample->splice));
		buf_byte(w->out, '\n');
	}
}

static void sample_text(struct writer *w, const struct profile_sample *s)
{
	bool has_calls = (w->fields & FIELD_IP) != 0 && !w->input->hide_calls && s->event < w->profile->events.count && w->has_calls[s->event];
	if ((w->fields & FIELD_COMM) != 0) {
		struct buf comm = { 0 };
		const char *text = profile_text(w->profile, s->comm);
		escape_terminal(&comm, text, strlen(text));
		buf_printf(w->out, has_calls ? "%s " : "%16s ", buf_text(&comm));
		buf_release(&comm);
	}
	if ((w->fields & (FIELD_PID | FIELD_TID)) == (FIELD_PID | FIELD_TID))
		buf_printf(w->out, "%5d/%-5d ", s->pid, s->tid);
	else if ((w->fields & (FIELD_PID | FIELD_TID)) != 0)
		buf_printf(w->out, "%5d ", (w->fields & FIELD_PID) != 0 ? s->pid : s->tid);
	if ((w->fields & FIELD_CPU) != 0 && s->cpu != UINT32_MAX)
		buf_printf(w->out, "[%03u] ", s->cpu);
	else if ((w->fields & FIELD_CPU) != 0 && w->input->fields != NULL)
		buf_string(w->out, "[---] "); // asked for, and not in the recording
	if ((w->fields & FIELD_TIME) != 0)
		buf_printf(w->out, "%5llu.%06llu: ", (unsigned long long)(s->time_ns / 1000000000), (unsigned long long)(s->time_ns / 1000 % 1000000));
	if ((w->fields & FIELD_PERIOD) != 0)
		buf_printf(w->out, "%10llu ", (unsigned long long)s->weight);
	if ((w->fields & FIELD_EVENT) != 0 && s->event < w->profile->events.count) {
		const char *text = profile_text(w->profile, w->profile->events.data[s->event].name);
		struct buf event = { 0 };
		escape_terminal(&event, text, strlen(text));
		buf_printf(w->out, "%*s: ", w->event_width, buf_text(&event));
		buf_release(&event);
	}
	if ((w->fields & FIELD_IP) != 0)
		frames(w, s, has_calls);
	buf_byte(w->out, '\n');
}

static void header_line(struct writer *w, const char *name_of_it, uint32_t text)
{
	if (text == 0)
		return;
	buf_printf(w->out, "# %s : ", name_of_it);
	escaped(w, text);
	buf_byte(w->out, '\n');
}

static void header(struct writer *w)
{
	const struct profile_meta *meta = &w->profile->meta;
	buf_string(w->out, "# ========\n");
	if (meta->start_wall_ns != 0) {
		time_t seconds = (time_t)(meta->start_wall_ns / 1000000000);
		struct tm utc;
		char text[64];
		if (gmtime_r(&seconds, &utc) != NULL && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &utc) > 0)
			buf_printf(w->out, "# captured on : %s\n", text);
	}
	header_line(w, "hostname", meta->host);
	header_line(w, "os release", meta->kernel);
	header_line(w, "written by", meta->tool);
	header_line(w, "arch", meta->arch);
	if (meta->cpus_online > 0)
		buf_printf(w->out, "# nrcpus online : %u\n", meta->cpus_online);
	header_line(w, "cpudesc", meta->cpu_desc);
	if (meta->argv.count > 0) {
		buf_string(w->out, "# cmdline :");
		for (size_t i = 0; i < meta->argv.count; i++) {
			buf_byte(w->out, ' ');
			escaped(w, meta->argv.data[i]);
		}
		buf_byte(w->out, '\n');
	}
	for (size_t i = 0; i < w->profile->events.count; i++) {
		const struct profile_event *e = &w->profile->events.data[i];
		buf_string(w->out, "# event : name = ");
		escaped(w, e->name);
		buf_printf(w->out, ", type = %llu, config = 0x%llx, %s = %llu\n", (unsigned long long)e->attr_type, (unsigned long long)e->attr_config,
		           e->is_freq ? "frequency" : "period", (unsigned long long)(e->is_freq ? e->frequency : e->period));
	}
	struct export_input input = *w->input;
	for (size_t i = 0; i < w->profile->events.count; i++) {
		struct export_notes notes;
		input.event = (uint32_t)i;
		export_notes_of_samples(&notes, &input);
		for (size_t line = 0; line < notes.lines.count; line++)
			buf_printf(w->out, "# %s\n", notes.lines.data[line]);
		export_notes_release(&notes);
	}
	buf_string(w->out, "# ========\n#\n");
}

static void prepare(struct writer *w)
{
	const struct profile *p = w->profile;
	w->has_calls = mem_zero(p->events.count, sizeof(*w->has_calls));
	size_t without = p->events.count;
	for (size_t i = 0; i < p->samples.count && without > 0; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		bool is_call = s->stack != PROFILE_NONE && s->event < p->events.count && p->nodes.data[s->stack].parent != PROFILE_NONE;
		if (is_call && !w->has_calls[s->event]) {
			w->has_calls[s->event] = true;
			without--;
		}
	}
	for (size_t i = 0; i < p->events.count; i++) {
		int length = (int)strlen(profile_text(p, p->events.data[i].name));
		w->event_width = length > w->event_width ? length : w->event_width;
	}
}

static bool write(const struct export_input *input, struct buf *out, struct err *err)
{
	struct writer w = { .input = input, .profile = input->profile, .out = out };
	if (!script_fields_parse(input->fields, &w.fields, err))
		return false;
	prepare(&w);
	if (input->header)
		header(&w);
	size_t count = w.profile->samples.count, end = count;
	if (input->sample_count > 0 && input->sample_count < count - input->first_sample)
		end = input->first_sample + input->sample_count;
	for (size_t i = input->first_sample; i < end; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&w.profile->samples, i, &s_row);
		if (input->filter == NULL || filter_keeps(input->filter, w.profile, s))
			sample_text(&w, s);
	}
	free(w.has_calls);
	vec_release(&w.steps.items);
	return true;
}

const struct exporter exporter_script = {
	.name = "script", .extension = "txt", .description = "every sample, in the layout of perf script", .write = write,
};
