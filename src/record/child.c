#include "record/child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

// struct clone_args of include/uapi/linux/sched.h (5.7) up to `cgroup`, which older libc headers lack.
struct clone_request {
	uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

#define INTO_CGROUP 0x200000000ull // CLONE_INTO_CGROUP
#define WITH_PIDFD 0x1000ull       // CLONE_PIDFD

struct held { // what the child needs between fork and exec; made before, as it may allocate nothing there
	char *const *argv;
	int go_fd, go_other, error_fd, error_other;
	bool stdout_to_stderr;
	uint64_t nofile_limit;
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

// Moved above the standard three: where one of those was closed, a pipe would take its number and be overwritten by dup2.
static int above_stdio(int fd)
{
	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return moved;
}

// Signals go back to what they were before us: a handler of ours must not run in the child (it would wake the parent's own event loop
// through shared descriptors), and SIGPIPE, which we ignore, ends a command by default. What the caller of perfsample had ignored (nohup's
// SIGHUP) stays ignored.
static void reset_signals(void)
{
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction action;
		if (sigaction(sig, NULL, &action) != 0)
			continue; // the C library keeps two for itself
		bool handled = (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
		if (handled || sig == SIGPIPE) {
			memset(&action, 0, sizeof(action));
			action.sa_handler = SIG_DFL;
			sigaction(sig, &action, NULL);
		}
	}
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

// Runs in the child: only system calls, for it may have been forked from a process with threads. Real-time priority and a negative
// nice value of ours do not arrive here: whoever takes them sets SCHED_RESET_ON_FORK (sched(7)).
static _Noreturn void hold_and_exec(const struct held *held)
{
	close(held->go_other); // else the end of the recorder would never be seen as end of file
	close(held->error_other);
	reset_signals();
	if (held->stdout_to_stderr)
		dup2(STDERR_FILENO, STDOUT_FILENO);
	if (held->nofile_limit > 0) {
		struct rlimit limit;
		if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
			limit.rlim_cur = held->nofile_limit < limit.rlim_max ? held->nofile_limit : limit.rlim_max;
			setrlimit(RLIMIT_NOFILE, &limit);
		}
	}
	char byte;
	ssize_t got;
	do
		got = read(held->go_fd, &byte, 1);
	while (got < 0 && errno == EINTR);
	if (got != 1)
		_exit(STATUS_CANNOT_RUN); // the recorder died or gave up
	execvp(held->argv[0], held->argv);
	int error = errno;
	ssize_t written = write(held->error_fd, &error, sizeof(error));
	_exit(written == sizeof(error) && error == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN);
}

static int pidfd_of(pid_t pid)
{
#ifdef SYS_pidfd_open
	return (int)syscall(SYS_pidfd_open, pid, 0); // close-on-exec by itself
#else
	(void)pid;
	return -1;
#endif
}

// 0 in the child. -1 with errno. *in_cgroup: the child was born in it.
static pid_t fork_child(const struct cgroup *cgroup, int *pidfd, bool *in_cgroup)
{
	*pidfd = -1;
	*in_cgroup = false;
#ifdef SYS_clone3
	if (cgroup != NULL && cgroup->fd >= 0) {
		int fd = -1;
		struct clone_request request = {
			.flags = INTO_CGROUP | WITH_PIDFD, .pidfd = (uint64_t)(uintptr_t)&fd, .exit_signal = SIGCHLD, .cgroup = (uint64_t)cgroup->fd,
		};
		pid_t pid = (pid_t)syscall(SYS_clone3, &request, sizeof(request));
		if (pid >= 0) {
			*in_cgroup = true;
			*pidfd = fd;
			return pid;
		}
		// ENOSYS (before 5.3, seccomp, valgrind), E2BIG and EINVAL (before 5.7), EBADF (a v1 hierarchy), EACCES …: fork, then ask.
	}
#endif
	pid_t pid = fork();
	if (pid > 0)
		*pidfd = pidfd_of(pid);
	return pid;
}

static bool make_channels(int go[2], int report[2])
{
	// A socket pair, for writing to a child that has died must not raise SIGPIPE (MSG_NOSIGNAL).
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, go) != 0)
		return false;
	if (pipe2(report, O_CLOEXEC) != 0) {
		close_fd(&go[0]);
		close_fd(&go[1]);
		return false;
	}
	for (int i = 0; i < 2; i++) {
		go[i] = above_stdio(go[i]);
		report[i] = above_stdio(report[i]);
	}
	if (go[0] >= 0 && go[1] >= 0 && report[0] >= 0 && report[1] >= 0)
		return true;
	int saved = errno;
	for (int i = 0; i < 2; i++) {
		close_fd(&go[i]);
		close_fd(&report[i]);
	}
	errno = saved;
	return false;
}

