#include "record/cgroup.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/sort.h"
#include "base/vec.h"
#include "proc/procfs.h"

#define OWN_NAME "perfsample-"

enum { DEPTH_MAX = 64, TRIES_MAX = 50, TRY_NS = 2000000 };

static bool host_mount(struct cgroup_mount *mount, char *own, struct err *err)
{
	return cgroup_mount_find(mount, own, "/proc/self/mountinfo", "/proc/self/cgroup", err);
}

// Opens a directory and makes sure that it is of a cgroup file system: an ordinary folder would be refused by the kernel only later.
static bool open_directory(struct cgroup *cgroup, const char *path, struct err *err)
{
	struct statfs fs;

	*cgroup = (struct cgroup){ .fd = -1 };
	int length = snprintf(cgroup->path, sizeof(cgroup->path), "%s", path);
	if (length < 0 || (size_t)length >= sizeof(cgroup->path))
		return err_set(err, STATUS_USAGE, "cgroup path longer than %zu bytes", sizeof(cgroup->path) - 1);
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, STATUS_HOST, "cgroup %s", path);
	if (fstatfs(fd, &fs) != 0 || (fs.f_type != CGROUP2_SUPER_MAGIC && fs.f_type != CGROUP_SUPER_MAGIC)) {
		close(fd);
		return err_set(err, STATUS_HOST, "%s is not a cgroup", path);
	}
	cgroup->fd = fd;
	return true;
}

// Reads a cgroup.procs whole. Pids outside our pid namespace read as 0 and are kept: they are somebody.
static bool read_pids(int dir_fd, struct procfs_ids *out)
{
	int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	int pid;

	if (file == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (fscanf(file, "%d", &pid) == 1)
		vec_push(&out->ids, pid);
	bool good = !ferror(file); // EOPNOTSUPP in threaded cgroups
	fclose(file);
	return good;
}

// Visits every cgroup below, deepest first (so that `visit` may remove). false: a visit said so, or it is too deep.
static bool walk(int dir_fd, unsigned depth, bool (*visit)(int parent_fd, const char *name, int fd, void *context), void *context)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); // a position of its own
	DIR *dir = copy >= 0 && depth < DEPTH_MAX ? fdopendir(copy) : NULL;
	bool good = dir != NULL;

	if (dir == NULL && copy >= 0)
		close(copy);
	for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
		if (entry->d_type != DT_DIR || strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		int fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue; // removed meanwhile
		good &= walk(fd, depth + 1, visit, context);
		good &= visit(dir_fd, entry->d_name, fd, context);
		close(fd);
	}
	if (dir != NULL)
		closedir(dir);
	return good;
}

// A cgroup of ours is locked for as long as its recorder lives: flock(2) is of the directory itself, for all mounts, containers and pid namespaces. (A pid would be another
// process's in another namespace, or nobody's.) Programs that are executed do not inherit the lock.
static bool lock(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; // where nothing can be locked, nothing is ever removed either
}

