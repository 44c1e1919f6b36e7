#include "base/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

int path_reopen(int path_fd, int flags)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", path_fd);
	return open(path, flags);
}

// Where there is no /proc: by name, and only if it leads to the same file still.
static int open_by_name(const char *path, int flags, const struct stat *looked_at)
{
	struct stat st;
	int fd = open(path, flags);
	if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_dev != looked_at->st_dev || st.st_ino != looked_at->st_ino)) {
		close(fd);
		errno = ESTALE;
		return -1;
	}
	return fd;
}

int regular_open(const char *path, int flags)
{
	enum { HOW = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };
	struct stat st;
	int path_fd = open(path, O_PATH | O_CLOEXEC | flags), fd = -1;
	if (path_fd < 0)
		return -1;
	int error = fstat(path_fd, &st) != 0 ? errno : S_ISREG(st.st_mode) ? 0 : S_ISDIR(st.st_mode) ? EISDIR : S_ISLNK(st.st_mode) ? ELOOP : EINVAL;
	if (error == 0) {
		fd = path_reopen(path_fd, HOW);
		if (fd < 0 && errno == ENOENT)
			fd = open_by_name(path, HOW | flags, &st);
		error = errno;
	}
	close(path_fd);
	if (fd < 0)
		errno = error;
	return fd;
}
