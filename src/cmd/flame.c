// perfsample flame: the recording as a flame graph.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/plural.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/flame_page.h"
#include "cmd/select.h"
#include "contrib/flamegraph/flamegraph.h"
#include "export/exporter.h"
#include "profile/weights.h"
#include "report/left_out.h"
#include "report/report.h"

enum { ID_OUTPUT = 1, ID_INVERTED, ID_REVERSE, ID_WIDTH, ID_COLORS, ID_TITLE, ID_EVENT, ID_DIFF, ID_NEW, ID_WIDTHS, ID_CHILDREN };

struct choices {
	struct selection selection;
	struct flamegraph_options graph;
	const char *event, *output;
	bool is_named; // the output, by the user
	struct flame_sides sides;  // of a comparison
	bool draws_base, by_total;
};

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	uint64_t width;
	switch (value->id) {
	case ID_OUTPUT: c->output = value->value, c->is_named = true; return true;
	case ID_INVERTED: c->graph.inverted = true; return true;
	case ID_REVERSE: c->graph.reverse = true; return true;
	case ID_TITLE: c->graph.title = value->value; return true;
	case ID_EVENT: c->event = value->value; return true;
	case ID_DIFF: vec_push(&c->sides.base, value->value); return true;
	case ID_NEW: vec_push(&c->sides.new_, value->value); return true;
	case ID_CHILDREN: c->by_total = !value->negated; return true;
	case ID_WIDTHS:
		c->draws_base = strcmp(value->value, "base") == 0;
		return c->draws_base || strcmp(value->value, "new") == 0 || err_set(err, STATUS_USAGE, "%s: '%s' is neither new nor base", value->spelled, value->value);
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
	if (report->seconds > 0)
		buf_printf(out, " \xc2\xb7 %.1f s", report->seconds);
	if (meta->start_wall_ns != 0 && gmtime_r(&start, &utc) != NULL && strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%SZ", &utc) > 0)
		buf_printf(out, " from %s", text);
	if (meta->host != 0)
		buf_printf(out, " on %s", profile_text(profile, meta->host));
}

static void left_out_text(const struct profile *profile, const struct report_event *e, struct buf *out)
{
	struct buf others = { 0 };
	if (report_left_out(profile, (uint32_t)(e->source - profile->events.data), &others) > 0)
		buf_printf(out, "\nnot in it, other events of the recording: %s", buf_text(&others));
	buf_release(&others);
}

// Samples, loss, window; and how far the stacks reach.
static void subtitle_text(const struct profile *profile, const struct report *report, const struct report_event *e, struct buf *out)
{
	uint64_t stacks = e->stacks_complete + e->stacks_joined + e->stacks_truncated + e->stacks_failed;
	grouped(out, e->taken);
	buf_printf(out, " sample%s of %s", plural(e->taken), e->name);
	if (e->source->is_clock && !e->source->is_freq && e->source->period > 0)
		buf_printf(out, ", one per %.4g ms", (double)e->source->period / 1e6);
	if (e->is_weighted)
		buf_printf(out, " \xc2\xb7 widths: %s, as the samples' periods differ", e->source->is_clock ? "CPU time" : e->name);
	if (e->is_loss_known)
		counted(out, " \xc2\xb7 lost ", e->lost, e->taken + e->lost);
	else
		buf_string(out, " \xc2\xb7 lost: not known");
	if (e->can_expect && e->silent > 0)
		counted(out, ", silent ", e->silent, e->expected);
	window_text(profile, report, out);
	counted(out, "\nstacks complete ", (double)(e->stacks_complete + e->stacks_joined), (double)stacks);
	if (e->stacks_truncated > 0)
		counted(out, ", truncated ", (double)e->stacks_truncated, (double)stacks);
	if (e->stacks_failed > 0)
		counted(out, ", unwind failed ", (double)e->stacks_failed, (double)stacks);
	if (e->stacks_guessed > 0)
		counted(out, ", with a guessed frame ", (double)e->stacks_guessed, (double)stacks);
	left_out_text(profile, e, out);
	if (e->verdict != VERDICT_SOUND)
		buf_byte(out, '\n');
	report_verdict(e, out);
}

// What stands behind functions' names in the folded text: their change, or what made them.
static const char **function_marks(const struct profile *p, const struct flame_changes *changes)
{
	const char **marks = mem_zero(p->functions.count + 1, sizeof(*marks));
	for (uint32_t i = 0; i < p->functions.count; i++) {
		if (changes != NULL)
			marks[i] = flame_change_mark(changes, i);
		else if (flame_is_jit(p, &p->functions.data[i]))
			marks[i] = "_[j]";
	}
	return marks;
}

static bool render(const struct choices *c, struct export_input *input, const struct report *report, const struct report_event *event,
                   const struct flame_changes *changes, struct buf *out, struct err *err)
{
	if (c->graph.format == FLAMEGRAPH_HTML)
		return flame_page_write(input, report, event, changes, &c->graph, out, err);
	const char **marks = function_marks(input->profile, changes);
	struct buf folded = { 0 };
	input->kernel_marks = input->inline_marks = changes == NULL;
	input->function_marks = marks;
	bool good = exporter_find("folded")->write(input, &folded, err) && flamegraph_render(folded.data, folded.size, &c->graph, out, err);
	buf_release(&folded);
	free(marks);
	return good;
}

static const struct report_event *event_of(const struct report *report, const struct profile_event *source)
{
	for (size_t i = 0; i < report->events.count; i++)
		if (report->events.data[i].source == source)
			return &report->events.data[i];
	return NULL;
}

// The page says what samples are worth, the picture what they counted.
static const char *unit_of(const struct choices *c, const struct report_event *e)
{
	if (!e->is_weighted)
		return NULL;
	return c->graph.format == FLAMEGRAPH_HTML ? "samples of equal weight" : e->source->is_clock ? "ns of CPU time" : e->name;
}

static void texts(struct choices *c, const struct profile *profile, const struct report *report, const struct report_event *event,
                  const struct flame_changes *changes, struct buf *title, struct buf *subtitle)
{
	title_text(profile, title);
	subtitle_text(profile, report, event, subtitle);
	if (changes != NULL)
		flame_changes_text(changes, c->draws_base, subtitle);
	if (c->graph.title == NULL)
		c->graph.title = buf_text(title);
	c->graph.subtitle = buf_text(subtitle);
	c->graph.unit = unit_of(c, event);
	c->graph.both_counts = event->is_weighted && c->graph.format == FLAMEGRAPH_SVG;
	c->graph.is_comparison = changes != NULL;
}

static bool draw(struct choices *c, const struct profile *profile, uint32_t event, const struct flame_changes *changes, struct err *err)
{
	struct report_options options = report_defaults();
	struct report report = { 0 };
	struct buf title = { 0 }, subtitle = { 0 }, out = { 0 };
	options.filter = c->selection.filter; // borrowed
	options.inlines = c->selection.load.inlines;
	options.ranges = 0;
	bool is_done = report_build(&report, profile, &options, err);
	const struct report_event *e = is_done ? event_of(&report, &profile->events.data[event]) : NULL;
	if (e != NULL) {
		struct export_input input = { .profile = profile, .filter = &c->selection.filter, .inlines = c->selection.load.inlines, .event = event,
			.by_period = e->is_weighted, .both_counts = e->is_weighted };
		texts(c, profile, &report, e, changes, &title, &subtitle);
		is_done = render(c, &input, &report, e, changes, &out, err) && output_file(c->output, c->is_named ? OUTPUT_NAMED : OUTPUT_DEFAULT, out.data, out.size, err);
	}
	report_release(&report);
	buf_release(&title);
	buf_release(&subtitle);
	buf_release(&out);
	return is_done;
}

// The side that is drawn is -i's, or the first of --diff.
static bool choose_sides(struct choices *c, struct err *err)
{
	if (c->sides.base.count == 0)
		return (c->sides.new_.count == 0 && !c->draws_base && !c->by_total) ||
		       err_set(err, STATUS_USAGE, "--new, --widths and --children belong to a comparison: give --diff BASE");
	if (strcmp(c->selection.load.input, "-") == 0)
		return err_set(err, STATUS_USAGE, "--diff needs files: a stream is read once");
	VEC(const char *) all = { 0 };
	vec_push(&all, c->selection.load.input);
	for (size_t i = 0; i < c->sides.new_.count; i++)
		vec_push(&all, c->sides.new_.data[i]);
	vec_release(&c->sides.new_);
	c->sides.new_.data = all.data;
	c->sides.new_.count = all.count;
	c->sides.new_.capacity = all.capacity;
	if (c->draws_base)
		c->selection.load.input = c->sides.base.data[0];
	return true;
}

static bool flame(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	struct flame_changes changes = { .by_total = c->by_total };
	bool is_diff = c->sides.base.count > 0;
	uint32_t event;
	c->selection.load.no_lines = true;
	if (!choose_format(c, err) || !choose_sides(c, err) || !select_load(&c->selection, profile, err) || !select_event(profile, c->event, &event, err))
		return false;
	if (c->event == NULL)
		select_say_left_out(profile, event);
	bool is_done = !is_diff || flame_changes_load(&changes, &c->sides, &c->selection.load, c->event, profile, err);
	is_done = is_done && draw(c, profile, event, is_diff ? &changes : NULL, err);
	flame_changes_release(&changes);
	if (is_done && strcmp(c->output, "-") != 0)
		log_info("wrote %s", c->output);
	return is_done;
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
	{ 0, "diff", "BASE", "a differential graph: coloured by how surely a function has become slower (red) or\nfaster (blue) since BASE; repeat for several runs", 0, ID_DIFF,
	  "Compare", "file" },
	{ 0, "new", "FILE", "a further run of the new side, beside -i, for the comparison; repeat for several", 0, ID_NEW, NULL, "file" },
	{ 0, "widths", "new|base", "which side is drawn (default new)", 0, ID_WIDTHS, NULL, "new|base" },
	{ 0, "children", NULL, "colour by a function with all it calls, not by its own code", OPTION_NEGATABLE, ID_CHILDREN, NULL, NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { .output = "flame.svg" };
	static const struct select_command command = {
		.name = "flame", .options = options, .no_operands = "a recording is named with -i", .take = take, .run = flame,
	};
	int status = select_run(&command, argc, argv, &c, &c.selection);
	vec_release(&c.sides.base);
	vec_release(&c.sides.new_);
	return status;
}

static const char *const usages[] = { "perfsample flame [-i FILE] [-o FILE.svg|FILE.html] [options]", NULL };
const struct command command_flame = {
	.name = "flame", .summary = "a flame graph: one self-contained SVG or HTML file", .usages = usages, .options = options, .run = run,
	.description = "Draws the recording as a flame graph in one file that needs nothing else: hover for figures, click to zoom, / to search. "
	               "A frame's width is the share of the samples that had it on the stack, by their periods where these differ; left to right is by name, not by time. The subtitle says how many "
	               "samples it stands on and what is missing.",
};
