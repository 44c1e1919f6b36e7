// perfsample flame: the recording as a flame graph.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/select.h"
#include "contrib/flamegraph/flamegraph.h"
#include "export/exporter.h"
#include "report/report.h"

enum { ID_OUTPUT = 1, ID_INVERTED, ID_REVERSE, ID_WIDTH, ID_COLORS, ID_TITLE, ID_EVENT, ID_DIFF };

struct choices {
	struct selection selection;
	struct flamegraph_options graph;
	const char *event, *output;
};

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	uint64_t width;
	switch (value->id) {
	case ID_OUTPUT: c->output = value->value; return true;
	case ID_INVERTED: c->graph.inverted = true; return true;
	case ID_REVERSE: c->graph.reverse = true; return true;
	case ID_TITLE: c->graph.title = value->value; return true;
	case ID_EVENT: c->event = value->value; return true;
	case ID_WIDTH:
		if (!value_u64(value->value, FLAMEGRAPH_LEAST_WIDTH, FLAMEGRAPH_MOST_WIDTH, value->spelled, &width, err))
			return false;
		c->graph.width = (unsigned)width;
		return true;
	case ID_COLORS:
		if (!flamegraph_colors_find(value->value, &c->graph.colors))
			return err_set(err, STATUS_USAGE, "%s: '%s' is none of warm, cool, gray", value->spelled, value->value);
		return true;
	default:
		return select_take(&c->selection, value, err);
	}
}

// The format by the file's ending.
static bool choose_format(struct choices *c, struct err *err)
{
	const char *slash = strrchr(c->output, '/'), *name = slash != NULL ? slash + 1 : c->output, *dot = strrchr(name, '.');
	if (dot != NULL && (strcasecmp(dot, ".html") == 0 || strcasecmp(dot, ".htm") == 0))
		c->graph.format = FLAMEGRAPH_HTML;
	else if (dot != NULL && strcasecmp(dot, ".svg") != 0)
		return err_set(err, STATUS_USAGE, "-o: %s ends neither in .svg nor in .html", c->output);
	return true;
}

static void grouped(struct buf *out, double count)
{
	char digits[32];
	int length = snprintf(digits, sizeof(digits), "%.0f", count);
	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			buf_byte(out, ',');
		buf_byte(out, (uint8_t)digits[i]);
	}
}

static void counted(struct buf *out, const char *before, double count, double whole)
{
	buf_string(out, before);
	grouped(out, count);
	if (whole > 0)
		buf_printf(out, " (%.2f%%)", 100 * count / whole);
}

// The words of the recorded command: those behind "--", or behind a recorder's own options that need none.
static size_t command_start(const struct profile *profile)
{
	const struct profile_meta *meta = &profile->meta;
	for (size_t i = 0; i < meta->argv.count; i++)
		if (strcmp(profile_text(profile, meta->argv.data[i]), "--") == 0)
			return i + 1;
	return meta->argv.count;
}

// The comm that most samples have.
static const char *busiest_comm(const struct profile *profile)
{
	struct hash_map counts = { 0 };
	uint32_t best = 0, most = 0;
	for (size_t i = 0; i < profile->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&profile->samples, i, &s_row);
		uint32_t count = s->is_idle ? 0 : ++*hash_map_put(&counts, s->comm, 0, NULL);
		if (count > most)
			most = count, best = s->comm;
	}
	hash_map_release(&counts);
	return profile_text(profile, best);
}

// What was recorded: the command, the process, or the busiest one.
static void title_text(const struct profile *profile, struct buf *out)
{
	const struct profile_meta *meta = &profile->meta;
	const char *comm = profile_text(profile, meta->target_comm);
	for (size_t i = command_start(profile); i < meta->argv.count && out->size < 120; i++)
		buf_printf(out, "%s%s", out->size > 0 ? " " : "", profile_text(profile, meta->argv.data[i]));
	if (out->size == 0)
		buf_string(out, *comm != '\0' ? comm : busiest_comm(profile));
	if (out->size == 0)
		buf_string(out, "Flame graph");
	if (meta->target_ids.count == 1 && command_start(profile) == meta->argv.count)
		buf_printf(out, "[%d]", meta->target_ids.data[0]);
}

static void window_text(const struct profile *profile, const struct report *report, struct buf *out)
{
	const struct profile_meta *meta = &profile->meta;
	time_t start = (time_t)(meta->start_wall_ns / 1000000000);
	struct tm utc;
	char text[64];
	buf_printf(out, " \xc2\xb7 %.1f s", report->seconds);
	if (meta->start_wall_ns != 0 && gmtime_r(&start, &utc) != NULL && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &utc) > 0)
		buf_printf(out, " from %s", text);
	if (meta->host != 0)
		buf_printf(out, " on %s", profile_text(profile, meta->host));
}

