#include "cmd/record_repeat.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/digest.h"
#include "cmd/trials.h"
#include "export/merge.h"

enum id { ID_REPEAT = 1, ID_OUTPUT };

static const struct option own[] = {
	{ .name = "repeat", .argument = "N", .id = ID_REPEAT },
	{ .letter = 'o', .name = "output", .argument = "FILE", .id = ID_OUTPUT },
	{ 0 },
};

// Each run is a process of its own: what one leaves behind (limits, threads, the cgroup) is not the next one's.
static int run_once(const struct trial_options *passed, const char *path, char *const *command)
{
	char *self = trial_self();
	VEC(char *) argv = { 0 };
	vec_push(&argv, self);
	vec_push(&argv, (char *)(uintptr_t)"record");
	vec_push(&argv, (char *)(uintptr_t)"-o");
	vec_push(&argv, (char *)(uintptr_t)path);
	if (log_level() < LOG_WARN)
		vec_push(&argv, (char *)(uintptr_t)"-q");
	for (size_t i = 0; i < passed->passed.count; i++)
		vec_push(&argv, passed->passed.data[i]);
	vec_push(&argv, (char *)(uintptr_t)"--");
	for (; *command != NULL; command++)
		vec_push(&argv, *command);
	vec_push(&argv, NULL);
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		execv(self, argv.data);
		_exit(STATUS_CANNOT_RUN);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	vec_release(&argv);
	free(self);
	return pid < 0 ? STATUS_HOST : WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Not what was asked for, so on standard error; merge --runs writes it as a result.
static void say_what_differs(const char *output, size_t runs)
{
	enum { ROWS = 10, COLUMNS = 80 };
	struct hosts_options options = { .confidence = 0.95, .runs = true };
	struct digest_options digest_options = { .confidence = 0.95 };
	struct load_options load = load_defaults();
	struct hosts merge;
	struct err err = { 0 };
	struct buf out = { 0 };
	bool good = true;
	hosts_init(&merge, &options);
	for (size_t i = 1; i <= runs && good; i++) {
		struct digest digest;
		char *path = mem_printf("%s.%zu", output, i);
		good = digest_load(&digest, path, &load, &digest_options, &err) && hosts_add(&merge, &digest, 1, &err);
		digest_release(&digest);
		free(path);
	}
	if (good) {
		hosts_finish(&merge);
		merge_text(&merge, ROWS, COLUMNS, &out);
		buf_printf(&out, "again: perfsample merge --runs %s.*\n", output);
		fwrite(out.data, 1, out.size, stderr);
	} else {
		log_warn("what the runs differ by cannot be said: %s", err.text);
	}
	buf_release(&out);
	hosts_release(&merge);
}

static int run_all(const struct record_options *options, const struct trial_options *passed, const char *output, char *const *command)
{
	char *warmup = mem_printf("%s.warmup", output);
	int status = run_once(passed, warmup, command);
	unlink(warmup);
	free(warmup);
	for (size_t i = 1; i <= options->repeat && status == STATUS_OK; i++) {
		char *path = mem_printf("%s.%zu", output, i);
		status = run_once(passed, path, command);
		free(path);
	}
	if (status == STATUS_OK && log_level() >= LOG_INFO)
		say_what_differs(output, options->repeat);
	return status;
}

int record_repeat(const struct record_options *options, int argc, char *const *argv)
{
	struct trial_options passed;
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	VEC(char *) words = { 0 }; // the parser moves words about
	for (int i = 0; i < argc; i++)
		vec_push(&words, argv[i]);
	vec_push(&words, NULL);
	bool good = true;
	trial_options_init(&passed, own);
	option_parser_init(&parser, passed.table.data, argc, words.data, true);
	while (good && option_next(&parser, &value, &err))
		good = value.id < RECORD_OPTION || trial_options_pass(&passed, &value, &err);
	good = good && err.status == STATUS_OK;
	if (good && (options->session.target.command == NULL || options->session.target.kind != TARGET_COMMAND))
		good = err_set(&err, STATUS_USAGE, "--repeat runs a command again and again: record --repeat N -- CMD");
	if (good && strcmp(options->session.output, "-") == 0)
		good = err_set(&err, STATUS_USAGE, "--repeat writes a file a run: -o FILE, not -");
	int status = good ? run_all(options, &passed, options->session.output, options->session.target.command) : (int)err.status;
	if (!good)
		log_error("record: %s", err.text);
	trial_options_release(&passed);
	vec_release(&words);
	return status;
}
