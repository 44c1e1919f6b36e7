// Files that another process names. Whoever owns that process may have put anything there: a FIFO that never opens, a device whose
// opening acts, a link out of its root, a file of somebody else's. So each is found without leaving the target's root and
// looked at (O_PATH opens nothing) before it is opened.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "proc/procfs_path.h"

// struct open_how and flags of include/uapi/linux/openat2.h (5.6).
struct how { uint64_t flags, mode, resolve; };
#define NO_MAGICLINKS 0x02 // RESOLVE_NO_MAGICLINKS
#define IN_ROOT 0x10       // RESOLVE_IN_ROOT

enum { LINKS_MAX = 40, PATH_BYTES = 4096 }; // MAXSYMLINKS and PATH_MAX of the kernel

static int fail(int fd, int error)
{
	if (fd >= 0)
		close(fd);
	errno = error;
	return -1;
}

int procfs_reopen_regular(int path_fd)
{
	struct stat st;
	char name[64];

	if (path_fd < 0)
		return -1;
	if (fstat(path_fd, &st) != 0)
		return fail(path_fd, errno);
	if (!S_ISREG(st.st_mode))
		return fail(path_fd, S_ISDIR(st.st_mode) ? EISDIR : S_ISLNK(st.st_mode) ? ELOOP : EINVAL);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
	int fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int saved = errno;
	close(path_fd);
	errno = saved;
	return fd;
}

// ---------------------------------------------------------------- without openat2

// Between buffers of one size.
static void copy_text(char *to, const char *from)
{
	memcpy(to, from, strlen(from) + 1);
}

struct path_walk {
	int root, at;                  // at: the directory reached, ours to close
	char pending[2 * PATH_BYTES];  // what is still to be walked
	char resolved[2 * PATH_BYTES]; // components from the root to `at`, each with a slash before it
	unsigned links;
};

