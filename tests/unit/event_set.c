// Live: events of this kernel, in every shape, on processes made here. What the host refuses is skipped aloud.
#include "perf/event_set.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/event_plan.h"
#include "perf/merge.h"
#include "perf/record.h"
#include "proc/space.h"
#include "tests/tap.h"

static uint32_t cpus[256];
static size_t cpu_count;
static struct err err;

static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void burn(double seconds)
{
	for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)
		for (volatile int i = 0; i < 20000; i++)
			;
}

// A child that waits for a byte, then runs `work` and exits.
struct held { pid_t pid; int go; };

static struct held hold(void (*work)(void))
{
	int pipe_fds[2];
	if (pipe(pipe_fds) != 0)
		exit(1);
	pid_t pid = fork();
	if (pid == 0) {
		char byte;
		close(pipe_fds[1]);
		if (read(pipe_fds[0], &byte, 1) == 1)
			work();
		_exit(0);
	}
	close(pipe_fds[0]);
	return (struct held){ pid, pipe_fds[1] };
}

static void release_and_wait(struct held *held)
{
	ok(write(held->go, "x", 1) == 1, "released");
	waitpid(held->pid, NULL, 0);
	close(held->go);
}

struct counts {
	struct record_layout layout;
	struct event_set *set;
	struct spaces *spaces;
	uint64_t samples, of_pid, lost, reads, forks, exits, maps, comms, throttles, switches, group_reads, bad, kernel, deepest, stacks, last_ns, disorder;
	uint64_t read_value;
	int32_t pid;
};

static uint64_t time_of(void *context, size_t ring, const struct perf_event_header *header)
{
	struct counts *n = context;
	uint64_t time_ns = 0;
	(void)ring;
	return record_peek_time(&n->layout, header, &time_ns) ? time_ns : 0;
}

static void take_sample(struct counts *n, const struct record *r)
{
	n->samples++;
	n->of_pid += r->id.pid == n->pid;
	n->group_reads += r->sample.read.count >= 2;
	n->kernel += (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	n->stacks += r->sample.stack.dyn_size > 0 && r->sample.user.abi != 0;
	n->deepest = r->sample.callchain_count > n->deepest ? r->sample.callchain_count : n->deepest;
}

static void take(void *context, const struct merge_item *item)
{
	struct counts *n = context;
	struct record r;
	uint64_t id = 0;
	struct record_layout layout = n->layout;
	record_peek_id(&n->layout, item->header, &id);
	for (size_t i = 0; i < n->set->fds.count; i++)
		if (n->set->fds.data[i].id == id && n->set->fds.data[i].event != EVENT_SIDEBAND)
			record_layout_init(&layout, &n->set->events.data[n->set->fds.data[i].event].attr, false);
	if (!record_decode(&layout, item->header, item->header->size, &r, &err)) {
		if (n->bad++ == 0)
			diag("%s", err.text);
		return;
	}
	n->disorder += item->time_ns < n->last_ns;
	n->last_ns = item->time_ns;
	spaces_apply(n->spaces, &r, false);
	switch (r.type) {
	case PERF_RECORD_SAMPLE: take_sample(n, &r); break;
	case PERF_RECORD_LOST: n->lost += r.lost.lost; break;
	case PERF_RECORD_READ: n->reads++, n->read_value += read_values_get(&r.read.values, 0).value; break;
	case PERF_RECORD_FORK: n->forks++; break;
	case PERF_RECORD_EXIT: n->exits++; break;
	case PERF_RECORD_COMM: n->comms++; break;
	case PERF_RECORD_MMAP: case PERF_RECORD_MMAP2: n->maps++; break;
	case PERF_RECORD_THROTTLE: n->throttles++; break;
	case PERF_RECORD_SWITCH: case PERF_RECORD_SWITCH_CPU_WIDE: n->switches++; break;
	default: break;
	}
}

static struct counts drain(struct event_set *set, int32_t pid)
{
	struct counts n = { .set = set, .spaces = spaces_new(), .pid = pid };
	struct merge merge = { 0 };
	record_layout_init(&n.layout, &set->sideband_attr, false);
	merge_pass(&merge, set->rings.data, set->rings.count, UINT64_MAX, time_of, take, &n);
	n.disorder += merge.broken;
	spaces_free(n.spaces);
	return n;
}

static struct event_options options(void)
{
	return (struct event_options){ .period = 500000, .sideband = true, .ring_bytes = 1 << 20 };
}

static struct event_target target(enum event_scope scope, const int32_t *tids, size_t count)
{
	return (struct event_target){ .scope = scope, .cgroup_fd = -1, .tids = tids, .tid_count = count, .cpus = cpus, .cpu_count = cpu_count, .inherit = true };
}

static bool open_set(struct event_set *set, const char *events, const struct event_target *t, const struct event_options *o)
{
	struct event_specs specs = { 0 };
	err_clear(&err);
	bool parsed = events != NULL ? event_specs_parse(&specs, events, &err) : event_specs_default(&specs, &err);
	bool opened = parsed && event_set_open(set, &specs, t, o, &err);
	event_specs_release(&specs); // the set needs them no longer
	return opened;
}

static bool decided(const struct event_set *set, const char *text)
{
	for (size_t i = 0; i < set->decisions.count; i++)
		if (strstr(set->decisions.data[i].text, text) != NULL)
			return true;
	return false;
}

static void spin(void) { burn(0.4); }
static void spin_and_fork(void)
{
	for (unsigned i = 0; i < 4; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			burn(0.05);
			void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			_exit(p == MAP_FAILED);
		}
		waitpid(pid, NULL, 0);
	}
}
static void touch_pages(void)
{
	burn(0.1);
	char *p = mmap(NULL, 400 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < 400; i++)
		p[i * 4096] = 1;
	burn(0.1);
}

