// check -p, check --container: whether this target can be recorded, and what to expect.
#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "cmd/check.h"
#include "record/privilege.h"

#define PERIOD_NS 1295295.0

char *check_ptrace_fix(void)
{
	if (privilege_has_capability(CAP_SYS_PTRACE))
		return NULL; // the process or a security module forbids it to everybody
	if (geteuid() == 0)
		return mem_string("docker run --cap-add SYS_PTRACE");
	return mem_string(procfs_number("/proc/sys/kernel/yama/ptrace_scope", 0) > 0 ? "sudo, or: sysctl kernel.yama.ptrace_scope=0" : "sudo, or CAP_SYS_PTRACE");
}

static void permission(struct check *check, const struct check_target *target)
{
	struct err err;
	int error = check_open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true, target->pid, -1, 0);

	if (error == 0) {
		check_add(check, "permission", "may be sampled", ANSWER_YES, mem_printf("pid %" PRId32 " (%s)", target->pid, target->status.comm), NULL);
	} else if ((error == EACCES || error == EPERM) && target->status.euid != geteuid()) {
		check_add(check, "permission", "may be sampled", ANSWER_NO,
		          mem_printf("pid %" PRId32 " (%s) belongs to uid %u: needs CAP_PERFMON and CAP_SYS_PTRACE", target->pid, target->status.comm,
		                     (unsigned)target->status.euid),
		          mem_printf("sudo perfsample record -p %" PRId32, target->pid));
	} else {
		privilege_explain(&err, error, target->status.comm, false, false);
		check_add(check, "permission", "may be sampled", ANSWER_NO, mem_string(err.text), NULL);
	}
	check->lines.data[check->lines.count - 1].is_needed = true;
	// A stack beyond the kernel's copy is read from the process's memory (process_vm_readv(2)): Yama may forbid that to others than parents.
	char path[64];
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", target->pid);
	bool readable = access(path, R_OK) == 0;
	if (readable) {
		FILE *f = fopen(path, "re"); // the check is made when it is opened
		readable = f != NULL;
		error = errno;
		if (f != NULL)
			fclose(f);
	} else {
		error = errno;
	}
	if (target->status.is_kernel_thread)
		return;
	check_add(check, "memory", "memory may be read", readable ? ANSWER_YES : ANSWER_NO,
	          readable ? mem_string("stacks beyond the kernel's copy and deleted files are read from it")
	                   : mem_printf("%s: stacks deeper than the kernel's copy end truncated", strerror(error)),
	          readable ? NULL : check_ptrace_fix());
}

// As record chooses (record/targets.c): such events need no descriptor for each thread.
static bool may_cpu_wide(void)
{
	return privilege_has_capability(CAP_PERFMON) || privilege_has_capability(CAP_SYS_ADMIN) || procfs_number("/proc/sys/kernel/perf_event_paranoid", 2) < 1;
}

static void threads(struct check *check, const struct check_target *target)
{
	struct cgroup own;
	struct rlimit limit = { 0 };
	uint64_t need = 0;

	for (size_t i = 0; i < target->pids.ids.count; i++) {
		struct procfs_status status;
		if (procfs_status(target->pids.ids.data[i], &status))
			need += (uint64_t)status.threads;
	}
	char count[3][32], threads_text[64];
	snprintf(threads_text, sizeof(threads_text), "%s thread%s", check_count(need, count[0]), need == 1 ? "" : "s");
	if (target->is_container || cgroup_of_own(&own, &target->pid, 1, NULL)) {
		char *text = mem_printf("%s in a cgroup of their own: %zu file descriptors, however many there are", threads_text, 2 * check->cpu_count);
		check_add(check, "threads", "threads", ANSWER_YES, text, NULL);
		if (!target->is_container)
			cgroup_remove(&own);
		return;
	}
	if (may_cpu_wide()) {
		char *text = mem_printf("%s, by events of whole CPUs: %zu file descriptors, however many there are", threads_text, 2 * check->cpu_count);
		check_add(check, "threads", "threads", ANSWER_YES, text, NULL);
		return;
	}
	need *= 2 * check->cpu_count;
	getrlimit(RLIMIT_NOFILE, &limit);
	long most = procfs_number("/proc/sys/fs/nr_open", 1048576);
	uint64_t allowed = geteuid() == 0 && most > 0 ? (uint64_t)most : limit.rlim_max;
	check_add(check, "threads", "threads", need + 64 <= allowed ? ANSWER_YES : ANSWER_NO,
	          mem_printf("%s x %zu CPUs x 2 events = %s file descriptors of %s", threads_text, check->cpu_count, check_count(need, count[1]),
	                     check_count(allowed, count[2])),
	          need + 64 <= allowed ? NULL : mem_printf("ulimit -n %llu", (unsigned long long)need + 64));
}

