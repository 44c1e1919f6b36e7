// perfsample report: reads a recording, builds the model, hands it to an exporter.
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/closest.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/report_missing.h"
#include "cmd/select.h"
#include "export/exporter.h"

enum id {
	ID_FORMAT = 1, ID_SORT, ID_CHILDREN, ID_CONFIDENCE, ID_CALLS, ID_LIMIT, ID_TOP, ID_FIELDS, ID_WIDE, ID_IDLE, ID_MAX_LOSS, ID_STRICT,
	ID_EXPLAIN, ID_MISSING, ID_COLOR, ID_SIMULTANEOUS, ID_PERF,
};

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	{ 0, "format", "text|json|tsv", "how to write it (default text)", 0, ID_FORMAT, "What to show", "text|json|tsv" },
	{ 's', "sort", "KEYS", "rows by symbol,dso,comm,pid,tid,cpu,srcline,event\n(default symbol; comm,dso,symbol where there are several processes)", 0,
	  ID_SORT, NULL, NULL },
	{ 0, "children", NULL, "order by total instead of self", OPTION_NEGATABLE, ID_CHILDREN, NULL, NULL },
	{ 'g', "call-graph", "MODE", "caller, callee or none; with ,PCT: branches of at least PCT % of their row\n(-g alone: caller)", OPTION_OPTIONAL,
	  ID_CALLS, NULL, "caller|callee|none" },
	{ 0, "top", "N", "N rows (default 20, or what the terminal holds)", 0, ID_TOP, NULL, NULL },
	{ 0, "percent-limit", "P", "no rows below P %", 0, ID_LIMIT, NULL, NULL },
	{ 'F', "fields", "COLUMNS", "these columns alone: rank,self,range,total,samples,run,workload,worst_case,\ndeff,visits,flags", 0, ID_FIELDS, NULL, NULL },
	{ 0, "wide", NULL, "every interval beside its row, however narrow the terminal", 0, ID_WIDE, NULL, NULL },
	{ 0, "explain", "SYMBOL", "all that is known of one function's figures", 0, ID_EXPLAIN, NULL, NULL },
	{ 0, "missing", NULL, "instead: which files keep samples without names, why, and the package or setting that would help", 0, ID_MISSING, NULL, NULL },
	{ 0, "idle", NULL, "show idle samples as rows", 0, ID_IDLE, NULL, NULL },
	{ 0, "color", "WHEN", "auto, always or never", OPTION_OPTIONAL, ID_COLOR, NULL, "auto|always|never" },
	SELECT_SAMPLE_OPTIONS,
	SELECT_ID_OPTIONS,
	{ 0, "confidence", "C", "of every interval: 0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, "What is honest", NULL },
	{ 0, "simultaneous", NULL, "intervals that hold for all functions at once, not each on its own", 0, ID_SIMULTANEOUS, NULL, NULL },
	{ 0, "max-loss", "PCT", "CARE where more is missing (default 1%)", 0, ID_MAX_LOSS, NULL, NULL },
	{ 0, "strict", NULL, "status 5 where more is missing, or no ranking can be given", 0, ID_STRICT, NULL, NULL },
	{ 0, "stdio", NULL, "", OPTION_IGNORED, ID_PERF, "From perf", NULL },
	{ 0, "no-source", NULL, "", OPTION_IGNORED, ID_PERF, NULL, NULL },
	{ 0, "header", NULL, "", OPTION_IGNORED, ID_PERF, NULL, NULL },
	{ 'n', "show-nr-samples", NULL, "use -F rank,self,range,samples", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 't', "field-separator", "SEP", "use --format tsv (threads are --tid)", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'p', "parent", "REGEX", "use -g caller (processes are --pid)", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'D', "dump-raw-trace", NULL, "use perfsample script", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'G', "inverted", NULL, "use -g callee", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'T', "threads", NULL, "use -s tid,comm", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'I', "show-info", NULL, "the report's first lines say it; use --format json for all of it", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'U', "hide-unresolved", NULL, "not supported: samples without a name are part of the whole", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'x', "exclude-other", NULL, "not supported: shares are of all samples", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'b', "branch-stack", NULL, "not supported: branch records are not evaluated", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'k', "vmlinux", "FILE", "not supported: kernel names come from kallsyms or from inside the recording", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'm', "modules", NULL, "not needed: modules are resolved by kallsyms", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'M', "disassembler-style", "STYLE", "use perfsample annotate", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'w', "column-widths", "WIDTHS", "use --format tsv", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0, "max-stack", "N", "not supported: stacks are read whole", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0, "tui", NULL, "not supported: the report is text; a terminal too short gets a pager", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0, "gtk", NULL, "not supported", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0, "percentage", "HOW", "not supported: shares are of the samples that -c, --pid, --tid, -C and --time choose", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0 },
};

