#include "record/jit_files.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/vec.h"
#include "proc/procfs.h"

#define SECOND_NS UINT64_C(1000000000)
// How much older than the write a time stamp may be: file systems take the time of the last tick (current_time() in fs/inode.c), 10 ms at HZ=100.
#define TICK_NS (UINT64_C(10) * 1000 * 1000)

enum errand_kind { ERRAND_MAP, ERRAND_EXITED, ERRAND_OVER, ERRAND_DUMP };
struct errand {
	enum errand_kind kind;
	struct jit_program program;
	uint64_t time_ns;
	char *path; // ERRAND_DUMP
};
struct errands { VEC(struct errand) all; };

// A file as it was at a look.
struct look { uint64_t dev, inode, size, mtime_ns, at_ns; };

struct map {
	struct jit_program program;
	int fd;                        // -1: not there yet, then the place is known; or not believed
	int copy_fd;                   // what was in it, when that was certainly this program's; -1: no copy
	int tail_fd;                   // what this program put behind another one's lines; -1: not asked for, or all is its own
	struct procfs_map_place place; // root_fd -1: not kept, or the process was gone
	struct look look;              // at `fd`, while the program ran
	uint64_t over_ns;              // wall clock; 0: it is the last one of its pid
};
struct dump { struct jit_program program; int fd; char *path; };

struct jit_files {
	struct perf_clock clock;
	struct hash_map asked; // drain thread: programs whose map was asked for
	struct errands wanted; // drain thread
	struct errands batch;  // the helper's while `is_handed`
	_Atomic bool is_handed;
	// The helper's.
	VEC(struct map) maps;
	VEC(struct dump) dumps;
	unsigned places;       // that are kept
	uint64_t copied_bytes;
	char refusal[320];
};

struct jit_files *jit_files_new(const struct perf_clock *clock)
{
	struct jit_files *files = NEW(struct jit_files);
	files->clock = *clock;
	return files;
}

// ---------------------------------------------------------------- drain thread
static uint64_t key_of(struct jit_program program)
{
	return hash_pair((uint32_t)program.pid, program.since_ns);
}

static void ask(struct jit_files *files, enum errand_kind kind, struct jit_program program, uint64_t time_ns, const char *path)
{
	vec_push(&files->wanted.all, (struct errand){ kind, program, time_ns, path != NULL ? mem_string(path) : NULL });
}

bool jit_files_want_map(struct jit_files *files, struct jit_program program)
{
	bool is_new;
	hash_map_put(&files->asked, key_of(program), 1, &is_new);
	if (is_new)
		ask(files, ERRAND_MAP, program, 0, NULL);
	return is_new;
}

static bool was_asked(const struct jit_files *files, struct jit_program program)
{
	return files->asked.count > 0 && hash_map_get(&files->asked, key_of(program)) != NULL;
}

void jit_files_exited(struct jit_files *files, struct jit_program program)
{
	if (was_asked(files, program))
		ask(files, ERRAND_EXITED, program, 0, NULL);
}

void jit_files_over(struct jit_files *files, struct jit_program program, uint64_t time_ns)
{
	if (was_asked(files, program))
		ask(files, ERRAND_OVER, program, time_ns, NULL);
}

void jit_files_want_dump(struct jit_files *files, struct jit_program program, const char *path)
{
	ask(files, ERRAND_DUMP, program, 0, path);
}

bool jit_files_is_waiting(const struct jit_files *files)
{
	return files->wanted.all.count > 0;
}

bool jit_files_is_handed(const struct jit_files *files)
{
	return atomic_load_explicit(&files->is_handed, memory_order_acquire);
}

bool jit_files_hand(struct jit_files *files)
{
	if (files->wanted.all.count == 0 || jit_files_is_handed(files))
		return false;
	struct errands empty = files->batch;
	files->batch = files->wanted;
	files->wanted = empty;
	atomic_store_explicit(&files->is_handed, true, memory_order_release);
	return true;
}

// ---------------------------------------------------------------- time
static uint64_t wall_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static uint64_t wall_of(const struct perf_clock *clock, uint64_t time_ns)
{
	return time_ns + (wall_ns() - perf_clock_ns(clock));
}

