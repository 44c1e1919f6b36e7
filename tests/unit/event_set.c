// Live: events of this kernel in every shape, on processes made here. What the host refuses is skipped aloud.
#include "perf/event_set.h"

#include "tests/live.h"

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
	is_u64(n.bad, 0, "every record decodes");
	is_u64(n.of_pid, n.samples, "all samples are its own");
	is_due(n.samples + reading.lost, reading.value, held.cpu_seconds, o.period, 0.01, "taken + lost = count / period");
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
	// The kernel writes those of inherited tasks from any CPU, beside whoever writes there: a ring's head may stand still for ever after.
	is_u64(n.reads, 0, "no READ records of the children");
	ok(reading.value > n.of_pid * o.period, "whose counts are in the event's all the same");
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
	ok(event_set_add_thread(&set, &t, later.pid, false, &err), "a further thread");
	is_u64(set.rings.count, 2, "with its own ring");
	ok(event_set_add_thread(&set, &t, 0x3ffffff, false, &err) && set.rings.count == 2, "one that has gone meanwhile is no error");
	release_and_wait(&held);
	release_and_wait(&later);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX), second = event_set_read(&set, 0, set.rings.data[1].slot);
	struct counts n = drain(&set, tid);
	is_due(n.samples + reading.lost, reading.value, held.cpu_seconds + later.cpu_seconds, o.period, 0.01, "taken + lost = due");
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
	ok(event_set_add_thread(&set, &t, later.pid, false, &err), "added");
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

static bool wakes_within(const struct event_set *set, int ms)
{
	struct pollfd fds[256];
	for (size_t i = 0; i < set->rings.count; i++)
		fds[i] = (struct pollfd){ .fd = set->rings.data[i].fd, .events = POLLIN };
	return poll(fds, set->rings.count, ms) > 0;
}

static void test_waking(void)
{
	struct held held = hold(spin);
	int32_t tid = held.pid;
	struct event_set set;
	struct event_options o = options();
	struct event_target t = target(SCOPE_TASK, &tid, 1);
	t.inherit = true;
	if (!ok(open_set(&set, "cpu-clock", &t, &o) && event_set_enable(&set, &err), "to be waked by: opened"))
		return;
	// As the drain thread: whoever is preempted between one event's being switched on and the other's off leaves both of them on, or none.
	(void)sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){ .sched_priority = 1 });
	ok(write(held.go, "x", 1) == 1, "released");
	ok(!wakes_within(&set, 60), "some hundred samples wake nobody");
	ok(event_set_add_waking(&set, &t, &err), "the like events that wake are added while it runs");
	is_u64(set.fds.count, 4 * cpu_count, "with those of task switches");
	is_u64(set.rings.count, cpu_count, "to the rings that exist");
	ok(!wakes_within(&set, 30), "and off");
	event_set_wake_each(&set, true);
	ok(wakes_within(&set, 2000), "switched on, a sample wakes");
	burn(0.05);
	event_set_wake_each(&set, false);
	(void)wakes_within(&set, 0);
	ok(!wakes_within(&set, 30), "switched off, none does");
	event_set_wake_each(&set, true);
	event_set_wake_each(&set, true);
	wait_for_held(&held);
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){ .sched_priority = 0 });
	event_set_disable(&set);
	struct counts n = drain(&set, tid);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX);
	double due = (double)reading.running / (double)o.period;
	is_u64(n.bad + n.disorder, 0, "every record decodes");
	is_close((double)reading.running, (double)reading.value, 0.01, "both together have run as one would have");
	ok(due > 600, "for as long as it ran (%.1f samples due)", due);
	is_due(n.samples + reading.lost, reading.running, held.cpu_seconds, o.period, 0.01, "and nothing was sampled twice or not at all");
	is_u64(n.exits, 1, "its EXIT, once");
	event_set_close(&set);
}

// A busy process on each CPU: ticks of an idle virtual CPU may be due and never come, whoever asks for them (seen on Linux 6.18, perf record -a too).
static size_t occupy(pid_t *children, size_t most)
{
	size_t count = 0;
	long configured = sysconf(_SC_NPROCESSORS_CONF);
	for (long cpu = 0; cpu < configured && count < most; cpu++) {
		pid_t pid = fork();
		if (pid == 0) {
			cpu_set_t set;
			CPU_ZERO(&set);
			CPU_SET((size_t)cpu, &set);
			if (sched_setaffinity(0, sizeof(set), &set) != 0)
				_exit(0);
			for (;;)
				burn(1);
		}
		if (pid > 0)
			children[count++] = pid;
	}
	return count;
}

// One stretch on whole CPUs: what was taken and lost, and what was due. false: they could not be opened.
static bool count_cpus(struct counts *n, double *got, double *due)
{
	struct event_set set;
	struct event_options o = options();
	o.context_switch = true;
	struct event_target t = target(SCOPE_CPU, NULL, 0);
	if (!open_set(&set, "cpu-clock", &t, &o) || !event_set_enable(&set, &err))
		return false;
	burn(0.3);
	event_set_disable(&set);
	struct event_reading reading = event_set_read(&set, 0, UINT32_MAX);
	*n = drain(&set, getpid());
	*got = (double)(n->samples + reading.lost);
	*due = (double)reading.running / 500000;
	event_set_close(&set);
	return true;
}

static void test_cpus(void)
{
	struct counts n = { 0 };
	double got = 0, due = 1;
	pid_t children[256];
	size_t busy = occupy(children, sizeof(children) / sizeof(*children));
	bool opened = true;
	// Ticks of a virtual CPU that its host does not run never come: they are what the program calls silent. A quiet stretch shows the identity.
	for (int stretch = 0; stretch < 60 && opened && fabs(got - due) > 0.01 * due; stretch++)
		opened = count_cpus(&n, &got, &due);
	for (size_t i = 0; i < busy; i++) {
		kill(children[i], SIGKILL);
		waitpid(children[i], NULL, 0);
	}
	if (!opened) {
		ok(err.status == STATUS_HOST && strstr(err.text, "perf_event_paranoid") != NULL, "whole CPUs are refused: %s", err.text);
		skip("not allowed here", "whole CPUs");
		return;
	}
	is_close(got, due, 0.01, "whole CPUs: taken + lost = time_running / period");
	ok(n.of_pid > 100 && n.switches > 0, "our own are among them, and switches");
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
		is_due(n.samples + reading.lost, reading.value, held.cpu_seconds, o.period, 0.02, "taken + lost = count / period");
		is_u64(n.forks, 4, "the forks in it");
		ok(n.maps >= 4 && n.exits == 5, "mappings and exits");
		event_set_close(&set);
	} else {
		diag("%s", err.text);
	}
	close(t.cgroup_fd);
	rmdir(path);
}

int main(void)
{
	if (!live_begin())
		return tap_done();
	test_task();
	test_inherit();
	test_group();
	test_threads();
	test_add_thread();
	test_waking();
	test_cpus();
	test_cgroup();
	return tap_done();
}