struct choices {
	struct selection selection;
	struct report_options report;
	const char *format, *explain;
	struct buf fields;
	enum color_mode color;
	bool wide, strict, missing;
};

static const char *const key_words[] = { "symbol", "dso", "comm", "pid", "tid", "cpu", "srcline", "event", "cgroup", NULL };

static bool find_key(const char *word, size_t *key)
{
	static const struct { const char *word; size_t key; } others[] = { { "sym", KEY_SYMBOL } };
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (strcmp(others[i].word, word) == 0)
			return *key = others[i].key, true;
	for (size_t i = 0; key_words[i] != NULL; i++)
		if (strcmp(key_words[i], word) == 0)
			return *key = i, true;
	return false;
}

static void add_key(struct choices *c, size_t key)
{
	for (size_t i = 0; i < c->report.keys.count; i++)
		if (c->report.keys.data[i] == key)
			return;
	vec_push(&c->report.keys, (uint8_t)key);
}

static bool set_keys(struct choices *c, const struct option_value *v, struct err *err)
{
	size_t count, key;
	char **words = value_words(v->value, ", \n", &count);
	vec_clear(&c->report.keys);
	bool good = count > 0 || err_set(err, STATUS_USAGE, "%s: no key given", v->spelled);
	for (size_t i = 0; i < count && good; i++) {
		if (find_key(words[i], &key)) {
			add_key(c, key);
			continue;
		}
		const char *closest = closest_word(words[i], key_words);
		if (closest != NULL)
			good = err_set(err, STATUS_USAGE, "%s: no key '%s'; did you mean %s?", v->spelled, words[i], closest);
		else
			good = err_set(err, STATUS_USAGE, "%s: no key '%s'; keys are symbol, dso, comm, pid, tid, cpu, srcline, event", v->spelled, words[i]);
	}
	value_words_free(words, count);
	return good;
}

// perf's names of columns and, among them, keys: those are what rows are made of.
static bool set_fields(struct choices *c, const struct option_value *v)
{
	static const char *const same[][2] = { { "overhead", "self" }, { "overhead_children", "total" }, { "sample", "samples" } };
	size_t count, key;
	char **words = value_words(v->value, ", \n", &count);
	buf_clear(&c->fields);
	for (size_t i = 0; i < count; i++) {
		if (find_key(words[i], &key)) {
			add_key(c, key);
			continue;
		}
		const char *word = words[i];
		for (size_t s = 0; s < sizeof(same) / sizeof(same[0]); s++)
			if (strcmp(same[s][0], word) == 0)
				word = same[s][1];
		buf_printf(&c->fields, "%s%s", c->fields.size > 0 ? "," : "", word);
	}
	if (c->fields.size == 0)
		buf_string(&c->fields, "self");
	value_words_free(words, count);
	return true;
}

static bool set_calls(struct choices *c, const struct option_value *v, struct err *err)
{
	c->report.calls = CALLS_CALLER;
	size_t count;
	char **words = value_words(v->value != NULL ? v->value : "", ",", &count);
	bool good = true;
	for (size_t i = 0; i < count && good; i++) {
		if (strcmp(words[i], "caller") == 0)
			c->report.calls = CALLS_CALLER;
		else if (strcmp(words[i], "callee") == 0)
			c->report.calls = CALLS_CALLEE;
		else if (strcmp(words[i], "none") == 0)
			c->report.calls = CALLS_NONE;
		else if (words[i][0] >= '0' && words[i][0] <= '9')
			good = value_double(words[i], 0, 100, v->spelled, &c->report.calls_limit, err);
		else if (strcmp(words[i], "graph") != 0 && strcmp(words[i], "function") != 0 && strcmp(words[i], "percent") != 0)
			good = err_set(err, STATUS_USAGE, "%s: '%s' is none of caller, callee, none", v->spelled, words[i]);
	}
	value_words_free(words, count);
	return good;
}

