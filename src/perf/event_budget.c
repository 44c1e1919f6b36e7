// What the open events and their rings may cost: descriptors and locked memory.
#include <linux/capability.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "perf/event_set.h"
#include "perf/sysfs.h"

size_t event_set_fd_need(const struct event_specs *specs, const struct event_target *target)
{
	// An event on several core PMUs takes one descriptor a CPU all the same: each CPU has one PMU.
	size_t each = specs->items.count + 1;
	switch (target->scope) {
	case SCOPE_TASK:
		return target->tid_count * target->cpu_count * each;
	case SCOPE_THREAD:
		return target->tid_count * each;
	case SCOPE_CGROUP:
	case SCOPE_CPU:
		break;
	}
	return target->cpu_count * each;
}

static bool may_lock(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	memset(data, 0, sizeof(data));
	return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

size_t ring_budget(size_t rings, const char **limit_text)
{
	struct rlimit limit = { 0 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	*limit_text = "nothing";
	// perf_mmap() in kernel/events/core.c: CAP_IPC_LOCK and perf_event_paranoid -1 are not limited.
	if (rings == 0 || may_lock() || kernel_number("/proc/sys/kernel/perf_event_paranoid", 2) < 0)
		return SIZE_MAX;
	getrlimit(RLIMIT_MEMLOCK, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		return SIZE_MAX;
	// A user has perf_event_mlock_kb for each online CPU; what is more counts against the process's RLIMIT_MEMLOCK.
	size_t shared = (size_t)kernel_number("/proc/sys/kernel/perf_event_mlock_kb", 516) * 1024 / page * page * ring_mlock_cpus();
	*limit_text = shared >= (size_t)limit.rlim_cur ? "kernel.perf_event_mlock_kb" : "RLIMIT_MEMLOCK (and kernel.perf_event_mlock_kb)";
	size_t each = (shared + (size_t)limit.rlim_cur) / rings, data = page;
	if (data + page > each) // a page of control beside the data
		return 0;
	while (data * 2 + page <= each)
		data *= 2;
	return data;
}

size_t ring_mlock_cpus(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	return cpus > 0 ? (size_t)cpus : 1;
}

size_t ring_mlock_kib(size_t rings, size_t data_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = rings * (data_bytes / page + 1), cpus = ring_mlock_cpus();
	return (pages + cpus - 1) / cpus * (page / 1024);
}
