// Live events for unit tests: children that wait for a word, rings read into counts.
#ifndef PERFSAMPLE_TESTS_LIVE_H
#define PERFSAMPLE_TESTS_LIVE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/event_set.h"
#include "perf/merge.h"
#include "perf/record.h"
#include "proc/space.h"
#include "tests/tap.h"

__attribute__((unused)) static uint32_t cpus[256];
__attribute__((unused)) static size_t cpu_count;
__attribute__((unused)) static struct err err;

__attribute__((unused)) static double cpu_seconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

__attribute__((unused)) static void burn(double seconds)
{
	for (double end = cpu_seconds() + seconds; cpu_seconds() < end;)
		for (volatile int i = 0; i < 20000; i++)
			;
}

// A child that waits for a byte, then runs `work` and exits.
struct held { pid_t pid; int go; double cpu_seconds; /* when it has ended: by the scheduler's clock, with its children */ };

__attribute__((unused)) static struct held hold(void (*work)(void))
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
	return (struct held){ .pid = pid, .go = pipe_fds[1] };
}

__attribute__((unused)) static void wait_for_held(struct held *held)
{
	struct rusage used = { 0 };
	wait4(held->pid, NULL, 0, &used);
	held->cpu_seconds = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + 1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
	close(held->go);
}

__attribute__((unused)) static void release_and_wait(struct held *held)
{
	ok(write(held->go, "x", 1) == 1, "released");
	wait_for_held(held);
}

// What was taken and lost, against what was due by the event's own count. That holds the time in which the host ran other guests, of which no tick comes:
// the scheduler's clock, which does not (steal time), tells how many must be there at least. On a host to itself both are the same.
__attribute__((unused)) static void is_due(uint64_t got, uint64_t count_ns, double cpu_seconds, uint64_t period_ns, double within, const char *name)
{
	double most = (double)count_ns / (double)period_ns, least = 1e9 * cpu_seconds / (double)period_ns;
	least = least < most ? least : most;
	ok((double)got >= least * (1 - within) && (double)got <= most * (1 + within), "%s within %g%% (%llu, due %.1f to %.1f)", name, 100 * within,
	   (unsigned long long)got, least, most);
}

struct counts {
	struct record_layout layout;
	struct event_set *set;
	struct spaces *spaces;
	uint64_t samples, of_pid, lost, reads, forks, exits, maps, comms, throttles, switches, group_reads, bad, kernel, deepest, stacks, last_ns, disorder;
	uint64_t read_value;
	int32_t pid;
};

__attribute__((unused)) static uint64_t time_of(void *context, size_t ring, const struct perf_event_header *header)
{
	struct counts *n = context;
	uint64_t time_ns = 0;
	(void)ring;
	return record_peek_time(&n->layout, header, &time_ns) ? time_ns : 0;
}

__attribute__((unused)) static void take_sample(struct counts *n, const struct record *r)
{
	n->samples++;
	n->of_pid += r->id.pid == n->pid;
	n->group_reads += r->sample.read.count >= 2;
	n->kernel += (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	n->stacks += r->sample.stack.dyn_size > 0 && r->sample.user.abi != 0;
	n->deepest = r->sample.callchain_count > n->deepest ? r->sample.callchain_count : n->deepest;
}

__attribute__((unused)) static void take(void *context, const struct merge_item *item)
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

__attribute__((unused)) static struct counts drain(struct event_set *set, int32_t pid)
{
	struct counts n = { .set = set, .spaces = spaces_new(), .pid = pid };
	struct merge merge = { 0 };
	record_layout_init(&n.layout, &set->sideband_attr, false);
	merge_pass(&merge, set->rings.data, set->rings.count, UINT64_MAX, time_of, take, &n);
	n.disorder += merge.broken;
	spaces_free(n.spaces);
	return n;
}

__attribute__((unused)) static struct event_options options(void)
{
	return (struct event_options){ .period = 500000, .sideband = true, .ring_bytes = 1 << 20 };
}

__attribute__((unused)) static struct event_target target(enum event_scope scope, const int32_t *tids, size_t count)
{
	return (struct event_target){ .scope = scope, .cgroup_fd = -1, .tids = tids, .tid_count = count, .cpus = cpus, .cpu_count = cpu_count, .inherit = true };
}

__attribute__((unused)) static bool open_set(struct event_set *set, const char *events, const struct event_target *t, const struct event_options *o)
{
	struct event_specs specs = { 0 };
	err_clear(&err);
	bool parsed = events != NULL ? event_specs_parse(&specs, events, &err) : event_specs_default(&specs, &err);
	bool opened = parsed && event_set_open(set, &specs, t, o, &err);
	event_specs_release(&specs); // the set needs them no longer
	return opened;
}

__attribute__((unused)) static bool decided(const struct event_set *set, const char *text)
{
	for (size_t i = 0; i < set->decisions.count; i++)
		if (strstr(set->decisions.data[i].text, text) != NULL)
			return true;
	return false;
}

__attribute__((unused)) static void spin(void)
{
	burn(0.4);
}

// Finds the CPUs; false (and a skip said aloud): no event may be opened here at all.
__attribute__((unused)) static bool live_begin(void)
{
	cpu_count = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
	if (cpu_count > 256)
		cpu_count = 256;
	for (uint32_t i = 0; i < cpu_count; i++)
		cpus[i] = i;
	struct event_set set;
	struct event_options o = options();
	int32_t self = getpid();
	struct event_target t = target(SCOPE_TASK, &self, 1);
	if (!open_set(&set, "cpu-clock:u", &t, &o)) {
		skip(err.text, "perf_event_open is refused here: everything");
		return false;
	}
	event_set_close(&set);
	return true;
}

#endif