// 0.95 or 95%; --max-loss 1 is 1 %.
static bool set_share(const struct option_value *v, double bare_unit, double min, double max, double *out, struct err *err)
{
	char text[32];
	size_t length = strlen(v->value);
	bool percent = length > 0 && v->value[length - 1] == '%';
	if (length >= sizeof(text))
		return err_set(err, STATUS_USAGE, "%s: '%s' is no number", v->spelled, v->value);
	memcpy(text, v->value, length + 1);
	if (percent)
		text[length - 1] = '\0';
	double unit = percent ? 0.01 : bare_unit;
	if (!value_double(text, min / unit, max / unit, v->spelled, out, err))
		return false;
	*out *= unit;
	return true;
}

static bool set_color(struct choices *c, const struct option_value *v, struct err *err)
{
	const char *when = v->value != NULL ? v->value : "always";
	if (strcmp(when, "auto") == 0)
		c->color = COLOR_AUTO;
	else if (strcmp(when, "always") == 0)
		c->color = COLOR_ALWAYS;
	else if (strcmp(when, "never") == 0)
		c->color = COLOR_NEVER;
	else
		return err_set(err, STATUS_USAGE, "%s: '%s' is none of auto, always, never", v->spelled, when);
	return true;
}

static bool set_number(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number = 0;
	switch ((enum id)v->id) {
	case ID_TOP:
		if (!value_u64(v->value, 1, UINT32_MAX, v->spelled, &number, err))
			return false;
		c->report.top = number;
		return true;
	case ID_LIMIT:
		return value_double(v->value, 0, 100, v->spelled, &c->report.percent_limit, err);
	case ID_CONFIDENCE:
		return set_share(v, 1, 0.5, 0.9999, &c->report.confidence, err);
	default:
		return set_share(v, 0.01, 0, 1, &c->report.max_loss, err);
	}
}

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	switch ((enum id)v->id) {
	case ID_FORMAT: return c->format = v->value, true;
	case ID_SORT: return set_keys(c, v, err);
	case ID_SIMULTANEOUS: return c->report.simultaneous = true, true;
	case ID_CHILDREN: return c->report.children = !v->negated, true;
	case ID_CALLS: return set_calls(c, v, err);
	case ID_FIELDS: return set_fields(c, v);
	case ID_WIDE: return c->wide = true;
	case ID_EXPLAIN: return c->explain = v->value, true;
	case ID_MISSING: return c->missing = true;
	case ID_IDLE: return c->report.idle = true;
	case ID_COLOR: return set_color(c, v, err);
	case ID_STRICT: return c->strict = true;
	case ID_TOP: case ID_LIMIT: case ID_CONFIDENCE: case ID_MAX_LOSS: return set_number(c, v, err);
	case ID_PERF: return true;
	}
	return true;
}

// As in perf, the word after -g belongs to it when it is one of its modes; the parser takes only what is attached.
static bool is_calls_mode(const char *word)
{
	static const char *const modes[] = { "caller", "callee", "none", "graph" };
	size_t length = strcspn(word, ",");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strlen(modes[i]) == length && memcmp(modes[i], word, length) == 0)
			return true;
	return length > 0 && strspn(word, "0123456789.") == length;
}

static char **attach_modes(int *argc, char **argv)
{
	char **out = mem_zero((size_t)*argc + 1, sizeof(*out));
	int count = 0;
	for (int i = 0; i < *argc; i++) {
		bool is_short = strcmp(argv[i], "-g") == 0, is_long = strcmp(argv[i], "--call-graph") == 0;
		if ((is_short || is_long) && i + 1 < *argc && is_calls_mode(argv[i + 1])) {
			out[count++] = mem_printf("%s%s%s", argv[i], is_long ? "=" : "", argv[i + 1]);
			i++;
		} else {
			out[count++] = mem_string(argv[i]);
		}
	}
	*argc = count;
	return out;
}

static bool parse(struct choices *c, int argc, char **argv, struct err *err)
{
	struct option_parser parser;
	struct option_value value;
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, err)) {
		if (select_take(&c->selection, &value, err))
			continue;
		if (err->status != STATUS_OK || !set_option(c, &value, err))
			return false;
	}
	if (err->status != STATUS_OK)
		return false;
	if (parser.next < argc)
		return err_set(err, STATUS_USAGE, "what is '%s'? (a recording is named with -i FILE)", argv[parser.next]);
	return true;
}

static const struct exporter *find_exporter(const char *format, struct err *err)
{
	static const char *const formats[] = { "text", "json", "tsv", NULL };
	for (size_t i = 0; formats[i] != NULL; i++)
		if (strcmp(formats[i], format) == 0)
			return exporter_find(format);
	const char *closest = closest_word(format, formats);
	if (closest != NULL)
		err_set(err, STATUS_USAGE, "--format: no format '%s'; did you mean %s?", format, closest);
	else
		err_set(err, STATUS_USAGE, "--format: '%s' is none of text, json, tsv", format);
	return NULL;
}

