// perfsample diff: recordings before and after, compared.
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/diff.h"
#include "cmd/digest.h"
#include "cmd/select.h"
#include "export/diff.h"

enum id {
	ID_BASE = 1, ID_NEW, ID_UNITS, ID_UNIT, ID_GATE, ID_STRICT, ID_FORMAT, ID_TOP, ID_CHILDREN, ID_EVENT, ID_CONFIDENCE, ID_FDR, ID_PERF,
};

static const struct option options[] = {
	{ 0, "base", "FILE", "a recording of the old side; repeat for several runs", 0, ID_BASE, "Input", "file" },
	{ 0, "new", "FILE", "a recording of the new side; repeat for several runs", 0, ID_NEW, NULL, "file" },
	{ 0, "event", "EVENT", "compare this event (default: the first with samples)", 0, ID_EVENT, NULL, NULL },
	{ 0, "salvage", NULL, "skip what is damaged instead of stopping there", 0, SELECT_SALVAGE, NULL, NULL },
	{ 0, "demangle", NULL, "show C++ and Rust names as they are written (the default)", OPTION_NEGATABLE, SELECT_DEMANGLE, NULL, NULL },
	{ 0, "symfs", "DIR", "look for binaries below DIR", OPTION_EXPERT, SELECT_SYMFS, NULL, "file" },
	{ 0, "jobs", "N", "threads that unwind raw stacks of perf's recordings (default 1) and read debug information (default: one a processor, at most 4)", OPTION_EXPERT, SELECT_JOBS, NULL, NULL },
	{ 0, "units", "N[,N]", "work done on each side, all its runs together (requests, files, …): compares\nCPU time per unit of it; one number: the same on both", 0,
	  ID_UNITS, "What to compare", NULL },
	{ 0, "unit", "NAME", "what a unit is called", 0, ID_UNIT, NULL, NULL },
	{ 0, "children", NULL, "by total instead of self", OPTION_NEGATABLE, ID_CHILDREN, NULL, NULL },
	{ 0, "fail-over", "PCT[:FUNCTION]", "status 1 when the whole (or FUNCTION) has surely become more than PCT % slower", 0, ID_GATE, "What follows from it", NULL },
	{ 0, "strict", NULL, "status 5 when --fail-over cannot be decided", 0, ID_STRICT, NULL, NULL },
	{ 0, "confidence", "C", "of every interval: 0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, NULL, NULL },
	{ 0, "fdr", "Q", "share of false ones among the rows that differ (default 0.05)", 0, ID_FDR, NULL, NULL },
	{ 0, "format", "text|json|markdown", "how to write it (default text)", 0, ID_FORMAT, "What to show", "text|json|markdown" },
	{ 0, "top", "N", "N rows (default 20; with json all)", 0, ID_TOP, NULL, NULL },
	{ 'c', "compute", "HOW", "not supported: amounts, their ratio and the shares' difference are all shown", OPTION_REFUSED, ID_PERF, "From perf", NULL },
	{ 'p', "period", NULL, "not supported: use --format json", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'o', "order", "N", "not supported: rows stand by how far apart they are", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 'b', "baseline-only", NULL, "not supported: new functions are marked", OPTION_REFUSED, ID_PERF, NULL, NULL },
	{ 0 },
};

struct choices {
	struct diff_choices diff;
	struct load_options load;
	struct digest_options digest;
	VEC(const char *) paths[2];
};

static bool set_units(struct diff_choices *c, const struct option_value *v, struct err *err)
{
	size_t count;
	char **words = value_words(v->value, ",", &count);
	bool good = count == 1 || count == 2 || err_set(err, STATUS_USAGE, "%s: '%s' is not N or N,N", v->spelled, v->value);
	for (size_t i = 0; i < count && good; i++)
		good = value_double(words[i], 1e-9, 1e18, v->spelled, &c->options.units[i], err);
	if (count == 1)
		c->options.units[1] = c->options.units[0];
	value_words_free(words, count);
	return good;
}

bool diff_set_gate(struct diff_choices *c, const char *text, const char *spelled, struct err *err)
{
	char number[32];
	size_t length = strcspn(text, ":");
	if (length > 0 && text[length - 1] == '%')
		length--;
	if (length == 0 || length >= sizeof(number))
		return err_set(err, STATUS_USAGE, "%s: '%s' is not PCT or PCT:FUNCTION", spelled, text);
	memcpy(number, text, length);
	number[length] = '\0';
	const char *colon = strchr(text, ':');
	c->gate_function = colon != NULL ? colon + 1 : NULL;
	c->has_gate = true;
	if (colon != NULL && colon[1] == '\0')
		return err_set(err, STATUS_USAGE, "%s: '%s' names no function after the colon", spelled, text);
	if (!value_double(number, 0, 10000, spelled, &c->gate_limit, err))
		return false;
	c->gate_limit /= 100;
	return true;
}

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number;
	switch ((enum id)v->id) {
	case ID_BASE: vec_push(&c->paths[0], v->value); return true;
	case ID_NEW: vec_push(&c->paths[1], v->value); return true;
	case ID_UNITS: return set_units(&c->diff, v, err);
	case ID_UNIT: return c->diff.options.unit = v->value, true;
	case ID_GATE: return diff_set_gate(&c->diff, v->value, v->spelled, err);
	case ID_STRICT: return c->diff.strict = true, true;
	case ID_FORMAT: return c->diff.format = v->value, true;
	case ID_CHILDREN: return c->diff.options.children = c->digest.children = !v->negated, true;
	case ID_EVENT: return c->digest.event = v->value, true;
	case ID_CONFIDENCE: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->diff.options.confidence, err);
	case ID_FDR: return value_share(v->value, 1e-6, 0.5, v->spelled, &c->diff.options.fdr, err);
	case ID_TOP:
		if (!value_u64(v->value, 1, UINT32_MAX, v->spelled, &number, err))
			return false;
		c->diff.top = number;
		return true;
	case ID_PERF:
		break;
	}
	return true;
}

