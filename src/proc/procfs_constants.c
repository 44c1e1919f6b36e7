// What a JIT compiler keeps beside its code, read from the memory of its process.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "proc/procfs.h"
#include "proc/procfs_read.h"

enum { MAPPING_BYTES_MOST = 1 << 20, ALL_BYTES_MOST = 4 << 20 };

int procfs_memory_open(int32_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", pid);
	return open(path, O_RDONLY | O_CLOEXEC);
}

size_t procfs_memory_read(int fd, uint64_t addr, void *to, size_t size)
{
	size_t done = 0;

	while (done < size) {
		ssize_t got = pread(fd, (char *)to + done, size - done, (off_t)(addr + done));
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

size_t procfs_read_memory(int32_t pid, uint64_t addr, void *to, size_t size)
{
	int fd = procfs_memory_open(pid);

	if (fd < 0)
		return 0;
	size_t done = procfs_memory_read(fd, addr, to, size);
	close(fd);
	return done;
}

bool procfs_constants(int32_t pid, procfs_constants_fn *take, void *context)
{
	struct proc_lines lines;
	struct proc_mapping mapping;
	char path[64], *line;
	size_t length, all = 0;

	pid = procfs_task_with_memory(pid);
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/maps", pid);
	int fd = procfs_memory_open(pid);
	if (fd < 0)
		return false;
	if (!proc_lines_open(&lines, path)) {
		close(fd);
		return false;
	}
	void *bytes = mem_alloc(MAPPING_BYTES_MOST);
	while ((line = proc_lines_next(&lines, &length)) != NULL) {
		if (!proc_mapping_parse(line, &mapping) || mapping.protection != PROT_READ || mapping.is_shared || mapping.inode != 0 || (mapping.path[0] != '\0' && strncmp(mapping.path, "[anon", 5) != 0) ||
		    mapping.end - mapping.start > MAPPING_BYTES_MOST || mapping.end - mapping.start > ALL_BYTES_MOST - all)
			continue;
		size_t size = procfs_memory_read(fd, mapping.start, bytes, (size_t)(mapping.end - mapping.start));
		all += size;
		take(context, mapping.start, bytes, size);
	}
	free(bytes);
	proc_lines_close(&lines);
	close(fd);
	return true;
}
