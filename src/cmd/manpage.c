// perfsample manpage CMD: the SYNOPSIS and OPTIONS parts of a man page in man(7), made from the command's tables.
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"

// man(7) text: backslashes, hyphens that are minus signs, lines that would be requests, and letters that not every terminal has.
static void roff(struct buf *out, const char *text)
{
	bool is_start = true;
	const char *end = text + strlen(text);
	for (; *text != '\0'; text++) {
		uint32_t c = 0;
		size_t length = utf8_decode(text, (size_t)(end - text), &c);
		if (is_start && (*text == '.' || *text == '\''))
			buf_string(out, "\\&");
		is_start = *text == '\n';
		if (c == 0x2026) {
			buf_string(out, "...");
			text += length - 1;
		} else if (length > 1) {
			buf_printf(out, "\\[u%04X]", c);
			text += length - 1;
		} else if (*text == '\\')
			buf_string(out, "\\e");
		else if (*text == '-')
			buf_string(out, "\\-");
		else
			buf_byte(out, (uint8_t)*text);
	}
}

static void spelling(struct buf *out, const struct option *option)
{
	bool is_optional = (option->flags & OPTION_OPTIONAL) != 0;
	if (option->letter != 0)
		buf_printf(out, "\\fB\\-%c\\fR", option->letter);
	if (option->name != NULL) {
		buf_string(out, option->letter != 0 ? ", " : "");
		buf_string(out, (option->flags & OPTION_NEGATABLE) != 0 ? "\\fB\\-\\-\\fR[\\fBno\\-\\fR]\\fB" : "\\fB\\-\\-");
		roff(out, option->name);
		buf_string(out, "\\fR");
	}
	if (option->argument == NULL)
		return;
	buf_string(out, is_optional ? (option->name != NULL ? "[=\\fI" : "[\\fI") : " \\fI");
	roff(out, option->argument);
	buf_string(out, is_optional ? "\\fR]" : "\\fR");
}

static void table(struct buf *out, const struct option *options, unsigned wanted, unsigned unwanted)
{
	const char *group = NULL, *printed = NULL;
	for (const struct option *o = options; o != NULL && !option_is_end(o); o++) {
		group = o->group != NULL ? o->group : group;
		if ((o->flags & wanted) != wanted || (o->flags & unwanted) != 0)
			continue;
		if (group != NULL && printed != group) {
			buf_string(out, ".SS ");
			roff(out, group);
			buf_byte(out, '\n');
		}
		printed = group;
		buf_string(out, ".TP\n");
		spelling(out, o);
		buf_byte(out, '\n');
		if (o->help != NULL)
			roff(out, o->help);
		buf_byte(out, '\n');
	}
}

// perf's options that have no effect, or are refused with a reason, as one paragraph each.
static void perfs(struct buf *out, const struct option *options)
{
	bool has_ignored = false, has_refused = false;
	for (const struct option *o = options; o != NULL && !option_is_end(o); o++) {
		has_ignored |= (o->flags & OPTION_IGNORED) != 0;
		has_refused |= (o->flags & OPTION_REFUSED) != 0;
	}
	if (has_ignored) {
		buf_string(out, ".SS Accepted from perf without effect\n");
		bool is_first = true;
		for (const struct option *o = options; !option_is_end(o); o++) {
			if ((o->flags & OPTION_IGNORED) == 0)
				continue;
			buf_string(out, is_first ? "" : "; ");
			spelling(out, o);
			is_first = false;
		}
		buf_byte(out, '\n');
	}
	if (has_refused) {
		buf_string(out, ".SS Options of perf that are not supported\n");
		table(out, options, OPTION_REFUSED, 0);
	}
}

static void page(struct buf *out, const struct command *command, const char *part)
{
	if (strcmp(part, "synopsis") == 0) {
		for (const char *const *usage = command->usages; *usage != NULL; usage++) {
			buf_string(out, usage == command->usages ? "" : ".br\n");
			roff(out, *usage);
			buf_byte(out, '\n');
		}
		return;
	}
	table(out, command->options, 0, OPTION_IGNORED | OPTION_REFUSED);
	table(out, common_options, 0, 0);
	perfs(out, command->options);
}

static int run(int argc, char **argv)
{
	const struct command *const *c = commands;
	while (argc == 3 && *c != NULL && strcmp((*c)->name, argv[1]) != 0)
		c++;
	if (argc != 3 || *c == NULL || (strcmp(argv[2], "synopsis") != 0 && strcmp(argv[2], "options") != 0)) {
		log_error("manpage: expected a command and synopsis or options");
		return STATUS_USAGE;
	}
	struct buf out = { 0 };
	page(&out, *c, argv[2]);
	output_write(out.data, out.size, NULL);
	buf_release(&out);
	return STATUS_OK;
}

static const char *const usages[] = { "perfsample manpage COMMAND synopsis|options", NULL };
static const struct option options[] = { { 0 } };
const struct command command_manpage = {
	.name = "manpage", .summary = "parts of a man page", .usages = usages, .options = options, .run = run, .is_hidden = true,
	.description = "Writes the part of a command's man page that its option table holds, for the makefile.",
};