static size_t count_lines(const struct buf *text)
{
	size_t lines = 0;
	for (size_t i = 0; i < text->size; i++)
		lines += text->data[i] == '\n';
	return lines;
}

// Rows of the text when nobody said how many.
static size_t rows_for(size_t terminal_rows)
{
	enum { DEFAULT_ROWS = 20, LEAST_ROWS = 8, LINES_AROUND = 16 };
	if (terminal_rows == 0)
		return DEFAULT_ROWS;
	return terminal_rows > LINES_AROUND + LEAST_ROWS ? terminal_rows - LINES_AROUND : LEAST_ROWS;
}

static bool write_report(const struct choices *c, const struct exporter *exporter, const struct report *report, size_t columns, size_t rows,
                         struct err *err)
{
	struct export_input input = { .profile = report->profile, .report = report, .columns = columns, .wide = c->wide, .explain = c->explain,
		.rows = c->report.top > 0 ? 0 : rows, .color = terminal_color(c->color), .inlines = c->report.inlines,
		.fields = c->fields.size > 0 ? c->fields.data : NULL };
	struct buf out = { 0 };
	bool good = exporter->write(&input, &out, err);
	if (good) {
		if (strcmp(exporter->name, "text") == 0)
			output_page(count_lines(&out));
		good = output_write(out.data, out.size, err);
	}
	buf_release(&out);
	return good;
}

static bool write_missing(const struct choices *c, const struct profile *profile, struct err *err)
{
	struct buf out = { 0 };
	report_missing(profile, &c->selection.filter, c->format, &out);
	if (strcmp(c->format, "text") == 0)
		output_page(count_lines(&out));
	bool good = output_write(out.data, out.size, err);
	buf_release(&out);
	return good;
}

// What --strict does not let pass.
static bool is_honest(const struct report *report, struct err *err)
{
	for (size_t i = 0; i < report->events.count; i++) {
		const struct report_event *e = &report->events.data[i];
		struct evidence evidence = report_evidence(report, e);
		if (e->source->is_sampling && !judge_is_honest(&evidence, e->name, err))
			return false;
	}
	return true;
}

static bool build_and_write(struct choices *c, const struct exporter *exporter, const struct profile *profile, struct err *err)
{
	struct report report = { 0 };
	size_t columns, rows;
	terminal_size(&columns, &rows);
	rows = rows_for(rows);
	c->report.filter = c->selection.filter;
	c->report.inlines = c->selection.load.inlines;
	if (strcmp(exporter->name, "text") == 0 && c->explain == NULL)
		c->report.ranges = c->report.top > 0 ? c->report.top : rows;
	bool good = report_build(&report, profile, &c->report, err) && write_report(c, exporter, &report, columns, rows, err);
	if (good && c->strict)
		good = is_honest(&report, err);
	report_release(&report);
	return good;
}

static bool run_choices(struct choices *c, struct err *err)
{
	const struct exporter *exporter = find_exporter(c->format, err);
	if (exporter == NULL)
		return false;
	struct profile profile;
	bool good = select_load(&c->selection, &profile, err);
	if (good)
		good = c->missing ? write_missing(c, &profile, err) : build_and_write(c, exporter, &profile, err);
	profile_release(&profile);
	return good;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { .report = report_defaults(), .format = "text" };
	select_init(&c.selection);
	char **words = attach_modes(&argc, argv); // options keep pointers into them
	bool good = parse(&c, argc, words, &err) && run_choices(&c, &err);
	if (!good)
		log_error("%s", err.text);
	select_release(&c.selection);
	vec_release(&c.report.keys);
	buf_release(&c.fields);
	value_words_free(words, (size_t)argc);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample report [options]", NULL };

const struct command command_report = {
	.name = "report",
	.summary = "which functions took the time, and how sure that is",
	.usages = usages,
	.description = "Reads a recording and shows its functions by the samples they have, each with the range that its share can be "
	               "trusted to, and whether their order is certain. The first lines say what was lost, how many stacks are whole, and what the "
	               "profiler cost.\n"
	               "The verdict is sound; CARE where loss, cut stacks, missing names or too few visits touch the first rows; or NO RANKING where "
	               "more than a tenth was lost or fewer than 100 samples were taken.",
	.options = options,
	.run = run,
};
