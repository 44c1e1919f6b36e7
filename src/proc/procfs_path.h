// Untrusted paths, in the steps that procfs_open_below is made of; for procfs*.c and its tests.
#ifndef PERFSAMPLE_PROC_PROCFS_PATH_H
#define PERFSAMPLE_PROC_PROCFS_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

// The file as an O_PATH descriptor: nothing is opened yet. -1 with errno. `follow_last` false: a link at the end is itself what is found.
int procfs_path_below(int root_fd, const char *path, bool follow_last);
// The same by walking, as on kernels without openat2.
int procfs_path_below_by_walk(int root_fd, const char *path, bool follow_last);
// Closes an O_PATH descriptor and opens its file for reading if it is a regular one. -1 with errno (EISDIR, ELOOP: a link, EINVAL).
int procfs_reopen_regular(int path_fd);
int procfs_root_fd(int32_t pid); // /proc/PID/root as O_PATH; -1 with errno
// Whether a perf-PID.map may be believed: regular, owned by the target's user or root, at most 256 MiB.
bool procfs_map_is_trusted(const struct stat *st, uid_t target_euid, const char *path, struct err *err);

#endif
