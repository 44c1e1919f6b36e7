// check: what this host allows and can count.
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cmd/check.h"
#include "perf/event_set.h"
#include "perf/sysfs.h"
#include "record/budget.h"
#include "record/privilege.h"

#define PERIOD_NS 1295295u
#define PARANOID "/proc/sys/kernel/perf_event_paranoid"

static int open_attr(struct perf_event_attr *attr, int32_t pid, int cpu, unsigned long flags)
{
	attr->size = sizeof(*attr);
	attr->disabled = 1;
	int fd = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, flags | PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

int check_open_event(uint32_t type, uint64_t config, bool exclude_kernel, int32_t pid, int cpu, unsigned long flags)
{
	struct perf_event_attr attr = { .type = type, .config = config, .sample_period = type == PERF_TYPE_SOFTWARE ? PERIOD_NS : 1000003,
	                                .sample_type = PERF_SAMPLE_IP, .exclude_kernel = exclude_kernel, .exclude_hv = exclude_kernel };

	return open_attr(&attr, pid, cpu, flags);
}

char *check_paranoid_fix(bool wants_kernel, bool wants_cpu_wide)
{
	long needed = wants_cpu_wide ? 0 : wants_kernel ? 1 : 2;

	return procfs_number(PARANOID, -1) > needed ? mem_printf("sysctl kernel.perf_event_paranoid=%ld", needed) : NULL;
}

// A line for an event that either opens or is explained.
static void event_line(struct check *check, const char *code, const char *title, int error, bool kernel, bool cpu_wide, const char *good)
{
	struct err err;
	bool refused = error == EACCES || error == EPERM;
	char *fix = refused ? check_paranoid_fix(kernel, cpu_wide) : NULL;

	if (error == 0) {
		check_add(check, code, title, ANSWER_YES, mem_string(good), NULL);
	} else if (fix != NULL && !privilege_has_capability(CAP_PERFMON)) {
		check_add(check, code, title, ANSWER_NO, mem_printf("kernel.perf_event_paranoid is %ld, and we lack CAP_PERFMON", procfs_number(PARANOID, -1)), fix);
	} else {
		privilege_explain(&err, error, title, kernel, cpu_wide);
		check_add(check, code, title, ANSWER_NO, mem_string(err.text + strlen("event '': ") + strlen(title)), fix);
	}
}

static void events(struct check *check)
{
	long paranoid = procfs_number(PARANOID, -100);
	char good[128], count[32];
	int first = check->cpu_count > 0 ? (int)check->cpus[0] : 0;

	event_line(check, "clock", "software clock", check_open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, 0, -1, 0), false, false,
	           "cpu-clock samples our own processes");
	check->lines.data[check->lines.count - 1].is_needed = true;
	int error = check_open_event(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, true, 0, -1, 0);
	if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP || error == ENXIO)
		check_add(check, "cycles", "hardware cycles", ANSWER_NO, mem_printf("%s counts none (%s); cpu-clock is used instead", host_is_virtual() ? "this VM" : "this host", strerror(error)), NULL);
	else
		event_line(check, "cycles", "hardware cycles", error, false, false, "a PMU counts them");
	snprintf(good, sizeof(good), paranoid > 0 ? "allowed (perf_event_paranoid is %ld; CAP_PERFMON)" : "perf_event_paranoid is %ld", paranoid);
	event_line(check, "kernel", "kernel samples", check_open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, false, 0, -1, 0), true, false, good);
	event_line(check, "cpu_wide", "whole CPUs (-a)", check_open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, -1, first, 0), false, true, good);
	long rate = procfs_number("/proc/sys/kernel/perf_event_max_sample_rate", 0);
	check_add(check, "rate", "sampling rate", rate >= 1473 ? ANSWER_YES : ANSWER_NO, mem_printf("at most %s a second and CPU; the default takes 772", check_count(rate > 0 ? (uint64_t)rate : 0, count)),
	          rate >= 1473 ? NULL : mem_string("sysctl kernel.perf_event_max_sample_rate=100000"));
}

