#include "base/special.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/regular.h"

enum { LINKS_MOST = 40, PIPE_TRIES = 50, PIPE_PAUSE_MS = 100 };

bool sudo_user(uid_t *uid, gid_t *gid)
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

// ---------------------------------------------------------------- whose word counts
// In a user namespace that does not have the host's root, files of his belong to nobody there, as does the root folder.
static bool is_trusted(uid_t uid)
{
	struct stat root;
	uid_t sudo;
	gid_t group;
	return uid == geteuid() || uid == 0 || (sudo_user(&sudo, &group) && uid == sudo) || (stat("/", &root) == 0 && uid == root.st_uid);
}

// Whether nobody else can have put this entry into its folder. A group of one's own is no one else.
static bool is_ours(const struct stat *folder, const struct stat *entry)
{
	mode_t others = S_IWOTH | (folder->st_gid != getegid() ? S_IWGRP : 0);
	return is_trusted(entry->st_uid) || (is_trusted(folder->st_uid) && (folder->st_mode & others) == 0);
}

// ---------------------------------------------------------------- following a name
struct place {
	int folder_fd, path_fd;
	char name[NAME_MAX + 1];
	struct stat folder, entry; // of name, not followed
};

static void leave(struct place *place)
{
	if (place->folder_fd >= 0)
		close(place->folder_fd);
	if (place->path_fd >= 0)
		close(place->path_fd);
	place->folder_fd = place->path_fd = -1;
}

static bool look(struct place *place)
{
	place->path_fd = openat(place->folder_fd, place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return place->path_fd >= 0 && fstat(place->path_fd, &place->entry) == 0 && fstat(place->folder_fd, &place->folder) == 0;
}

static bool is_own_descriptor(const struct place *place)
{
	struct statfs system;
	return S_ISLNK(place->entry.st_mode) && fstatfs(place->folder_fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC &&
	       place->name[strspn(place->name, "0123456789")] == '\0';
}

// Goes where the link at `place` leads. false with errno.
static bool follow(struct place *place)
{
	char text[PATH_MAX];
	ssize_t length = readlinkat(place->path_fd, "", text, sizeof(text) - 1);
	if (length < 0)
		return false;
	text[length] = '\0';
	char *slash = strrchr(text, '/'), *name = slash != NULL ? slash + 1 : text;
	if (strlen(name) > NAME_MAX) {
		errno = ENAMETOOLONG;
		return false;
	}
	struct place next = { .folder_fd = -1, .path_fd = -1 };
	// "a/" and "a/..": the folder's own entry. What ends so is a folder, which is told by its mode.
	snprintf(next.name, sizeof(next.name), "%s", *name != '\0' ? name : ".");
	if (slash != NULL)
		slash[slash == text] = '\0';
	next.folder_fd = openat(place->folder_fd, slash != NULL ? text : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (next.folder_fd < 0 || !look(&next)) {
		leave(&next);
		return false;
	}
	leave(place);
	*place = next;
	return true;
}

static const char *kind_text(mode_t mode)
{
	return S_ISFIFO(mode) ? "a pipe" : S_ISSOCK(mode) ? "a socket" : S_ISBLK(mode) || S_ISCHR(mode) ? "a device" : S_ISLNK(mode) ? "a symbolic link" : "a file";
}

static enum special distrust(const struct place *place, const char *shown, struct err *err)
{
	err_set(err, STATUS_FINISH, "writing %s: %s of user %u, in a folder of user %u that others may write to: it is not followed; remove it, or name what it leads to",
	        shown, kind_text(place->entry.st_mode), (unsigned)place->entry.st_uid, (unsigned)place->folder.st_uid);
	return SPECIAL_FAILED;
}

// Opening a named pipe waits for its reader, for ever and behind blocked signals: here for five seconds.
static int open_in_place(const struct place *place)
{
	for (int i = 0;; i++) {
		int fd = path_reopen(place->path_fd, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd >= 0)
			(void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
		if (fd >= 0 || errno != ENXIO || !S_ISFIFO(place->entry.st_mode) || i == PIPE_TRIES)
			return fd;
		nanosleep(&(struct timespec){ .tv_nsec = PIPE_PAUSE_MS * 1000000L }, NULL);
	}
}

static enum special open_special(const struct place *place, const char *shown, int *fd, struct err *err)
{
	*fd = open_in_place(place);
	if (*fd >= 0)
		return SPECIAL_OPEN;
	if (errno == ENXIO && S_ISFIFO(place->entry.st_mode))
		err_set(err, STATUS_FINISH, "writing %s: nothing reads this pipe: start its reader first", shown);
	else
		err_errno(err, STATUS_FINISH, "writing %s", shown);
	return SPECIAL_FAILED;
}

// A descriptor of ours is taken as it is: opened anew, a file would be written from its beginning.
static enum special open_descriptor(const struct place *place, const char *shown, int *fd, struct err *err)
{
	struct stat named, ours;
	int number = atoi(place->name);
	bool is_own = fstatat(place->folder_fd, place->name, &named, 0) == 0 && fstat(number, &ours) == 0 && named.st_dev == ours.st_dev && named.st_ino == ours.st_ino;
	*fd = is_own ? fcntl(number, F_DUPFD_CLOEXEC, 3) : openat(place->folder_fd, place->name, O_WRONLY | O_NOCTTY | O_CLOEXEC);
	if (*fd >= 0)
		return SPECIAL_OPEN;
	err_errno(err, STATUS_FINISH, "writing %s", shown);
	return SPECIAL_FAILED;
}

static enum special find_and_open(struct place *place, const char *shown, int *fd, struct err *err)
{
	bool is_ours_so_far = true;
	struct place distrusted = { 0 };
	for (int links = 0; S_ISLNK(place->entry.st_mode) && links < LINKS_MOST && !is_own_descriptor(place); links++) {
		if (is_ours_so_far && !is_ours(&place->folder, &place->entry)) {
			is_ours_so_far = false;
			distrusted = *place; // what is shown of it alone
		}
		if (!follow(place))
			return SPECIAL_NONE; // it leads nowhere: what comes there is a new file, in the link's place
	}
	mode_t mode = place->entry.st_mode;
	if (S_ISREG(mode) || (S_ISLNK(mode) && !is_own_descriptor(place)))
		return SPECIAL_NONE; // or a circle of links
	if (S_ISDIR(mode)) {
		err_set(err, STATUS_FINISH, "writing %s: it is a folder", shown);
		return SPECIAL_FAILED;
	}
	// A device without a link is there because root made it; a pipe may be anyone's.
	bool is_device = S_ISBLK(mode) || S_ISCHR(mode);
	if (is_ours_so_far && !S_ISLNK(mode) && !is_device && !is_ours(&place->folder, &place->entry)) {
		is_ours_so_far = false;
		distrusted = *place;
	}
	if (!is_ours_so_far)
		return distrust(&distrusted, shown, err);
	return is_own_descriptor(place) ? open_descriptor(place, shown, fd, err) : open_special(place, shown, fd, err);
}

enum special special_open(int folder_fd, const char *name, const char *shown, int *fd, struct err *err)
{
	struct place place = { .folder_fd = fcntl(folder_fd, F_DUPFD_CLOEXEC, 3), .path_fd = -1 };
	*fd = -1;
	enum special found = SPECIAL_NONE;
	if (strlen(name) <= NAME_MAX) {
		snprintf(place.name, sizeof(place.name), "%s", name);
		if (place.folder_fd >= 0 && look(&place))
			found = find_and_open(&place, shown, fd, err);
	}
	leave(&place);
	return found;
}
