// Files that a recording, a map or a process names. Anything may have that name by now: a pipe, whose opening lets a writer go on, or a device, whose opening acts.
// So it is looked at (O_PATH opens nothing) before it is opened.
#ifndef PERFSAMPLE_BASE_REGULAR_H
#define PERFSAMPLE_BASE_REGULAR_H

// For reading, close-on-exec, without waiting. `flags`: 0 or O_NOFOLLOW. -1 with errno: EISDIR, EINVAL (another kind of file), ELOOP, or why not.
int regular_open(const char *path, int flags);

// Opens what `path_fd` (O_PATH) refers to and nothing else, whatever its name leads to by now. -1 with errno.
int path_reopen(int path_fd, int flags);

#endif
