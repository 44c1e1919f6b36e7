// flamegraph [options] < FOLDED > FILE.svg: the renderer on its own.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "flamegraph.h"

enum { ID_TITLE = 1, ID_SUBTITLE, ID_UNIT, ID_WIDTH, ID_INVERTED, ID_REVERSE, ID_COLORS, ID_HTML };
static const struct option options[] = {
	{ 0, "title", "TEXT", "what stands above", 0, ID_TITLE, "Options", NULL },
	{ 0, "subtitle", "TEXT", "what stands below the title", 0, ID_SUBTITLE, NULL, NULL },
	{ 0, "unit", "WORD", "what the counts count (samples)", 0, ID_UNIT, NULL, NULL },
	{ 0, "width", "PIXELS", "a fixed width; else that of the window", 0, ID_WIDTH, NULL, NULL },
	{ 0, "inverted", NULL, "roots at the top (icicle)", 0, ID_INVERTED, NULL, NULL },
	{ 0, "reverse", NULL, "merge from the leaf", 0, ID_REVERSE, NULL, NULL },
	{ 0, "colors", "NAME", "warm, cool or gray", 0, ID_COLORS, NULL, "warm|cool|gray" },
	{ 0, "html", NULL, "an HTML page instead of SVG", 0, ID_HTML, NULL, NULL },
	{ 0 },
};
static const char *const usages[] = { "flamegraph [options] < FOLDED > FILE.svg", NULL };
static const struct command tool = { .name = "flamegraph", .usages = usages, .options = options,
	.description = "Draws folded stacks, \"root;caller;leaf COUNT\" a line, as a flame graph." };

static bool take(struct flamegraph_options *o, const struct option_value *v, struct err *err)
{
	uint64_t width;
	switch (v->id) {
	case ID_TITLE: o->title = v->value; break;
	case ID_SUBTITLE: o->subtitle = v->value; break;
	case ID_UNIT: o->unit = v->value; break;
	case ID_INVERTED: o->inverted = true; break;
	case ID_REVERSE: o->reverse = true; break;
	case ID_HTML: o->format = FLAMEGRAPH_HTML; break;
	case ID_COLORS:
		if (!flamegraph_colors_find(v->value, &o->colors))
			return err_set(err, STATUS_USAGE, "%s: '%s' is none of warm, cool, gray", v->spelled, v->value);
		break;
	case ID_WIDTH:
		if (!value_u64(v->value, FLAMEGRAPH_LEAST_WIDTH, FLAMEGRAPH_MOST_WIDTH, v->spelled, &width, err))
			return false;
		o->width = (unsigned)width;
		break;
	}
	return true;
}

static bool read_all(struct buf *in, struct err *err)
{
	for (;;) {
		char *room = buf_add(in, NULL, 1 << 16);
		size_t n = fread(room, 1, 1 << 16, stdin);
		in->size -= (1 << 16) - n;
		if (n == 0)
			return ferror(stdin) == 0 || err_errno(err, STATUS_INPUT, "reading standard input");
	}
}

int main(int argc, char **argv)
{
	struct flamegraph_options chosen = { 0 };
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	if (option_common(options, argc, argv, false).help) {
		option_help(&tool, false);
		return STATUS_OK;
	}
	option_parser_init(&parser, options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (!take(&chosen, &value, &err))
			break;
	struct buf in = { 0 }, out = { 0 };
	if (err.status == STATUS_OK && parser.next < argc)
		err_set(&err, STATUS_USAGE, "unexpected word %s: folded stacks are read from standard input", argv[parser.next]);
	bool is_done = err.status == STATUS_OK && read_all(&in, &err) && flamegraph_render(in.data, in.size, &chosen, &out, &err) &&
	               output_write(out.data, out.size, &err) && output_close(&err);
	if (!is_done)
		log_error("flamegraph: %s", err.text);
	buf_release(&in);
	buf_release(&out);
	return is_done ? STATUS_OK : (int)err.status;
}
