#include "record/privilege.h"

#include <errno.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/procfs.h"

// SCHED_RESET_ON_FORK: children of the thread (and the threads it makes) start with ordinary priority again, whatever we took.
enum drain_priority privilege_drain_priority(int wanted_rt)
{
	struct sched_param param = { .sched_priority = wanted_rt > 0 ? wanted_rt : 1 };

	if (sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &param) == 0)
		return PRIORITY_FIFO;
	param.sched_priority = 0;
	sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &param);
	// setpriority(2) speaks of a process, but on Linux acts on one thread (its NOTES); 0 is the caller.
	if (setpriority(PRIO_PROCESS, 0, -20) == 0)
		return PRIORITY_NICE;
	// RLIMIT_NICE may allow part of the way: 20 - limit is the lowest nice value (getrlimit(2)).
	struct rlimit limit;
	if (getrlimit(RLIMIT_NICE, &limit) == 0 && limit.rlim_cur > 20)
		setpriority(PRIO_PROCESS, 0, 20 - (int)(limit.rlim_cur < 40 ? limit.rlim_cur : 40));
	return PRIORITY_NORMAL;
}

const char *drain_priority_text(enum drain_priority priority)
{
	switch (priority) {
	case PRIORITY_FIFO:
		return "real-time priority";
	case PRIORITY_NICE:
		return "nice -20 (no real-time priority: needs root or CAP_SYS_NICE)";
	case PRIORITY_NORMAL:
		break;
	}
	return "ordinary priority (no real-time priority: needs root or CAP_SYS_NICE)";
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

// The highest perf_event_paranoid at which somebody without CAP_PERFMON gets this (Documentation/admin-guide/sysctl/kernel.rst): 2 own
// processes' user space, 1 and the kernel's part, 0 and whole CPUs; Debian adds 3 (nothing at all, like 4 elsewhere).
static long paranoid_needed(bool wants_kernel, bool wants_cpu_wide)
{
	return wants_cpu_wide ? 0 : wants_kernel ? 1 : 2;
}

static bool explain_permission(struct err *err, int error, const char *what, bool wants_kernel, bool wants_cpu_wide)
{
	long paranoid = procfs_number(PARANOID, -100), needed = paranoid_needed(wants_kernel, wants_cpu_wide);
	bool capable = privilege_has_capability(CAP_PERFMON) || privilege_has_capability(CAP_SYS_ADMIN);

	if (is_filtered() && (capable || paranoid <= needed))
		return err_set(err, STATUS_HOST, "%s: %s: a seccomp filter forbids perf_event_open; in a container: docker run --security-opt "
		               "seccomp=unconfined --cap-add PERFMON", what, strerror(error));
	if (paranoid == -100)
		return err_set(err, STATUS_HOST, "%s: %s: " PARANOID " cannot be read: was this kernel built without CONFIG_PERF_EVENTS?", what,
		               strerror(error));
	if (capable)
		return err_set(err, STATUS_HOST, "%s: %s, although CAP_PERFMON is held: a security module (SELinux: perf_event; kernel lockdown, "
		               "see /sys/kernel/security/lockdown) forbids it", what, strerror(error));
	if (paranoid > needed)
		return err_set(err, STATUS_HOST, "%s: %s: kernel.perf_event_paranoid is %ld, %s at most %ld (sysctl kernel.perf_event_paranoid=%ld), "
		               "or CAP_PERFMON (setcap cap_perfmon,cap_sys_ptrace+ep on perfsample, or run it as root)", what, strerror(error), paranoid,
		               wants_cpu_wide ? "whole CPUs need" : wants_kernel ? "the kernel's part needs" : "this needs", needed, needed);
	return err_set(err, STATUS_HOST, "%s: %s: the process is another user's or may not be traced; needs CAP_PERFMON and CAP_SYS_PTRACE "
	               "(setcap cap_perfmon,cap_sys_ptrace+ep on perfsample, or run it as root)", what, strerror(error));
}

bool privilege_explain(struct err *err, int error, const char *what, bool wants_kernel, bool wants_cpu_wide)
{
	struct rlimit files = { 0 };

	switch (error) {
	case EACCES:
	case EPERM:
		return explain_permission(err, error, what, wants_kernel, wants_cpu_wide);
	case ENOSYS:
		if (is_filtered())
			return explain_permission(err, error, what, wants_kernel, wants_cpu_wide);
		return err_set(err, STATUS_HOST, "%s: this kernel has no perf_event_open (CONFIG_PERF_EVENTS)", what);
	case EMFILE:
		getrlimit(RLIMIT_NOFILE, &files);
		return err_set(err, STATUS_HOST, "%s: all %llu file descriptors are used (RLIMIT_NOFILE, hard limit %llu: ulimit -n, or CAP_SYS_RESOURCE)",
		               what, (unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
	case ENFILE:
		return err_set(err, STATUS_HOST, "%s: the host's file table is full (sysctl fs.file-max)", what);
	case ENOMEM:
		return err_set(err, STATUS_HOST, "%s: the kernel has no memory for it: fewer or smaller rings (-m)", what);
	case ENOENT:
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
		return err_set(err, STATUS_HOST, "%s: this host does not count it (%s): virtual machines often have no PMU; -e cpu-clock works everywhere",
		               what, strerror(error));
	case EBUSY:
		return err_set(err, STATUS_HOST, "%s: another user holds the counter alone (a pinned or exclusive event; sysctl kernel.nmi_watchdog=0 "
		               "frees the watchdog's)", what);
	case EINVAL:
		return err_set(err, STATUS_HOST, "%s: the kernel refuses the event as it is asked for (kernel.perf_event_max_sample_rate is %ld)", what,
		               procfs_number("/proc/sys/kernel/perf_event_max_sample_rate", 0));
	case ESRCH:
		return err_set(err, STATUS_HOST, "%s: the process has ended", what);
	default:
		return err_set(err, STATUS_HOST, "%s: %s", what, strerror(error));
	}
}