static void test_task(void)
{
	struct held held = hold(spin);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	o.stack_bytes = 1024;
	o.user_regs = true;
	o.kernel_callchain = true;
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	if (!ok(open_set(&set, "cpu-clock", &t, &o), "per task: opened")) {
		diag("%s", err.text);
		kill(held.pid, SIGKILL);
		release_and_wait(&held);
		return;
	}
	is_u64(set.fds.count, 2 * cpu_count, "an event and its side-band event on each CPU");
	is_u64(set.rings.count, cpu_count, "a ring on each CPU");
	ok(event_set_enable(&set, &err), "switched on");
	release_and_wait(&held);
	event_set_disable(&set);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX), first = event_set_read(&set, 0, 0), others = { 0 };
	for (uint32_t c = 1; c < cpu_count; c++)
		others.value += event_set_read(&set, 0, c).value;
	is_u64(first.value + others.value, reading.value, "the CPUs' parts add up");
	struct event_reading table[2 * 256];
	event_set_read_all(&set, table, cpu_count);
	is_u64(table[0].value, first.value, "one pass over the descriptors tells the same");
	is_u64(table[cpu_count].enabled, event_set_read(&set, EVENT_SIDEBAND, 0).enabled, "of the side-band event too");
	struct counts n = drain(&set, tid);
	double due = (double)reading.value / 500000;
	is_u64(n.bad, 0, "every record decodes");
	is_u64(n.of_pid, n.samples, "all samples are its own");
	is_close((double)(n.samples + reading.lost), due, 0.01, "taken + lost = count / period within 1%% (%llu + %llu, due %.1f)",
	         (unsigned long long)n.samples, (unsigned long long)reading.lost, due);
	ok(n.stacks * 10 >= n.samples * 9, "with registers and stack");
	is_u64(n.exits, 1, "its EXIT");
	is_u64(n.disorder, 0, "in order of time");
	ok(set.has_format_lost == (set.events.data[0].attr.read_format & PERF_FORMAT_LOST) / PERF_FORMAT_LOST, "FORMAT_LOST as the kernel has it");
	event_set_close(&set);
	is_u64(set.fds.count + set.rings.count, 0, "closed");
}