static bool parse(struct choices *c, int argc, char **argv, struct err *err)
{
	struct option_parser parser;
	struct option_value v;
	struct selection selection;
	bool good = true;
	select_init(&selection);
	option_parser_init(&parser, options, argc, argv, false);
	while (good && option_next(&parser, &v, err))
		good = v.id >= SELECT_INPUT ? select_take(&selection, &v, err) : set_option(c, &v, err);
	c->load = selection.load;
	select_release(&selection);
	if (!good || err->status != STATUS_OK)
		return false;
	int operands = argc - parser.next;
	if (operands > 0 && c->paths[0].count + c->paths[1].count > 0)
		return err_set(err, STATUS_USAGE, "'%s' beside --base and --new: give one or the other", argv[parser.next]);
	if (operands > 2)
		return err_set(err, STATUS_USAGE, "'%s' is one too many: OLD NEW, or --base and --new, repeated for several runs", argv[parser.next + 2]);
	if (operands == 1)
		return err_set(err, STATUS_USAGE, "one recording '%s' and nothing to compare it with: OLD NEW", argv[parser.next]);
	if ((c->paths[0].count == 0) != (c->paths[1].count == 0))
		return err_set(err, STATUS_USAGE, "%s without %s", c->paths[0].count > 0 ? "--base" : "--new", c->paths[0].count > 0 ? "--new" : "--base");
	if (c->paths[0].count == 0) {
		vec_push(&c->paths[0], operands == 2 ? argv[parser.next] : "perf.data.old");
		vec_push(&c->paths[1], operands == 2 ? argv[parser.next + 1] : "perf.data");
	}
	return true;
}

// ---------------------------------------------------------------- what compare shares

void diff_choices_init(struct diff_choices *choices)
{
	*choices = (struct diff_choices){ .options = { .confidence = 0.95, .fdr = 0.05 }, .format = "text" };
}

