#include "proc/procfs.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "proc/procfs_read.h"

// Numeric names of a folder; other entries of /proc are words.
static bool read_ids(const char *path, struct procfs_ids *out)
{
	DIR *dir = opendir(path);
	if (dir == NULL)
		return false;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		char *end;
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		long id = strtol(entry->d_name, &end, 10);
		if (*end == '\0' && id > 0 && id <= INT32_MAX)
			vec_push(&out->ids, (int32_t)id);
	}
	closedir(dir);
	return true;
}

bool procfs_pids(struct procfs_ids *out, struct err *err)
{
	vec_clear(&out->ids);
	if (!read_ids("/proc", out))
		return err_errno(err, STATUS_HOST, "reading /proc");
	if (out->ids.count == 0)
		return err_set(err, STATUS_HOST, "/proc lists no process: it is not mounted, or hidepid hides them all");
	return true;
}

bool procfs_threads(int32_t pid, struct procfs_ids *out, struct err *err)
{
	char path[64];

	vec_clear(&out->ids);
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/task", pid);
	errno = 0;
	if (!read_ids(path, out) && errno != ENOENT && errno != ESRCH)
		return err_errno(err, STATUS_HOST, "reading %s", path);
	if (out->ids.count == 0)
		return err_set(err, STATUS_HOST, "no process has the pid %" PRId32, pid);
	return true;
}

// Value of a "Name:\tvalue" line of /proc/PID/status; NULL: not there.
static const char *status_field(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *line = text; line != NULL && *line != '\0'; line = strchr(line, '\n'), line = line != NULL ? line + 1 : NULL)
		if (strncmp(line, name, length) == 0 && line[length] == ':')
			return line + length + 1 + strspn(line + length + 1, " \t");
	return NULL;
}

static int32_t status_number(const char *text, const char *name)
{
	const char *value = status_field(text, name);
	return value != NULL ? (int32_t)strtol(value, NULL, 10) : 0;
}

// Last number of the NSpid line: the pid in the innermost pid namespace. *levels: how many there are.
static int32_t innermost_ns_pid(const char *text, unsigned *levels)
{
	const char *at = status_field(text, "NSpid");
	int32_t last = 0;

	*levels = 0;
	while (at != NULL && isdigit((unsigned char)*at)) {
		char *end;
		last = (int32_t)strtol(at, &end, 10);
		(*levels)++;
		at = end + strspn(end, " \t");
	}
	return last;
}

bool procfs_status(int32_t pid, struct procfs_status *out)
{
	char text[8192];
	struct proc_stat stat;

	memset(out, 0, sizeof(*out));
	if (proc_read_of(pid, "status", text, sizeof(text)) <= 0)
		return false;
	out->pid = status_number(text, "Pid");
	out->tgid = status_number(text, "Tgid");
	out->parent_pid = status_number(text, "PPid");
	out->threads = (uint32_t)status_number(text, "Threads");
	const char *uids = status_field(text, "Uid"); // real, effective, saved, file system
	unsigned real, effective;
	if (uids != NULL && sscanf(uids, "%u %u", &real, &effective) == 2)
		out->euid = (uid_t)effective;
	unsigned levels;
	out->ns_pid = innermost_ns_pid(text, &levels);
	if (levels == 0) // before 4.1
		out->ns_pid = out->pid;
	// "Name" in status has backslashes and newlines escaped; comm is as the kernel's own records have it.
	ssize_t length = proc_read_of(pid, "comm", out->comm, sizeof(out->comm));
	if (length > 0 && out->comm[length - 1] == '\n')
		out->comm[length - 1] = '\0';
	// PF_KTHREAD, include/linux/sched.h: the same bit since 2.6.
	out->is_kernel_thread = proc_stat_of(pid, &stat) && (stat.flags & 0x00200000) != 0;
	return out->pid > 0;
}

bool procfs_pids_of_uid(uid_t uid, struct procfs_ids *out, struct err *err)
{
	struct procfs_ids all = { 0 };
	char text[8192];
	unsigned real, effective;

	vec_clear(&out->ids);
	if (!procfs_pids(&all, err)) {
		vec_release(&all.ids);
		return false;
	}
	for (size_t i = 0; i < all.ids.count; i++) {
		if (proc_read_of(all.ids.data[i], "status", text, sizeof(text)) <= 0)
			continue;
		const char *uids = status_field(text, "Uid");
		if (uids != NULL && sscanf(uids, "%u %u", &real, &effective) == 2 && effective == uid)
			vec_push(&out->ids, all.ids.data[i]);
	}
	vec_release(&all.ids);
	if (out->ids.count == 0)
		return err_set(err, STATUS_HOST, "the user with uid %u has no process", (unsigned)uid);
	return true;
}

