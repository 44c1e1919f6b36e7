// What a host refuses, and what is done and said then: counters, rates, descriptors, locked memory, permissions.
#include <errno.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "perf/event_error.h"
#include "tests/live.h"

static void test_default(void)
{
	int32_t tid = getpid();
	struct event_set set;
	struct event_options o = options();
	o.period = 1295295;
	o.is_default_rate = true;
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	t.inherit = false;
	if (!ok(open_set(&set, NULL, &t, &o), "the default event: opened")) {
		diag("%s", err.text);
		return;
	}
	const struct event_opened *e = &set.events.data[0];
	if (e->attr.type == PERF_TYPE_HARDWARE) {
		ok(e->attr.freq && e->attr.sample_freq == 772, "cycles at the like frequency");
	} else {
		ok(decided(&set, "counts no cycles"), "cycles are not to be had, and this is said: %s", set.decisions.data[0].text);
		is_str(e->name, "cpu-clock", "cpu-clock instead");
		ok(e->is_clock && !e->attr.freq && e->attr.sample_period == 1295295, "with the period of a clock");
	}
	event_set_close(&set);
	if (!open_set(&set, "cycles", &t, &o)) {
		ok(err.status == STATUS_HOST && strstr(err.text, "cpu-clock") != NULL, "cycles by name are refused: %s", err.text);
		ok(set.fds.count == 0 && set.events.count == 0, "and nothing stays open");
	} else {
		event_set_close(&set);
	}
}

static void test_rates(void)
{
	int32_t tid = getpid();
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	o.is_freq = true;
	o.frequency = 1000;
	ok(open_set(&set, "cpu-clock,page-faults", &t, &o), "by frequency");
	ok(set.events.count == 2 && set.events.data[0].attr.sample_period == 1000000 && !set.events.data[0].attr.freq, "a clock gets the fixed period of it");
	ok(set.events.count == 2 && set.events.data[1].attr.freq && set.events.data[1].attr.sample_freq == 1000, "others the frequency");
	event_set_close(&set);
	o.frequency = 100000000;
	ok(open_set(&set, "page-faults", &t, &o), "beyond the kernel's limit");
	ok(set.events.count == 1 && set.events.data[0].attr.sample_freq < 10000000 && decided(&set, "max_sample_rate"), "is cut to it, and said");
	event_set_close(&set);
	o.is_freq = false;
	o.period = 1000;
	ok(open_set(&set, "cpu-clock", &t, &o) && decided(&set, "throttle"), "a clock faster than that: said");
	event_set_close(&set);
	o.ring_bytes = 4096;
	o.stack_bytes = 65528;
	ok(!open_set(&set, "cpu-clock", &t, &o) && err.status == STATUS_USAGE && strstr(err.text, "131072") != NULL, "a ring too small: %s", err.text);
	o.stack_bytes = 65536;
	o.ring_bytes = 1 << 20;
	ok(!open_set(&set, "cpu-clock", &t, &o) && err.status == STATUS_USAGE, "a stack copy too large: %s", err.text);
	tid = 0x3ffffff;
	o = options();
	ok(!open_set(&set, "cpu-clock", &t, &o) && err.status == STATUS_HOST && strstr(err.text, "no such process") != NULL, "a pid that is not there: %s", err.text);
}

// In a child that is nobody, so that limits and perf_event_paranoid apply. Its checks are told by exit status bits.
static void as_nobody(void (*body)(void))
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(99);
		prctl(PR_SET_DUMPABLE, 1); // setuid took it away, and with it the right to look at our children
		tap_failed = 0;
		body();
		fflush(stdout);
		_exit(tap_failed > 0 ? 1 : tap_count & 0x3f);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
		skip("not root", "as an ordinary user");
		return;
	}
	ok(WIFEXITED(status) && WEXITSTATUS(status) != 1, "as an ordinary user");
}