static bool write_diff(const struct diff_choices *c, const struct diff_output *output, struct err *err)
{
	static const char *const formats[] = { "text", "json", "markdown", NULL };
	struct buf out = { 0 };
	bool good = true;
	if (strcmp(c->format, "text") == 0) {
		diff_text(output, &out);
	} else if (strcmp(c->format, "json") == 0) {
		diff_json(output, &out);
	} else if (strcmp(c->format, "markdown") == 0) {
		diff_markdown(output, &out);
	} else {
		const char *closest = closest_word(c->format, formats);
		good = err_set(err, STATUS_USAGE, "--format: no format '%s'; %s%s", c->format, closest != NULL ? "did you mean " : "there are text, json, markdown",
		               closest != NULL ? closest : "");
	}
	good = good && output_write(out.data, out.size, err);
	buf_release(&out);
	return good;
}

bool diff_write(const struct diff_choices *c, const struct diff *diff, const struct diff_names *names, int *status, struct err *err)
{
	struct gate_result gate;
	if (c->has_gate && !diff_gate(diff, c->gate_limit, c->gate_function, &gate, err))
		return false;
	struct diff_output output = { .diff = diff, .base = names->base, .new_ = names->new_, .paired = names->paired, .paired_metric = names->paired_metric, .rows = c->top, .gate = c->has_gate ? &gate : NULL,
		.gate_limit = c->gate_limit };
	size_t rows;
	terminal_size(&output.columns, &rows);
	if (output.rows == 0 && strcmp(c->format, "json") != 0)
		output.rows = 20;
	if (!write_diff(c, &output, err))
		return false;
	*status = STATUS_OK;
	if (c->has_gate && gate.gate == GATE_FAILS)
		*status = STATUS_NO;
	if (c->has_gate && gate.gate == GATE_INCONCLUSIVE && c->strict)
		return err_set(err, STATUS_STRICT, "--strict: %s", gate.text);
	return true;
}

// ---------------------------------------------------------------- the command

static bool run_choices(struct choices *c, int *status, struct err *err)
{
	VEC(struct digest) digests = { 0 };
	VEC(const struct digest *) sides[2] = { { 0 }, { 0 } };
	struct diff diff = { 0 };
	bool good = true;
	c->digest.confidence = c->diff.options.confidence;
	for (int side = 0; side < 2; side++)
		for (size_t i = 0; i < c->paths[side].count && good; i++)
			good = digest_load(vec_add(&digests), c->paths[side].data[i], &c->load, &c->digest, err);
	for (size_t i = 0; i < digests.count; i++)
		vec_push(&sides[i < c->paths[0].count ? 0 : 1], &digests.data[i]);
	if (good && sides[0].count > 0 && sides[1].count > 0) {
		struct diff_names names = { .base = sides[0].data[0]->path, .new_ = sides[1].data[0]->path };
		good = diff_build(&diff, sides[0].data, sides[0].count, sides[1].data, sides[1].count, &c->diff.options, err)
			&& diff_write(&c->diff, &diff, &names, status, err);
	}
	diff_release(&diff);
	for (size_t i = 0; i < digests.count; i++)
		digest_release(&digests.data[i]);
	vec_release(&digests);
	vec_release(&sides[0]);
	vec_release(&sides[1]);
	return good;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { 0 };
	int status = STATUS_OK;
	diff_choices_init(&c.diff);
	if (!parse(&c, argc, argv, &err) || !run_choices(&c, &status, &err)) {
		log_error("%s", err.text);
		status = (int)err.status;
	}
	vec_release(&c.paths[0]);
	vec_release(&c.paths[1]);
	return status;
}

static const char *const usages[] = { "perfsample diff [options] [OLD NEW]", "perfsample diff [options] --base FILE... --new FILE...", NULL };

const struct command command_diff = {
	.name = "diff",
	.summary = "what became slower or faster between two sides, and how sure that is",
	.usages = usages,
	.description = "Compares recordings of before and after: the whole program first, with the change that would have shown; then each function by its CPU "
	               "time (per unit of work with --units, else per second) and its share, with intervals, and q: of rows with q below 0.05, one in twenty is "
	               "expected to be false.\n"
	               "One recording a side cannot tell how much runs differ from each other: then no row is called different. Record three or more a side, "
	               "in turn; perfsample compare does that.",
	.options = options,
	.run = run,
};
