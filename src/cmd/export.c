// perfsample export: the recording for other viewers.
#include <string.h>

#include "base/gzip.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/lacks.h"
#include "cmd/select.h"
#include "export/exporter.h"
#include "profile/weights.h"
#include "report/report.h"

enum { ID_FORMAT = 1, ID_OUTPUT, ID_EVENT, ID_IDLE, ID_MERGE_THREADS };

// What --format takes; where it is not the exporter's own name, "json" being that of report's.
static const struct format { const char *name, *exporter; } formats[] = {
	{ "pprof", "pprof" }, { "speedscope", "speedscope" }, { "gecko", "gecko" }, { "callgrind", "callgrind" }, { "chrome", "chrome" },
	{ "folded", "folded" }, { "json", "samples" }, { "tsv", "tsv" }, { "script", "script" }, { NULL, NULL },
};
#define FORMATS "pprof, speedscope, gecko, callgrind, chrome, folded, json, tsv, script"

struct choices {
	struct selection selection;
	struct export_input input;
	const struct exporter *exporter;
	const char *event, *output;
};

static bool take_format(struct choices *c, const struct option_value *value, struct err *err)
{
	for (const struct format *f = formats; f->name != NULL; f++)
		if (strcmp(f->name, value->value) == 0)
			c->exporter = exporter_find(f->exporter);
	if (c->exporter == NULL)
		return err_set(err, STATUS_USAGE, "%s: '%s' is none of " FORMATS, value->spelled, value->value);
	return true;
}

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	switch (value->id) {
	case ID_FORMAT: return take_format(c, value, err);
	case ID_OUTPUT: c->output = value->value; return true;
	case ID_EVENT: c->event = value->value; return true;
	case ID_IDLE: c->input.idle = true; return true;
	case ID_MERGE_THREADS: c->input.merge_threads = true; return true;
	default: return select_take(&c->selection, value, err);
	}
}

static bool ends_in(const char *text, const char *end)
{
	size_t length = strlen(text), of_end = strlen(end);
	return length >= of_end && strcmp(text + length - of_end, end) == 0;
}

static bool put(const struct choices *c, const struct buf *bytes, struct err *err)
{
	bool is_stream = strcmp(c->output, "-") == 0;
	struct buf packed = { 0 };
	if (!c->exporter->is_gzipped && !ends_in(c->output, ".gz"))
		return output_file(c->output, OUTPUT_NAMED, bytes->data, bytes->size, err);
	if (is_stream && terminal_is_output())
		return err_set(err, STATUS_USAGE, "%s is not for a terminal: name a file with -o, or a pipe", c->exporter->name);
	bool is_done = gzip_pack(&packed, bytes->data, bytes->size, err) && output_file(c->output, OUTPUT_NAMED, packed.data, packed.size, err);
	buf_release(&packed);
	return is_done;
}

static bool export(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	if (c->exporter == NULL)
		return err_set(err, STATUS_USAGE, "--format is needed: " FORMATS);
	struct report_options options = report_defaults();
	struct report report = { 0 };
	struct buf out = { 0 };
	if (!select_load(&c->selection, profile, err) || !select_event(profile, c->event, &c->input.event, err))
		return false;
	c->input.by_period = profile_weights_differ(profile, c->input.event);
	options.filter = c->selection.filter; // borrowed
	options.inlines = c->selection.load.inlines;
	options.idle = c->input.idle;
	struct export_input input = c->input;
	input.profile = profile;
	input.filter = &c->selection.filter;
	input.inlines = c->selection.load.inlines;
	input.report = &report;
	bool is_done = report_build(&report, profile, &options, err) && c->exporter->write(&input, &out, err) && put(c, &out, err);
	bool is_script = strcmp(c->exporter->name, "script") == 0, is_of_all = is_script || c->exporter->needs_report;
	if (is_done && (is_script || strcmp(c->exporter->name, "folded") == 0)) // no place in the format
		lacks_say(&report, is_script ? PROFILE_NONE : c->input.event);
	if (is_done && c->input.by_period && strcmp(c->exporter->name, "folded") == 0)
		log_warn("the samples' periods differ, so each line counts periods of %s", profile_text(profile, profile->events.data[c->input.event].name));
	if (is_done && c->event == NULL && !is_of_all)
		select_say_left_out(profile, c->input.event);
	if (is_done && strcmp(c->output, "-") != 0)
		log_info("wrote %s", c->output);
	report_release(&report);
	buf_release(&out);
	return is_done;
}

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	SELECT_SAMPLE_OPTIONS,
	SELECT_ID_OPTIONS,
	{ 'e', "event", "EVENT", "samples of this event (default: the first that has samples)", 0, ID_EVENT, NULL, NULL },
	{ 0, "idle", NULL, "samples of idle CPUs too", 0, ID_IDLE, NULL, NULL },
	{ 0, "format", "FORMAT", "pprof (go tool pprof), speedscope, gecko (Firefox Profiler), callgrind (KCachegrind), chrome (Perfetto), folded, "
	  "json (perfsample-export/1), tsv, or script (perf script's text)", 0, ID_FORMAT, "Output",
	  "pprof|speedscope|gecko|callgrind|chrome|folded|json|tsv|script" },
	{ 'o', "output", "FILE", "write FILE, gzipped where it ends in .gz (pprof always is); - is standard output (the default)", 0, ID_OUTPUT, NULL,
	  "file" },
	{ 0, "merge-threads", NULL, "speedscope: one profile of all threads instead of one a thread", 0, ID_MERGE_THREADS, NULL, NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { .output = "-" };
	static const struct select_command command = {
		.name = "export", .options = options, .no_operands = "a recording is named with -i", .take = take, .run = export,
	};
	return select_run(&command, argc, argv, &c, &c.selection);
}

static const char *const usages[] = { "perfsample export --format FORMAT [-i FILE] [-o FILE] [options]", NULL };
const struct command command_export = {
	.name = "export", .summary = "the recording for other viewers: pprof, speedscope, Firefox Profiler, KCachegrind, Perfetto", .usages = usages,
	.options = options, .run = run,
	.description = "Writes the samples in the format of another viewer. What was lost and how far the stacks reach goes along: a stack that did not reach "
	               "its root begins with [truncated] or [unwind failed], and the counts stand in the format's comments, or in the profile's name where it "
	               "has no place for comments. Names that hold control characters are escaped.",
};
