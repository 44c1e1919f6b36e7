#include "perf/event_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "perf/sysfs.h"

static const char paranoid_path[] = "/proc/sys/kernel/perf_event_paranoid";

// Mode 2 in "Seccomp:" of /proc/self/status: a filter, as container engines install it.
static bool has_seccomp_filter(void)
{
	char line[256];
	bool filter = false;
	FILE *f = fopen("/proc/self/status", "re");
	while (f != NULL && !filter && fgets(line, sizeof(line), f) != NULL)
		filter = strcmp(line, "Seccomp:\t2\n") == 0;
	if (f != NULL)
		fclose(f);
	return filter;
}

// The highest perf_event_paranoid that lets everybody open this: perf_allow_kernel(), _cpu(), _tracepoint() in kernel/events/core.c.
static long level_needed(const struct perf_event_attr *attr, const struct event_target *target)
{
	if (attr->type == PERF_TYPE_TRACEPOINT && attr->config != 0)
		return -1;
	if (target->scope == SCOPE_CPU || target->scope == SCOPE_CGROUP)
		return 0;
	return attr->exclude_kernel ? 2 : 1;
}

// Whether a task may be looked into: /proc/PID/maps asks the same question as perf_event_open (ptrace_may_access).
static bool is_forbidden(int32_t tid)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == EACCES || errno == EPERM;
	close(fd);
	return false;
}

// The whole advice at once: whoever lowers perf_event_paranoid for another user's process would only meet the next refusal.
static bool permission(struct err *err, int error, const char *name, const struct perf_event_attr *attr, const struct event_target *target)
{
	long paranoid = kernel_number(paranoid_path, 2), needed = level_needed(attr, target);

	char level[64] = "";

	if (paranoid > needed)
		snprintf(level, sizeof(level), ", and kernel.perf_event_paranoid is %ld", paranoid);
	for (size_t i = 0; (target->scope == SCOPE_TASK || target->scope == SCOPE_THREAD) && i < target->tid_count; i++)
		if (is_forbidden(target->tids[i]))
			return err_set(err, STATUS_HOST, "event '%s': %s: task %d belongs to another user%s: run as root or with CAP_PERFMON and CAP_SYS_PTRACE", name,
			               strerror(error), (int)target->tids[i], level);
	if (paranoid > needed)
		return err_set(err, STATUS_HOST, "event '%s': %s: kernel.perf_event_paranoid is %ld, this needs %ld%s: sysctl kernel.perf_event_paranoid=%ld, "
		               "or run as root or with CAP_PERFMON", name, strerror(error), paranoid, needed, needed == 2 ? " (or 1, with the kernel's functions)" : "",
		               needed);
	if (has_seccomp_filter())
		return err_set(err, STATUS_HOST, "event '%s': %s: a seccomp filter forbids perf_event_open here: docker run --cap-add PERFMON, or "
		               "--security-opt seccomp=unconfined", name, strerror(error));
	if (target->scope == SCOPE_TASK || target->scope == SCOPE_THREAD)
		return err_set(err, STATUS_HOST, "event '%s': %s: the process belongs to another user: run as root or with CAP_PERFMON and CAP_SYS_PTRACE",
		               name, strerror(error));
	return err_set(err, STATUS_HOST, "event '%s': %s: needs root or CAP_PERFMON", name, strerror(error));
}

