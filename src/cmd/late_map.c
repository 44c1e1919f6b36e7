#include "cmd/late_map.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "proc/procfs.h"
#include "proc/space.h"

#define SECOND_NS UINT64_C(1000000000)

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

// A pid is one process's as long as that lives: who has it now and was born before the recording saw it run is the same one.
static bool was_born_before(int32_t pid, uint64_t wall_ns)
{
	struct procfs_birth birth;
	if (!procfs_birth(pid, &birth))
		return false;
	uint64_t age_ticks = procfs_now_ticks() - birth.ticks;
	return clock_ns(CLOCK_REALTIME) - age_ticks * (SECOND_NS / (uint64_t)sysconf(_SC_CLK_TCK)) <= wall_ns;
}

// Whether it runs the program still: what an exec maps anew it maps elsewhere.
static bool has_memory_of(const struct load_process *process)
{
	struct buf records = { 0 };
	struct record_layout layout = { 0 };
	bool has_vdso = false, has_program = false;
	procfs_synthesize((int32_t)process->pid, false, NULL, 0, &records);
	for (size_t at = 0; at < records.size;) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(records.data + at);
		struct record record;
		if (header->size == 0 || !record_decode(&layout, header, header->size, &record, NULL))
			break;
		at += header->size;
		if (record.type != PERF_RECORD_MMAP2)
			continue;
		has_vdso |= dso_kind_of(record.mapping.path, false) == DSO_VDSO && record.mapping.start == process->vdso;
		has_program |= record.mapping.start == process->program_start && strncmp(record.mapping.path, process->program, strlen(process->program)) == 0;
	}
	buf_release(&records);
	return has_vdso && has_program;
}

int late_map_open(const struct load_process *process, uint64_t *written_wall_ns)
{
	struct stat st;
	if (!was_born_before((int32_t)process->pid, process->seen_wall_ns) || !has_memory_of(process))
		return -1;
	int fd = procfs_open_perf_map((int32_t)process->pid, NULL);
	if (fd >= 0 && fstat(fd, &st) == 0) {
		*written_wall_ns = (uint64_t)st.st_mtim.tv_sec * SECOND_NS + (uint64_t)st.st_mtim.tv_nsec;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}
