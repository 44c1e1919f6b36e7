#include "load/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/regular.h"
#include "load/symbols.h"
#include "profile/samples.h"

enum { MAP_BYTES_MOST = 256 << 20 };
// How much older than the write a time stamp may be (a clock tick), and what two readings of clocks may differ by.
#define STAMP_NS (UINT64_C(50) * 1000 * 1000)

// In /tmp, for everyone to write, so only a regular file of root's or our own, and no link. The target's user is not known any more.
static int open_trusted(const char *path, struct stat *st)
{
	int fd = regular_open(path, O_NOFOLLOW);
	if (fd < 0)
		return -1;
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode) && (st->st_uid == 0 || st->st_uid == geteuid()) && st->st_size <= MAP_BYTES_MOST)
		return fd;
	close(fd);
	return -1;
}

static uint64_t number_in(const struct names *names, const char *key)
{
	const char *text = names != NULL ? names_meta_get(names, key) : NULL;
	return text != NULL ? strtoull(text, NULL, 10) : 0;
}

// A time of the recording by the wall clock; 0: the recording does not tell.
static uint64_t wall_of(const struct loader *loader, uint64_t time_ns)
{
	const struct reader_features *features = reader_features(loader->reader);
	uint64_t start_ns = number_in(features->names, "start.ns"), start_wall_ns = number_in(features->names, "start.wall_ns");
	if (start_ns != 0 && start_wall_ns != 0)
		return start_wall_ns + (time_ns - start_ns);
	return features->has_clock_data ? features->wall_time_ns + (time_ns - features->clockid_time_ns) : 0;
}

// A map is what the last program left.
static bool is_last_program(const struct loader *loader, const struct profile_dso *row)
{
	const struct process *process = spaces_find_process(loader->spaces, (int32_t)row->pid);
	return process == NULL || process->program_ns == row->since_ns;
}

int perf_map_open(struct loader *loader, const struct profile_dso *row, char *path, size_t size)
{
	const char *symfs = loader->options->symfs;
	struct stat st;
	if ((symfs == NULL && !symbols_are_of_this_host(loader)) || !is_last_program(loader, row) ||
	    (size_t)snprintf(path, size, "%s/tmp/perf-%u.map", symfs != NULL ? symfs : "", row->pid) >= size)
		return -1;
	int fd = open_trusted(path, &st);
	// Below symfs lie copies, which have times of their own.
	uint64_t since_wall_ns = row->since_ns != 0 && symfs == NULL ? wall_of(loader, row->since_ns) : 0;
	if (fd < 0 || (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec + STAMP_NS >= since_wall_ns)
		return fd;
	loader_caveat(loader, "%s is older than the program that ran under that pid: it names nothing", path);
	close(fd);
	return -1;
}

// The address spaces are those of the end.
static bool describe(const struct loader *loader, const struct profile_dso *row, struct load_process *out)
{
	const struct process *process = spaces_find_process(loader->spaces, (int32_t)row->pid);
	if (process == NULL || process->exited || process->program_ns != row->since_ns || loader->last_ns == 0)
		return false;
	*out = (struct load_process){ .pid = row->pid };
	for (uint32_t i = 0; i < process->maps->count; i++) {
		const struct mapping *mapping = &process->maps->items[i];
		const struct dso *dso = dso_get(spaces_dsos(loader->spaces), mapping->dso);
		if (dso->kind == DSO_VDSO)
			out->vdso = mapping->start;
		if (dso->kind == DSO_FILE && out->program == NULL) {
			out->program = dso->path;
			out->program_start = mapping->start;
		}
	}
	return out->vdso != 0 && out->program != NULL;
}

// When a process was last sampled; 0: never.
static uint64_t last_sampled(const struct loader *loader, uint32_t pid)
{
	const struct profile *profile = loader->profile;
	struct profile_sample room;
	for (size_t i = profile->samples.count; i > 0; i--) {
		const struct profile_sample *sample = samples_get(&profile->samples, i - 1, &room);
		if (sample->pid == (int32_t)pid)
			return sample->time_ns;
	}
	return 0;
}

int perf_map_open_late(struct loader *loader, const struct profile_dso *row)
{
	uint64_t written_ns, seen_ns = last_sampled(loader, row->pid), end_ns = number_in(reader_features(loader->reader)->names, "end.ns");
	struct load_process process;
	if (loader->options->late_map == NULL || loader->options->symfs != NULL || seen_ns == 0 || !symbols_are_of_this_host(loader) ||
	    !describe(loader, row, &process))
		return -1;
	process.seen_wall_ns = wall_of(loader, seen_ns);
	uint64_t end_wall_ns = wall_of(loader, end_ns != 0 ? end_ns : loader->last_ns);
	int fd = process.seen_wall_ns != 0 ? loader->options->late_map(&process, &written_ns) : -1;
	if (fd < 0)
		return -1;
	if (written_ns <= end_wall_ns) { // the recorder has read it
		close(fd);
		return -1;
	}
	loader_caveat(loader, "names of code that %s[%u] generated are partly from a map that it wrote %.0f s after the recording ended: code that was discarded or moved in between may be "
	              "misnamed", row->process != 0 ? profile_text(loader->profile, row->process) : "process ", row->pid, (double)(written_ns - end_wall_ns) / 1e9);
	return fd;
}
