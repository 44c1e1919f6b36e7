// --help: usage lines, what the command does, and its option table under headings.
#include <string.h>

#include "base/buf.h"
#include "cli/command.h"
#include "cli/terminal.h"

enum { OPTION_COLUMN = 2, HELP_COLUMN = 28, LEAST_WIDTH = 60, MOST_WIDTH = 110 };

// Appends `text` wrapped at `width`, every line but the first behind `indent` blanks. '\n' starts a new line, as it does in the text.
static void wrap(struct buf *out, const char *text, size_t indent, size_t width)
{
	size_t column = indent;
	for (const char *at = text; *at != '\0';) {
		size_t length = strcspn(at, " \n");
		while (indent + length > width && memrchr(at, ',', length - 1) != NULL) // a list too long for a line is cut behind a comma
			length = (size_t)((const char *)memrchr(at, ',', length - 1) - at) + 1;
		if (column > indent && column + 1 + length > width) {
			buf_printf(out, "\n%*s", (int)indent, "");
			column = indent;
		} else if (column > indent && at[-1] == ' ') {
			buf_byte(out, ' ');
			column++;
		}
		buf_add(out, at, length);
		column += length;
		at += length;
		if (*at == '\n') {
			buf_printf(out, "\n%*s", at[1] != '\n' && at[1] != '\0' ? (int)indent : 0, "");
			column = indent;
		}
		if (*at == ' ' || *at == '\n')
			at++;
	}
	buf_byte(out, '\n');
}

void option_spelling(const struct option *option, struct buf *out)
{
	bool is_optional = (option->flags & OPTION_OPTIONAL) != 0;
	if (option->letter != 0)
		buf_printf(out, "-%c", option->letter);
	if (option->name != NULL)
		buf_printf(out, "%s--%s%s", option->letter != 0 ? ", " : "", (option->flags & OPTION_NEGATABLE) != 0 ? "[no-]" : "", option->name);
	if (option->argument == NULL)
		return;
	if (is_optional)
		buf_printf(out, option->name != NULL ? "[=%s]" : "[%s]", option->argument);
	else
		buf_printf(out, " %s", option->argument);
}

static void option_line(struct buf *out, const struct option *option, size_t width)
{
	struct buf left = { 0 };
	if (option->letter == 0)
		buf_string(&left, "    ");
	option_spelling(option, &left);
	buf_printf(out, "%*s%s", OPTION_COLUMN, "", buf_text(&left));
	if (left.size + OPTION_COLUMN + 2 > HELP_COLUMN)
		buf_printf(out, "\n%*s", HELP_COLUMN, "");
	else
		buf_printf(out, "%*s", (int)(HELP_COLUMN - OPTION_COLUMN - left.size), "");
	buf_release(&left);
	wrap(out, option->help != NULL ? option->help : "", HELP_COLUMN, width);
}

// The options of one table that `all` lets through; whether any was left out.
static bool table(struct buf *out, const struct option *options, bool all, size_t width)
{
	const char *group = "Options", *printed = NULL;
	bool is_left_out = false;
	for (const struct option *o = options; o != NULL && !option_is_end(o); o++) {
		if (o->group != NULL)
			group = o->group;
		if ((o->flags & OPTION_REFUSED) != 0 || (!all && (o->flags & (OPTION_EXPERT | OPTION_IGNORED)) != 0)) {
			is_left_out |= (o->flags & OPTION_REFUSED) == 0;
			continue;
		}
		if (printed != group)
			buf_printf(out, "\n%s:\n", group);
		printed = group;
		option_line(out, o, width);
	}
	return is_left_out;
}

void option_help_text(const struct command *command, bool all, size_t width, struct buf *out)
{
	width = width < LEAST_WIDTH ? LEAST_WIDTH : width > MOST_WIDTH ? MOST_WIDTH : width;
	bool is_first = true;
	for (const char *const *usage = command->usages; usage != NULL && *usage != NULL; usage++, is_first = false)
		buf_printf(out, "%s %s\n", is_first ? "usage:" : "      ", *usage);
	if (command->description != NULL) {
		buf_byte(out, '\n');
		wrap(out, command->description, 0, width);
	}
	bool is_left_out = table(out, command->options, all, width);
	is_left_out |= table(out, common_options, all, width);
	if (is_left_out)
		buf_printf(out, "\nMore: perfsample %s --help-all, man perfsample-%s\n", command->name, command->name);
}

void option_help(const struct command *command, bool all)
{
	struct buf out = { 0 };
	size_t columns, rows;
	terminal_size(&columns, &rows);
	option_help_text(command, all, columns, &out);
	output_write(buf_text(&out), out.size, NULL);
	buf_release(&out);
}
