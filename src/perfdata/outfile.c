#include "perfdata/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h> // renameat
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { OLD_FILES = 10, TEMPORARY_TRIES = 100 };

// The user behind sudo, who is to own what root writes for him; false: nobody.
static bool sudo_user(uid_t *uid, gid_t *gid)
{
	const char *user = getenv("SUDO_UID"), *group = getenv("SUDO_GID");
	if (geteuid() != 0 || user == NULL || group == NULL || *user == '\0' || *group == '\0')
		return false;
	char *end = NULL, *group_end = NULL;
	unsigned long u = strtoul(user, &end, 10), g = strtoul(group, &group_end, 10);
	if (*end != '\0' || *group_end != '\0' || u >= UINT_MAX || g >= UINT_MAX)
		return false;
	*uid = (uid_t)u;
	*gid = (gid_t)g;
	return true;
}

static bool split_path(struct outfile *out, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash != NULL ? slash + 1 : path;
	if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return err_set(err, STATUS_FINISH, "writing %s: not a name of a file", path);
	char *folder = slash == NULL ? mem_string(".") : slash == path ? mem_string("/") : mem_string_n(path, (size_t)(slash - path));
	out->name = mem_string(name);
	out->folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *full = realpath(folder, NULL);
	if (out->folder_fd < 0 || full == NULL) {
		err_errno(err, STATUS_FINISH, "writing %s: folder %s", path, folder);
		free(folder);
		free(full);
		return false;
	}
	out->path = strcmp(full, "/") == 0 ? mem_printf("/%s", name) : mem_printf("%s/%s", full, name);
	free(folder);
	free(full);
	return true;
}

static bool create_temporary(struct outfile *out, struct err *err)
{
	for (int try = 0; try < TEMPORARY_TRIES; try++) {
		char *name = try == 0 ? mem_printf("%s.%d.tmp", out->name, (int)getpid())
		                      : mem_printf("%s.%d-%d.tmp", out->name, (int)getpid(), try);
		out->fd = openat(out->folder_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (out->fd >= 0) {
			out->temporary = name;
			uid_t uid;
			gid_t gid;
			if (sudo_user(&uid, &gid) && fchown(out->fd, uid, gid) != 0)
				return err_errno(err, STATUS_FINISH, "giving %s to the user behind sudo", out->path);
			return true;
		}
		free(name);
		if (errno != EEXIST)
			break;
	}
	return err_errno(err, STATUS_FINISH, "creating a file beside %s", out->path);
}

enum { PIPE_TRIES = 50, PIPE_PAUSE_MS = 100 };

// Opening a named pipe waits for its reader, for ever and behind blocked signals: here for five seconds.
static int open_special(const struct outfile *out)
{
	for (int i = 0;; i++) {
		int fd = openat(out->folder_fd, out->name, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0)
			(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
		if (fd >= 0 || errno != ENXIO || i == PIPE_TRIES)
			return fd;
		nanosleep(&(struct timespec){ .tv_nsec = PIPE_PAUSE_MS * 1000000L }, NULL);
	}
}

bool outfile_open(struct outfile *out, const char *path, int stream_fd, struct err *err)
{
	*out = (struct outfile){ .fd = -1, .folder_fd = -1 };
	if (strcmp(path, "-") == 0) {
		out->fd = fcntl(stream_fd, F_DUPFD_CLOEXEC, 3);
		out->is_stream = true;
		out->path = mem_string("-");
		return out->fd >= 0 || err_errno(err, STATUS_FINISH, "writing to a stream");
	}
	struct stat st;
	if (!split_path(out, path, err))
		return false;
	if (fstatat(out->folder_fd, out->name, &st, 0) == 0 && !S_ISREG(st.st_mode)) {
		if (S_ISDIR(st.st_mode))
			return err_set(err, STATUS_FINISH, "writing %s: it is a folder", out->path);
		out->is_stream = true;
		out->fd = open_special(out);
		if (out->fd < 0 && errno == ENXIO && S_ISFIFO(st.st_mode))
			return err_set(err, STATUS_FINISH, "writing %s: nothing reads this pipe: start its reader first", out->path);
		return out->fd >= 0 || err_errno(err, STATUS_FINISH, "writing %s", out->path);
	}
	return create_temporary(out, err);
}

static char *old_name(const struct outfile *out, int number)
{
	return number == 0 ? mem_printf("%s.old", out->name) : mem_printf("%s.old.%d", out->name, number);
}

static bool exists(const struct outfile *out, const char *name)
{
	struct stat st;
	return fstatat(out->folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

// Moves NAME out of the way: each .old takes one step up to the first that is free.
static bool make_way(struct outfile *out, struct err *err)
{
	if (!exists(out, out->name))
		return true;
	int free_one = 0;
	for (; free_one < OLD_FILES - 1; free_one++) {
		char *name = old_name(out, free_one);
		bool taken = exists(out, name);
		free(name);
		if (!taken)
			break;
	}
	bool good = true;
	for (int i = free_one; i >= 0 && good; i--) {
		char *from = i > 0 ? old_name(out, i - 1) : mem_string(out->name), *to = old_name(out, i);
		good = renameat(out->folder_fd, from, out->folder_fd, to) == 0 || err_errno(err, STATUS_FINISH, "renaming %s to %s", from, to);
		free(from);
		free(to);
	}
	return good;
}

bool outfile_publish(struct outfile *out, struct err *err)
{
	if (out->is_stream || out->temporary == NULL)
		return true;
	if (!make_way(out, err))
		return false;
	if (renameat(out->folder_fd, out->temporary, out->folder_fd, out->name) != 0)
		return err_errno(err, STATUS_FINISH, "renaming %s to %s", out->temporary, out->path);
	free(out->temporary);
	out->temporary = NULL;
	return true;
}

void outfile_close(struct outfile *out)
{
	if (out->temporary != NULL)
		unlinkat(out->folder_fd, out->temporary, 0);
	if (out->fd >= 0)
		close(out->fd);
	if (out->folder_fd >= 0)
		close(out->folder_fd);
	free(out->path);
	free(out->name);
	free(out->temporary);
	*out = (struct outfile){ .fd = -1, .folder_fd = -1 };
}
