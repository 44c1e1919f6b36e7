#include "cmd/annotate_text.h"

#include <math.h>
#include <string.h>

#include "base/escape.h"
#include "cmd/annotate_source.h"

enum { TAB_COLUMNS = 4 };

static void add_escaped(struct buf *out, const char *text)
{
	escape_terminal(out, text, strlen(text));
}

// Source text, its tabs as blanks, all other controls escaped.
static void add_source(struct buf *out, const char *line, size_t length)
{
	size_t column = 0, from = 0;
	for (size_t i = 0; i <= length; i++) {
		if (i < length && line[i] != '\t')
			continue;
		escape_terminal(out, line + from, i - from);
		column += i - from;
		from = i + 1;
		for (size_t blanks = TAB_COLUMNS - column % TAB_COLUMNS; i < length && blanks > 0; blanks--, column++)
			buf_byte(out, ' ');
	}
}

// "  12.1   10.2-14.2", or blanks where there are no samples. Ends are rounded outwards.
static void add_count(struct buf *out, const struct annotate_count *count)
{
	if (count == NULL || count->samples == 0) {
		buf_printf(out, "%6s  %11s  ", "", "");
		return;
	}
	buf_printf(out, "%6.1f  %5.1f-%-5.1f  ", 100 * count->share, floor(1000 * count->range.lo) / 10, ceil(1000 * count->range.hi) / 10);
}

// ---------------------------------------------------------------- source lines

struct span_of_file { // rows of one file
	const struct annotate_line *rows;
	size_t count;
};

static void add_row(struct buf *out, const struct annotate_line *row, uint32_t number, const struct source_file *source)
{
	size_t length;
	const char *text = source_file_line(source, number, &length);
	add_count(out, row != NULL ? &row->count : NULL);
	if (number > 0)
		buf_printf(out, "%6u", number);
	else
		buf_string(out, "     ?");
	if (text != NULL) {
		buf_string(out, "  ");
		add_source(out, text, length);
	}
	while (out->size > 0 && out->data[out->size - 1] == ' ')
		out->size--;
	buf_byte(out, '\n');
}

static void add_lines(struct buf *out, const struct span_of_file *span, const struct source_file *source, uint32_t context)
{
	uint32_t shown = 0; // last line printed
	for (size_t i = 0; i < span->count; i++) {
		const struct annotate_line *row = &span->rows[i];
		uint32_t last = (uint32_t)source->lines.count, from = row->line > context ? row->line - context : 1;
		if (from <= shown)
			from = shown + 1;
		else if (shown > 0 && last > 0 && from > shown + 1)
			buf_string(out, "                        ...\n");
		for (uint32_t line = from; line < row->line && last > 0; line++)
			add_row(out, NULL, line, source);
		add_row(out, row, row->line, source);
		shown = row->line;
		uint32_t next = i + 1 < span->count ? span->rows[i + 1].line : UINT32_MAX;
		for (uint32_t n = 0; n < context && shown + 1 < next && shown < last; n++)
			add_row(out, NULL, ++shown, source);
	}
}

static void add_file(struct buf *out, const struct span_of_file *span, const struct annotate_view *view)
{
	struct source_file source = { 0 };
	struct err err = { 0 };
	const char *path = span->rows[0].file;
	buf_byte(out, '\n');
	add_escaped(out, path[0] != '\0' ? path : "[no line known]");
	if (path[0] != '\0' && !view->no_source) {
		if (!source_file_open(&source, path, view->symfs, &err)) {
			buf_string(out, "  (source not shown: ");
			add_escaped(out, strrchr(err.text, ':') != NULL ? strrchr(err.text, ':') + 2 : err.text);
			buf_string(out, ")");
		} else if (view->recorded_wall_ns != 0 && source.modified_ns > view->recorded_wall_ns) {
			buf_string(out, "  (changed since it was recorded: lines may have moved)");
		}
	}
	buf_printf(out, "\n%6s  %11s  %6s\n", "self %", "range", "line");
	add_lines(out, span, &source, view->no_source ? 0 : view->context);
	source_file_release(&source);
}

// ---------------------------------------------------------------- instructions

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash != NULL ? slash + 1 : path;
}

static void add_instructions(struct buf *out, const struct annotation *a)
{
	const char *file = NULL, *inlined = NULL;
	uint32_t line = 0;
	buf_printf(out, "\n%6s  %11s  %10s\n", "self %", "range", "address");
	for (size_t i = 0; i < a->instructions.count; i++) {
		const struct annotate_instruction *row = &a->instructions.data[i];
		bool is_moved = file == NULL || row->line != line || strcmp(row->file, file) != 0 ||
			strcmp(row->inlined != NULL ? row->inlined : "", inlined != NULL ? inlined : "") != 0;
		if (is_moved && row->file[0] != '\0') {
			buf_printf(out, "%21s", "");
			add_escaped(out, base_name(row->file));
			if (row->line > 0)
				buf_printf(out, ":%u", row->line);
			else
				buf_string(out, ":?"); // code that comes from no line
			if (row->inlined != NULL) {
				buf_string(out, " (inlined ");
				add_escaped(out, row->inlined);
				buf_byte(out, ')');
			}
			buf_byte(out, '\n');
		}
		file = row->file;
		line = row->line;
		inlined = row->inlined;
		add_count(out, &row->count);
		buf_printf(out, "%10llx", (unsigned long long)row->vaddr);
		if (row->text[0] != '\0') {
			buf_string(out, "  ");
			add_escaped(out, row->text);
		}
		buf_byte(out, '\n');
	}
}