static void nobody_body(void)
{
	char text[16] = "";
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "r");
	long paranoid = f != NULL && fgets(text, sizeof(text), f) != NULL ? atol(text) : 2;
	struct held held = hold(spin);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	o.ring_bytes = 256 << 20;
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	const char *limit_text;
	size_t budget = ring_budget(cpu_count, &limit_text);
	if (paranoid > 2 || paranoid < 0) {
		kill(held.pid, SIGKILL);
		release_and_wait(&held);
		return;
	}
	bool opened = open_set(&set, "cpu-clock", &t, &o);
	printf("#   ordinary user: opened %d, ring %zu KiB of budget %zu (%s)\n", opened, set.ring_bytes / 1024, budget / 1024, limit_text);
	if (!opened)
		printf("#   %s\n", err.text);
	tap_failed += !opened || (budget < o.ring_bytes && (!decided(&set, "perf_event_mlock_kb") || set.ring_bytes > budget * 2));
	tap_failed += paranoid == 2 && (!decided(&set, "user space only") || !set.events.data[0].attr.exclude_kernel);
	for (size_t i = 0; i < set.decisions.count; i++)
		printf("#   %s\n", set.decisions.data[i].text);
	event_set_enable(&set, &err);
	kill(held.pid, SIGCONT);
	if (write(held.go, "x", 1) == 1)
		waitpid(held.pid, NULL, 0);
	struct counts n = drain(&set, tid);
	printf("#   %llu samples, %llu of the kernel\n", (unsigned long long)n.samples, (unsigned long long)n.kernel);
	tap_failed += n.samples < 500 || (paranoid == 2 && n.kernel > 0);
	event_set_close(&set);
	o = options();
	t = target(SCOPE_CPU, NULL, 0);
	bool refused = !open_set(&set, "cpu-clock", &t, &o);
	printf("#   %s\n", err.text);
	tap_failed += paranoid > 0 && (!refused || err.status != STATUS_HOST || strstr(err.text, "kernel.perf_event_paranoid=0") == NULL);
	tid = getpid();
	t = target(SCOPE_TASK, &tid, 1);
	refused = !open_set(&set, "cpu-clock:k", &t, &o);
	printf("#   %s\n", err.text);
	tap_failed += paranoid > 1 && (!refused || strstr(err.text, "kernel.perf_event_paranoid=1") == NULL);
	o.exclude_kernel = true;
	refused = !open_set(&set, "cpu-clock:k", &t, &o);
	tap_failed += paranoid > 1 && !refused; // not opened with everything left out
	o.exclude_kernel = false;
	o.is_default_rate = true; // the default of an ordinary user on a host without counters: both retreats
	opened = open_set(&set, NULL, &t, &o);
	tap_failed += !opened || (paranoid == 2 && !decided(&set, "user space only"));
	for (size_t i = 0; opened && i < set.decisions.count; i++)
		printf("#   %s: %s\n", set.events.data[0].name, set.decisions.data[i].text);
	event_set_close(&set);
	tid = 1;
	refused = !open_set(&set, "cpu-clock:u", &t, &o);
	printf("#   %s\n", err.text);
	tap_failed += !refused || strstr(err.text, "another user") == NULL;
}

