#include "trial/run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double seconds(struct timeval t)
{
	return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

struct pipes { int out[2], errors[2], exec_[2]; };

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void close_pipes(struct pipes *p)
{
	for (int i = 0; i < 2; i++) {
		close_fd(&p->out[i]);
		close_fd(&p->errors[i]);
		close_fd(&p->exec_[i]);
	}
}

static bool open_pipes(struct pipes *p, struct err *err)
{
	*p = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (pipe2(p->out, O_CLOEXEC) == 0 && pipe2(p->errors, O_CLOEXEC) == 0 && pipe2(p->exec_, O_CLOEXEC) == 0)
		return true;
	err_errno(err, STATUS_HOST, "a pipe");
	close_pipes(p);
	return false;
}

// Only async-signal-safe calls: we may have threads.
static void child(const struct pipes *p, char *const *argv)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (nothing >= 0)
		dup2(nothing, STDIN_FILENO);
	dup2(p->out[1], STDOUT_FILENO);
	dup2(p->errors[1], STDERR_FILENO);
	execvp(argv[0], argv);
	int error = errno;
	ssize_t ignored = write(p->exec_[1], &error, sizeof(error));
	(void)ignored;
	_exit(127);
}

static void keep(struct buf *buf, const char *bytes, size_t size, size_t most)
{
	if (buf->size < most)
		buf_add(buf, bytes, size < most - buf->size ? size : most - buf->size);
}

// The end of it says why a command failed.
static void keep_last(struct buf *buf, const char *bytes, size_t size)
{
	buf_add(buf, bytes, size);
	if (buf->size <= TRIAL_ERRORS_MOST)
		return;
	memmove(buf->data, buf->data + buf->size - TRIAL_ERRORS_MOST, TRIAL_ERRORS_MOST);
	buf->size = TRIAL_ERRORS_MOST;
}

static void drain_one(int *fd, struct buf *buf, bool last)
{
	char bytes[65536];
	ssize_t got = read(*fd, bytes, sizeof(bytes));
	if (got < 0 && errno == EINTR)
		return;
	if (got <= 0) {
		close_fd(fd);
		return;
	}
	if (last)
		keep_last(buf, bytes, (size_t)got);
	else
		keep(buf, bytes, (size_t)got, TRIAL_OUTPUT_MOST);
}

static int open_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0); // Linux 5.3
}

// Reads both pipes until the command has ended and nothing is left in them: what it leaves running may hold them open. Returns when it ended.
static double drain(struct pipes *p, pid_t pid, struct trial_run *run, struct rusage *usage, int *status)
{
	int pidfd = open_pidfd(pid);
	double end = 0;
	while (end == 0 || p->out[0] >= 0 || p->errors[0] >= 0) {
		struct pollfd fds[3] = { { p->out[0], POLLIN, 0 }, { p->errors[0], POLLIN, 0 }, { end == 0 ? pidfd : -1, POLLIN, 0 } };
		int ready = poll(fds, 3, end > 0 ? 0 : pidfd < 0 ? 1 : -1);
		if (end > 0 && ready == 0)
			break;
		if (end == 0 && wait4(pid, status, WNOHANG, usage) == pid)
			end = now_s();
		if (fds[0].revents != 0)
			drain_one(&p->out[0], &run->output, false);
		if (fds[1].revents != 0)
			drain_one(&p->errors[0], &run->errors, true);
	}
	close_fd(&pidfd);
	return end;
}

bool trial_run(struct trial_run *run, char *const *argv, struct err *err)
{
	struct pipes p;
	struct rusage usage = { 0 };
	int error = 0, status = 0;
	*run = (struct trial_run){ 0 };
	if (!open_pipes(&p, err))
		return false;
	double start = now_s();
	pid_t pid = fork();
	if (pid < 0) {
		close_pipes(&p);
		return err_errno(err, STATUS_HOST, "fork");
	}
	if (pid == 0)
		child(&p, argv);
	close_fd(&p.out[1]);
	close_fd(&p.errors[1]);
	close_fd(&p.exec_[1]);
	if (read(p.exec_[0], &error, sizeof(error)) == (ssize_t)sizeof(error)) {
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		close_pipes(&p);
		errno = error;
		return err_errno(err, error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN, "%s", argv[0]);
	}
	run->wall_s = drain(&p, pid, run, &usage, &status) - start;
	run->cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
	run->status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	close_pipes(&p);
	return true;
}

void trial_run_release(struct trial_run *run)
{
	buf_release(&run->output);
	buf_release(&run->errors);
}
