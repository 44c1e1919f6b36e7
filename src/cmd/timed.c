// perfsample timed: runs a command and writes its times; both sides of a trial run under it, so that neither has what the other lacks.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int run_command(char *const *argv, double *wall_s, double *cpu_s)
{
	struct rusage usage = { 0 };
	int status = 0;
	double start = now_s();
	pid_t pid = fork();
	if (pid < 0)
		return STATUS_HOST;
	if (pid == 0) {
		execvp(argv[0], argv);
		dprintf(STDERR_FILENO, "%s: %s\n", argv[0], strerror(errno));
		_exit(errno == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN);
	}
	while (wait4(pid, &status, 0, &usage) < 0 && errno == EINTR)
		;
	*wall_s = now_s() - start;
	*cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static const struct option options[] = { { 0 } };

static int run(int argc, char **argv)
{
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	option_parser_init(&parser, options, argc, argv, true);
	while (option_next(&parser, &value, &err))
		;
	if (err.status == STATUS_OK && argc - parser.next < 2)
		err_set(&err, STATUS_USAGE, "expected: timed FILE CMD…");
	if (err.status != STATUS_OK) {
		log_error("%s", err.text);
		return (int)err.status;
	}
	double wall_s = 0, cpu_s = 0;
	int status = run_command(argv + parser.next + 1, &wall_s, &cpu_s);
	char text[120];
	int length = snprintf(text, sizeof(text), "%.9f %.9f\n", wall_s, cpu_s);
	if (!output_file(argv[parser.next], OUTPUT_NAMED, text, (size_t)length, &err)) {
		log_error("%s", err.text);
		return (int)err.status;
	}
	return status;
}

static const char *const usages[] = { "perfsample timed FILE CMD [ARG...]", NULL };

const struct command command_timed = {
	.name = "timed", .summary = "run a command and write its times into FILE", .usages = usages, .options = options, .run = run, .is_hidden = true,
	.description = "Used by perfsample overhead: seconds of wall time and of CPU time.",
};