static void test_inherit(void)
{
	struct held held = hold(spin_and_fork);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	if (!ok(open_set(&set, "cpu-clock", &t, &o) && event_set_enable(&set, &err), "inherited: opened"))
		return;
	release_and_wait(&held);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX);
	struct counts n = drain(&set, tid);
	is_u64(n.forks, 4, "4 forks");
	is_u64(n.exits, 5, "5 exits");
	is_u64(n.maps, 4, "the mapping that each child made");
	ok(n.samples > n.of_pid && n.samples > 200, "children are sampled (%llu)", (unsigned long long)n.samples);
	ok(n.reads >= 5, "READ records of the children (%llu)", (unsigned long long)n.reads);
	// Not of every one: the kernel may swap the contexts of parent and child, and the event that was opened sends none.
	ok(n.read_value <= reading.value && n.read_value * 3 > reading.value, "that tell most of the whole count");
	event_set_close(&set);
}

static void test_group(void)
{
	struct held held = hold(touch_pages);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	if (!ok(open_set(&set, "{cpu-clock,page-faults},task-clock", &t, &o) && event_set_enable(&set, &err), "a group and one more: opened")) {
		diag("%s", err.text);
		return;
	}
	ok(set.events.count == 3 && set.events.data[1].group_leader == 0 && !set.events.data[1].samples && set.events.data[0].group_members == 2 &&
	   set.events.data[2].group_leader == -1 && set.events.data[2].samples, "leader, member, single");
	release_and_wait(&held);
	struct event_reading clock = event_set_read(&set, 0, UINT32_MAX), faults = event_set_read(&set, 1, UINT32_MAX);
	struct counts n = drain(&set, tid);
	is_u64(n.bad, 0, "every record decodes");
	ok(faults.value >= 400 && faults.value < 2000, "the member counts: %llu page faults", (unsigned long long)faults.value);
	ok(clock.value > 150000000, "so does its leader");
	if (decided(&set, "read apart"))
		skip("before Linux 6.12", "reads in samples");
	else
		ok(n.group_reads > 300 && n.group_reads < n.samples, "%llu of %llu samples read the group", (unsigned long long)n.group_reads, (unsigned long long)n.samples);
	event_set_close(&set);
}

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

static void test_threads(void)
{
	struct held held = hold(spin), later = hold(spin);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_THREAD, &tid, 1);
	if (!ok(open_set(&set, "cpu-clock", &t, &o) && event_set_enable(&set, &err), "a ring per thread: opened")) {
		diag("%s", err.text);
		return;
	}
	is_u64(set.fds.count, 2, "one event and one side-band event");
	is_u64(set.rings.data[0].cpu, UINT32_MAX, "no CPU's ring");
	ok(event_set_add_thread(&set, &t, &o, later.pid, &err), "a further thread");
	is_u64(set.rings.count, 2, "with its own ring");
	ok(event_set_add_thread(&set, &t, &o, 0x3ffffff, &err) && set.rings.count == 2, "one that has gone meanwhile is no error");
	release_and_wait(&held);
	release_and_wait(&later);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX), second = event_set_read(&set, 0, set.rings.data[1].slot);
	struct counts n = drain(&set, tid);
	is_close((double)(n.samples + reading.lost), (double)reading.value / 500000, 0.01, "taken + lost = due");
	ok(n.of_pid > 600 && n.samples - n.of_pid > 600 && second.value > 350000000, "both sampled, the later one at once");
	event_set_close(&set);
}

static void test_add_thread(void)
{
	struct held first = hold(spin), later = hold(spin);
	int32_t tid = first.pid;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	if (!ok(open_set(&set, "cpu-clock", &t, &o) && event_set_enable(&set, &err), "per task, for a second one to come: opened"))
		return;
	ok(event_set_add_thread(&set, &t, &o, later.pid, &err), "added");
	is_u64(set.rings.count, cpu_count, "to the rings that exist");
	is_u64((uint64_t)event_set_poll_fd(&set, 0), (uint64_t)set.rings.data[0].fd, "the ring's own fd is the one to poll");
	release_and_wait(&first); // its event owns the rings, which go on
	struct pollfd p = { .fd = set.rings.data[0].fd, .events = POLLIN };
	ok(poll(&p, 1, 0) == 1 && (p.revents & POLLHUP), "which hangs up when its task has ended");
	int other = event_set_poll_fd(&set, 0);
	ok(other >= 0 && other != p.fd, "then another one serves");
	release_and_wait(&later);
	is_u64((uint64_t)event_set_poll_fd(&set, 0), (uint64_t)-1, "until all have ended");
	struct counts n = drain(&set, later.pid);
	ok(n.of_pid > 600 && n.samples - n.of_pid > 600, "both are in them (%llu of %llu)", (unsigned long long)n.of_pid, (unsigned long long)n.samples);
	event_set_close(&set);
}