static void add_head(struct buf *out, const struct annotation *a, const struct annotate_view *view)
{
	add_escaped(out, a->symbol);
	buf_string(out, a->is_inlined ? ", inlined in " : " in ");
	add_escaped(out, a->dso);
	buf_printf(out, "\nsamples   %llu of %llu: %.1f%% (%.1f-%.1f)%s\n", (unsigned long long)a->count.samples, (unsigned long long)a->samples,
	           100 * a->count.share, floor(1000 * a->count.range.lo) / 10, ceil(1000 * a->count.range.hi) / 10,
	           a->is_weighted ? " of their periods, which differ" : "");
	buf_printf(out, "range     %s, for one line or instruction at a time\n",
	           view->is_worst_case ? "where self % in these seconds was, whatever the missing samples were" : "where self % in these seconds was");
	buf_string(out, "skid      a sample names the instruction at which the interrupt was taken: what took\n"
	                "          the time is that one or, more often, one shortly before it\n");
	if (a->copies > 1)
		buf_printf(out, "copies    %zu functions of that name there, as in a report: their lines together, their\n"
		                "          code one after another (the symbol table's name chooses one)\n", a->copies);
	for (size_t i = 0; i < a->others.count; i++) {
		buf_string(out, "also      ");
		add_escaped(out, a->others.data[i]);
		buf_byte(out, '\n');
	}
	if (a->is_capped)
		buf_string(out, "note      only the function's first MiB is shown\n");
	if (a->note[0] != '\0' && !view->no_instructions) {
		buf_string(out, "note      ");
		add_escaped(out, a->note);
		buf_byte(out, '\n');
	}
}

void annotate_text(const struct annotation *a, const struct annotate_view *view, struct buf *out)
{
	add_head(out, a, view);
	for (size_t i = 0; i < a->lines.count;) {
		struct span_of_file span = { .rows = &a->lines.data[i] };
		while (i < a->lines.count && strcmp(a->lines.data[i].file, span.rows[0].file) == 0)
			i++;
		span.count = (size_t)(&a->lines.data[i] - span.rows);
		add_file(out, &span, view);
	}
	if (!view->no_instructions)
		add_instructions(out, a);
}

// ---------------------------------------------------------------- JSON

static void json_string(struct buf *out, const char *key, const char *text)
{
	buf_printf(out, "\"%s\":\"", key);
	escape_json(out, text, strlen(text));
	buf_byte(out, '"');
}

static void json_count(struct buf *out, const struct annotate_count *count)
{
	buf_printf(out, "\"samples\":%llu,\"share\":%.17g,\"range\":[%.17g,%.17g]", (unsigned long long)count->samples, count->share, count->range.lo,
	           count->range.hi);
}

void annotate_json(const struct annotation *a, struct buf *out)
{
	buf_string(out, "{\"schema\":\"perfsample-annotate/1\",");
	json_string(out, "symbol", a->symbol);
	buf_byte(out, ',');
	json_string(out, "dso", a->dso);
	buf_printf(out, ",\"is_inlined\":%s,\"of_samples\":%llu,\"function\":{", a->is_inlined ? "true" : "false", (unsigned long long)a->samples);
	json_count(out, &a->count);
	buf_string(out, "},\"lines\":[");
	for (size_t i = 0; i < a->lines.count; i++) {
		buf_string(out, i > 0 ? ",{" : "{");
		json_string(out, "file", a->lines.data[i].file);
		buf_printf(out, ",\"line\":%u,", a->lines.data[i].line);
		json_count(out, &a->lines.data[i].count);
		buf_byte(out, '}');
	}
	buf_string(out, "],\"instructions\":[");
	for (size_t i = 0; i < a->instructions.count; i++) {
		const struct annotate_instruction *row = &a->instructions.data[i];
		buf_printf(out, "%s{\"address\":\"0x%llx\",", i > 0 ? "," : "", (unsigned long long)row->vaddr);
		json_string(out, "text", row->text);
		buf_byte(out, ',');
		json_string(out, "file", row->file);
		buf_printf(out, ",\"line\":%u,", row->line);
		json_string(out, "inlined", row->inlined != NULL ? row->inlined : "");
		buf_byte(out, ',');
		json_count(out, &row->count);
		buf_byte(out, '}');
	}
	buf_printf(out, "],\"copies\":%zu,", a->copies);
	json_string(out, "note", a->note);
	buf_string(out, "}\n");
}