static void cgroup(struct check *check)
{
	struct cgroup own;
	struct err err = { 0 };
	int cpu = check->cpu_count > 0 ? (int)check->cpus[0] : 0;

	if (!cgroup_create(&own, &err)) {
		check_add(check, "cgroup", "a cgroup for the command", ANSWER_NO, mem_printf("%s; short processes are missed with per-task events", err.text),
		          geteuid() != 0 ? mem_string("sudo, or: systemd-run --user --scope -p Delegate=yes perfsample record …") : NULL);
		return;
	}
	int error = check_open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, own.fd, cpu, PERF_FLAG_PID_CGROUP);
	char *slash = strrchr(own.path, '/');
	if (slash != NULL)
		*slash = '\0';
	char good[4200];
	snprintf(good, sizeof(good), "below %s: short processes are sampled at their due rate", own.path);
	if (slash != NULL)
		*slash = '/';
	event_line(check, "cgroup", "a cgroup for the command", error, false, true, good);
	cgroup_remove(&own);
}

static void *try_priority(void *context)
{
	*(enum drain_priority *)context = privilege_drain_priority(0);
	return NULL;
}

static enum drain_priority priority(struct check *check)
{
	enum drain_priority got = PRIORITY_NORMAL;
	pthread_t thread;

	// In a thread of its own: what it gets is gone with it.
	if (pthread_create(&thread, NULL, try_priority, &got) == 0)
		pthread_join(thread, NULL);
	check_add(check, "priority", "real-time priority", got == PRIORITY_FIFO ? ANSWER_YES : ANSWER_NO,
	          got == PRIORITY_FIFO ? mem_string("SCHED_FIFO 1 for the threads that read samples: nothing is lost on a busy host")
	                               : mem_printf("%s; samples are lost on a busy host", drain_priority_text(got)),
	          got == PRIORITY_FIFO ? NULL : mem_string("ulimit -r 1, or setcap cap_sys_nice,cap_perfmon+ep on perfsample"));
	return got;
}

// Rings as record would make them for its default rate, within what may be locked.
static void memory(struct check *check, enum drain_priority got)
{
	const char *limit_text;
	struct budget budget;
	char ring[32], copy[32];

	privilege_raise_memlock();
	size_t limit = ring_budget(check->cpu_count, &limit_text);
	struct budget_input input = { .rate_hz = 1e9 / PERIOD_NS, .has_stack = true, .ring_limit = limit, .rings = check->cpu_count, .delay_ms = drain_priority_delay_ms(got) };
	if (!budget_compute(&input, &budget, NULL))
		memset(&budget, 0, sizeof(budget));
	bool good = !budget.is_short && budget.stack_bytes == STACK_BYTES_MAX;
	check_count(budget.ring_bytes / 1024, ring);
	check_count(budget.stack_bytes, copy);
	char *text = limit == SIZE_MAX
	                     ? mem_printf("no limit: rings of %s KiB a CPU, stack copies of %s bytes", ring, copy)
	                     : mem_printf("%s leaves rings of %s KiB a CPU: stack copies of %s bytes%s", limit_text, ring, copy,
	                                  budget.is_short ? ", and losses when the reader is late" : "");
	check_add(check, "memory_limit", "locked memory", good ? ANSWER_YES : ANSWER_NO, text,
	          good ? NULL : mem_string("sysctl kernel.perf_event_mlock_kb=4096, or ulimit -l unlimited, or CAP_IPC_LOCK"));
}

static void files(struct check *check)
{
	struct rlimit limit = { 0 };
	char count[32];

	getrlimit(RLIMIT_NOFILE, &limit);
	uint64_t need = 2 * check->cpu_count + 64;
	bool more = privilege_has_capability(CAP_SYS_RESOURCE);
	check_add(check, "files", "file descriptors", more || limit.rlim_max >= need ? ANSWER_YES : ANSWER_NO,
	          mem_printf("%s%s; an event takes 2 a CPU for a command, 2 a CPU and thread for -p",
	                     limit.rlim_max == RLIM_INFINITY ? "no limit" : check_count(limit.rlim_max, count), more ? ", raised as needed" : ""),
	          more || limit.rlim_max >= need ? NULL : mem_printf("ulimit -n %llu", (unsigned long long)need));
}

