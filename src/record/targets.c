#include "record/targets.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/procfs.h"
#include "record/family.h"
#include "record/privilege.h"

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#endif

const char *target_kind_name(enum target_kind kind)
{
	static const char *const names[] = { "command", "pid", "tid", "system", "cgroup", "uid" };
	return names[kind];
}

static void decide_as(struct decisions *decisions, enum decision_weight weight, const char *format, va_list args)
{
	struct decision *decision = vec_add(&decisions->items);
	vsnprintf(decision->text, sizeof(decision->text), format, args);
	decision->weight = weight;
}

void decide(struct decisions *decisions, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	decide_as(decisions, DECISION_BEARS, format, args);
	va_end(args);
}

void decide_aside(struct decisions *decisions, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	decide_as(decisions, DECISION_ASIDE, format, args);
	va_end(args);
}

void decide_care(struct decisions *decisions, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	decide_as(decisions, DECISION_CARE, format, args);
	va_end(args);
}

void decide_usual(struct decisions *decisions, const char *text)
{
	decide(decisions, "%s", text);
	decisions->items.data[decisions->items.count - 1].weight = DECISION_USUAL;
}

// ---------------------------------------------------------------- who
static bool no_such_process(int32_t pid, const char *option, struct err *err)
{
	struct procfs_ids others = { 0 };
	err_set(err, STATUS_USAGE, "%s %d: no such process", option, pid);
	if (procfs_pids_of_ns_pid(pid, &others) && others.ids.count > 0) {
		size_t used = strlen(err->text);
		snprintf(err->text + used, sizeof(err->text) - used, "; in a container of this host it is %d", others.ids.data[0]);
	}
	vec_release(&others.ids);
	return false;
}

static void add_tid(struct target *target, int32_t tid)
{
	bool is_new;
	hash_map_put(&target->known_tids, (uint32_t)tid, 1, &is_new);
	if (is_new)
		vec_push(&target->tids, tid);
}

static void add_threads(struct target *target, int32_t pid)
{
	struct procfs_ids threads = { 0 };
	if (procfs_threads(pid, &threads, NULL))
		for (size_t i = 0; i < threads.ids.count; i++)
			add_tid(target, threads.ids.data[i]);
	vec_release(&threads.ids);
}

static void add_root(struct target *target, int32_t pid)
{
	for (size_t i = 0; i < target->roots.count; i++)
		if (target->roots.data[i] == pid)
			return;
	vec_push(&target->roots, pid);
	vec_push(&target->watch, (int)syscall(SYS_pidfd_open, pid, 0));
}

static bool resolve_ids(struct target *target, const struct target_config *config, struct err *err)
{
	for (size_t i = 0; i < config->ids.count; i++) {
		struct procfs_status status;
		int32_t id = config->ids.data[i];
		if (!procfs_status(id, &status))
			return no_such_process(id, config->kind == TARGET_TIDS ? "-t" : "-p", err);
		if (i == 0)
			snprintf(target->comm, sizeof(target->comm), "%s", status.comm);
		if (config->kind == TARGET_TIDS) {
			add_tid(target, id);
			vec_push(&target->roots, status.tgid);
		} else {
			add_root(target, status.tgid);
			add_threads(target, status.tgid);
		}
	}
	target->threads = (uint32_t)target->tids.count;
	return true;
}

static bool resolve_user(struct target *target, const struct target_config *config, struct err *err)
{
	struct procfs_ids pids = { 0 };
	bool good = procfs_pids_of_uid(config->uid, &pids, err);
	for (size_t i = 0; good && i < pids.ids.count; i++) {
		if (pids.ids.data[i] == (int32_t)getpid())
			continue;
		add_root(target, pids.ids.data[i]);
		add_threads(target, pids.ids.data[i]);
	}
	vec_release(&pids.ids);
	if (good && target->roots.count == 0)
		return err_set(err, STATUS_USAGE, "-u %u: no process of this user", (unsigned)config->uid);
	snprintf(target->comm, sizeof(target->comm), "uid %u", (unsigned)config->uid);
	target->threads = (uint32_t)target->tids.count;
	return good;
}