// When a program began; of one that was there before the records, when its process did. 0: nobody knows.
static uint64_t began_at(const struct perf_clock *clock, struct jit_program program)
{
	struct procfs_birth birth;
	if (program.since_ns != 0)
		return wall_of(clock, program.since_ns);
	if (!procfs_birth(program.pid, &birth))
		return 0;
	uint64_t now_ticks = procfs_now_ticks(), ticks_a_second = (uint64_t)sysconf(_SC_CLK_TCK);
	uint64_t age_ticks = now_ticks > birth.ticks ? now_ticks - birth.ticks : 0;
	return wall_ns() - (age_ticks + 1) * (SECOND_NS / ticks_a_second);
}

static bool look_at(int fd, struct look *out)
{
	struct stat st;
	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size < 0)
		return false;
	*out = (struct look){ st.st_dev, st.st_ino, (uint64_t)st.st_size, (uint64_t)st.st_mtim.tv_sec * SECOND_NS + (uint64_t)st.st_mtim.tv_nsec,
	                      wall_ns() };
	return true;
}

static bool is_same(const struct look *a, const struct look *b)
{
	return a->dev == b->dev && a->inode == b->inode && a->size == b->size && a->mtime_ns == b->mtime_ns;
}

// Whether all that the file holds was written before the next program began.
static bool is_before(const struct map *map, const struct look *now, uint64_t over_ns)
{
	return now->mtime_ns + TICK_NS <= over_ns || (is_same(&map->look, now) && map->look.at_ns < over_ns);
}