static void test_cpus(void)
{
	struct event_set set;
	struct event_options o = options();
	o.context_switch = true;
	struct event_target t = target(SCOPE_CPU, NULL, 0);
	if (!open_set(&set, "cpu-clock", &t, &o)) {
		ok(err.status == STATUS_HOST && strstr(err.text, "perf_event_paranoid") != NULL, "whole CPUs are refused: %s", err.text);
		skip("not allowed here", "whole CPUs");
		return;
	}
	ok(event_set_enable(&set, &err), "whole CPUs: switched on");
	burn(0.3);
	event_set_disable(&set);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX);
	struct counts n = drain(&set, getpid());
	is_close((double)(n.samples + reading.lost), (double)reading.running / 500000, 0.01, "taken + lost = time_running / period (%llu)", (unsigned long long)n.samples);
	ok(n.of_pid > 500 && n.switches > 0, "our own are among them, and switches");
	event_set_close(&set);
}

static void test_cgroup(void)
{
	char line[1024], mount[512] = "", path[600], file[700];
	FILE *f = fopen("/proc/self/mountinfo", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strstr(line, " - cgroup2 ") != NULL && sscanf(line, "%*s %*s %*s %*s %511s", mount) == 1)
			break;
	if (f != NULL)
		fclose(f);
	snprintf(path, sizeof(path), "%s/perfsample-test-%d", mount, getpid());
	if (mount[0] == '\0' || mkdir(path, 0755) != 0) {
		skip("no cgroup2 to make a cgroup in", "events per CPU and cgroup");
		return;
	}
	struct held held = hold(spin_and_fork);
	snprintf(file, sizeof(file), "%s/cgroup.procs", path);
	f = fopen(file, "w");
	bool moved = f != NULL && fprintf(f, "%d", held.pid) > 0;
	if (f != NULL)
		moved &= fclose(f) == 0;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_CGROUP, NULL, 0);
	t.cgroup_fd = open(path, O_RDONLY | O_DIRECTORY);
	if (ok(moved && open_set(&set, "cpu-clock", &t, &o) && event_set_enable(&set, &err), "per CPU and cgroup: opened")) {
		release_and_wait(&held);
		event_set_disable(&set);
		struct event_reading reading = event_set_read(&set, 0, UINT32_MAX);
		struct counts n = drain(&set, held.pid);
		is_close((double)(n.samples + reading.lost), (double)reading.value / 500000, 0.02, "taken + lost = count / period (%llu)", (unsigned long long)n.samples);
		is_u64(n.forks, 4, "the forks in it");
		ok(n.maps >= 4 && n.exits == 5, "mappings and exits");
		event_set_close(&set);
	} else {
		diag("%s", err.text);
	}
	close(t.cgroup_fd);
	rmdir(path);
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

int main(void)
{
	cpu_count = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	for (uint32_t i = 0; i < cpu_count && i < 256; i++)
		cpus[i] = i;
	struct event_set set;
	struct event_options o = options();
	int32_t self = getpid();
	struct event_target t = target(SCOPE_TASK, &self, 1);
	if (!open_set(&set, "cpu-clock:u", &t, &o)) {
		skip(err.text, "perf_event_open is refused here: everything");
		return tap_done();
	}
	event_set_close(&set);
	test_task();
	test_inherit();
	test_group();
	test_counting_pmu();
	test_default();
	test_rates();
	test_hybrid();
	test_breakpoint();
	test_tracepoint();
	test_threads();
	test_add_thread();
	test_cpus();
	test_cgroup();
	test_files();
	as_nobody(nobody_body);
	return tap_done();
}