static void names(struct check *check)
{
	struct buf records = { 0 };
	char path[4096];

	bool known = procfs_synthesize_kernel(NULL, 0, &records);
	buf_release(&records);
	// The kernel shows addresses to CAP_SYSLOG unless kptr_restrict is 2, to others only when it is 0 and perf_event_paranoid at most 1
	// (kallsyms_show_value()).
	long restricted = procfs_number("/proc/sys/kernel/kptr_restrict", 0);
	check_add(check, "kallsyms", "kernel names", known ? ANSWER_YES : ANSWER_NO,
	          known ? mem_string("/proc/kallsyms has addresses")
	                : mem_printf("/proc/kallsyms hides addresses (kernel.kptr_restrict is %ld, perf_event_paranoid %ld)", restricted, procfs_number(PARANOID, -1)),
	          known ? NULL : mem_string(restricted >= 2 ? "sysctl kernel.kptr_restrict=1" : restricted == 1 ? "run as root, or: sysctl kernel.kptr_restrict=0" : "run as root, or: sysctl kernel.perf_event_paranoid=1"));
	bool tracing = tracefs_path(&event_host_here, path, sizeof(path), NULL);
	char *id = tracing ? mem_printf("%s/events/sched/sched_switch/id", path) : NULL;
	if (!tracing)
		check_add(check, "tracefs", "tracepoints", ANSWER_NO, mem_string("tracefs is not mounted"),
		          mem_string("mount -t tracefs nodev /sys/kernel/tracing"));
	else if (access(id, R_OK) != 0)
		check_add(check, "tracefs", "tracepoints", ANSWER_NO, mem_printf("%s: %s", id, strerror(errno)),
		          errno == EACCES ? mem_printf("mount -o remount,mode=755 %s, or run as root", path) : NULL);
	else
		check_add(check, "tracefs", "tracepoints", ANSWER_YES, mem_printf("in %s", path), NULL);
	free(id);
}

static void records(struct check *check)
{
	struct perf_event_attr ids = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .mmap = 1, .mmap2 = 1, .build_id = 1, .exclude_kernel = 1 };
	struct perf_event_attr lost = { .type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_DUMMY, .read_format = PERF_FORMAT_LOST, .exclude_kernel = 1 };
	bool clock = check->lines.count > 0 && check->lines.data[0].answer == ANSWER_YES;
	int ids_error = open_attr(&ids, 0, -1, 0), lost_error = open_attr(&lost, 0, -1, 0);

	check_add(check, "build_ids", "build IDs in records", ids_error == 0 ? ANSWER_YES : ANSWER_NO,
	          ids_error == 0 ? mem_string("the kernel tells which file was mapped")
	                         : mem_printf("%s%s", strerror(ids_error), clock ? ": needs Linux 5.12; files are told apart by inode" : ""), NULL);
	check_add(check, "lost", "losses counted", lost_error == 0 ? ANSWER_YES : ANSWER_NO,
	          lost_error == 0 ? mem_string("exactly, event by event (PERF_FORMAT_LOST)")
	                          : mem_printf("%s%s", strerror(lost_error), clock ? ": needs Linux 6.0; LOST records, 2 to 7% short, are used" : ""), NULL);
	bool files = privilege_has_capability(CAP_CHECKPOINT_RESTORE) || privilege_has_capability(CAP_SYS_ADMIN);
	check_add(check, "map_files", "deleted binaries", files ? ANSWER_YES : ANSWER_NO,
	          mem_string(files ? "opened through /proc/PID/map_files" : "not through /proc/PID/map_files (CAP_CHECKPOINT_RESTORE): read from the process's memory"),
	          files ? NULL : mem_string("setcap cap_perfmon,cap_sys_ptrace,cap_checkpoint_restore+ep on perfsample"));
	check_add(check, "bpf", "works without bpf(2)", ANSWER_YES, mem_string("never called"), NULL);
}

void check_host(struct check *check)
{
	events(check);
	cgroup(check);
	memory(check, priority(check));
	files(check);
	names(check);
	records(check);
}
