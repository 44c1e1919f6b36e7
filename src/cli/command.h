// A command: src/cmd/NAME.c defines `const struct command command_NAME`; the makefile lists the folder, main.c finds it.
#ifndef PERFSAMPLE_CLI_COMMAND_H
#define PERFSAMPLE_CLI_COMMAND_H

#include "cli/option.h"

struct command {
	const char *name;
	const char *summary;            // one line for `perfsample help`
	const char *const *usages;      // NULL-terminated lines: "perfsample report [options]"
	const char *description;        // paragraphs for --help and the man page
	const struct option *options;   // ends with an empty one
	int (*run)(int argc, char **argv); // argv[0] is the command's name; returns the exit status
	bool is_hidden;                 // debug
};
extern const struct command *const commands[]; // NULL-terminated, sorted by name; generated

#endif
