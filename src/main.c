// Finds the command and runs it; checks standard output when it ends. Nothing else.
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/closest.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/terminal.h"

static const struct command *find(const char *name)
{
	for (const struct command *const *c = commands; *c != NULL; c++)
		if (strcmp((*c)->name, name) == 0)
			return *c;
	return NULL;
}

static int unknown(const char *name)
{
	VEC(const char *) names = { 0 };
	for (const struct command *const *c = commands; *c != NULL; c++)
		if (!(*c)->is_hidden)
			vec_push(&names, (*c)->name);
	vec_push(&names, "--version");
	vec_push(&names, "--help");
	vec_push(&names, NULL);
	const char *closest = closest_word(name, names.data);
	const char *kind = name[0] == '-' ? "option" : "command";
	if (closest != NULL)
		log_error("unknown %s %s; did you mean %s?", kind, name, closest);
	else
		log_error("unknown %s %s; perfsample help lists the commands", kind, name);
	vec_release(&names);
	return STATUS_USAGE;
}

// A standard stream closed by our caller must not become the descriptor of a file that is opened later. Reading from or
// writing to what stands there instead fails, as it would have.
static void hold_standard_streams(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_WRONLY) != fd)
			_exit(STATUS_FINISH);
}

// Tables of a recording grow to megabytes. Where they are mappings of their own the kernel moves their pages as they grow; glibc would
// take them from the heap once the first of them was freed (its threshold follows what is freed), copy them at each growth and touch
// fresh pages each time, which is what most of a short run then waits for. What is freed at the heap's end is soon asked for again (samples are packed in
// blocks, set down and packed again), so some MiB of it stay.
static void set_allocator(void)
{
	mallopt(M_TRIM_THRESHOLD, 8 * 1024 * 1024);
	mallopt(M_MMAP_THRESHOLD, 256 * 1024);
	mallopt(M_TOP_PAD, 512 * 1024);
}

static int run(const struct command *command, int argc, char **argv)
{
	struct common_choices common = option_common(command->options, argc, argv, command_runs_another(command));
	if (common.help || common.help_all) {
		option_help(command, common.help_all);
		return STATUS_OK;
	}
	if (common.quiet)
		log_set_level(LOG_ERROR);
	else if (common.verbose > 0)
		log_set_level(LOG_DEBUG);
	return command->run(argc, argv);
}

int main(int argc, char **argv)
{
	hold_standard_streams();
	set_allocator();
	const char *name = argc >= 2 ? argv[1] : "help";
	if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
		name = "version";
	else if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "--help-all") == 0)
		name = "help";
	const struct command *command = find(name);
	int status;
	if (command == NULL) {
		status = unknown(name);
	} else if (argc < 2) {
		command->run(1, (char *[]){ (char []){ "help" }, NULL });
		status = STATUS_USAGE;
	} else {
		status = run(command, argc - 1, argv + 1);
	}
	struct err err = { 0 };
	if (!output_close(&err) && status == STATUS_OK) {
		log_error("%s", err.text);
		status = err.status;
	}
	return status;
}