static bool resolve_cgroup(struct target *target, const struct target_config *config, struct err *err)
{
	char path[4096];
	const char *wanted = config->cgroup;
	if (config->is_container) {
		if (!cgroup_find_container(config->cgroup, path, sizeof(path), err))
			return false;
		wanted = path;
	}
	const char *slash = strrchr(wanted, '/');
	snprintf(target->comm, sizeof(target->comm), "%.60s", slash != NULL && slash[1] != '\0' ? slash + 1 : wanted);
	return cgroup_open(&target->cgroup, wanted, err);
}

// ---------------------------------------------------------------- how
// cgroup and CPU-wide events observe whoever runs there: perf_event_paranoid below 1, or CAP_PERFMON (kernel/events/core.c).
static void ask_host(struct target *target)
{
	bool privileged = privilege_has_capability(CAP_PERFMON) || privilege_has_capability(CAP_SYS_ADMIN);
	long paranoid = procfs_number("/proc/sys/kernel/perf_event_paranoid", 2);
	target->may_cpu_wide = privileged || paranoid < 1;
	target->may_kernel = privileged || paranoid < 2;
}

static void scope_task(struct target *target, const struct target_config *config)
{
	target->filter = false;
	target->events.scope = SCOPE_TASK;
	target->events.inherit = config->inherit;
	target->events.enable_on_exec = target->is_command && !config->delayed;
}

static void scope_cpu(struct target *target)
{
	target->filter = true;
	target->events.scope = SCOPE_CPU;
	target->events.inherit = false;
	target->events.enable_on_exec = false;
}

static bool start_command(struct target *target, const struct target_config *config, bool in_cgroup, struct err *err)
{
	struct rlimit files = { 0 };
	getrlimit(RLIMIT_NOFILE, &files);
	if (!child_start(&target->child, config->command, in_cgroup ? &target->cgroup : NULL, config->stdout_to_stderr, files.rlim_cur, err))
		return false;
	target->has_child = true;
	return true;
}

static bool open_command(struct target *target, const struct target_config *config, struct decisions *decisions, struct err *err)
{
	struct err why = { 0 };
	target->is_command = true;
	const char *slash = strrchr(config->command[0], '/');
	snprintf(target->comm, sizeof(target->comm), "%.15s", slash != NULL ? slash + 1 : config->command[0]); // TASK_COMM_LEN
	bool wide = !config->per_task && config->inherit && target->may_cpu_wide;
	bool grouped = wide && cgroup_create(&target->cgroup, &why);
	if (!start_command(target, config, grouped, err))
		return false;
	vec_push(&target->roots, (int32_t)target->child.pid);
	add_tid(target, (int32_t)target->child.pid);
	target->threads = 1;
	if (grouped) {
		target->events.scope = SCOPE_CGROUP;
		target->events.cgroup_fd = target->cgroup.fd;
		decide_usual(decisions, "events per CPU and cgroup: the command has a cgroup of its own");
	} else if (wide) {
		scope_cpu(target);
		decide(decisions, "CPU-wide events, kept for the command's descent: %s", why.text);
	} else {
		scope_task(target, config);
		decide(decisions, "per-task events%s: tasks shorter than one period are not sampled, nor what the kernel does last when a task ends",
		       config->per_task ? " (--per-task)" : !config->inherit ? " (--no-inherit)" : " (not allowed to see whole CPUs)");
	}
	return true;
}

static bool is_root(const struct target *target, int32_t pid)
{
	for (size_t i = 0; i < target->roots.count; i++)
		if (target->roots.data[i] == pid)
			return true;
	return false;
}

