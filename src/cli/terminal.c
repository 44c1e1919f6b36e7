#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/special.h"
#include "base/unfinished.h"

bool terminal_is_output(void)
{
	return isatty(STDOUT_FILENO) == 1;
}

// A positive number in the environment, else `otherwise`.
static size_t from_environment(const char *name, size_t otherwise)
{
	const char *text = getenv(name);
	long value = text != NULL ? strtol(text, NULL, 10) : 0;
	return value > 0 && value < 100000 ? (size_t)value : otherwise;
}

void terminal_size(size_t *columns, size_t *rows)
{
	struct winsize size = { 0 };
	bool is_terminal = terminal_is_output() && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
	*columns = from_environment("COLUMNS", is_terminal && size.ws_col > 0 ? size.ws_col : 80);
	*rows = from_environment("LINES", !is_terminal ? 0 : size.ws_row > 0 ? size.ws_row : 24);
}

bool terminal_color(enum color_mode mode)
{
	if (mode != COLOR_AUTO)
		return mode == COLOR_ALWAYS;
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	return terminal_is_output() && (no_color == NULL || *no_color == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

// The reader has closed: end as a process that never caught SIGPIPE does.
static void end_by_sigpipe(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(SIGPIPE);
}

static bool output_failed(struct err *err)
{
	if (errno == EPIPE)
		end_by_sigpipe();
	return err_errno(err, STATUS_FINISH, "writing to standard output");
}

bool output_write(const void *bytes, size_t size, struct err *err)
{
	if (size > 0 && fwrite(bytes, 1, size, stdout) != size)
		return output_failed(err);
	return true;
}

bool output_close(struct err *err)
{
	if (fflush(stdout) != 0)
		return output_failed(err);
	if (ferror(stdout) != 0)
		return err_set(err, STATUS_FINISH, "writing to standard output failed");
	return true;
}

// Runs at exit: the pager sees the end of its input, and the shell's prompt waits until the user has left it.
static void leave_pager(int status, void *pid)
{
	(void)status;
	fclose(stdout);
	while (waitpid((pid_t)(intptr_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static const char *pager_command(void)
{
	const char *names[] = { "PERFSAMPLE_PAGER", "PAGER" };
	for (size_t i = 0; i < 2; i++) {
		const char *command = getenv(names[i]);
		if (command != NULL)
			return *command != '\0' && strcmp(command, "cat") != 0 ? command : NULL;
	}
	return "less";
}

void output_page(size_t lines)
{
	size_t columns, rows;
	terminal_size(&columns, &rows);
	const char *command = pager_command();
	int ends[2];
	if (!terminal_is_output() || lines < rows || command == NULL || pipe2(ends, O_CLOEXEC) != 0)
		return;
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[0], STDIN_FILENO);
		setenv("LESS", "FRX", 0); // leave at once what fits; keep colours; do not clear the screen
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (pid > 0 && on_exit(leave_pager, (void *)(intptr_t)pid) == 0)
		dup2(ends[1], STDOUT_FILENO);
	close(ends[0]);
	close(ends[1]);
}

static bool write_all(int fd, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

static bool open_beside(struct output_stream *output, struct err *err)
{
	output->temporary = mem_printf("%s.%ld.tmp", output->path, (long)getpid());
	output->fd = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (output->fd >= 0) {
		unfinished_add(AT_FDCWD, output->temporary);
		return true;
	}
	err_errno(err, STATUS_FINISH, "creating %s", output->temporary);
	free(output->temporary);
	output->temporary = NULL;
	return false;
}

// What is no regular file is written to as it is: there is nothing to rename over.
static enum special open_in_place(struct output_stream *output, struct err *err)
{
	const char *slash = strrchr(output->path, '/'), *name = slash != NULL ? slash + 1 : output->path;
	char *folder = slash == NULL ? mem_string(".") : slash == output->path ? mem_string("/") : mem_string_n(output->path, (size_t)(slash - output->path));
	int folder_fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	free(folder);
	if (folder_fd < 0) {
		err_errno(err, STATUS_FINISH, "creating %s", output->path);
		return SPECIAL_FAILED;
	}
	enum special special = special_open(folder_fd, *name != '\0' ? name : ".", output->path, &output->fd, err);
	close(folder_fd);
	return special;
}

bool output_stream_begin(struct output_stream *output, const char *path, enum output_name kind, struct err *err)
{
	struct stat there;
	*output = (struct output_stream){ .path = path, .fd = -1 };
	if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
		return true;
	if (kind == OUTPUT_DEFAULT && lstat(path, &there) == 0 && S_ISDIR(there.st_mode))
		return err_set(err, STATUS_FINISH, "%s is a directory", path);
	enum special special = kind == OUTPUT_NAMED ? open_in_place(output, err) : SPECIAL_NONE;
	return special == SPECIAL_OPEN || (special == SPECIAL_NONE && open_beside(output, err));
}

static bool failed(const struct output_stream *output, struct err *err)
{
	return err_errno(err, STATUS_FINISH, "writing %s", output->temporary != NULL ? output->temporary : output->path);
}

bool output_stream_add(struct output_stream *output, const void *bytes, size_t size, struct err *err)
{
	if (output->fd < 0)
		return output_write(bytes, size, err);
	return write_all(output->fd, bytes, size) || failed(output, err);
}

bool output_stream_end(struct output_stream *output, bool is_whole, struct err *err)
{
	if (output->fd >= 0 && close(output->fd) != 0 && is_whole)
		is_whole = failed(output, err);
	if (output->temporary != NULL && is_whole && rename(output->temporary, output->path) != 0)
		is_whole = err_errno(err, STATUS_FINISH, "renaming %s to %s", output->temporary, output->path);
	if (output->temporary != NULL && !is_whole)
		unlink(output->temporary);
	unfinished_done(output->temporary);
	free(output->temporary);
	*output = (struct output_stream){ .fd = -1 };
	return is_whole;
}

bool output_file(const char *path, enum output_name kind, const void *bytes, size_t size, struct err *err)
{
	struct output_stream output;
	return output_stream_begin(&output, path, kind, err) && output_stream_end(&output, output_stream_add(&output, bytes, size, err), err);
}
