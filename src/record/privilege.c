#include "record/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "perf/event_error.h"
#include "proc/procfs.h"

// setpriority(2) speaks of a process, but on Linux acts on one thread (its NOTES); 0 is the caller.
bool privilege_niceness(int niceness)
{
	struct rlimit limit;

	if (setpriority(PRIO_PROCESS, 0, niceness) == 0)
		return true;
	// RLIMIT_NICE may allow part of the way: 20 - limit is the lowest nice value (getrlimit(2)).
	if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur > 20)
		setpriority(PRIO_PROCESS, 0, 20 - (int)(limit.rlim_cur < 40 ? limit.rlim_cur : 40));
	return false;
}

void privilege_reset_on_fork(bool reset)
{
	sched_setscheduler(0, SCHED_OTHER | (reset ? SCHED_RESET_ON_FORK : 0), &(struct sched_param){ 0 });
}

// SCHED_RESET_ON_FORK: children of the thread (and the threads it makes) start with ordinary priority again, whatever we took.
enum drain_priority privilege_drain_priority(int wanted_rt)
{
	struct sched_param param = { .sched_priority = wanted_rt > 0 ? wanted_rt : 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0)
		return PRIORITY_FIFO;
	param.sched_priority = 0;
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &param);
	return privilege_niceness(-20) ? PRIORITY_NICE : PRIORITY_NORMAL;
}

const char *drain_priority_text(enum drain_priority priority)
{
	// With CONFIG_RT_GROUP_SCHED a capable thread is refused all the same in a cgroup without a share of real time (sched_rt_can_attach(),
	// Documentation/scheduler/sched-rt-group.rst).
	bool capable = privilege_has_capability(CAP_SYS_NICE);

	switch (priority) {
	case PRIORITY_FIFO:
		return "real-time priority";
	case PRIORITY_NICE:
		return capable ? "nice -20 (no real-time priority: the cgroup's cpu.rt_runtime_us is 0)"
			       : "nice -20 (no real-time priority: needs root or CAP_SYS_NICE)";
	case PRIORITY_NORMAL:
		break;
	}
	return capable ? "ordinary priority (no real-time priority: the cgroup's cpu.rt_runtime_us is 0)"
		       : "ordinary priority (no real-time priority: needs root or CAP_SYS_NICE)";
}

const char *drain_priority_loss_text(enum drain_priority priority)
{
	bool capable = privilege_has_capability(CAP_SYS_NICE);

	if (priority == PRIORITY_FIFO)
		return "the ring was full before the recorder could run";
	return capable ? "the recorder was not scheduled (no real-time priority: the cgroup's cpu.rt_runtime_us is 0)"
		       : "the recorder was not scheduled (no real-time priority: needs root or CAP_SYS_NICE)";
}

unsigned drain_priority_delay_ms(enum drain_priority priority)
{
	return priority == PRIORITY_FIFO ? 20 : priority == PRIORITY_NICE ? 50 : 100;
}

uint64_t privilege_raise_files(uint64_t need, uint64_t *before)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
		*before = 0;
		return 0;
	}
	*before = limit.rlim_cur;
	if (limit.rlim_cur >= need)
		return limit.rlim_cur;
	struct rlimit wanted = { .rlim_cur = need, .rlim_max = limit.rlim_max > need ? limit.rlim_max : need };
	if (setrlimit(RLIMIT_NOFILE, &wanted) == 0)
		return need;
	// No CAP_SYS_RESOURCE, or above fs.nr_open: as far as the hard limit goes.
	limit.rlim_cur = limit.rlim_max < need ? limit.rlim_max : need;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : *before;
}

void privilege_raise_memlock(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_MEMLOCK, &limit);
}

bool privilege_has_capability(int capability)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	memset(data, 0, sizeof(data));
	if (capability < 0 || capability >= 32 * _LINUX_CAPABILITY_U32S_3 || syscall(SYS_capget, &header, data) != 0)
		return false;
	return (data[capability / 32].effective >> (capability % 32)) & 1;
}

// ---------------------------------------------------------------- why perf_event_open refused

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"

// Mode 2 of "Seccomp:" in /proc/self/status: a filter stands between us and the kernel, as container engines put one there.
static bool is_filtered(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	bool filtered = false;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Seccomp:", 8) == 0)
			filtered = strtol(line + 8, NULL, 10) == 2;
	if (f != NULL)
		fclose(f);
	return filtered;
}

// What event_error cannot tell from the errno alone: the refusal does not come from perf_event_paranoid.
static bool explain_filter(struct err *err, int error, const char *what, bool wants_kernel, bool wants_cpu_wide)
{
	long needed = wants_cpu_wide ? 0 : wants_kernel ? 1 : 2;
	bool capable = privilege_has_capability(CAP_PERFMON) || privilege_has_capability(CAP_SYS_ADMIN);

	if (!capable && procfs_number(PARANOID, 2) > needed)
		return false;
	if (is_filtered())
		err_set(err, STATUS_HOST, "event '%s': %s: a seccomp filter forbids perf_event_open here: docker run --security-opt seccomp=unconfined "
		        "--cap-add PERFMON", what, strerror(error));
	else if (capable)
		err_set(err, STATUS_HOST, "event '%s': %s, although CAP_PERFMON is held: a security module (SELinux's perf_event class) or kernel lockdown "
		        "(cat /sys/kernel/security/lockdown) forbids it", what, strerror(error));
	else
		return false;
	return true;
}

bool privilege_explain(struct err *err, int error, const char *what, bool wants_kernel, bool wants_cpu_wide)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .exclude_kernel = !wants_kernel };
	struct event_target target = { .scope = wants_cpu_wide ? SCOPE_CPU : SCOPE_TASK };
	struct rlimit files = { 0 };

	if ((error == EACCES || error == EPERM) && explain_filter(err, error, what, wants_kernel, wants_cpu_wide))
		return false;
	if (error != EMFILE && error != ENFILE)
		return event_error(err, error, what, &attr, &target);
	getrlimit(RLIMIT_NOFILE, &files);
	if (error == ENFILE)
		return err_set(err, STATUS_HOST, "event '%s': the whole system has too few file descriptors: sysctl fs.file-max", what);
	return err_set(err, STATUS_HOST, "event '%s': all %llu file descriptors are in use (RLIMIT_NOFILE; the hard limit is %llu): ulimit -n, or "
	               "CAP_SYS_RESOURCE", what, (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
}
