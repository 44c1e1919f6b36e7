// The file behind a mapping, while the process lives: found in several ways, and believed only when it is the one that is mapped.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "elf/vdso.h"
#include "proc/procfs.h"
#include "proc/procfs_memory.h"
#include "proc/procfs_path.h"
#include "proc/procfs_read.h"

enum { PAGE_BYTES = 4096, PAGES_COMPARED = 16, PATCHED_BYTES_MAX = 64 };

struct wanted { // what is looked for, and whose
	int32_t pid;
	const struct dso *dso;
	uint64_t start, end, pgoff;
};

enum verdict { SAME, OTHER, UNSURE };

// Device and inode are what the kernel's record and maps say of the mapped file. Equal: the same. On btrfs and overlayfs stat answers
// with a device of the subvolume's or the mount's own while the record has the superblock's, so another device proves nothing;
// nor does another inode on overlayfs, where the record may have the lower file's (before 6.8).
// Inode numbers are used again (ext4: at once); the generation, where the record and the file system have one, tells the users apart.
static enum verdict compare_inode(int fd, const struct stat *st, const struct dso *dso)
{
	long generation = 0; // the ioctl is declared with a long and writes an int

	if (dso->inode == 0)
		return UNSURE;
	if (st->st_ino == dso->inode && dso->inode_generation != 0 && ioctl(fd, FS_IOC_GETVERSION, &generation) == 0 &&
	    (uint32_t)generation != (uint32_t)dso->inode_generation)
		return OTHER;
	if (st->st_ino == dso->inode)
		return major(st->st_dev) == dso->major && minor(st->st_dev) == dso->minor ? SAME : UNSURE;
	// An inode of the very device that the record names is certainly another file.
	return major(st->st_dev) == dso->major && minor(st->st_dev) == dso->minor ? OTHER : UNSURE;
}

// Pages of the mapping, spread evenly, against the file's. Code is not relocated, so they are equal but for the few bytes that a
// breakpoint or probe replaced.
static enum verdict compare_text(const struct wanted *wanted, int fd)
{
	char path[64];
	uint8_t mapped[PAGE_BYTES], stored[PAGE_BYTES];
	uint64_t pages = (wanted->end - wanted->start) / PAGE_BYTES, step = pages > PAGES_COMPARED ? pages / PAGES_COMPARED : 1;
	unsigned compared = 0;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", wanted->pid);
	int mem = open(path, O_RDONLY | O_CLOEXEC);
	if (mem < 0)
		return UNSURE;
	enum verdict verdict = SAME;
	for (uint64_t page = 0; page < pages && verdict == SAME && compared < PAGES_COMPARED; page += step) {
		if (pread(mem, mapped, PAGE_BYTES, (off_t)(wanted->start + page * PAGE_BYTES)) != PAGE_BYTES)
			break; // unmapped meanwhile, or past the file's end
		ssize_t got = pread(fd, stored, PAGE_BYTES, (off_t)(wanted->pgoff + page * PAGE_BYTES));
		if (got <= 0) {
			verdict = OTHER;
			break;
		}
		unsigned different = 0;
		for (ssize_t i = 0; i < got; i++)
			different += mapped[i] != stored[i];
		if (different > PATCHED_BYTES_MAX)
			verdict = OTHER;
		compared++;
	}
	close(mem);
	return verdict == SAME && compared == 0 ? UNSURE : verdict;
}

// Takes the descriptor over. `is_mapping`: reached through the mapping itself, so that without any identity to compare it is believed.
static bool accept_file(struct image **out, const struct wanted *wanted, int fd, bool is_mapping, struct err *err)
{
	const struct dso *dso = wanted->dso;
	struct stat st;
	struct image *image = NULL;
	bool good = false;

	if (fstat(fd, &st) != 0) {
		err_errno(err, STATUS_INPUT, "%s", dso->path);
		close(fd);
		return false;
	}
	enum verdict verdict = compare_inode(fd, &st, dso);
	if (verdict == OTHER && dso->build_id.size == 0) {
		err_set(err, STATUS_INPUT, "%s is not the file that is mapped (inode %llu, expected %llu%s)", dso->path, (unsigned long long)st.st_ino,
		        (unsigned long long)dso->inode, st.st_ino == dso->inode ? " of another generation" : "");
	} else if (image_open_fd(&image, fd, dso->path, err)) {
		if (dso->build_id.size > 0) {
			verdict = build_id_equal(&image->build_id, &dso->build_id) ? SAME : OTHER;
			if (verdict == OTHER)
				err_set(err, STATUS_INPUT, "%s is not the file that is mapped (another build ID)", dso->path);
		} else if (verdict == UNSURE) {
			verdict = compare_text(wanted, fd);
			if (verdict == OTHER)
				err_set(err, STATUS_INPUT, "%s is not the file that is mapped (other contents)", dso->path);
			else if (verdict == UNSURE && (is_mapping || st.st_ino == dso->inode || dso->inode == 0))
				verdict = SAME; // the mapping's own file; or path and inode agree; or the record names a path and no more
			else if (verdict == UNSURE)
				err_set(err, STATUS_INPUT, "%s may not be the file that is mapped (device %u:%u, expected %u:%u)", dso->path, major(st.st_dev),
				        minor(st.st_dev), dso->major, dso->minor);
		}
		good = verdict == SAME;
	}
	close(fd);
	if (good) {
		*out = image;
		return true;
	}
	image_release(image);
	return false;
}

