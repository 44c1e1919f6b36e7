// Priorities, limits, and what a refusal of perf_event_open is said to mean.
#include "record/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/deny_syscall.h"
#include "tests/tap.h"

struct seen { enum drain_priority got; int policy, nice, child_policy, child_nice; bool reset; };

static void *drain_thread(void *context)
{
	struct seen *seen = context;

	seen->got = privilege_drain_priority(0);
	int policy = sched_getscheduler(0), status = 0;
	seen->reset = (policy & SCHED_RESET_ON_FORK) != 0;
	seen->policy = policy & ~SCHED_RESET_ON_FORK;
	seen->nice = getpriority(PRIO_PROCESS, 0);
	pid_t pid = fork();
	if (pid == 0)
		_exit((sched_getscheduler(0) & ~SCHED_RESET_ON_FORK) << 6 | (getpriority(PRIO_PROCESS, 0) + 20));
	waitpid(pid, &status, 0);
	seen->child_policy = WEXITSTATUS(status) >> 6;
	seen->child_nice = (WEXITSTATUS(status) & 63) - 20;
	return NULL;
}

static void priorities(void)
{
	struct seen seen = { 0 };
	pthread_t thread;
	int before = sched_getscheduler(0), nice_before = getpriority(PRIO_PROCESS, 0);

	pthread_create(&thread, NULL, drain_thread, &seen);
	pthread_join(thread, NULL);
	ok(seen.got == PRIORITY_FIFO ? seen.policy == SCHED_FIFO : seen.got == PRIORITY_NICE ? seen.nice == -20 : seen.nice <= nice_before,
	   "the thread has what it is said to have: %s (policy %d, nice %d)", drain_priority_text(seen.got), seen.policy, seen.nice);
	ok(seen.reset && seen.child_policy == SCHED_OTHER && seen.child_nice >= 0, "a child of it starts with ordinary priority");
	ok(sched_getscheduler(0) == before && getpriority(PRIO_PROCESS, 0) == nice_before, "other threads keep theirs");
	if (geteuid() != 0)
		skip("needs root", "root gets real-time priority");
	else
		ok(seen.got == PRIORITY_FIFO, "root gets real-time priority");
	ok(drain_priority_delay_ms(PRIORITY_FIFO) == 20 && drain_priority_delay_ms(PRIORITY_NICE) == 50 && drain_priority_delay_ms(PRIORITY_NORMAL) == 100,
	   "delays that a ring must bear");
}

// In a child: limits stay as they were for the rest of the tests.
static void limits(void)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit limit = { .rlim_cur = 100, .rlim_max = 400 };
		uint64_t before = 0;
		unsigned bad = 0;
		setrlimit(RLIMIT_NOFILE, &limit);
		bad |= (privilege_raise_files(50, &before) != 100 || before != 100) << 0;
		bad |= (privilege_raise_files(300, &before) != 300 || before != 100) << 1;
		uint64_t got = privilege_raise_files(500, &before);
		bad |= (privilege_has_capability(CAP_SYS_RESOURCE) ? got != 500 : got != 400) << 2;
		getrlimit(RLIMIT_NOFILE, &limit);
		bad |= (limit.rlim_cur != got) << 3;
		got = privilege_raise_files(UINT64_MAX / 2, &before); // above fs.nr_open: as far as it goes
		bad |= (got < 400) << 4;
		_exit((int)bad);
	}
	int status;
	waitpid(pid, &status, 0);
	is_u64(WEXITSTATUS(status), 0, "the limit of files is raised as far as allowed, and told");
	pid = fork();
	if (pid == 0) {
		struct rlimit limit = { .rlim_cur = 4096, .rlim_max = 8192 };
		setrlimit(RLIMIT_MEMLOCK, &limit);
		privilege_raise_memlock();
		getrlimit(RLIMIT_MEMLOCK, &limit);
		_exit(limit.rlim_cur == 8192 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	is_u64(WEXITSTATUS(status), 0, "the limit of locked memory is raised to the hard one");
	ok(privilege_has_capability(CAP_SYS_ADMIN) == (geteuid() == 0) || geteuid() == 0, "capabilities are read");
	ok(!privilege_has_capability(-1) && !privilege_has_capability(64) && !privilege_has_capability(1000), "a number that is none is not held");
}

static void explanations(void)
{
	static const struct { int error; const char *says; } cases[] = {
		{ EMFILE, "RLIMIT_NOFILE" }, { ENFILE, "fs.file-max" }, { ENOENT, "does not count it" }, { ENODEV, "does not count it" }, { EBUSY, "nmi_watchdog" },
		{ EINVAL, "refuses" }, { ESRCH, "process" }, { ENOSYS, "perf_event_open" }, { EIO, "Input/output error" },
	};
	struct err err;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		err_clear(&err);
		ok(!privilege_explain(&err, cases[i].error, "x", false, false) && err.status == STATUS_HOST && strncmp(err.text, "event 'x': ", 11) == 0 &&
		   strstr(err.text, cases[i].says) != NULL, "%s", err.text);
	}
	// A refusal names the setting and a command. Without capabilities: in a child that gives them up.
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
			_exit(1);
		privilege_explain(&err, EACCES, "x", true, true);
		printf("#   %s\n", err.text);
		fflush(stdout);
		_exit(strstr(err.text, "perf_event_paranoid") != NULL && strstr(err.text, "sysctl kernel.perf_event_paranoid=0") != NULL &&
		      strstr(err.text, "CAP_PERFMON") != NULL ? 0 : 1);
	}
	int status;
	waitpid(pid, &status, 0);
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "r");
	int paranoid = -1;
	if (f == NULL || fscanf(f, "%d", &paranoid) != 1 || paranoid <= 0)
		skip("perf_event_paranoid is 0 or less here", "EACCES names the setting");
	else
		is_u64(WEXITSTATUS(status), 0, "EACCES names perf_event_paranoid, its command and CAP_PERFMON");
	if (f != NULL)
		fclose(f);
}

// In a container whose seccomp filter forbids perf_event_open, sysctl does not help, and it is not what is advised.
static void filtered(void)
{
	struct err err;
	int status = 0;

	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (!deny_syscall(SYS_perf_event_open, EPERM))
			_exit(2);
		bool called = syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0) < 0 && errno == EPERM;
		privilege_explain(&err, EPERM, "x", false, false);
		printf("#   %s\n", err.text);
		fflush(stdout);
		_exit(called && strstr(err.text, "seccomp") != NULL && strstr(err.text, "docker run") != NULL && strstr(err.text, "sysctl") == NULL ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 2)
		skip("no seccomp here", "a seccomp filter is named");
	else
		is_u64(WEXITSTATUS(status), 0, "a seccomp filter is named");
}

int main(void)
{
	priorities();
	limits();
	explanations();
	filtered();
	return tap_done();
}