// ---------------------------------------------------------------- helper thread: maps
static void refuse(struct jit_files *files, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void refuse(struct jit_files *files, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	if (files->refusal[0] == '\0')
		vsnprintf(files->refusal, sizeof(files->refusal), format, args);
	va_end(args);
}

static struct map *find_map(struct jit_files *files, struct jit_program program)
{
	for (size_t i = 0; i < files->maps.count; i++)
		if (files->maps.data[i].program.pid == program.pid && files->maps.data[i].program.since_ns == program.since_ns)
			return &files->maps.data[i];
	return NULL;
}

static struct map *map_of(struct jit_files *files, struct jit_program program)
{
	struct map *known = find_map(files, program);
	struct map map = { .program = program, .fd = -1, .copy_fd = -1, .tail_fd = -1 };
	if (known != NULL)
		return known;
	if (files->places >= JIT_FILES_PLACES_MOST)
		return NULL;
	if (!procfs_perf_map_place(program.pid, &map.place)) {
		// It was too short for us. Whose it was is not known any more: root's or our own map is believed, if it is not older.
		if (program.since_ns == 0)
			return NULL;
		map.place = (struct procfs_map_place){ .root_fd = -1, .pid = program.pid, .ns_pid = program.pid, .euid = geteuid() };
	}
	files->places += map.place.root_fd >= 0;
	vec_push(&files->maps, map);
	return &files->maps.data[files->maps.count - 1];
}

static void leave_place(struct jit_files *files, struct map *map)
{
	if (map->place.root_fd < 0)
		return;
	close(map->place.root_fd);
	map->place.root_fd = -1;
	files->places--;
}

// Bytes [from, to) of a file in memory of our own; -1: they are not to be had, or too many.
static int copy_of(struct jit_files *files, int fd, uint64_t from, uint64_t to)
{
	char block[16384];
	if (from >= to || to - from > JIT_FILES_COPIES_BYTES_MOST - files->copied_bytes)
		return -1;
	int copy = memfd_create("perfsample map", MFD_CLOEXEC);
	for (uint64_t at = from; copy >= 0 && at < to;) {
		size_t want = to - at < sizeof(block) ? (size_t)(to - at) : sizeof(block);
		ssize_t got = pread(fd, block, want, (off_t)at);
		if (got <= 0 || write(copy, block, (size_t)got) != got) {
			close(copy);
			return -1;
		}
		at += (uint64_t)got;
	}
	files->copied_bytes += copy >= 0 ? to - from : 0;
	return copy;
}

static void drop_copy(struct jit_files *files, struct map *map)
{
	struct look look;
	if (look_at(map->copy_fd, &look)) {
		files->copied_bytes -= look.size;
		close(map->copy_fd);
	}
	map->copy_fd = -1;
}

// The map as it is now, if it is this program's. Java writes its map as it ends (DumpPerfMapAtExit): where it will be is known while it lives.
static void serve_map(struct jit_files *files, struct jit_program program, bool is_first)
{
	struct err err = { 0 };
	struct look look;
	struct map *map = map_of(files, program);
	if (map == NULL || map->over_ns != 0)
		return;
	int fd = map->place.root_fd < 0 ? procfs_open_perf_map(program.pid, &err) : -1;
	if (fd < 0 && err.text[0] == '\0')
		fd = procfs_open_perf_map_at(&map->place, &err);
	if (err.text[0] != '\0')
		refuse(files, "%.300s", err.text);
	if (!look_at(fd, &look))
		return;
	if (look.mtime_ns + 2 * TICK_NS < began_at(&files->clock, program)) {
		refuse(files, "map not trusted: /tmp/perf-%" PRId32 ".map is older than the program that runs under that pid", program.pid);
		close(fd);
		return;
	}
	if (map->fd >= 0)
		close(map->fd);
	map->fd = fd;
	map->look = look;
	leave_place(files, map);
	if (is_first && look.size <= JIT_FILES_EARLY_BYTES_MOST)
		map->copy_fd = copy_of(files, fd, 0, look.size);
	if (look_at(fd, &look)) // when the copy was made
		map->look.at_ns = look.at_ns;
}

// What was written since the program began stays its own, although the next one may write to the file.
static void serve_over(struct jit_files *files, struct jit_program program, uint64_t time_ns)
{
	struct map *map = find_map(files, program);
	struct look look;
	if (map == NULL || map->over_ns != 0)
		return;
	map->over_ns = wall_of(&files->clock, time_ns);
	if (map->fd >= 0 && !is_before(map, &map->look, map->over_ns))
		drop_copy(files, map); // of what the next one wrote
	int fd = procfs_open_perf_map(program.pid, NULL);
	if (look_at(fd, &look) && is_before(map, &look, map->over_ns) && look.mtime_ns + 2 * TICK_NS >= began_at(&files->clock, program)) {
		if (map->fd >= 0)
			close(map->fd);
		map->fd = fd;
		map->look = look;
	} else if (fd >= 0) {
		close(fd);
	}
	leave_place(files, map);
	if (look_at(map->fd, &look) && is_before(map, &look, map->over_ns)) {
		drop_copy(files, map);
		map->copy_fd = copy_of(files, map->fd, 0, look.size);
	} else if (map->fd >= 0 && map->copy_fd < 0) {
		refuse(files, "map not trusted: /tmp/perf-%" PRId32 ".map was written over by the next program of that pid: code before it has no names", program.pid);
	}
}

static void serve_dump(struct jit_files *files, const struct errand *errand)
{
	struct err err = { 0 };
	for (size_t i = 0; i < files->dumps.count; i++)
		if (files->dumps.data[i].program.pid == errand->program.pid && files->dumps.data[i].program.since_ns == errand->program.since_ns)
			return;
	if (files->dumps.count >= JIT_FILES_DUMPS_MOST)
		return;
	int fd = procfs_open_jitdump(errand->program.pid, errand->path, &err);
	if (fd >= 0)
		vec_push(&files->dumps, (struct dump){ errand->program, fd, mem_string(errand->path) });
	else if (err.text[0] != '\0')
		refuse(files, "%.300s", err.text);
}

void jit_files_serve(struct jit_files *files)
{
	for (size_t i = 0; i < files->batch.all.count; i++) {
		struct errand *errand = &files->batch.all.data[i];
		switch (errand->kind) {
		case ERRAND_MAP: serve_map(files, errand->program, true); break;
		case ERRAND_EXITED: serve_map(files, errand->program, false); break;
		case ERRAND_OVER: serve_over(files, errand->program, errand->time_ns); break;
		case ERRAND_DUMP: serve_dump(files, errand); break;
		}
		free(errand->path);
	}
	vec_clear(&files->batch.all);
	atomic_store_explicit(&files->is_handed, false, memory_order_release);
}

// ---------------------------------------------------------------- when both have ended
static bool begins_like(int fd, int copy_fd, uint64_t size)
{
	char a[4096], b[4096];
	for (uint64_t at = 0; at < size;) {
		size_t want = size - at < sizeof(a) ? (size_t)(size - at) : sizeof(a);
		ssize_t got = pread(fd, a, want, (off_t)at);
		if (got <= 0 || pread(copy_fd, b, (size_t)got, (off_t)at) != got || memcmp(a, b, (size_t)got) != 0)
			return false;
		at += (uint64_t)got;
	}
	return true;
}

// A runtime that opens its map to append (CPython's perf trampoline) leaves the lines of the programs before it.
static int without_others(struct jit_files *files, struct map *map, int fd)
{
	struct look look, before;
	uint64_t others = 0;
	if (map->tail_fd >= 0 || !look_at(fd, &look))
		return map->tail_fd;
	for (size_t i = 0; i < files->maps.count; i++) {
		const struct map *other = &files->maps.data[i];
		if (other == map || other->program.pid != map->program.pid || other->program.since_ns >= map->program.since_ns || !look_at(other->copy_fd, &before) ||
		    map->look.inode != other->look.inode || map->look.dev != other->look.dev || look.size <= before.size || before.size <= others)
			continue;
		others = begins_like(fd, other->copy_fd, before.size) ? before.size : others;
	}
	map->tail_fd = others > 0 ? copy_of(files, fd, others, look.size) : -1;
	return map->tail_fd >= 0 ? map->tail_fd : others > 0 ? -1 : fd;
}

int jit_files_map(struct jit_files *files, struct jit_program program)
{
	struct map *map = jit_files_is_handed(files) ? NULL : find_map(files, program);
	struct look look;
	if (map == NULL)
		return -1;
	if (map->over_ns == 0)
		return map->fd >= 0 ? without_others(files, map, map->fd) : -1;
	if (map->copy_fd >= 0)
		return without_others(files, map, map->copy_fd);
	return look_at(map->fd, &look) && is_before(map, &look, map->over_ns) ? map->fd : -1;
}

int jit_files_dump(const struct jit_files *files, struct jit_program program, const char **path)
{
	for (size_t i = 0; !jit_files_is_handed(files) && i < files->dumps.count; i++) {
		if (files->dumps.data[i].program.pid != program.pid || files->dumps.data[i].program.since_ns != program.since_ns)
			continue;
		*path = files->dumps.data[i].path;
		return files->dumps.data[i].fd;
	}
	return -1;
}

const char *jit_files_refusal(const struct jit_files *files)
{
	return !jit_files_is_handed(files) && files->refusal[0] != '\0' ? files->refusal : NULL;
}

static void release_errands(struct errands *errands)
{
	for (size_t i = 0; i < errands->all.count; i++)
		free(errands->all.data[i].path);
	vec_release(&errands->all);
}

void jit_files_free(struct jit_files *files)
{
	if (files == NULL || jit_files_is_handed(files))
		return;
	for (size_t i = 0; i < files->maps.count; i++) {
		const struct map *map = &files->maps.data[i];
		const int fds[] = { map->fd, map->copy_fd, map->tail_fd, map->place.root_fd };
		for (size_t k = 0; k < sizeof(fds) / sizeof(fds[0]); k++)
			if (fds[k] >= 0)
				close(fds[k]);
	}
	for (size_t i = 0; i < files->dumps.count; i++) {
		close(files->dumps.data[i].fd);
		free(files->dumps.data[i].path);
	}
	vec_release(&files->maps);
	vec_release(&files->dumps);
	release_errands(&files->wanted);
	release_errands(&files->batch);
	hash_map_release(&files->asked);
	free(files);
}