// Samples, loss, window; and how far the stacks reach.
static void subtitle_text(const struct profile *profile, const struct report *report, const struct report_event *e, struct buf *out)
{
	uint64_t stacks = e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed;
	grouped(out, e->taken);
	buf_printf(out, " samples of %s", e->name);
	if (e->source->is_clock && !e->source->is_freq && e->source->period > 0)
		buf_printf(out, ", one per %.4g ms", (double)e->source->period / 1e6);
	counted(out, " \xc2\xb7 lost ", e->lost, e->taken + e->lost);
	window_text(profile, report, out);
	counted(out, "\nstacks complete ", (double)(e->stacks_complete + e->stacks_joined), (double)stacks);
	if (e->stacks_truncated > 0)
		counted(out, ", truncated ", (double)e->stacks_truncated, (double)stacks);
	if (e->stacks_failed > 0)
		counted(out, ", unwind failed ", (double)e->stacks_failed, (double)stacks);
}

static bool fold(const struct choices *c, const struct profile *profile, uint32_t event, struct buf *folded, struct err *err)
{
	struct export_input input = {
		.profile = profile, .filter = &c->selection.filter, .inlines = c->selection.load.inlines, .kernel_marks = true, .inline_marks = true,
		.event = event,
	};
	return exporter_find("folded")->write(&input, folded, err);
}

static bool draw(struct choices *c, const struct profile *profile, uint32_t event, struct err *err)
{
	struct report_options options = report_defaults();
	struct report report = { 0 };
	struct buf folded = { 0 }, title = { 0 }, subtitle = { 0 }, out = { 0 };
	options.filter = c->selection.filter; // borrowed
	bool is_done = report_build(&report, profile, &options, err) && fold(c, profile, event, &folded, err);
	if (is_done) {
		title_text(profile, &title);
		for (size_t i = 0; i < report.events.count; i++)
			if (report.events.data[i].source == &profile->events.data[event])
				subtitle_text(profile, &report, &report.events.data[i], &subtitle);
		if (c->graph.title == NULL)
			c->graph.title = buf_text(&title);
		c->graph.subtitle = buf_text(&subtitle);
		is_done = flamegraph_render(folded.data, folded.size, &c->graph, &out, err) && output_file(c->output, out.data, out.size, err);
	}
	report_release(&report);
	buf_release(&folded);
	buf_release(&title);
	buf_release(&subtitle);
	buf_release(&out);
	return is_done;
}

static bool flame(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	uint32_t event;
	c->selection.load.no_lines = true;
	if (!choose_format(c, err) || !select_load(&c->selection, profile, err) || !select_event(profile, c->event, &event, err))
		return false;
	if (!draw(c, profile, event, err))
		return false;
	if (strcmp(c->output, "-") != 0)
		log_info("wrote %s", c->output);
	return true;
}

static const struct option options[] = {
	SELECT_INPUT_OPTIONS,
	SELECT_SAMPLE_OPTIONS,
	SELECT_ID_OPTIONS,
	{ 'e', "event", "EVENT", "draw samples of this event (default: the first that has samples)", 0, ID_EVENT, NULL, NULL },
	{ 'o', "output", "FILE", "FILE.svg or FILE.html; - is SVG on standard output (default flame.svg)", 0, ID_OUTPUT, "Picture", "file" },
	{ 0, "inverted", NULL, "roots at the top (an icicle graph)", 0, ID_INVERTED, NULL, NULL },
	{ 0, "reverse", NULL, "merge from the leaf: who calls the hot functions", 0, ID_REVERSE, NULL, NULL },
	{ 0, "width", "PIXELS", "a fixed width (default: that of the window)", 0, ID_WIDTH, NULL, NULL },
	{ 0, "colors", "NAME", "warm (the default), cool or gray", 0, ID_COLORS, NULL, "warm|cool|gray" },
	{ 0, "title", "TEXT", "what stands above (default: what was recorded)", 0, ID_TITLE, NULL, NULL },
	{ 0, "diff", "OTHER", "differential flame graphs are not built yet; fold both recordings and compare those", OPTION_REFUSED, ID_DIFF, NULL,
	  NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { .output = "flame.svg" };
	static const struct select_command command = {
		.name = "flame", .options = options, .no_operands = "a recording is named with -i", .take = take, .run = flame,
	};
	return select_run(&command, argc, argv, &c, &c.selection);
}

static const char *const usages[] = { "perfsample flame [-i FILE] [-o FILE.svg|FILE.html] [options]", NULL };
const struct command command_flame = {
	.name = "flame", .summary = "a flame graph: one self-contained SVG or HTML file", .usages = usages, .options = options, .run = run,
	.description = "Draws the recording as a flame graph in one file that needs nothing else: hover for figures, click to zoom, / to search. "
	               "A frame's width is the share of the samples that had it on the stack; left to right is by name, not by time. The subtitle says how many "
	               "samples it stands on and what is missing.",
};
