// perfsample help [COMMAND]
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/closest.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/terminal.h"

static void overview(struct buf *out)
{
	buf_string(out,
	           "usage: perfsample COMMAND [options]\n\n"
	           "A sampling profiler for Linux whose figures say how sure they are.\n\n"
	           "  perfsample record -- CMD       run CMD and record where its time goes\n"
	           "  perfsample record -p PID       the same for what runs already; Ctrl-C ends it\n"
	           "  perfsample report              what was found, with its errors\n"
	           "  perfsample flame -o out.svg    the same as a flame graph\n\n"
	           "Commands:\n");
	for (const struct command *const *c = commands; *c != NULL; c++)
		if (!(*c)->is_hidden)
			buf_printf(out, "  %-10s %s\n", (*c)->name, (*c)->summary);
	buf_string(out, "\nperfsample help COMMAND, perfsample COMMAND --help and man perfsample-COMMAND say more.\n"
	                "perfsample --version: version, libraries, features.\n");
}

static int run(int argc, char **argv)
{
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	option_parser_init(&parser, common_options, argc, argv, false);
	bool is_asked_for_itself = argc > 0 && argv[0][0] == '-'; // perfsample --help
	if (option_next(&parser, &value, &err) || err.status != STATUS_OK) {
		log_error("help: %s", err.text);
		return err.status;
	}
	if (is_asked_for_itself || parser.next >= argc) {
		struct buf out = { 0 };
		overview(&out);
		output_write(out.data, out.size, NULL);
		buf_release(&out);
		return STATUS_OK;
	}
	VEC(const char *) names = { 0 };
	const char *wanted = argv[parser.next];
	for (const struct command *const *c = commands; *c != NULL; c++) {
		if (strcmp((*c)->name, wanted) == 0) {
			option_help(*c, false);
			vec_release(&names);
			return STATUS_OK;
		}
		if (!(*c)->is_hidden)
			vec_push(&names, (*c)->name);
	}
	vec_push(&names, NULL);
	const char *closest = closest_word(wanted, names.data);
	log_error("unknown command %s%s%s%s", wanted, closest != NULL ? "; did you mean " : "", closest != NULL ? closest : "",
	          closest != NULL ? "?" : "");
	vec_release(&names);
	return STATUS_USAGE;
}

static const char *const usages[] = { "perfsample help [COMMAND]", NULL };
static const struct option options[] = { { 0 } };
const struct command command_help = {
	.name = "help", .summary = "explain a command", .usages = usages, .options = options, .run = run,
	.description = "Without COMMAND, lists the commands. With one, shows its usage and options.",
};