// map_files leads to the mapped file itself, deleted or renamed as it may be. Needs CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN, and the
// mapping as it was recorded (mprotect may have split it since). -1 with errno.
static int map_file_fd(int32_t pid, uint64_t start, uint64_t end)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/map_files/%" PRIx64 "-%" PRIx64, pid, start, end);
	return procfs_reopen_regular(open(path, O_PATH | O_CLOEXEC));
}

static bool open_map_file(struct image **out, const struct wanted *wanted, struct err *err)
{
	int fd = map_file_fd(wanted->pid, wanted->start, wanted->end);
	if (fd < 0)
		return err_errno(err, errno == EPERM || errno == EACCES ? STATUS_HOST : STATUS_INPUT, "%s of pid %" PRId32 " through map_files",
		                 wanted->dso->path, wanted->pid);
	return accept_file(out, wanted, fd, true, err);
}

// /proc/PID/exe opens the program even when it was deleted.
static bool open_exe(struct image **out, const struct wanted *wanted, struct err *err)
{
	char path[64], target[4200];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/exe", wanted->pid);
	ssize_t length = readlink(path, target, sizeof(target) - 1);
	if (length <= 0)
		return false;
	target[length] = '\0';
	size_t name = strlen(wanted->dso->path);
	if (strncmp(target, wanted->dso->path, name) != 0 || (target[name] != '\0' && strcmp(target + name, " (deleted)") != 0))
		return false;
	int fd = procfs_reopen_regular(open(path, O_PATH | O_CLOEXEC));
	return fd >= 0 && accept_file(out, wanted, fd, false, err);
}

static bool open_below_root(struct image **out, const struct wanted *wanted, int root_fd, struct err *err)
{
	if (root_fd < 0)
		return false;
	int fd = procfs_open_below(root_fd, wanted->dso->path);
	int error = errno;
	close(root_fd);
	if (fd >= 0)
		return accept_file(out, wanted, fd, false, err);
	errno = error;
	return err_errno(err, error == EACCES || error == EPERM ? STATUS_HOST : STATUS_INPUT, "%s of pid %" PRId32, wanted->dso->path, wanted->pid);
}

bool procfs_open_image(struct image **out, int32_t pid, const struct dso *dso, uint64_t start, uint64_t end, uint64_t pgoff, struct err *err)
{
	struct wanted wanted = { procfs_task_with_memory(pid), dso, start, end, pgoff };
	struct err here = { 0 }, memory = { 0 };
	bool has_identity = dso->inode != 0 || dso->build_id.size > 0;

	*out = NULL;
	if (end <= start)
		return err_set(err, STATUS_INPUT, "%s: an empty mapping", dso->path);
	if (open_map_file(out, &wanted, &here))
		return true;
	bool is_path = dso->path[0] == '/';
	if (is_path && open_exe(out, &wanted, &here))
		return true;
	if (is_path && (!dso->deleted || has_identity) && open_below_root(out, &wanted, procfs_root_fd(pid), &here))
		return true;
	if (procfs_image_from_memory(out, pid, dso, start, &memory))
		return true;
	// The process has ended (a short one, met for the first time): its file, if it is still there for us too and certainly the same.
	if (is_path && has_identity &&
	    open_below_root(out, &wanted, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), &here))
		return true;
	if (err != NULL)
		*err = here;
	return err_set(err, here.status == STATUS_HOST || memory.status == STATUS_HOST ? STATUS_HOST : STATUS_INPUT, "%s; nor from its memory: %s",
	               here.text, memory.text);
}

bool procfs_maps_other(int32_t pid, const struct dso *dso, uint64_t start, uint64_t end)
{
	struct stat st;
	int fd = map_file_fd(procfs_task_with_memory(pid), start, end);
	bool is_itself = fd >= 0;

	if (fd < 0 && dso->path[0] == '/' && !dso->deleted) {
		int root_fd = procfs_root_fd(pid);
		fd = root_fd >= 0 ? procfs_open_below(root_fd, dso->path) : -1;
		if (root_fd >= 0)
			close(root_fd);
	}
	if (fd < 0)
		return false;
	bool is_other = (is_itself || (fstat(fd, &st) == 0 && compare_inode(fd, &st, dso) != OTHER)) && image_is_other(fd);
	close(fd);
	return is_other;
}

// ---------------------------------------------------------------- the vdso

// Ours stands for that of a process that is gone, or not ours to read, when its mapping is as large.
static bool own_vdso(struct image **out, uint64_t size)
{
	struct image *image = vdso_own();
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	if (image != NULL && (image->size + page - 1) / page * page == size) {
		*out = image;
		return true;
	}
	image_release(image);
	return false;
}

bool procfs_open_vdso(struct image **out, int32_t pid, uint64_t start, uint64_t end, struct err *err)
{
	char path[64];

	*out = NULL;
	if (end <= start || end - start > VDSO_BYTES_MAX)
		return err_set(err, STATUS_INPUT, "[vdso] of pid %" PRId32 ": %llu bytes, expected at most 1 MiB", pid, (unsigned long long)(end - start));
	size_t size = (size_t)(end - start);
	void *bytes = mem_alloc(size);
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", procfs_task_with_memory(pid));
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool good = fd >= 0 && pread(fd, bytes, size, (off_t)start) == (ssize_t)size;
	int error = errno;
	if (fd >= 0)
		close(fd);
	if (good)
		good = image_open_bytes(out, bytes, size, true, "[vdso]", err);
	else if (!(good = start >> 32 != 0 && own_vdso(out, size))) { // a 32-bit process has another
		errno = error;
		err_errno(err, STATUS_HOST, "[vdso] of pid %" PRId32, pid);
	}
	free(bytes);
	return good;
}
