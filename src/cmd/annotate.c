// perfsample annotate: one function's samples by source line and by instruction.
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/annotate_text.h"
#include "cmd/select.h"

enum { ID_EVENT = 1, ID_FORMAT, ID_SOURCE, ID_ASM, ID_CONTEXT, ID_CONFIDENCE, ID_STDIO, ID_SYMBOL };

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	SELECT_SAMPLE_OPTIONS,
	SELECT_ID_OPTIONS,
	{ 'e', "event", "EVENT", "samples of this event (default: the first that has samples)", 0, ID_EVENT, NULL, NULL },
	{ 0, "format", "text|json", "how to write it (default text)", 0, ID_FORMAT, "What to show", "text|json" },
	{ 0, "source", NULL, "show the source around lines with samples (the default)", OPTION_NEGATABLE, ID_SOURCE, NULL, NULL },
	{ 0, "asm", NULL, "show the instructions (the default)", OPTION_NEGATABLE, ID_ASM, NULL, NULL },
	{ 0, "context", "N", "source lines around those with samples (default 2)", 0, ID_CONTEXT, NULL, NULL },
	{ 0, "confidence", "C", "of every interval (default 0.95)", 0, ID_CONFIDENCE, NULL, NULL },
	{ 0, "stdio", NULL, "", OPTION_IGNORED, ID_STDIO, "From perf", NULL },
	{ 'P', "full-paths", NULL, "paths are full", OPTION_IGNORED, ID_STDIO, NULL, NULL },
	{ 'l', "print-line", NULL, "lines are shown", OPTION_IGNORED, ID_STDIO, NULL, NULL },
	{ 's', "symbol", "SYMBOL", "name it as an operand: annotate SYMBOL", OPTION_REFUSED, ID_SYMBOL, NULL, NULL },
	{ 'k', "vmlinux", "FILE", "not supported: kernel code is not read", OPTION_REFUSED, ID_STDIO, NULL, NULL },
	{ 'M', "disassembler-style", "STYLE", "not supported: AT&T syntax, as binutils'", OPTION_REFUSED, ID_STDIO, NULL, NULL },
	{ 0, "tui", NULL, "not supported: the output is text", OPTION_REFUSED, ID_STDIO, NULL, NULL },
	{ 0 },
};

struct choices {
	struct selection selection;
	struct annotate_options annotate;
	struct annotate_view view;
	const char *event, *format;
};

static bool take(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number;
	switch (v->id) {
	case ID_EVENT: c->event = v->value; return true;
	case ID_FORMAT:
		c->format = v->value;
		return strcmp(v->value, "text") == 0 || strcmp(v->value, "json") == 0 ||
		       err_set(err, STATUS_USAGE, "--format: '%s' is neither text nor json", v->value);
	case ID_SOURCE: c->view.no_source = v->negated; return true;
	case ID_ASM: c->view.no_instructions = c->annotate.no_instructions = v->negated; return true;
	case ID_CONTEXT:
		if (!value_u64(v->value, 0, 1000000, v->spelled, &number, err))
			return false;
		c->view.context = (uint32_t)number;
		return true;
	case ID_CONFIDENCE: return value_double(v->value, 0.5, 0.9999, v->spelled, &c->annotate.confidence, err);
	case ID_STDIO: return true;
	default: return select_take(&c->selection, v, err);
	}
}

// Loss hides samples: how many is the report's business.
static bool find_missing(struct choices *c, const struct profile *profile, struct err *err)
{
	struct report report = { 0 };
	struct report_options how = report_defaults();
	how.filter = c->selection.filter;
	how.confidence = c->annotate.confidence;
	how.ranges = 0;
	bool good = report_build(&report, profile, &how, err);
	for (size_t i = 0; good && i < report.events.count; i++)
		if (report.events.data[i].source == &profile->events.data[c->annotate.event] && report.events.data[i].is_lossy)
			c->annotate.missing = report.events.data[i].missing;
	c->view.is_worst_case = c->annotate.missing > 0;
	report_release(&report);
	return good;
}

static size_t count_lines(const struct buf *text)
{
	size_t lines = 0;
	for (size_t i = 0; i < text->size; i++)
		lines += text->data[i] == '\n';
	return lines;
}

static bool annotate(struct choices *c, struct profile *profile, struct err *err)
{
	struct annotation annotation = { 0 };
	struct buf out = { 0 };
	if (!select_load(&c->selection, profile, err) || !select_event(profile, c->event, &c->annotate.event, err) || !find_missing(c, profile, err))
		return false;
	const struct load_options *load = &c->selection.load;
	c->annotate.filter = &c->selection.filter;
	c->annotate.where = (struct symbolizer_options){
		.demangle = load->demangle, .inlines = load->inlines, .lines = true, .symfs = load->symfs, .more_debug_dirs = load->debug_dirs,
		.use_host_files = true, .no_cache = load->no_cache, .debuginfod = load->debuginfod,
	};
	c->view.symfs = load->symfs;
	c->view.recorded_wall_ns = profile->meta.start_wall_ns;
	if (c->event == NULL)
		select_say_left_out(profile, c->annotate.event);
	bool good = annotate_build(&annotation, profile, &c->annotate, err);
	if (good && strcmp(c->format, "json") == 0)
		annotate_json(&annotation, &out);
	else if (good)
		annotate_text(&annotation, &c->view, &out);
	if (good && strcmp(c->format, "text") == 0)
		output_page(count_lines(&out));
	good = good && output_write(out.data, out.size, err);
	buf_release(&out);
	annotation_release(&annotation);
	return good;
}

static int run(int argc, char **argv)
{
	struct choices c = { .format = "text", .annotate = { .confidence = 0.95 }, .view = { .context = 2 } };
	struct profile profile = { 0 };
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	select_init(&c.selection);
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (!take(&c, &value, &err))
			break;
	if (err.status == STATUS_OK && parser.next + 1 != argc)
		err_set(&err, STATUS_USAGE, parser.next < argc ? "one function at a time" : "which function? (annotate SYMBOL; report lists them)");
	c.annotate.symbol = parser.next < argc ? argv[parser.next] : "";
	bool good = err.status == STATUS_OK && annotate(&c, &profile, &err);
	if (!good)
		log_error("annotate: %s", err.text);
	profile_release(&profile);
	select_release(&c.selection);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample annotate [-i FILE] [options] SYMBOL", NULL };
const struct command command_annotate = {
	.name = "annotate", .summary = "one function's samples by source line and by instruction", .usages = usages, .options = options, .run = run,
	.description = "Shows where in a function its samples were taken: by source line and by instruction, each with the interval that its share can "
	               "be trusted to. Code and lines come from the file that ran, known by its build ID.\n"
	               "Sources are shown where they are regular files that you may read, whoever runs perfsample for you.",
};