// What the targets had started before: recorded where a cgroup is sampled, not where tasks are, as perf has it. Whoever named a server's first
// process meant its workers as often as not.
static void tell_children(const struct target *target, struct decisions *decisions)
{
	enum { NAMED_MOST = 8 };
	struct procfs_ids below = { 0 };
	struct buf pids = { 0 };
	size_t others = 0;
	(void)procfs_descendants_of(target->roots.data, target->roots.count, &below);
	for (size_t i = 0; i < target->roots.count; i++)
		buf_printf(&pids, "%s%d", i > 0 ? "," : "", target->roots.data[i]);
	for (size_t i = 0; i < below.ids.count; i++)
		if (!is_root(target, below.ids.data[i]) && ++others <= NAMED_MOST)
			buf_printf(&pids, ",%d", below.ids.data[i]);
	const char *one = others == 1 ? "" : "es";
	if (others > 0 && target->events.scope == SCOPE_CGROUP)
		decide(decisions, "%zu process%s that it had started before, in the same cgroup, %s recorded too", others, one, others == 1 ? "is" : "are");
	else if (others > NAMED_MOST || (others > 0 && target->roots.count > NAMED_MOST))
		decide(decisions, "%zu process%s that it had started before %s not recorded: -p with their PIDs, or --cgroup", others, one, others == 1 ? "is" : "are");
	else if (others > 0)
		decide(decisions, "%zu process%s that it had started before %s not recorded: -p %s", others, one, others == 1 ? "is" : "are", buf_text(&pids));
	vec_release(&below.ids);
	buf_release(&pids);
}

// Whether these events may be those of whole CPUs, of which only the target's samples are kept. What strangers do is then sampled at the same rate: clocks and what hardware
// counts have a rate that is bounded; a tracepoint, a breakpoint or a page fault of theirs would be as many as they make. The values of a group would be the CPU's.
static bool suits_whole_cpus(const struct event_specs *specs)
{
	for (size_t i = 0; i < specs->items.count; i++) {
		const struct event_spec *spec = &specs->items.data[i];
		bool is_hardware = spec->attr.type == PERF_TYPE_HARDWARE || spec->attr.type == PERF_TYPE_HW_CACHE || spec->attr.type == PERF_TYPE_RAW;
		if (spec->group >= 0 || spec->is_uncore || spec->is_tracepoint || !(spec->is_clock || spec->is_default || is_hardware))
			return false;
	}
	return true;
}

// Events of single tasks, or what the number of descriptors leaves of them.
static void choose_per_task(struct target *target, const struct target_config *config, const struct event_specs *specs, const char *why,
                            struct decisions *decisions)
{
	char text[sizeof(decisions->items.data->text)];
	scope_task(target, config);
	target->events.tids = target->tids.data;
	target->events.tid_count = target->tids.count;
	uint64_t before, need = event_set_fd_need(specs, &target->events) + 256;
	uint64_t got = privilege_raise_files(need, &before);
	if (got >= need) {
		snprintf(text, sizeof(text), "events per thread and CPU%s%s", target->events.inherit ? ", inherited by new threads" :
		         config->kind == TARGET_TIDS ? ", of these threads alone" : " (--no-inherit)", why);
		decide_usual(decisions, text);
		decide(decisions, "events of threads: what the kernel does last when one ends (newer kernels: freeing its memory, too) is neither sampled nor counted");
		return;
	}
	if (target->may_cpu_wide && config->kind != TARGET_TIDS) {
		scope_cpu(target);
		decide(decisions, "CPU-wide events, kept for the target: %zu threads need %llu file descriptors, %llu are allowed", target->tids.count,
		       (unsigned long long)need, (unsigned long long)got);
	} else {
		target->events.scope = SCOPE_THREAD;
		target->events.inherit = false;
		decide(decisions, "an event and ring per thread, new threads not followed: %zu threads need %llu file descriptors, %llu are allowed",
		       target->tids.count, (unsigned long long)need, (unsigned long long)got);
	}
}