static void test_files(void)
{
	struct rlimit old, low;
	getrlimit(RLIMIT_NOFILE, &old);
	int32_t tids[200];
	for (size_t i = 0; i < 200; i++)
		tids[i] = getpid();
	struct event_specs specs = { 0 };
	ok(event_specs_parse(&specs, "cpu-clock,page-faults", &err), "two events");
	struct event_target t = target(SCOPE_TASK, tids, 200);
	size_t need = event_set_fd_need(&specs, &t);
	is_u64(need, 200 * cpu_count * 3, "200 threads x CPUs x (2 + 1)");
	t.scope = SCOPE_THREAD;
	is_u64(event_set_fd_need(&specs, &t), 600, "per thread: without the CPUs");
	t.scope = SCOPE_CGROUP;
	is_u64(event_set_fd_need(&specs, &t), cpu_count * 3, "per cgroup: without the threads");
	t.scope = SCOPE_TASK;
	low = old;
	low.rlim_cur = 64;
	setrlimit(RLIMIT_NOFILE, &low);
	struct event_set set;
	struct event_options o = options();
	ok(!event_set_open(&set, &specs, &t, &o, &err) && err.status == STATUS_HOST && strstr(err.text, "ulimit -n") != NULL, "too many: %s", err.text);
	t.tid_count = 1;
	low.rlim_cur = 3 * cpu_count + 1; // passes the first look, fails on the way
	setrlimit(RLIMIT_NOFILE, &low);
	ok(!event_set_open(&set, &specs, &t, &o, &err) && err.status == STATUS_HOST && strstr(err.text, "ulimit -n") != NULL, "EMFILE on the way: %s", err.text);
	setrlimit(RLIMIT_NOFILE, &old);
	int probe = dup(0);
	ok(probe >= 0 && probe < 12, "nothing stayed open (next descriptor %d)", probe);
	close(probe);
	event_specs_release(&specs);
	const char *limit_text;
	size_t budget = ring_budget(2, &limit_text);
	ok(budget >= 4096, "ring budget %zu KiB, limited by %s", budget / 1024, limit_text);
}

// One errno, several causes: what is said depends on what was asked for.
static void test_words(void)
{
	struct perf_event_attr clock = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK }, cycles = { .type = PERF_TYPE_HARDWARE };
	struct event_target cgroup = { .scope = SCOPE_CGROUP }, task = { .scope = SCOPE_TASK };
	event_error(&err, ENOENT, "cpu-clock", &clock, &cgroup);
	ok(strstr(err.text, "no perf_event controller") != NULL, "a clock is missing in a cgroup only: %s", err.text);
	event_error(&err, ENOENT, "cycles", &cycles, &task);
	ok(strstr(err.text, "does not count it") != NULL && strstr(err.text, "-e cpu-clock") != NULL, "a counter anywhere: %s", err.text);
}

// Where perf_event_paranoid forbids everything, as Debian's and Ubuntu's kernels know it: what is said leads to a recording in one step.
static void paranoid_body(void)
{
	struct perf_event_attr clock = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1 };
	int32_t own = getpid(), init = 1;
	struct event_target task = { .scope = SCOPE_TASK, .tids = &own, .tid_count = 1 };
	event_error(&err, EACCES, "cpu-clock", &clock, &task);
	ok(strstr(err.text, "is 3, this needs 2 (or 1, with the kernel's functions): sysctl kernel.perf_event_paranoid=2") != NULL, "one's own: %s", err.text);
	task.tids = &init;
	event_error(&err, EACCES, "cpu-clock", &clock, &task);
	ok(strstr(err.text, "task 1 belongs to another user, and kernel.perf_event_paranoid is 3: run as root or with CAP_PERFMON and CAP_SYS_PTRACE") != NULL &&
	   strstr(err.text, "sysctl") == NULL, "another user's: %s", err.text);
}

static void test_paranoid(void)
{
	char level[] = "/tmp/perfsample-test-XXXXXX";
	int fd = mkstemp(level);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) { // seen by this one alone
		bool is_set = write(fd, "3\n", 2) == 2 && fchmod(fd, 0644) == 0 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
			      mount(level, "/proc/sys/kernel/perf_event_paranoid", NULL, MS_BIND, NULL) == 0;
		if (!is_set || setgid(65534) != 0 || setuid(65534) != 0)
			_exit(99);
		prctl(PR_SET_DUMPABLE, 1);
		tap_failed = 0;
		paranoid_body();
		fflush(stdout);
		_exit(tap_failed > 0);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	close(fd);
	unlink(level);
	tap_count += 2;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99) {
		tap_count -= 2;
		skip("not root, or no mount namespaces", "perf_event_paranoid 3");
	}
	tap_failed += !WIFEXITED(status) || WEXITSTATUS(status) == 1;
}

int main(void)
{
	test_words();
	test_paranoid();
	if (!live_begin())
		return tap_done();
	test_default();
	test_rates();
	test_files();
	as_nobody(nobody_body);
	return tap_done();
}
