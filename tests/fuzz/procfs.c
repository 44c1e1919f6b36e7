// Any bytes as a line of /proc/PID/maps, a stat, a line of cgroup, a CPU list, a container's path: no crash, results within the text.
#include <sys/mman.h>

#include "proc/procfs.h"
#include "proc/procfs_read.h"
#include "record/cgroup.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = mem_string_n((const char *)data, size), *copy = mem_string_n((const char *)data, size);
	size_t length = strlen(text);
	struct proc_mapping mapping;
	struct proc_stat stat;
	bool is_v1;

	if (proc_mapping_parse(copy, &mapping)) {
		if (mapping.end <= mapping.start || mapping.path < copy || mapping.path > copy + length || strlen(mapping.path) > length)
			abort();
		if ((mapping.protection & ~(uint32_t)(PROT_READ | PROT_WRITE | PROT_EXEC)) != 0)
			abort();
	}
	proc_stat_parse(text, &stat);
	const char *path = procfs_cgroup_line(text, &is_v1);
	if (path != NULL && (path < text || path > text + length || *path != '/'))
		abort();
	if (cgroup_container_in_path(text, "4f3c") > length)
		abort();
	struct cgroup_mount mount = { .point = "/sys/fs/cgroup", .root = "/docker" };
	char directory[64];
	if (cgroup_mount_directory(&mount, text, directory, sizeof(directory)) && strncmp(directory, mount.point, strlen(mount.point)) != 0)
		abort();
	uint32_t *cpus = NULL;
	size_t count = 0;
	if (procfs_cpu_list_parse(text, &cpus, &count) && count == 0)
		abort();
	free(cpus);
	free(text);
	free(copy);
	return 0;
}