// A cgroup and whole CPUs see what single tasks hide: each new one's first period, and what each switch to a task takes of its clock.
static void choose_for_pids(struct target *target, const struct target_config *config, const struct event_specs *specs,
                            struct decisions *decisions)
{
	const char *why = "";
	bool wide = target->may_cpu_wide && !config->per_task && config->inherit && config->kind != TARGET_TIDS;
	if (wide && config->kind == TARGET_PIDS && cgroup_of_own(&target->cgroup, target->roots.data, target->roots.count, &why)) {
		target->events.scope = SCOPE_CGROUP;
		target->events.cgroup_fd = target->cgroup.fd;
		decide_usual(decisions, "events per CPU and cgroup: the target has its cgroup to itself");
	} else if (wide && suits_whole_cpus(specs)) {
		scope_cpu(target);
		target->is_chosen_wide = true;
		decide(decisions, "CPU-wide events, kept for the target and what it starts%s%s", why[0] != '\0' ? ": " : "", why);
	} else {
		choose_per_task(target, config, specs, config->per_task ? " (--per-task)" : !config->inherit || config->kind == TARGET_TIDS ? "" :
		                wide ? " (what these events count has no bounded rate on whole CPUs)" : " (not allowed to see whole CPUs)", decisions);
	}
}

static bool choose_cpus(struct target *target, const struct target_config *config, struct err *err)
{
	uint32_t *online = NULL;
	size_t count = 0;
	if (!procfs_online_cpus(&online, &count, err))
		return false;
	target->cpus = mem_zero(count + 1, sizeof(*target->cpus));
	for (size_t i = 0; i < count; i++) {
		bool wanted = config->cpus.count == 0;
		for (size_t k = 0; k < config->cpus.count; k++)
			wanted |= config->cpus.data[k] == online[i];
		if (wanted)
			target->cpus[target->cpu_count++] = online[i];
	}
	for (size_t k = 0; k < config->cpus.count; k++) {
		bool found = false;
		for (size_t i = 0; i < target->cpu_count; i++)
			found |= target->cpus[i] == config->cpus.data[k];
		if (!found) {
			free(online);
			return err_set(err, STATUS_USAGE, "-C %u: no such CPU is online", config->cpus.data[k]);
		}
	}
	free(online);
	target->events.cpus = target->cpus;
	target->events.cpu_count = target->cpu_count;
	return true;
}

static void refresh(struct target *target)
{
	target->events.tids = target->tids.data;
	target->events.tid_count = target->tids.count;
}

bool target_open(struct target *target, const struct target_config *config, const struct event_specs *specs, struct decisions *decisions,
                 struct err *err)
{
	*target = (struct target){ .kind = config->kind, .cgroup = { .fd = -1 }, .events = { .cgroup_fd = -1 } };
	ask_host(target);
	if (!choose_cpus(target, config, err))
		return false;
	bool good = true;
	switch (config->kind) {
	case TARGET_COMMAND:
		good = open_command(target, config, decisions, err);
		break;
	case TARGET_PIDS:
	case TARGET_TIDS:
		good = resolve_ids(target, config, err);
		break;
	case TARGET_USER:
		good = resolve_user(target, config, err);
		break;
	case TARGET_CGROUP:
		good = resolve_cgroup(target, config, err);
		target->events.scope = SCOPE_CGROUP;
		target->events.cgroup_fd = target->cgroup.fd;
		decide_usual(decisions, "events per CPU and cgroup");
		break;
	case TARGET_SYSTEM:
		target->events.scope = SCOPE_CPU;
		snprintf(target->comm, sizeof(target->comm), "%zu CPU%s", target->cpu_count, target->cpu_count == 1 ? "" : "s");
		decide_usual(decisions, "CPU-wide events");
		break;
	}
	if (!good)
		return false;
	if (config->kind == TARGET_PIDS || config->kind == TARGET_TIDS || config->kind == TARGET_USER)
		choose_for_pids(target, config, specs, decisions);
	if (config->kind == TARGET_PIDS)
		tell_children(target, decisions);
	refresh(target);
	if (config->kind != TARGET_COMMAND && config->command != NULL)
		return start_command(target, config, false, err);
	return true;
}

