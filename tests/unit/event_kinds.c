// Kinds of events, live: counting PMUs, breakpoints, tracepoints; hybrid hosts as planned, made of folders.
#include <sys/mount.h>

#include "perf/event_plan.h"
#include "tests/live.h"

// A PMU without interrupts, and one that takes no exclude bits: counted beside a clock.
static void test_counting_pmu(void)
{
	int32_t tid = getpid();
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	if (access("/sys/bus/event_source/devices/msr/events/tsc", R_OK) != 0) {
		skip("no msr PMU on this host", "{cpu-clock,msr/tsc/}");
		return;
	}
	ok(!open_set(&set, "msr/tsc/", &t, &o) && err.status == STATUS_HOST && strstr(err.text, "'{cpu-clock,msr/tsc/}'") != NULL, "it does not sample: %s", err.text);
	if (!ok(open_set(&set, "{cpu-clock,msr/tsc/}", &t, &o) && event_set_enable(&set, &err), "but counts in a group"))
		diag("%s", err.text);
	burn(0.1);
	ok(event_set_read(&set, 1, UINT32_MAX).value > 10000000, "time stamp counter: %llu", (unsigned long long)event_set_read(&set, 1, UINT32_MAX).value);
	struct counts n = drain(&set, tid);
	ok(n.bad == 0 && (n.group_reads > 150 || decided(&set, "read apart")), "and is read in the samples");
	event_set_close(&set);
}

static void test_hybrid(void)
{
	char root[] = "/tmp/perfsample-test-XXXXXX", path[128], command[64];
	static const char *const files[][2] = { { "big/type", "4" }, { "big/cpus", "0" }, { "small/type", "10" }, { "small/cpus", "1-3" } };
	if (mkdtemp(root) == NULL)
		return;
	for (size_t i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%.*s", root, (int)strcspn(files[i][0], "/"), files[i][0]);
		mkdir(path, 0700);
		snprintf(path, sizeof(path), "%s/%s", root, files[i][0]);
		FILE *f = fopen(path, "w");
		if (f != NULL)
			fputs(files[i][1], f), fclose(f);
	}
	struct event_host host = { .devices = root, .tracefs = "" };
	static const uint32_t four[] = { 0, 1, 2, 3 };
	struct event_target t = { .scope = SCOPE_CPU, .cpus = four, .cpu_count = 4 };
	struct event_options o = options();
	struct event_specs specs = { 0 };
	struct event_set set = { .ring_bytes = 1 << 20 };
	ok(event_specs_parse_at(&specs, "cycles:u,{instructions,page-faults},r1a8", &host, &err) && event_plan(&set, &specs, &t, &o, &err), "hybrid: planned");
	is_u64(set.events.count, 8, "each on both PMUs");
	const struct event_opened *e = set.events.data;
	ok(e[0].attr.config == 4ull << 32 && e[1].attr.config == 10ull << 32 && e[0].spec == 0 && e[1].spec == 0, "the PMU's type in the config");
	is_str(e[0].name, "big/cycles/u", "named by it");
	ok(e[0].cpu_count == 1 && e[0].cpus[0] == 0 && e[1].cpu_count == 3 && e[1].cpus[2] == 3, "on its CPUs");
	ok(e[2].attr.config == (4ull << 32 | 1) && e[3].group_leader == 2 && e[3].cpu_count == 1 && e[2].group_members == 2 && e[5].group_leader == 4 && e[5].cpu_count == 3,
	   "a group a PMU, software members on its CPUs");
	ok(e[6].attr.type == 4 && e[7].attr.type == 10 && e[7].attr.config == 0x1a8, "raw events by the PMU's type");
	event_plan_release(&set);
	t.cpu_count = 1;
	ok(event_plan(&set, &specs, &t, &o, &err) && set.events.count == 4, "on CPUs of one PMU alone: once");
	event_plan_release(&set);
	vec_release(&set.decisions);
	event_specs_release(&specs);
	snprintf(command, sizeof(command), "rm -rf %s", root);
	ok(system(command) == 0, "cleaned up");
}

static volatile int watched;
static void write_watched(void)
{
	for (int i = 0; i < 50; i++)
		watched = i;
}

static void test_breakpoint(void)
{
	struct held held = hold(write_watched);
	int32_t tid = held.pid;
	char event[64];
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	o.period = 1;
	snprintf(event, sizeof(event), "mem:%p/4:w:u", (void *)(uintptr_t)&watched);
	if (!open_set(&set, event, &t, &o)) {
		skip(err.text, "%s", event);
		kill(held.pid, SIGKILL);
		release_and_wait(&held);
		return;
	}
	event_set_enable(&set, &err);
	release_and_wait(&held);
	struct counts n = drain(&set, tid);
	is_u64(n.samples, 50, "a sample of each write to a variable");
	is_u64(event_set_read(&set, 0, UINT32_MAX).value, 50, "counted as well");
	event_set_close(&set);
}

static void sleep_a_little(void)
{
	for (int i = 0; i < 20; i++)
		usleep(1000);
}

// tracefs may be mounted for this one process and its children.
static void tracepoint_body(void)
{
	char root[] = "/tmp/perfsample-test-XXXXXX";
	if (mkdtemp(root) == NULL || unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 || mount("nodev", root, "tracefs", 0, NULL) != 0) {
		rmdir(root);
		_exit(99);
	}
	struct held held = hold(sleep_a_little);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	o.is_default_rate = true;
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	bool opened = open_set(&set, "sched:sched_switch", &t, &o) && event_set_enable(&set, &err);
	if (!opened)
		printf("#   %s\n", err.text);
	if (write(held.go, "x", 1) == 1)
		waitpid(held.pid, NULL, 0);
	struct counts n = { 0 };
	if (opened) {
		n = drain(&set, tid);
		printf("#   %llu samples of sched:sched_switch\n", (unsigned long long)n.samples);
	}
	tap_failed += !opened || n.samples < 20 || n.bad > 0 || set.events.data[0].attr.sample_period != 1;
	event_set_close(&set);
	struct event_specs specs = { 0 };
	tap_failed += event_specs_parse(&specs, "sched:sched_swich", &err) || strstr(err.text, "sched:sched_switch") == NULL;
	printf("#   %s\n", err.text);
	umount2(root, MNT_DETACH);
	rmdir(root);
}

static void test_tracepoint(void)
{
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		tap_failed = 0;
		tracepoint_body();
		fflush(stdout);
		_exit(tap_failed > 0);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		skip("tracefs cannot be mounted here", "a tracepoint");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a tracepoint, every one sampled");
}

int main(void)
{
	if (!live_begin())
		return tap_done();
	test_counting_pmu();
	test_hybrid();
	test_breakpoint();
	test_tracepoint();
	return tap_done();
}
