#include "perfdata/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h> // renameat
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/special.h"
#include "base/unfinished.h"

enum { OLD_FILES = 10, TEMPORARY_TRIES = 100 };

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
			unfinished_add(out->folder_fd, name);
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

bool outfile_open(struct outfile *out, const char *path, enum outfile_name kind, int stream_fd, struct err *err)
{
	*out = (struct outfile){ .fd = -1, .folder_fd = -1 };
	if (strcmp(path, "-") == 0) {
		out->fd = fcntl(stream_fd, F_DUPFD_CLOEXEC, 3);
		out->is_stream = true;
		out->path = mem_string("-");
		return out->fd >= 0 || err_errno(err, STATUS_FINISH, "writing to a stream");
	}
	if (!split_path(out, path, err))
		return false;
	struct stat st;
	if (kind == OUTFILE_DEFAULT && fstatat(out->folder_fd, out->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return err_set(err, STATUS_FINISH, "writing %s: it is a folder", out->path);
	enum special special = kind == OUTFILE_NAMED ? special_open(out->folder_fd, out->name, out->path, &out->fd, err) : SPECIAL_NONE;
	out->is_stream = special == SPECIAL_OPEN;
	return special == SPECIAL_OPEN || (special == SPECIAL_NONE && create_temporary(out, err));
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
	unfinished_done(out->temporary);
	free(out->temporary);
	out->temporary = NULL;
	return true;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool outfile_check(const struct outfile *out, struct err *err)
{
	struct stat ours, there;
	if (out->is_stream || fstat(out->fd, &ours) != 0)
		return true;
	bool is_there = fstatat(out->folder_fd, out->name, &there, AT_SYMLINK_NOFOLLOW) == 0;
	if (is_there && is_same(&there, &ours) && lstat(out->path, &there) == 0 && is_same(&there, &ours))
		return true;
	if (ours.st_nlink == 0)
		return err_set(err, STATUS_FINISH, "writing %s: it was %s meanwhile, and what was written is gone", out->path,
		               is_there ? "replaced by another file" : "removed");
	return err_set(err, STATUS_FINISH, "writing %s: it was moved or renamed meanwhile; what was written is in the file that is elsewhere now", out->path);
}

void outfile_close(struct outfile *out)
{
	if (out->temporary != NULL) {
		unlinkat(out->folder_fd, out->temporary, 0);
		unfinished_done(out->temporary);
	}
	if (out->fd >= 0)
		close(out->fd);
	if (out->folder_fd >= 0)
		close(out->folder_fd);
	free(out->path);
	free(out->name);
	free(out->temporary);
	*out = (struct outfile){ .fd = -1, .folder_fd = -1 };
}