bool target_fall_back(struct target *target, const struct target_config *config, const char *why, struct decisions *decisions)
{
	if (target->kind != TARGET_COMMAND && target->kind != TARGET_PIDS && target->kind != TARGET_USER)
		return false;
	target->is_chosen_wide = false; // nor tried again
	if (target->events.scope == SCOPE_CGROUP && target->may_cpu_wide && target->is_command) {
		scope_cpu(target);
		decide(decisions, "CPU-wide events, kept for the command's descent: %.200s", why);
	} else if (target->events.scope == SCOPE_CGROUP || target->events.scope == SCOPE_CPU) {
		scope_task(target, config);
		decide(decisions, "per-task events, which do not see what the kernel does last when a task ends: %.200s", why);
	} else {
		return false;
	}
	refresh(target);
	return true;
}

void target_set_wide(struct target *target, const struct target_config *config, bool wide)
{
	if (wide)
		scope_cpu(target);
	else
		scope_task(target, config);
	refresh(target);
}

void target_begin(struct target *target)
{
	target->since = (struct family_since){ procfs_now_ticks(), &target->before };
	if (target->kind == TARGET_PIDS)
		family_before(target->roots.data, target->roots.count, &target->before);
}

// Threads named one by one, and those of events that are not inherited, stay what they were.
static bool follows_births(const struct target *target)
{
	return target->events.inherit && target->kind != TARGET_TIDS;
}

static void scan(struct target *target, struct spaces *spaces)
{
	struct procfs_ids pids = { 0 };
	if (spaces != NULL)
		family_pids(target->roots.data, target->roots.count, spaces, &target->since, &pids);
	for (size_t i = 0; i < target->roots.count && spaces == NULL; i++)
		add_threads(target, target->roots.data[i]);
	for (size_t i = 0; i < pids.ids.count; i++)
		add_threads(target, pids.ids.data[i]);
	vec_release(&pids.ids);
	refresh(target);
}

size_t target_rescan(struct target *target, struct spaces *spaces)
{
	size_t before = target->tids.count;
	if (spaces != NULL ? follows_births(target) : target->kind == TARGET_PIDS || target->kind == TARGET_USER)
		scan(target, spaces);
	for (size_t i = before; i < target->tids.count; i++)
		vec_push(&target->doubtful, target->tids.data[i]);
	return target->tids.count - before;
}

// The number of a thread that has ended may be another's by now.
static void drop_the_dead(struct target *target)
{
	size_t kept = 0;
	for (size_t i = 0; i < target->tids.count; i++) {
		struct procfs_status status;
		if (procfs_status(target->tids.data[i], &status) && is_root(target, status.tgid))
			target->tids.data[kept++] = target->tids.data[i];
	}
	target->tids.count = kept;
	refresh(target);
}

void target_collect_tids(struct target *target, struct spaces *spaces)
{
	vec_clear(&target->doubtful);
	if (!follows_births(target)) {
		drop_the_dead(target);
		return;
	}
	vec_clear(&target->tids);
	hash_map_clear(&target->known_tids);
	scan(target, spaces);
}

bool target_is_gone(struct target *target)
{
	if (target->is_command)
		return child_poll(&target->child);
	if (target->kind == TARGET_TIDS) {
		for (size_t i = 0; i < target->tids.count; i++)
			if (kill(target->tids.data[i], 0) == 0 || errno == EPERM)
				return false;
		return true;
	}
	if (target->kind == TARGET_SYSTEM || target->kind == TARGET_CGROUP)
		return false;
	for (size_t i = 0; i < target->roots.count; i++) {
		struct procfs_status status;
		if (procfs_status(target->roots.data[i], &status) && status.threads > 0)
			return false;
	}
	return true;
}

void target_release(struct target *target)
{
	if (target->has_child)
		child_free(&target->child);
	if (target->cgroup.fd >= 0)
		cgroup_remove(&target->cgroup);
	for (size_t i = 0; i < target->watch.count; i++)
		if (target->watch.data[i] >= 0)
			close(target->watch.data[i]);
	vec_release(&target->watch);
	vec_release(&target->roots);
	vec_release(&target->tids);
	vec_release(&target->doubtful);
	hash_map_release(&target->known_tids);
	hash_map_release(&target->before);
	free(target->cpus);
	target->cpus = NULL;
}