int32_t procfs_task_with_memory(int32_t pid)
{
	struct procfs_ids threads = { 0 };
	char path[64], exe[8];
	int32_t found = pid;

	// A task without memory has no executable either: ended and not yet waited for (its process may go on), or a kernel thread.
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/exe", pid);
	if (readlink(path, exe, sizeof(exe)) >= 0 || errno != ENOENT || !procfs_threads(pid, &threads, NULL))
		return pid;
	for (size_t i = 0; found == pid && i < threads.ids.count; i++) {
		snprintf(path, sizeof(path), "/proc/%" PRId32 "/exe", threads.ids.data[i]);
		if (threads.ids.data[i] != pid && readlink(path, exe, sizeof(exe)) >= 0)
			found = threads.ids.data[i];
	}
	vec_release(&threads.ids);
	return found;
}

enum kin { KIN_UNKNOWN, KIN_NO, KIN_YES };

// Climbs from one process to its ancestors until one is known, then tells all that were passed. A number used again may lead round in a
// circle: what was passed already counts as no.
static enum kin climb(const struct procfs_ids *all, const int32_t *parents, const struct hash_map *index, uint8_t *kin, size_t from)
{
	enum kin answer = KIN_NO;
	size_t steps = 0;

	for (size_t at = from; steps <= all->ids.count; steps++) {
		if (kin[at] != KIN_UNKNOWN) {
			answer = kin[at];
			break;
		}
		const uint32_t *parent = hash_map_get(index, (uint64_t)(uint32_t)parents[at]);
		if (parent == NULL)
			break;
		at = *parent;
	}
	for (size_t at = from; steps > 0 && kin[at] == KIN_UNKNOWN; steps--) {
		kin[at] = (uint8_t)answer;
		const uint32_t *parent = hash_map_get(index, (uint64_t)(uint32_t)parents[at]);
		if (parent == NULL)
			break;
		at = *parent;
	}
	return answer;
}

// Adds those that the threads of a process have as children, unless seen before. false: the host does not say (CONFIG_PROC_CHILDREN), or not for all of them.
static bool add_children(int32_t pid, struct hash_map *seen, struct procfs_ids *out)
{
	struct procfs_ids threads = { 0 };
	char name[64], text[4096];
	bool good = true;

	(void)procfs_threads(pid, &threads, NULL); // none: it has ended
	for (size_t i = 0; good && i < threads.ids.count; i++) {
		snprintf(name, sizeof(name), "task/%" PRId32 "/children", threads.ids.data[i]);
		ssize_t length = proc_read_of(pid, name, text, sizeof(text));
		good = length >= 0 && (size_t)length < sizeof(text) - 1;
		char *at = text, *end;
		for (long child = good ? strtol(at, &end, 10) : 0; child > 0; child = strtol(at, &end, 10)) {
			bool is_new;
			hash_map_put(seen, (uint64_t)child, 1, &is_new);
			if (is_new)
				vec_push(&out->ids, (int32_t)child);
			at = end;
		}
	}
	vec_release(&threads.ids);
	return good;
}

enum { WALKED_MOST = 100, WALKS_MOST = 4 };

static bool walk_down(const int32_t *pids, size_t count, struct procfs_ids *out)
{
	struct hash_map seen = { 0 };
	bool good = count <= WALKED_MOST;

	vec_clear(&out->ids);
	for (size_t i = 0; good && i < count; i++)
		hash_map_put(&seen, (uint64_t)(uint32_t)pids[i], 1, NULL);
	for (size_t i = 0; good && i < count; i++)
		good = add_children(pids[i], &seen, out);
	for (size_t i = 0; good && i < out->ids.count; i++)
		good = out->ids.count <= WALKED_MOST && add_children(out->ids.data[i], &seen, out);
	hash_map_release(&seen);
	return good;
}

// Few processes are found from child to child, which takes a hundredth of looking at everybody's parent. While a child ends the list may miss another one
// (proc_pid_task_tid_children(5)), so two walks in a row must find the same.
static bool walk_twice(const int32_t *pids, size_t count, struct procfs_ids *out)
{
	struct procfs_ids again = { 0 };
	bool good = walk_down(pids, count, out), same = false;

	for (int i = 1; good && !same && i < WALKS_MOST; i++) {
		good = walk_down(pids, count, &again);
		same = out->ids.count == again.ids.count &&
		       (again.ids.count == 0 || memcmp(out->ids.data, again.ids.data, again.ids.count * sizeof(again.ids.data[0])) == 0);
		struct procfs_ids swap = *out;
		*out = again;
		again = swap;
	}
	vec_release(&again.ids);
	return good && same;
}

