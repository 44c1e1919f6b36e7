// A cgroup for the command that is recorded, so that per-CPU events follow it across short processes (PERF_FLAG_PID_CGROUP).
// The cgroup2 mount or the v1 perf_event hierarchy, wherever /proc/self/mountinfo says it is.
#ifndef PERFSAMPLE_RECORD_CGROUP_H
#define PERFSAMPLE_RECORD_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "proc/procfs.h"

struct cgroup {
	int fd;          // the directory; -1: none
	char path[4096]; // absolute
	bool is_ours;    // made by cgroup_create: removed by cgroup_remove
};

// A fresh child of our own cgroup, named perfsample-PID and locked (flock) as long as `fd` is open; leftovers of killed runs (of that name, empty, not locked) are
// removed first. Whether a recorder lives is told across pid namespaces so.
bool cgroup_create(struct cgroup *cgroup, struct err *err);
// An existing one: an absolute path or one below the hierarchy's root.
bool cgroup_open(struct cgroup *cgroup, const char *path, struct err *err);
// The cgroup of the given pids if nobody but them and their descendants is in it (recursively) and it is not the root; else false and, where why is not NULL, the
// reason (static): "others are in its cgroup, too".
bool cgroup_of_own(struct cgroup *cgroup, const int32_t *pids, size_t count, const char **why);
bool cgroup_add(const struct cgroup *cgroup, int32_t pid, struct err *err); // cgroup.procs
// Everyone in it and below it, as far as our pid namespace shows them. false: it could not be read whole.
bool cgroup_pids(const struct cgroup *cgroup, struct procfs_ids *out);
// Closes; one of ours is removed (its remaining processes are moved to the parent first).
void cgroup_remove(struct cgroup *cgroup);
// A container or pod ID's prefix found in /proc/*/cgroup: its path below the hierarchy's root. Ambiguity lists the candidates in err.
bool cgroup_find_container(const char *prefix, char *path, size_t size, struct err *err);

// What the above stand on; here so that tests can give them other hosts' files.

struct cgroup_mount {
	char point[4096]; // where it is mounted
	char root[4096];  // which cgroup stands there: "/" unless it is a bind mount or a container without a cgroup namespace
	bool is_v1;       // the perf_event hierarchy
};
// From a mountinfo (proc_pid_mountinfo(5)) and a cgroup file (cgroups(7)) of ourselves. Where a v1 perf_event hierarchy exists, events
// follow that alone, mounted or not. `own` (4096 bytes): our cgroup's path in it.
bool cgroup_mount_find(struct cgroup_mount *mount, char *own, const char *mountinfo, const char *cgroup_file, struct err *err);
// The directory of a cgroup path as /proc/PID/cgroup gives it; false: not below this mount, or too long.
bool cgroup_mount_directory(const struct cgroup_mount *mount, const char *path, char *directory, size_t size);
// Length of the leading part of a cgroup path that ends with the component naming the container or pod; 0: none does.
size_t cgroup_container_in_path(const char *path, const char *prefix);

#endif
