// Any bytes as an archive: no crash, and nothing but what lies inside the folder. And names and bytes through our writer and back: what was
// written is there.
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "archive/layout.h"
#include "archive/tar.h"
#include "tests/fuzz/replay.h"

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(path);
}

// No link leads out of the folder, whatever stands below it.
static int look_at_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)ftw;
	char target[4096], *resolved;
	if (type == FTW_SL) {
		ssize_t length = readlink(path, target, sizeof(target) - 1);
		if (length <= 0 || target[0] == '/')
			abort();
		resolved = realpath(path, NULL);
		if (resolved != NULL && strstr(resolved, "/perfsample-fuzz-tar-") == NULL)
			abort();
		free(resolved);
	} else if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode)) {
		abort();
	}
	return 0;
}

static int memory_file(const void *bytes, size_t size)
{
	int fd = memfd_create("archive", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
		abort();
	return fd;
}

static void unpack(int fd, int folder_fd)
{
	struct tar_figures figures;
	struct err err = { 0 };
	(void)tar_unpack(fd, folder_fd, &figures, &err);
}

// The first byte says how long the name is, the rest is the file.
static void there_and_back(const uint8_t *data, size_t size, int folder_fd)
{
	size_t length = data[0] < size ? data[0] : size - 1;
	char name[256], back[4096];
	struct tar_writer *tar;
	struct err err = { 0 };
	memcpy(name, data + 1, length);
	name[length] = '\0';
	const uint8_t *bytes = data + 1 + length;
	size -= 1 + length;
	if (!layout_is_inside(name) || strlen(name) != length || length > 200 || size > sizeof(back))
		return;
	int fd = memfd_create("written", MFD_CLOEXEC);
	if (!tar_writer_open(&tar, fd, length % 2 == 0, &err) || !tar_add_file(tar, name, bytes, size, &err) || !tar_writer_close(tar, &err) ||
	    lseek(fd, 0, SEEK_SET) != 0)
		abort();
	struct tar_figures figures;
	if (tar_unpack(fd, folder_fd, &figures, &err)) {
		int file = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW);
		if (figures.files + figures.present != 1 || file < 0)
			abort();
		if (figures.files == 1 && (read(file, back, sizeof(back)) != (ssize_t)size || memcmp(back, bytes, size) != 0))
			abort();
		close(file);
	}
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char outer[] = "/dev/shm/perfsample-fuzz-tar-XXXXXX", inner[64];
	if (size == 0 || mkdtemp(outer) == NULL)
		return 0;
	snprintf(inner, sizeof(inner), "%s/in", outer);
	if (mkdir(inner, 0700) != 0)
		abort();
	int folder_fd = open(inner, O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = memory_file(data, size);
	struct stat st;
	unpack(fd, folder_fd);
	there_and_back(data, size, folder_fd);
	close(fd);
	close(folder_fd);
	nftw(inner, look_at_one, 16, FTW_PHYS);
	nftw(inner, remove_one, 16, FTW_PHYS | FTW_DEPTH);
	if (stat(outer, &st) == 0 && rmdir(outer) != 0) // something stands beside the folder
		abort();
	return 0;
}