bool child_start(struct child *child, char *const *argv, const struct cgroup *cgroup, bool stdout_to_stderr, uint64_t nofile_limit,
                 struct err *err)
{
	*child = (struct child){ .pid = -1, .pidfd = -1, .go_fd = -1, .error_fd = -1, .name = argv[0] };
	int go[2] = { -1, -1 }, report[2] = { -1, -1 };
	if (!make_channels(go, report))
		return err_errno(err, STATUS_HOST, "starting %s: pipe", argv[0]);
	struct held held = {
		.argv = argv, .go_fd = go[0], .go_other = go[1], .error_fd = report[1], .error_other = report[0],
		.stdout_to_stderr = stdout_to_stderr, .nofile_limit = nofile_limit,
	};
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before); // no handler of ours runs in the child before its dispositions are reset
	bool in_cgroup;
	pid_t pid = fork_child(cgroup, &child->pidfd, &in_cgroup);
	if (pid == 0)
		hold_and_exec(&held);
	int saved = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	close_fd(&go[0]);
	close_fd(&report[1]);
	if (pid < 0) {
		close_fd(&go[1]);
		close_fd(&report[0]);
		errno = saved;
		return err_errno(err, STATUS_HOST, "starting %s: fork", argv[0]);
	}
	child->pid = pid;
	child->go_fd = go[1];
	child->error_fd = report[0];
	if (cgroup != NULL && cgroup->fd >= 0 && !in_cgroup && !cgroup_add(cgroup, pid, err)) {
		child_free(child);
		return err_context(err, "starting %s", argv[0]);
	}
	return true;
}

// execvp answers EACCES as soon as one folder of PATH could not be searched, even when no folder holds the name.
static bool is_in_path(const char *name)
{
	const char *at = getenv("PATH");
	bool found = false;

	while (at != NULL && !found) {
		size_t length = strcspn(at, ":");
		char *file = mem_printf("%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? at : ".", name);
		found = access(file, F_OK) == 0;
		free(file);
		at = at[length] == ':' ? at + length + 1 : NULL;
	}
	return found;
}

// Why exec failed, in words and as a status. A script whose interpreter is missing is ENOENT too, but the command was found.
static bool exec_failed(const char *name, int error, struct err *err)
{
	bool is_path = strchr(name, '/') != NULL, is_there = is_path ? access(name, F_OK) == 0 : is_in_path(name);

	if (error == EACCES && !is_path && !is_there)
		error = ENOENT;
	if (error == ENOENT && is_there)
		return err_set(err, STATUS_CANNOT_RUN, "%s cannot be run: its interpreter or loader is not there", name);
	if (error == ENOENT || error == ENOTDIR)
		return err_set(err, STATUS_NOT_FOUND, "%s: %s", name, is_path ? strerror(error) : "command not found");
	return err_set(err, STATUS_CANNOT_RUN, "%s cannot be run: %s", name, strerror(error));
}

bool child_release(struct child *child, struct err *err)
{
	if (child->go_fd < 0)
		return err_set(err, STATUS_FINISH, "the command was released already");
	ssize_t sent;
	do
		sent = send(child->go_fd, "", 1, MSG_NOSIGNAL);
	while (sent < 0 && errno == EINTR);
	close_fd(&child->go_fd); // sent < 0: it has died meanwhile (Ctrl-C), which child_poll will tell
	int error = 0;
	ssize_t got;
	do
		got = read(child->error_fd, &error, sizeof(error)); // end of file: exec closed the other end
	while (got < 0 && errno == EINTR);
	close_fd(&child->error_fd);
	if (got != sizeof(error))
		return true;
	while (waitpid(child->pid, &child->wait_status, 0) < 0 && errno == EINTR)
		;
	child->exited = true;
	return exec_failed(child->name, error, err);
}

bool child_poll(struct child *child)
{
	if (child->exited || child->pid <= 0)
		return true;
	struct rusage usage = { 0 };
	pid_t got = wait4(child->pid, &child->wait_status, WNOHANG, &usage);
	if (got == child->pid) {
		child->switches = (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
		child->cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
		                ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
	}
	if (got == child->pid || (got < 0 && errno == ECHILD)) // ECHILD: the caller lets the kernel reap (SIGCHLD ignored)
		child->exited = true;
	return child->exited;
}

int child_exit_status(const struct child *child)
{
	return WIFSIGNALED(child->wait_status) ? 128 + WTERMSIG(child->wait_status) : WEXITSTATUS(child->wait_status);
}

void child_kill(struct child *child, int sig)
{
	if (child->pid > 0 && !child->exited) // not reaped yet, so the number is still its own
		kill(child->pid, sig);
}

void child_free(struct child *child)
{
	bool held = child->go_fd >= 0;

	if (held && !child->exited && child->pid > 0) {
		kill(child->pid, SIGKILL);
		while (waitpid(child->pid, &child->wait_status, 0) < 0 && errno == EINTR)
			;
		child->exited = true;
	}
	close_fd(&child->go_fd);
	close_fd(&child->error_fd);
	close_fd(&child->pidfd);
	child->pid = -1;
}