static bool to_root(struct path_walk *walk)
{
	if (walk->at >= 0)
		close(walk->at);
	walk->at = openat(walk->root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	walk->resolved[0] = '\0';
	return walk->at >= 0;
}

// One directory further down; `name` is no link.
static bool enter(struct path_walk *walk, int fd, const char *name)
{
	size_t used = strlen(walk->resolved);
	int length = snprintf(walk->resolved + used, sizeof(walk->resolved) - used, "/%s", name);

	if (length < 0 || (size_t)length >= sizeof(walk->resolved) - used)
		return fail(fd, ENAMETOOLONG) == 0;
	close(walk->at);
	walk->at = fd;
	return true;
}

// "..": the way is gone once more without its last component. Opening ".." itself could lead out of the root when a directory is
// moved meanwhile.
static bool ascend(struct path_walk *walk)
{
	char again[sizeof(walk->resolved)], *save = NULL;
	char *last = strrchr(walk->resolved, '/');

	if (last == NULL)
		return true; // the root's own parent is the root
	*last = '\0';
	copy_text(again, walk->resolved);
	if (!to_root(walk))
		return false;
	for (char *name = strtok_r(again, "/", &save); name != NULL; name = strtok_r(NULL, "/", &save)) {
		int fd = openat(walk->at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 || !enter(walk, fd, name))
			return false;
	}
	return true;
}

// Puts a link's text in front of what is pending. Links of procfs that are no text but jump elsewhere are refused, all of them.
static bool follow(struct path_walk *walk, int link_fd, const char *rest)
{
	char text[PATH_BYTES], joined[sizeof(walk->pending)];
	struct statfs fs;

	ssize_t length = readlinkat(link_fd, "", text, sizeof(text) - 1);
	bool magic = fstatfs(link_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
	close(link_fd);
	if (length < 0)
		return false;
	if (magic || ++walk->links > LINKS_MAX) {
		errno = ELOOP;
		return false;
	}
	text[length] = '\0';
	if (length == 0) {
		errno = ENOENT;
		return false;
	}
	int size = snprintf(joined, sizeof(joined), "%s/%s", text, rest);
	if (size < 0 || (size_t)size >= sizeof(joined)) {
		errno = ENAMETOOLONG;
		return false;
	}
	if (*rest == '\0' && text[length - 1] != '/')
		joined[size - 1] = '\0'; // a slash at the end would ask for a directory
	copy_text(walk->pending, joined);
	return text[0] != '/' || to_root(walk);
}

// Walks on until the last component is open (O_PATH). -1 with errno.
static int walk_on(struct path_walk *walk, bool follow_last)
{
	for (;;) {
		char name[256], rest[sizeof(walk->pending)];
		const char *start = walk->pending + strspn(walk->pending, "/");
		size_t length = strcspn(start, "/");
		bool is_last = start[length] == '\0';

		if (length == 0 || (length == 1 && start[0] == '.')) {
			if (is_last)
				return fail(-1, EISDIR);
			memmove(walk->pending, start + length, strlen(start + length) + 1);
			continue;
		}
		if (length >= sizeof(name))
			return fail(-1, ENAMETOOLONG);
		memcpy(name, start, length);
		name[length] = '\0';
		copy_text(rest, is_last ? "" : start + length + 1);
		if (strcmp(name, "..") == 0) {
			if (is_last)
				return fail(-1, EISDIR);
			if (!ascend(walk))
				return -1;
			copy_text(walk->pending, rest);
			continue;
		}
		struct stat st;
		int fd = openat(walk->at, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			return -1;
		if (fstat(fd, &st) != 0)
			return fail(fd, errno);
		if (S_ISLNK(st.st_mode) && (!is_last || follow_last)) {
			if (!follow(walk, fd, rest))
				return -1;
			continue;
		}
		if (is_last)
			return fd;
		if (!S_ISDIR(st.st_mode))
			return fail(fd, ENOTDIR);
		if (!enter(walk, fd, name))
			return -1;
		copy_text(walk->pending, rest);
	}
}

int procfs_path_below_by_walk(int root_fd, const char *path, bool follow_last)
{
	if (path[0] == '\0' || strlen(path) >= PATH_BYTES)
		return fail(-1, path[0] == '\0' ? ENOENT : ENAMETOOLONG);
	struct path_walk *walk = malloc(sizeof(*walk)); // 16 KiB; this may run on a drain thread's small stack one day
	if (walk == NULL)
		return fail(-1, ENOMEM);
	walk->root = root_fd;
	walk->at = -1;
	walk->links = 0;
	copy_text(walk->pending, path);
	int fd = to_root(walk) ? walk_on(walk, follow_last) : -1;
	int saved = errno;
	if (walk->at >= 0)
		close(walk->at);
	free(walk);
	errno = saved;
	return fd;
}

// ---------------------------------------------------------------- with it

int procfs_path_below(int root_fd, const char *path, bool follow_last)
{
#ifdef SYS_openat2
	struct how how = { .flags = O_PATH | O_CLOEXEC | (follow_last ? 0u : O_NOFOLLOW), .resolve = IN_ROOT | NO_MAGICLINKS };
	// EAGAIN: a rename or mount elsewhere made the kernel unsure about a ".."; asking again is what openat2(2) advises.
	for (int tries = 0; tries < 16; tries++) {
		int fd = (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
		if (fd >= 0 || (errno != EAGAIN && errno != ENOSYS && errno != EPERM))
			return fd;
		if (errno != EAGAIN)
			break; // ENOSYS: before 5.6, or valgrind; EPERM: how some container engines' filters say the same
	}
#endif
	return procfs_path_below_by_walk(root_fd, path, follow_last);
}

int procfs_open_below(int root_fd, const char *path)
{
	return procfs_reopen_regular(procfs_path_below(root_fd, path, true));
}

int procfs_root_fd(int32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/root", procfs_task_with_memory(pid));
	return open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

// ---------------------------------------------------------------- perf-PID.map

#define MAP_BYTES_MAX (256ull << 20)

bool procfs_map_is_trusted(const struct stat *st, uid_t target_euid, const char *path, struct err *err)
{
	if (!S_ISREG(st->st_mode))
		return err_set(err, STATUS_INPUT, "map not trusted: not a regular file: %s", path);
	if (st->st_uid != target_euid && st->st_uid != 0)
		return err_set(err, STATUS_INPUT, "map not trusted: owner: %s belongs to uid %u, the process to uid %u", path, (unsigned)st->st_uid,
		               (unsigned)target_euid);
	if (st->st_size < 0 || (uint64_t)st->st_size > MAP_BYTES_MAX)
		return err_set(err, STATUS_INPUT, "map not trusted: size: %s is larger than 256 MiB", path);
	return true;
}

// -1 without text: not there, so that the next place is tried.
static int open_map_below(int root_fd, int32_t number, uid_t euid, struct err *err)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/tmp/perf-%" PRId32 ".map", number);
	int path_fd = procfs_path_below(root_fd, path, false);
	if (path_fd < 0)
		return -1;
	if (fstat(path_fd, &st) != 0 || !procfs_map_is_trusted(&st, euid, path, err)) {
		close(path_fd);
		return -1;
	}
	int fd = procfs_reopen_regular(path_fd);
	if (fd < 0)
		err_errno(err, STATUS_INPUT, "map cannot be read: %s", path);
	return fd;
}

bool procfs_perf_map_place(int32_t pid, struct procfs_map_place *out)
{
	struct procfs_status status;

	if (!procfs_status(pid, &status))
		return false;
	*out = (struct procfs_map_place){ .root_fd = procfs_root_fd(pid), .pid = pid, .ns_pid = status.ns_pid, .euid = status.euid };
	return true;
}

int procfs_open_perf_map_at(const struct procfs_map_place *place, struct err *err)
{
	struct err why = { 0 };
	int fd = -1;

	if (err != NULL)
		err_clear(err);
	if (place->root_fd >= 0)
		fd = open_map_below(place->root_fd, place->ns_pid, place->euid, &why);
	if (fd < 0 && why.status == STATUS_OK) {
		// A runtime that knows its pid outside (or shares our /tmp by a mount) writes the host's.
		int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (root_fd >= 0) {
			fd = open_map_below(root_fd, place->pid, place->euid, &why);
			close(root_fd);
		}
	}
	if (fd < 0 && err != NULL)
		*err = why;
	return fd;
}

int procfs_open_perf_map(int32_t pid, struct err *err)
{
	struct procfs_map_place place;

	if (err != NULL)
		err_clear(err);
	if (!procfs_perf_map_place(pid, &place))
		return -1;
	int fd = procfs_open_perf_map_at(&place, err);
	if (place.root_fd >= 0)
		close(place.root_fd);
	return fd;
}

int procfs_open_jitdump(int32_t pid, const char *path, struct err *err)
{
	enum { BYTES_MOST = 1 << 30 };
	struct procfs_status status;
	struct stat st;

	if (!procfs_status(pid, &status))
		return -1;
	int root_fd = procfs_root_fd(pid);
	if (root_fd < 0)
		return -1;
	int fd = procfs_path_below(root_fd, path, false);
	close(root_fd);
	if (fd < 0)
		return -1;
	fd = procfs_reopen_regular(fd);
	if (fd < 0) {
		err_errno(err, STATUS_HOST, "jitdump not trusted: %s", path);
		return -1;
	}
	if (fstat(fd, &st) == 0 && (st.st_uid == status.euid || st.st_uid == 0) && st.st_size <= BYTES_MOST)
		return fd;
	close(fd);
	err_set(err, STATUS_HOST, "jitdump not trusted: owner or size: %s belongs to uid %u, the process to uid %u", path, (unsigned)st.st_uid,
	        (unsigned)status.euid);
	return -1;
}
