// The held child: exec, statuses, streams, signals, a recorder that dies, descriptors that do not leak.
#include "record/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "tests/deny_syscall.h"
#include "tests/scratch.h"

#define ARGV(...) ((char *const *)(const char *const[]){ __VA_ARGS__, NULL })

static bool wait_for(struct child *child)
{
	for (int i = 0; i < 60000 && !child_poll(child); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	return child_poll(child);
}

// Runs argv to its end; the status, or -1 with err filled.
static int run(char *const *argv, bool to_stderr, uint64_t nofile, struct err *err)
{
	struct child child;
	int status = -1;

	if (child_start(&child, argv, NULL, to_stderr, nofile, err) && child_release(&child, err) && wait_for(&child))
		status = child_exit_status(&child);
	child_free(&child);
	return status;
}

static void statuses(void)
{
	struct err err = { 0 };
	is_u64(run(ARGV("true"), false, 0, &err), 0, "true ends with 0");
	is_u64(run(ARGV("sh", "-c", "exit 7"), false, 0, &err), 7, "exit 7");
	is_u64(run(ARGV("sh", "-c", "kill -9 $$"), false, 0, &err), 137, "killed by signal 9");

	ok(run(ARGV("/no/such/program"), false, 0, &err) == -1 && err.status == STATUS_NOT_FOUND && strstr(err.text, "/no/such/program") != NULL,
	   "a missing path is STATUS_NOT_FOUND: %s", err.text);
	ok(run(ARGV("no-such-program-anywhere"), false, 0, &err) == -1 && err.status == STATUS_NOT_FOUND, "a name not in PATH: %s", err.text);
	ok(run(ARGV("/etc/hostname/x"), false, 0, &err) == -1 && err.status == STATUS_NOT_FOUND, "a path through a file: %s", err.text);
	ok(run(ARGV("/etc/passwd"), false, 0, &err) == -1 && err.status == STATUS_CANNOT_RUN, "not executable: %s", err.text);
	ok(run(ARGV(scratch), false, 0, &err) == -1 && err.status == STATUS_CANNOT_RUN, "a folder: %s", err.text);
	char script[128];
	snprintf(script, sizeof(script), "%s/script", scratch);
	FILE *f = fopen(script, "w");
	fputs("#!/no/such/interpreter\n", f);
	fclose(f);
	chmod(script, 0755);
	ok(run(ARGV(script), false, 0, &err) == -1 && err.status == STATUS_CANNOT_RUN, "interpreter missing: %s", err.text);
}

static void held(void)
{
	struct child child;
	struct err err = { 0 };
	char mark[128];

	snprintf(mark, sizeof(mark), "%s/mark", scratch);
	bool started = child_start(&child, ARGV("touch", mark), NULL, false, 0, &err);
	ok(started && child.pid > 0, "a child is started");
	nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	ok(!child_poll(&child) && access(mark, F_OK) != 0, "it waits before its exec");
	ok(child_release(&child, &err) && wait_for(&child) && access(mark, F_OK) == 0, "released, it runs");
	ok(!child_release(&child, &err), "a second release is refused");
	child_free(&child);

	child_start(&child, ARGV("touch", mark), NULL, false, 0, &err);
	pid_t pid = child.pid;
	unlink(mark);
	child_free(&child);
	ok(kill(pid, 0) != 0 && errno == ESRCH && access(mark, F_OK) != 0, "one still held is killed and reaped by child_free");

	child_start(&child, ARGV("sleep", "100"), NULL, false, 0, &err);
	child_kill(&child, SIGTERM);
	nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
	ok(child_release(&child, &err) && wait_for(&child), "one killed while held: no error, no SIGPIPE");
	is_u64(child_exit_status(&child), 143, "and its status is that of the signal");
	child_free(&child);

	child_start(&child, ARGV("sleep", "100"), NULL, false, 0, &err);
	child_release(&child, &err);
	child_kill(&child, SIGINT);
	ok(wait_for(&child) && child_exit_status(&child) == 130, "child_kill reaches a running command");
	child_kill(&child, SIGKILL);
	ok(child_poll(&child), "child_kill after its end does nothing");
	child_free(&child);
}

// A recorder in a process of its own is killed while it holds a child; the child must end without running anything.
static void recorder_dies(void)
{
	int report[2];
	char mark[128];

	snprintf(mark, sizeof(mark), "%s/orphan", scratch);
	prctl(PR_SET_CHILD_SUBREAPER, 1); // the grandchild comes to us, so that its end is seen
	if (pipe(report) != 0)
		return;
	pid_t recorder = fork();
	if (recorder == 0) {
		struct child child;
		child_start(&child, ARGV("touch", mark), NULL, false, 0, NULL);
		if (write(report[1], &child.pid, sizeof(child.pid)) < 0)
			_exit(1);
		pause();
	}
	pid_t held_pid = 0;
	ok(read(report[0], &held_pid, sizeof(held_pid)) == sizeof(held_pid) && held_pid > 0, "a second recorder holds a child");
	kill(recorder, SIGKILL);
	waitpid(recorder, NULL, 0);
	int status = 0;
	pid_t got = 0;
	for (int i = 0; i < 60000 && (got = waitpid(held_pid, &status, WNOHANG)) == 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	if (got == 0)
		kill(held_pid, SIGKILL);
	ok(got == held_pid && access(mark, F_OK) != 0, "when it is killed, its held child ends without running the command");
	close(report[0]);
	close(report[1]);
}

static void what_it_inherits(void)
{
	struct err err = { 0 };
	char command[512], line[256] = "";
	char out[128];

	snprintf(out, sizeof(out), "%s/out", scratch);
	// Ignored SIGPIPE and a blocked SIGTERM are ours, an ignored SIGHUP is nohup's.
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	sigset_t set, before;
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, &before);
	snprintf(command, sizeof(command), "{ grep -E '^Sig(Blk|Ign)' /proc/self/status; ulimit -Sn; } > %s", out);
	run(ARGV("sh", "-c", command), false, 256, &err);
	sigprocmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	unsigned long long blocked = ~0ull, ignored = 0;
	unsigned files = 0;
	FILE *f = fopen(out, "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "SigBlk: %llx", &blocked) != 1 && sscanf(line, "SigIgn: %llx", &ignored) != 1)
			sscanf(line, "%u", &files);
	if (f != NULL)
		fclose(f);
	is_u64(blocked, 0, "no signal is blocked in the command");
	ok((ignored >> (SIGPIPE - 1) & 1) == 0, "SIGPIPE is not ignored there");
	ok((ignored >> (SIGHUP - 1) & 1) == 1, "SIGHUP, ignored by who called us, still is");
	is_u64(files, 256, "RLIMIT_NOFILE is the one given");

	// Standard output goes to standard error.
	int saved_out = dup(1), saved_err = dup(2), file = open(out, O_RDWR | O_CREAT | O_TRUNC, 0600);
	fflush(stdout);
	dup2(file, 2);
	int status = run(ARGV("echo", "to the other side"), true, 0, &err);
	dup2(saved_err, 2);
	char text[64] = "";
	ssize_t got = pread(file, text, sizeof(text) - 1, 0);
	ok(status == 0 && got > 0 && strcmp(text, "to the other side\n") == 0, "its standard output becomes our standard error");
	close(saved_out);
	close(saved_err);
	close(file);

	// With standard input and output closed, the channels must not take their numbers.
	int saved_in = dup(0), keep = dup(1);
	close(0);
	close(1);
	struct child child;
	bool good = child_start(&child, ARGV("sh", "-c", "exit 5"), NULL, true, 0, &err);
	bool above = child.go_fd > 2 && child.error_fd > 2;
	good = good && child_release(&child, &err) && wait_for(&child) && child_exit_status(&child) == 5;
	child_free(&child);
	dup2(saved_in, 0);
	dup2(keep, 1);
	close(saved_in);
	close(keep);
	ok(good && above, "a caller without standard input and output");
}

static volatile sig_atomic_t handled;
static void handler(int sig) { (void)sig; handled++; _exit(99); }

static void handlers_do_not_run_in_it(void)
{
	struct sigaction action = { .sa_handler = handler }, before;
	struct child child;

	sigaction(SIGUSR1, &action, &before);
	child_start(&child, ARGV("true"), NULL, false, 0, NULL);
	child_kill(&child, SIGUSR1);
	sigaction(SIGUSR1, &before, NULL);
	child_release(&child, NULL);
	ok(wait_for(&child) && child_exit_status(&child) == 128 + SIGUSR1, "a signal to the held child ends it; our handler does not run there");
	child_free(&child);
}

static void in_a_cgroup(void)
{
	struct cgroup cgroup;
	struct err err = { 0 };
	struct child child;

	if (!cgroup_create(&cgroup, &err)) {
		skip(err.text, "a child in a cgroup of its own");
		return;
	}
	// Born there by clone3; or moved there, where clone3 is not to be had (under valgrind, say).
	ok(child_start(&child, ARGV("sleep", "100"), &cgroup, false, 0, &err), "a child in a cgroup: %s", err.text);
	char name[8192];
	snprintf(name, sizeof(name), "%s/cgroup.procs", cgroup.path);
	FILE *f = fopen(name, "r");
	int pid = 0;
	ok(f != NULL && fscanf(f, "%d", &pid) == 1 && pid == child.pid, "it is there before its exec");
	if (f != NULL)
		fclose(f);
	child_free(&child);
	snprintf(name, sizeof(name), "%s", cgroup.path);
	cgroup_remove(&cgroup);
	ok(access(name, F_OK) != 0, "and the cgroup is removed");
}

// Without clone3 (before 5.3, valgrind, a container's filter) and without pidfd_open.
static void without(const char *what, int number, int error)
{
	int status = 0;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct cgroup cgroup = { .fd = -1 };
		struct child child;
		char in[4096] = "";
		if (!deny_syscall(number, error))
			_exit(2);
		bool has_cgroup = cgroup_create(&cgroup, NULL);
		bool good = child_start(&child, ARGV("sh", "-c", "exit 6"), has_cgroup ? &cgroup : NULL, false, 0, NULL);
		if (has_cgroup)
			good = good && procfs_cgroup_path(child.pid, in, sizeof(in)) && strstr(in, "/perfsample-") != NULL;
		good = good && child_release(&child, NULL) && wait_for(&child) && child_exit_status(&child) == 6;
		good = good && (number != SYS_pidfd_open || has_cgroup || child.pidfd == -1);
		child_free(&child);
		cgroup_remove(&cgroup);
		_exit(good ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 2)
		skip("no seccomp here", "without %s", what);
	else
		is_u64(WEXITSTATUS(status), 0, "without %s: a child all the same, in its cgroup where there is one", what);
}

int main(void)
{
	scratch_make();
	size_t before = open_fds();
	statuses();
	held();
	recorder_dies();
	what_it_inherits();
	handlers_do_not_run_in_it();
	in_a_cgroup();
	without("clone3 (ENOSYS)", SYS_clone3, ENOSYS);
	without("clone3 (EPERM)", SYS_clone3, EPERM);
	without("pidfd_open", SYS_pidfd_open, ENOSYS);
	is_u64(open_fds(), before, "no descriptor is left open");
	return tap_done();
}