bool procfs_descendants_of(const int32_t *pids, size_t count, struct procfs_ids *out)
{
	struct procfs_ids all = { 0 };
	struct hash_map index = { 0 };
	struct proc_stat stat;

	if (walk_twice(pids, count, out))
		return out->ids.count > 0;
	vec_clear(&out->ids);
	procfs_pids(&all, NULL);
	int32_t *parents = mem_zero(all.ids.count + 1, sizeof(*parents));
	uint8_t *kin = mem_zero(all.ids.count + 1, 1), *is_root = mem_zero(all.ids.count + 1, 1);
	for (size_t i = 0; i < all.ids.count; i++) {
		parents[i] = proc_stat_of(all.ids.data[i], &stat) ? stat.parent_pid : 0;
		hash_map_put(&index, (uint64_t)(uint32_t)all.ids.data[i], (uint32_t)i, NULL);
	}
	for (size_t i = 0; i < count; i++) {
		const uint32_t *at = hash_map_get(&index, (uint64_t)(uint32_t)pids[i]);
		if (at != NULL)
			kin[*at] = KIN_YES, is_root[*at] = 1;
	}
	for (size_t i = 0; i < all.ids.count; i++)
		if (!is_root[i] && climb(&all, parents, &index, kin, i) == KIN_YES)
			vec_push(&out->ids, all.ids.data[i]);
	free(parents);
	free(kin);
	free(is_root);
	hash_map_release(&index);
	vec_release(&all.ids);
	return out->ids.count > 0;
}

bool procfs_descendants(int32_t pid, struct procfs_ids *out)
{
	return procfs_descendants_of(&pid, 1, out);
}

bool procfs_birth(int32_t pid, struct procfs_birth *out)
{
	struct proc_stat stat;
	if (!proc_stat_of(pid, &stat))
		return false;
	*out = (struct procfs_birth){ .parent_pid = stat.parent_pid, .ticks = stat.start_ticks };
	return true;
}

uint64_t procfs_now_ticks(void)
{
	struct timespec now;
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK);
	clock_gettime(CLOCK_BOOTTIME, &now); // fs/proc/array.c: start_boottime
	return (uint64_t)now.tv_sec * hz + (uint64_t)now.tv_nsec / (1000000000 / hz);
}

bool procfs_switches(int32_t tid, uint64_t *out)
{
	char text[8192];
	unsigned long long given, taken;
	if (proc_read_of(tid, "status", text, sizeof(text)) <= 0)
		return false;
	const char *voluntary = status_field(text, "voluntary_ctxt_switches"), *other = status_field(text, "nonvoluntary_ctxt_switches");
	if (voluntary == NULL || other == NULL || sscanf(voluntary, "%llu", &given) != 1 || sscanf(other, "%llu", &taken) != 1)
		return false;
	*out = given + taken;
	return true;
}

uint64_t procfs_cpu_ns(int32_t pid)
{
	struct proc_stat stat;
	long ticks_per_second = sysconf(_SC_CLK_TCK);

	if (!proc_stat_of(pid, &stat) || ticks_per_second <= 0)
		return 0;
	return (stat.user_ticks + stat.system_ticks) * (1000000000u / (uint64_t)ticks_per_second);
}

bool procfs_pids_of_ns_pid(int32_t ns_pid, struct procfs_ids *out)
{
	struct procfs_ids all = { 0 };
	char text[8192];
	unsigned levels;

	vec_clear(&out->ids);
	procfs_pids(&all, NULL);
	for (size_t i = 0; i < all.ids.count; i++)
		if (proc_read_of(all.ids.data[i], "status", text, sizeof(text)) > 0 && innermost_ns_pid(text, &levels) == ns_pid && levels > 1)
			vec_push(&out->ids, all.ids.data[i]);
	vec_release(&all.ids);
	return out->ids.count > 0;
}

uint64_t procfs_stack_top(int32_t pid, uint64_t sp)
{
	struct proc_lines lines;
	struct proc_mapping mapping;
	char path[64], name[8];
	uint64_t top = 0;
	size_t length;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/maps", procfs_task_with_memory(pid));
	if (!proc_lines_open(&lines, path))
		return 0;
	enum proc_queried queried = proc_mapping_query(lines.fd, PROC_QUERY_COVERING, sp, &mapping, name, sizeof(name));
	if (queried == PROC_QUERIED)
		top = mapping.end;
	for (char *line; queried == PROC_QUERY_UNSUPPORTED && top == 0 && (line = proc_lines_next(&lines, &length)) != NULL;) {
		if (!proc_mapping_parse(line, &mapping) || sp >= mapping.end)
			continue;
		if (sp < mapping.start)
			break; // ascending: nothing holds it
		top = mapping.end;
	}
	proc_lines_close(&lines);
	return top;
}

