// perfsample script: every sample, in perf script's layout.
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/lacks.h"
#include "cmd/select.h"
#include "export/exporter.h"
#include "export/script_fields.h"

enum { ID_FIELDS = 1, ID_HEADER, ID_HIDE_CALLS, ID_REFUSED };
enum { SLICE = 4096 }; // samples written at a time

struct choices {
	struct selection selection;
	struct export_input input;
};

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	unsigned fields;
	switch (value->id) {
	case ID_FIELDS:
		c->input.fields = value->value;
		return script_fields_parse(value->value, &fields, err);
	case ID_HEADER:
		c->input.header = true;
		return true;
	case ID_HIDE_CALLS:
		c->input.hide_calls = true;
		return true;
	default:
		return select_take(&c->selection, value, err);
	}
}

static bool script(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	if (!select_load(&c->selection, profile, err))
		return false;
	c->input.profile = profile;
	c->input.filter = &c->selection.filter;
	c->input.inlines = c->selection.load.inlines;
	c->input.sample_count = SLICE;
	const struct exporter *exporter = exporter_find("script");
	struct report report = { 0 };
	struct buf out = { 0 };
	bool says = log_level() >= LOG_WARN, is_done = !(says || c->input.header) || lacks_find(&report, profile, &c->selection.filter, true, err);
	c->input.report = &report;
	for (size_t first = 0; is_done && (first == 0 || first < profile->samples.count); first += SLICE) {
		c->input.first_sample = first;
		is_done = exporter->write(&c->input, &out, err) && output_write(out.data, out.size, err);
		c->input.header = false;
		buf_clear(&out);
	}
	if (is_done && says)
		lacks_say(&report, PROFILE_NONE);
	report_release(&report);
	buf_release(&out);
	return is_done;
}

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	SELECT_SAMPLE_OPTIONS,
	SELECT_ID_OPTIONS,
	{ 'F', "fields", "FIELDS", "of comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,srcline,period,via; or changes of the default, like +via,-dso",
	  0, ID_FIELDS, "Output", "comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,srcline,period,via" },
	{ 'G', "hide-call-graph", NULL, "one line a sample: the innermost frame alone", 0, ID_HIDE_CALLS, NULL, NULL },
	{ 0, "header", NULL, "say first where, when and how it was recorded", 0, ID_HEADER, NULL, NULL },
	{ 's', "script", "NAME", "perfsample runs no scripts; pipe its output into yours", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 'g', "gen-script", "LANG", "perfsample runs no scripts; pipe its output into yours", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 'D', "dump-raw-trace", NULL, "see perfsample debug", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 0, "itrace", "OPTS", "hardware traces are not decoded", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { 0 };
	static const struct select_command command = {
		.name = "script", .options = options, .no_operands = "perfsample runs no scripts; a recording is named with -i", .take = take, .run = script,
	};
	return select_run(&command, argc, argv, &c, &c.selection);
}

static const char *const usages[] = { "perfsample script [-i FILE] [options]", NULL };
const struct command command_script = {
	.name = "script", .summary = "every sample as text, in perf script's layout", .usages = usages, .options = options, .run = run,
	.description = "Writes every sample in the layout of perf script, the innermost frame first, so that programs made for its output read "
	               "it. Addresses in call chains are offsets in the file, as perf shows them; those of the kernel and of JIT code are of the run. What was lost and which stacks are cut is said on standard error; "
	               "with --header it stands in comment lines too. "
	               "The field via, which perf has not, says behind each frame how it was found from the one below it: by unwind information "
	               "(cfi, expr), what the kernel saved for a signal (signal), the kernel (kernel), the processor's branch records (branches), a function that throws (landing: the frame that handles), a runtime that changed stacks (switched); or "
	               "guessed, by the frame pointer's pair (fp), the return address where the call put it (leaf_rule) or the instructions from there to where the function is left (code), or, where a return probe has replaced the address, the only call that can have led there (call_site). The leaf was not found "
	               "from any other (none).",
};
