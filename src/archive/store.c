#include "archive/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

int store_folder(int root_fd, const char *name, const char **last, struct err *err)
{
	int at = dup(root_fd);
	char part[256];
	for (*last = name; at >= 0;) {
		const char *slash = strchr(*last, '/');
		if (slash == NULL)
			return at;
		size_t length = (size_t)(slash - *last);
		if (length >= sizeof(part)) {
			errno = ENAMETOOLONG;
			break;
		}
		memcpy(part, *last, length);
		part[length] = '\0';
		if (mkdirat(at, part, 0755) != 0 && errno != EEXIST)
			break;
		int next = openat(at, part, O_DIRECTORY | O_NOFOLLOW | O_RDONLY | O_CLOEXEC);
		int error = errno;
		close(at);
		at = next;
		errno = error;
		*last = slash + 1;
	}
	int error = errno;
	if (at >= 0)
		close(at);
	errno = error;
	err_errno(err, error == ENOSPC || error == EDQUOT || error == EACCES || error == EROFS ? STATUS_FINISH : STATUS_INPUT, "%s", name);
	return -1;
}

bool store_link_in(int folder_fd, const char *last, const char *name, const char *target, bool *is_there, struct err *err)
{
	bool made = symlinkat(target, folder_fd, last) == 0;
	*is_there = !made && errno == EEXIST;
	return made || *is_there || err_errno(err, STATUS_FINISH, "%s", name);
}

static bool write_all(int fd, const char *bytes, uint64_t size)
{
	while (size > 0) {
		ssize_t n = write(fd, bytes, size < 1 << 20 ? size : 1 << 20);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		bytes += n;
		size -= (uint64_t)n;
	}
	return true;
}

bool store_file(int root_fd, const char *name, const void *bytes, uint64_t size, bool *is_there, struct err *err)
{
	const char *last;
	struct stat st;
	int folder = store_folder(root_fd, name, &last, err);
	if (folder < 0)
		return false;
	*is_there = fstatat(folder, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	char *temporary = mem_printf(".%.200s.%d.tmp", last, (int)getpid());
	bool good = true;
	if (!*is_there) {
		int fd = openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
		good = fd >= 0 && write_all(fd, bytes, size);
		good = (fd < 0 || close(fd) == 0) && good && renameat(folder, temporary, folder, last) == 0;
		if (!good)
			err_errno(err, STATUS_FINISH, "%s", name);
		if (!good && fd >= 0)
			unlinkat(folder, temporary, 0);
	}
	free(temporary);
	close(folder);
	return good;
}

bool store_link(int root_fd, const char *name, const char *target, bool *is_there, struct err *err)
{
	const char *last;
	int folder = store_folder(root_fd, name, &last, err);
	if (folder < 0)
		return false;
	bool good = store_link_in(folder, last, name, target, is_there, err);
	close(folder);
	return good;
}