bool event_error(struct err *err, int error, const char *name, const struct perf_event_attr *attr, const struct event_target *target)
{
	bool hardware = attr->type == PERF_TYPE_HARDWARE || attr->type == PERF_TYPE_HW_CACHE || attr->type == PERF_TYPE_RAW;

	switch (error) {
	case EACCES:
	case EPERM:
		return permission(err, error, name, attr, target);
	case ENOENT:
		// css_tryget_online_from_dir() in kernel/cgroup/cgroup.c. A cgroup2 hierarchy of which nobody ever wrote a cgroup.subtree_control hands
		// on not even the controllers that need no switching on.
		if (target->scope == SCOPE_CGROUP && attr->type == PERF_TYPE_SOFTWARE)
			return err_set(err, STATUS_HOST, "event '%s': the cgroup has no perf_event controller (%s)", name, strerror(error));
		// fall through
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
		return err_set(err, STATUS_HOST, "event '%s': %s does not count it (%s)%s", name, host_is_virtual() ? "this VM" : "this host", strerror(error),
		               hardware ? ": -e cpu-clock works everywhere" : "");
	case EINVAL:
		if (attr->type >= PERF_TYPE_MAX && attr->sample_period != 0)
			return err_set(err, STATUS_HOST, "event '%s': the kernel refuses it (%s); a PMU without interrupts counts only beside one that "
			               "samples: -e '{cpu-clock,%s}'", name, strerror(error), name);
		if (hardware && !sysfs_has_core_pmu(&event_host_here))
			return err_set(err, STATUS_HOST, "event '%s': this host has no counters for it: -e cpu-clock works everywhere", name);
		return err_set(err, STATUS_HOST, "event '%s': the kernel refuses it as it is asked for (%s); dmesg may say more", name, strerror(error));
	case EBUSY:
		return err_set(err, STATUS_HOST, "event '%s': another user holds the counter exclusively (%s); the NMI watchdog is one: "
		               "sysctl kernel.nmi_watchdog=0", name, strerror(error));
	case ENOSPC:
		return err_set(err, STATUS_HOST, "event '%s': all debug registers are in use (%s): fewer breakpoints", name, strerror(error));
	case ENOSYS:
		return err_set(err, STATUS_HOST, "event '%s': this kernel was built without CONFIG_PERF_EVENTS, or a seccomp filter hides perf_event_open", name);
	case E2BIG:
		return err_set(err, STATUS_HOST, "event '%s': this kernel is too old for what is asked of it (%s)", name, strerror(error));
	case ESRCH:
		return err_set(err, STATUS_HOST, "event '%s': no such process or thread is left", name);
	default:
		return err_set(err, STATUS_HOST, "event '%s': %s", name, strerror(error));
	}
}

bool event_error_files(struct err *err, int error, size_t need, const struct event_specs *specs, const struct event_target *target)
{
	struct rlimit limit = { 0 };
	char product[128];

	getrlimit(RLIMIT_NOFILE, &limit);
	if (target->scope == SCOPE_TASK)
		snprintf(product, sizeof(product), "%zu threads x %zu CPUs x (%zu events + 1)", target->tid_count, target->cpu_count, specs->items.count);
	else
		snprintf(product, sizeof(product), "%zu %s x (%zu events + 1)", target->scope == SCOPE_THREAD ? target->tid_count : target->cpu_count,
		         target->scope == SCOPE_THREAD ? "threads" : "CPUs", specs->items.count);
	if (error == ENFILE)
		return err_set(err, STATUS_HOST, "%zu file descriptors are needed, %s: the whole system has too few (%s): sysctl fs.file-max", need, product,
		               strerror(error));
	return err_set(err, STATUS_HOST, "%zu file descriptors are needed, %s, and RLIMIT_NOFILE is %llu: ulimit -n %zu (LimitNOFILE= in a systemd unit; "
	               "above %ld also sysctl fs.nr_open)", need, product, (unsigned long long)limit.rlim_cur, need + 64,
	               kernel_number("/proc/sys/fs/nr_open", 1048576));
}

bool event_error_mlock(struct err *err, size_t ring_bytes, size_t rings)
{
	struct rlimit limit = { 0 };
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return err_set(err, STATUS_HOST, "%zu rings of %zu KiB may not be locked in memory: kernel.perf_event_mlock_kb is %ld (a user and CPU; other "
	               "profilers take from it too), RLIMIT_MEMLOCK %llu KiB: sysctl kernel.perf_event_mlock_kb=%zu, or ulimit -l, or CAP_IPC_LOCK", rings,
	               ring_bytes / 1024, kernel_number("/proc/sys/kernel/perf_event_mlock_kb", 516), (unsigned long long)limit.rlim_cur / 1024,
	               2 * ring_mlock_kib(rings, ring_bytes));
}