// Namespaces of its own: files are then opened below its root, maps are looked up by its inner pid.
static void namespaces(struct check *check, const struct check_target *target)
{
	static const char *const kinds[] = { "mnt", "pid", "user", "net", "cgroup" };
	struct buf list = { 0 };
	char path[64];
	struct stat theirs, ours;
	bool unknown = false, own_pids = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%" PRId32 "/ns/%s", target->pid, kinds[i]);
		char mine[32];
		snprintf(mine, sizeof(mine), "/proc/self/ns/%s", kinds[i]);
		if (stat(path, &theirs) != 0 || stat(mine, &ours) != 0) {
			unknown = true;
			continue;
		}
		if (theirs.st_ino != ours.st_ino)
			buf_printf(&list, "%s%s", list.size > 0 ? ", " : "", kinds[i]);
		own_pids |= theirs.st_ino != ours.st_ino && strcmp(kinds[i], "pid") == 0;
	}
	char *text = list.size == 0 ? mem_string(unknown ? "not to be seen" : "ours")
	             : own_pids     ? mem_printf("its own: %s; it is pid %" PRId32 " there", buf_text(&list), target->status.ns_pid)
	                            : mem_printf("its own: %s", buf_text(&list));
	check_add(check, "namespaces", "namespaces", ANSWER_NOTE, text, NULL);
	buf_release(&list);
}

static uint64_t cpu_ns(const struct check_target *target)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < target->pids.ids.count; i++)
		sum += procfs_cpu_ns(target->pids.ids.data[i]);
	return sum;
}

// What it will cost, from what it uses now. Per CPU-second at 999 Hz a recording takes 0.1 MB + 0.008 MB x mean frames (20 assumed);
// a sample costs the recorder about 8 us, and its 50 wake-ups a second and CPU about 17 us each.
static void expectation(struct check *check, struct check_target *target)
{
	struct timespec before, after;
	char count[32];

	clock_gettime(CLOCK_MONOTONIC, &before); // around what is measured: where we are held up in between, it is too little rather than more than there is
	uint64_t start = cpu_ns(target);
	nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
	uint64_t used = cpu_ns(target);
	clock_gettime(CLOCK_MONOTONIC, &after);
	double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
	double busy = used > start ? (double)(used - start) * 1e-9 / seconds : 0;
	if (busy > (double)check->cpu_count)
		busy = (double)check->cpu_count; // the kernel's ticks are coarser than what was waited for
	target->cpus_busy = busy;
	target->samples_per_second = busy * 1e9 / PERIOD_NS;
	target->megabytes_per_second = busy * (0.1 + 0.008 * 20) * (1e9 / PERIOD_NS) / 999;
	target->recorder_cpu_share = target->samples_per_second * 8e-6 + 50 * 17e-6 * (busy < 1 ? busy : busy < (double)check->cpu_count ? busy : (double)check->cpu_count);
	if (busy < 0.1)
		check_add(check, "cost", "expected", ANSWER_NOTE, mem_printf("it uses %.0f%% of one CPU now: few samples; a profile of CPU time can't say why it waits", 100 * busy), NULL);
	else
		check_add(check, "cost", "expected", ANSWER_NOTE,
		          mem_printf("%.1f CPUs busy now: about %s samples and %.2f MB a second, %.1f%% of one CPU for the recorder", busy,
		                     check_count((uint64_t)target->samples_per_second, count), target->megabytes_per_second, 100 * target->recorder_cpu_share), NULL);
}

void check_target(struct check *check, struct check_target *target)
{
	permission(check, target);
	threads(check, target);
	namespaces(check, target);
	if (target->status.is_kernel_thread)
		check_add(check, "images", "user stacks", ANSWER_NOTE, mem_string("none: a kernel thread; its kernel part is sampled"), NULL);
	else
		check_images(check, target);
	expectation(check, target);
}
