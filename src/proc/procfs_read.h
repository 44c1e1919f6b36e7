// How procfs*.c read the files of /proc: whole and small, or line by line whatever their length. For these files alone.
#ifndef PERFSAMPLE_PROC_PROCFS_READ_H
#define PERFSAMPLE_PROC_PROCFS_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

// Reads at most size - 1 bytes of a file that the kernel makes; NUL-terminated. -1 with errno.
ssize_t proc_read(const char *path, char *text, size_t size);
// proc_read of /proc/PID/NAME.
ssize_t proc_read_of(int32_t pid, const char *name, char *text, size_t size);

// Lines of a file, one at a time, without reading further than needed. Lines beyond 64 KiB are skipped: nothing of /proc has them.
struct proc_lines {
	int fd;
	struct buf buf;
	size_t at;
	bool ended;
	uint64_t bytes_read;
};
bool proc_lines_open(struct proc_lines *lines, const char *path); // false with errno
char *proc_lines_next(struct proc_lines *lines, size_t *length);  // without its newline; valid until the next call; NULL: no more
void proc_lines_close(struct proc_lines *lines);

// One line of /proc/PID/maps (proc_pid_maps(5)).
struct proc_mapping {
	uint64_t start, end, pgoff, inode;
	uint32_t major, minor;
	uint32_t protection; // PROT_*
	bool is_shared;
	char *path;          // "" when there is none; inside the line, "\012" (the only escape of seq_path here) turned back into a newline
};
bool proc_mapping_parse(char *line, struct proc_mapping *out); // false: not such a line

// Asks for one mapping instead of reading all: PROCMAP_QUERY of include/uapi/linux/fs.h (6.11), on an open /proc/PID/maps.
enum proc_query { PROC_QUERY_COVERING, PROC_QUERY_NEXT_EXECUTABLE }; // the one that holds `addr`; the first with PROT_EXEC that ends behind it
enum proc_queried { PROC_QUERIED, PROC_QUERY_NONE, PROC_QUERY_UNSUPPORTED };
// out->path is `name` (size bytes): as the kernel has it, without escapes; "" when it is longer. The [vsyscall] page is never found:
// it belongs to no process.
enum proc_queried proc_mapping_query(int maps_fd, enum proc_query query, uint64_t addr, struct proc_mapping *out, char *name, size_t size);

// Fields 4, 9, 14, 15 and 22 of /proc/PID/stat (proc_pid_stat(5)): the command's name may hold blanks and parentheses.
struct proc_stat { int32_t parent_pid; uint32_t flags; uint64_t user_ticks, system_ticks, start_ticks; };
bool proc_stat_parse(const char *text, struct proc_stat *out);
// A line of /proc/stat of one CPU: its number, and what it was idle in clock ticks, waiting for a disk included (proc_stat(5)). false: another line.
bool proc_idle_parse(const char *line, uint32_t *cpu, uint64_t *ticks);
bool proc_stat_of(int32_t pid, struct proc_stat *out);

#endif
