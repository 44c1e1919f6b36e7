// perfsample fold: one line per distinct stack.
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/lacks.h"
#include "cmd/select.h"
#include "export/exporter.h"
#include "profile/weights.h"

enum { ID_PID = 1, ID_TID, ID_KERNEL, ID_GUESSED, ID_ADDRS, ID_EVENT, ID_IDLE, ID_PERIOD, ID_OUTPUT };

struct choices {
	struct selection selection;
	struct export_input input;
	const char *event, *output;
	bool is_told_what; // --period or --no-period
};

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	switch (value->id) {
	case ID_PID: c->input.with_pid = true; return true;
	case ID_TID: c->input.with_tid = true; return true;
	case ID_KERNEL: c->input.kernel_marks = true; return true;
	case ID_GUESSED: c->input.guess_marks = true; return true;
	case ID_ADDRS: c->input.addrs = true; return true;
	case ID_PERIOD: c->is_told_what = true; c->input.by_period = !value->negated; return true;
	case ID_IDLE: c->input.idle = true; return true;
	case ID_EVENT: c->event = value->value; return true;
	case ID_OUTPUT: c->output = value->value; return true;
	default: return select_take(&c->selection, value, err);
	}
}

static bool drain(void *output, struct buf *out, struct err *err)
{
	bool is_written = output_stream_add(output, out->data, out->size, err);
	buf_clear(out);
	return is_written;
}

static bool write_folded(const struct choices *c, struct err *err)
{
	struct output_stream output;
	struct export_input input = c->input;
	struct buf out = { 0 };
	if (!output_stream_begin(&output, c->output, OUTPUT_NAMED, err))
		return false;
	input.drain = drain;
	input.drain_context = &output;
	bool is_whole = exporter_find("folded")->write(&input, &out, err) && drain(&output, &out, err);
	buf_release(&out);
	return output_stream_end(&output, is_whole, err);
}

// What the format has no place for.
static void say(const struct choices *c, const struct profile *profile)
{
	if (c->input.by_period && !c->is_told_what)
		log_warn("the samples' periods differ, so each line counts periods of %s (--no-period counts samples)",
		         profile_text(profile, profile->events.data[c->input.event].name));
	if (c->event == NULL)
		select_say_left_out(profile, c->input.event);
}

static bool fold(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	c->selection.load.no_lines = true;
	if (!select_load(&c->selection, profile, err) || !select_event(profile, c->event, &c->input.event, err))
		return false;
	if (!c->is_told_what)
		c->input.by_period = profile_weights_differ(profile, c->input.event);
	say(c, profile);
	c->input.profile = profile;
	c->input.filter = &c->selection.filter;
	c->input.inlines = c->selection.load.inlines;
	struct report report = { 0 };
	bool is_done = write_folded(c, err);
	if (is_done && log_level() >= LOG_WARN && lacks_find(&report, profile, &c->selection.filter, c->input.idle, err))
		lacks_say(&report, c->input.event);
	report_release(&report);
	return is_done && err->status == STATUS_OK;
}

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	SELECT_SAMPLE_OPTIONS,
	{ 'e', "event", "EVENT", "count samples of this event (default: the first that has samples)", 0, ID_EVENT, NULL, NULL },
	{ 0, "idle", NULL, "count samples of idle CPUs too", 0, ID_IDLE, NULL, NULL },
	{ 0, "period", NULL, "count the periods of the samples (ns of clocks, else events), as is the default where they differ;\nwith --no-period the samples, as is the default elsewhere",
	  OPTION_NEGATABLE, ID_PERIOD, NULL, NULL },
	{ 'o', "output", "FILE", "write FILE instead of standard output", 0, ID_OUTPUT, "Output", "file" },
	{ 0, "pid", NULL, "name processes COMM-PID", 0, ID_PID, NULL, NULL },
	{ 0, "tid", NULL, "name threads COMM-PID/TID", 0, ID_TID, NULL, NULL },
	{ 0, "kernel", NULL, "mark kernel functions with _[k]", 0, ID_KERNEL, NULL, NULL },
	{ 0, "guessed", NULL, "mark functions whose frame was found without unwind information with _[g]", 0, ID_GUESSED, NULL, NULL },
	{ 0, "addrs", NULL, "add each frame's address", 0, ID_ADDRS, NULL, NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { .output = "-" };
	static const struct select_command command = {
		.name = "fold", .options = options, .no_operands = "a recording is named with -i", .take = take, .run = fold,
	};
	return select_run(&command, argc, argv, &c, &c.selection);
}

static const char *const usages[] = { "perfsample fold [-i FILE] [options]", NULL };
const struct command command_fold = {
	.name = "fold", .summary = "one line per distinct stack, for flame graphs and scripts", .usages = usages, .options = options, .run = run,
	.description = "Writes each distinct stack on a line, root first, with the number of samples that had it: comm;root;…;leaf COUNT. Where the samples' "
	               "periods differ (hardware events sampled by frequency) it is the sum of their periods, so that shares are those of report. "
	               "No frame holds a raw semicolon. A stack that did not reach its root has [truncated] or [unwind failed] right below the "
	               "comm. The format has no place for what was lost: where the verdict of perfsample report is not "
	               "sound because of the samples, standard error says so in a line.",
};