// Removes what killed runs left: perfsample-PID that nobody has locked. Those with processes in them stay (EBUSY).
static void remove_leftovers(int parent_fd)
{
	int copy = openat(parent_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;

	if (dir == NULL) {
		if (copy >= 0)
			close(copy);
		return;
	}
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		const char *number = entry->d_name + strlen(OWN_NAME);
		if (strncmp(entry->d_name, OWN_NAME, strlen(OWN_NAME)) != 0 || number[strspn(number, "0123456789.")] != '\0' || !isdigit((unsigned char)*number))
			continue;
		int fd = openat(parent_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			continue; // removed meanwhile
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			unlinkat(parent_fd, entry->d_name, AT_REMOVEDIR);
		close(fd);
	}
	closedir(dir);
}

// Below a threaded cgroup a new one is "domain invalid" until it is told to be threaded as well (cgroup-v2.rst, Threads).
static void make_usable(int fd)
{
	char type[32] = "";
	int type_fd = openat(fd, "cgroup.type", O_RDWR | O_CLOEXEC);

	if (type_fd < 0)
		return;
	ssize_t got = read(type_fd, type, sizeof(type) - 1);
	if (got > 0 && strncmp(type, "domain invalid", strlen("domain invalid")) == 0)
		dprintf(type_fd, "threaded"); // if it is refused, moving a process in will say why
	close(type_fd);
}

// One that was just made. Between its making and the lock another recorder may have taken it for a leftover, so it is looked for again once it is locked.
static bool take(struct cgroup *cgroup, const struct cgroup *parent, const char *name, const char *path, struct err *err)
{
	struct stat ours, there;
	if (!open_directory(cgroup, path, err))
		return false;
	if (lock(cgroup->fd) && fstat(cgroup->fd, &ours) == 0 && fstatat(parent->fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && ours.st_ino == there.st_ino)
		return true;
	close(cgroup->fd);
	cgroup->fd = -1;
	return err_set(err, STATUS_HOST, "making a cgroup: %s is another recorder's", path);
}

bool cgroup_create(struct cgroup *cgroup, struct err *err)
{
	struct cgroup_mount mount;
	char own[4096], directory[4096], name[64];
	struct cgroup parent;

	*cgroup = (struct cgroup){ .fd = -1 };
	if (!host_mount(&mount, own, err))
		return false;
	if (!cgroup_mount_directory(&mount, own, directory, sizeof(directory) - sizeof(name)))
		return err_set(err, STATUS_HOST, "our own cgroup %s is not below the mount %s", own, mount.point);
	if (!open_directory(&parent, directory, err))
		return false;
	remove_leftovers(parent.fd);
	// Whoever may make a cgroup but not move processes (no write access to the common ancestor's cgroup.procs) has no use for one.
	if (faccessat(parent.fd, "cgroup.procs", W_OK, AT_EACCESS) != 0) {
		err_errno(err, STATUS_HOST, "moving processes out of cgroup %s", directory);
		close(parent.fd);
		return false;
	}
	size_t length = strlen(directory);
	bool made = false;
	for (int i = 0; i < 100 && !made; i++) {
		snprintf(name, sizeof(name), i == 0 ? OWN_NAME "%d" : OWN_NAME "%d.%d", (int)getpid(), i);
		int error = mkdirat(parent.fd, name, 0755) == 0 ? 0 : errno;
		if (error != 0)
			err_set(err, STATUS_HOST, "making a cgroup in %s: %s", directory, strerror(error));
		if (error == EEXIST)
			continue; // of a recorder in another pid namespace, or a killed one's with processes in it
		if (error != 0)
			break;
		snprintf(directory + length, sizeof(directory) - length, "/%s", name);
		made = take(cgroup, &parent, name, directory, err);
		directory[length] = '\0';
	}
	close(parent.fd);
	if (!made)
		return false;
	make_usable(cgroup->fd);
	cgroup->is_ours = true;
	return true;
}

bool cgroup_open(struct cgroup *cgroup, const char *path, struct err *err)
{
	struct cgroup_mount mount;
	char own[4096], full[4096];
	bool has_mount = host_mount(&mount, own, NULL);

	*cgroup = (struct cgroup){ .fd = -1 };
	if (has_mount) {
		char below[4096];
		int length = snprintf(below, sizeof(below), "%s%s", path[0] == '/' ? "" : "/", path);
		if (length > 0 && (size_t)length < sizeof(below) && cgroup_mount_directory(&mount, below, full, sizeof(full)) &&
		    access(full, F_OK) == 0)
			return open_directory(cgroup, full, err);
	}
	if (path[0] == '/' && access(path, F_OK) == 0)
		return open_directory(cgroup, path, err);
	return err_set(err, STATUS_HOST, "no cgroup %s%s%s", path, has_mount ? " below " : "", has_mount ? mount.point : "");
}

bool cgroup_add(const struct cgroup *cgroup, int32_t pid, struct err *err)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%" PRId32, pid);
	int fd = openat(cgroup->fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, (size_t)length) == length;

	if (!good)
		err_errno(err, STATUS_HOST, "moving pid %s into cgroup %s", text, cgroup->path);
	if (fd >= 0)
		close(fd);
	return good;
}

// ---------------------------------------------------------------- removal

static bool move_and_remove(int parent_fd, const char *name, int fd, void *context)
{
	const struct cgroup *home = context;
	struct procfs_ids ids = { 0 };

	if (read_pids(fd, &ids))
		for (size_t i = 0; i < ids.ids.count; i++)
			cgroup_add(home, ids.ids.data[i], NULL);
	vec_release(&ids.ids);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void cgroup_remove(struct cgroup *cgroup)
{
	char *slash = strrchr(cgroup->path, '/');
	struct cgroup home;

	if (cgroup->fd >= 0 && cgroup->is_ours && slash != NULL) {
		// Daemons that the command left behind go on living, in the cgroup that we came from; new ones may be forked meanwhile.
		*slash = '\0';
		if (open_directory(&home, cgroup->path, NULL)) {
			for (int i = 0; i < TRIES_MAX; i++) {
				walk(cgroup->fd, 0, move_and_remove, &home);
				if (move_and_remove(home.fd, slash + 1, cgroup->fd, &home))
					break;
				nanosleep(&(struct timespec){ .tv_nsec = TRY_NS }, NULL);
			}
			close(home.fd);
		}
	}
	if (cgroup->fd >= 0)
		close(cgroup->fd);
	*cgroup = (struct cgroup){ .fd = -1 };
}

// ---------------------------------------------------------------- a target's own

static int compare_ids(const void *a, const void *b)
{
	int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
	return x < y ? -1 : x > y;
}

static bool collect(int parent_fd, const char *name, int fd, void *context)
{
	(void)parent_fd, (void)name;
	return read_pids(fd, context);
}

bool cgroup_pids(const struct cgroup *cgroup, struct procfs_ids *out)
{
	vec_clear(&out->ids);
	bool good = read_pids(cgroup->fd, out);
	good &= walk(cgroup->fd, 0, collect, out);
	if (out->ids.count > 0)
		sort_stable(out->ids.data, out->ids.count, sizeof(int32_t), compare_ids);
	return good;
}

// Cuts `common` to what it shares with `path`, by whole components.
static void cut_to_common(char *common, const char *path)
{
	size_t same = 0;

	for (size_t i = 0;; i++) {
		bool ends = common[i] == '\0' || common[i] == '/', path_ends = path[i] == '\0' || path[i] == '/';
		if (ends && path_ends)
			same = i;
		if (common[i] != path[i] || common[i] == '\0')
			break;
	}
	common[same] = '\0';
}

static bool holds_path(const char *ancestor, const char *path)
{
	size_t length = strlen(ancestor);
	return strncmp(ancestor, path, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

// Everyone in the cgroup is one of the pids or their descendant.
static bool holds_only(const struct cgroup *cgroup, const int32_t *pids, size_t count)
{
	struct procfs_ids family = { 0 }, members = { 0 };

	procfs_descendants_of(pids, count, &family);
	for (size_t i = 0; i < count; i++)
		vec_push(&family.ids, pids[i]);
	if (family.ids.count > 0)
		sort_stable(family.ids.data, family.ids.count, sizeof(int32_t), compare_ids);
	bool good = cgroup_pids(cgroup, &members);
	for (size_t i = 0; good && i < members.ids.count; i++) {
		const int32_t *member = &members.ids.data[i];
		if (bsearch(member, family.ids.data, family.ids.count, sizeof(int32_t), compare_ids) != NULL)
			continue;
		// Born between the two readings, or ended meanwhile: decided by its parent now.
		struct procfs_status status;
		good = *member > 0 && (!procfs_status(*member, &status) || bsearch(&status.parent_pid, family.ids.data, family.ids.count,
		                                                                  sizeof(int32_t), compare_ids) != NULL);
	}
	vec_release(&family.ids);
	vec_release(&members.ids);
	return good;
}

bool cgroup_of_own(struct cgroup *cgroup, const int32_t *pids, size_t count, const char **why)
{
	struct cgroup_mount mount;
	const char *unused;
	char own[4096], common[4096], path[4096], directory[4096];

	*cgroup = (struct cgroup){ .fd = -1 };
	why = why != NULL ? why : &unused;
	*why = "its cgroup cannot be found";
	if (count == 0 || !host_mount(&mount, own, NULL) || !procfs_cgroup_path(pids[0], common, sizeof(common)))
		return false;
	for (size_t i = 1; i < count; i++) {
		if (!procfs_cgroup_path(pids[i], path, sizeof(path)))
			return false;
		cut_to_common(common, path);
	}
	// The root, or a cgroup that holds ourselves: sampling that would sample the recorder and everyone else.
	*why = "it is in the root cgroup, with others";
	if (common[0] == '\0' || strcmp(common, "/") == 0)
		return false;
	*why = "the recorder is in its cgroup, too";
	if (holds_path(common, own))
		return false;
	*why = "its cgroup cannot be opened";
	if (!cgroup_mount_directory(&mount, common, directory, sizeof(directory)) || !open_directory(cgroup, directory, NULL))
		return false;
	*why = "others are in its cgroup, too";
	if (holds_only(cgroup, pids, count))
		return true;
	close(cgroup->fd);
	cgroup->fd = -1;
	return false;
}