// The line of /proc/PID/cgroup that counts: "N:…,perf_event,…:PATH" where that is a v1 hierarchy, for then events follow it and no other;
// else "0::PATH" (cgroups(7)).
bool procfs_cgroup_path(int32_t pid, char *path, size_t size)
{
	struct proc_lines lines;
	char name[64];
	size_t length;
	bool found = false;

	snprintf(name, sizeof(name), "/proc/%" PRId32 "/cgroup", pid);
	if (!proc_lines_open(&lines, name))
		return false;
	for (char *line; (line = proc_lines_next(&lines, &length)) != NULL;) {
		bool is_v1;
		const char *at = procfs_cgroup_line(line, &is_v1);
		size_t bytes = at != NULL ? strlen(at) + 1 : 0;
		if (at == NULL || (found && !is_v1) || bytes > size)
			continue;
		memcpy(path, at, bytes);
		found = true;
		if (is_v1)
			break;
	}
	proc_lines_close(&lines);
	return found;
}

const char *procfs_cgroup_line(const char *line, bool *is_v1)
{
	const char *controllers = strchr(line, ':');
	const char *path = controllers != NULL ? strchr(controllers + 1, ':') : NULL;

	if (path == NULL || path[1] != '/')
		return NULL;
	controllers++;
	*is_v1 = false;
	if (controllers == path && line[0] == '0' && line[1] == ':')
		return path + 1;
	for (const char *word = controllers; word < path;) {
		size_t length = strcspn(word, ",:");
		if (length == strlen("perf_event") && strncmp(word, "perf_event", length) == 0) {
			*is_v1 = true;
			return path + 1;
		}
		word += length + 1;
	}
	return NULL;
}

// "0-3,7" as the kernel prints CPU lists (Documentation/admin-guide/kernel-parameters.rst, cpu lists).
bool procfs_cpu_list_parse(const char *text, uint32_t **cpus, size_t *count)
{
	VEC(uint32_t) list = { 0 };
	const char *at = text;

	while (isdigit((unsigned char)*at)) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= 65536) // NR_CPUS is at most 8192 today
			break;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			vec_push(&list, (uint32_t)cpu);
		at = *end == ',' ? end + 1 : end;
	}
	if (list.count == 0 || (*at != '\0' && *at != '\n')) {
		vec_release(&list);
		return false;
	}
	*cpus = list.data;
	*count = list.count;
	return true;
}

bool procfs_online_cpus(uint32_t **cpus, size_t *count, struct err *err)
{
	char text[8192];

	if (proc_read("/sys/devices/system/cpu/online", text, sizeof(text)) > 0 && procfs_cpu_list_parse(text, cpus, count))
		return true;
	// Without sysfs (a bare container): as many as the C library counts, numbered from 0.
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	if (online <= 0)
		return err_set(err, STATUS_HOST, "the online CPUs are not to be learnt: /sys/devices/system/cpu/online cannot be read");
	*cpus = mem_zero((size_t)online, sizeof(**cpus));
	*count = (size_t)online;
	for (size_t i = 0; i < *count; i++)
		(*cpus)[i] = (uint32_t)i;
	return true;
}

long procfs_number(const char *path, long missing)
{
	char text[64], *end;

	if (proc_read(path, text, sizeof(text)) <= 0)
		return missing;
	errno = 0;
	long value = strtol(text, &end, 10);
	return end == text || errno != 0 ? missing : value;
}

bool procfs_idle_ns(const uint32_t *cpus, size_t count, uint64_t *idle_ns)
{
	struct proc_lines lines;
	long ticks_per_second = sysconf(_SC_CLK_TCK);
	size_t found = 0, length;
	uint64_t sum = 0;
	if (ticks_per_second <= 0 || !proc_lines_open(&lines, "/proc/stat"))
		return false;
	for (const char *line; found < count && (line = proc_lines_next(&lines, &length)) != NULL && strncmp(line, "cpu", 3) == 0;) {
		uint32_t cpu;
		uint64_t ticks;
		if (!proc_idle_parse(line, &cpu, &ticks))
			continue; // the sum of all
		for (size_t i = 0; i < count; i++)
			if (cpus[i] == cpu) {
				sum += ticks;
				found++;
				break;
			}
	}
	proc_lines_close(&lines);
	*idle_ns = sum * (1000000000u / (uint64_t)ticks_per_second);
	return found == count;
}
