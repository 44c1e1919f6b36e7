#include "proc/procfs_read.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

ssize_t proc_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -1;
	size_t used = 0;
	while (used < size - 1) {
		ssize_t got = read(fd, text + used, size - 1 - used);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && used == 0) { // ESRCH: the process ended between open and read
			int saved = errno;
			close(fd);
			errno = saved;
			return -1;
		}
		if (got <= 0)
			break;
		used += (size_t)got;
	}
	close(fd);
	text[used] = '\0';
	return (ssize_t)used;
}

ssize_t proc_read_of(int32_t pid, const char *name, char *text, size_t size)
{
	char path[96];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/%s", pid, name);
	return proc_read(path, text, size);
}

enum { CHUNK_BYTES = 32768, LINE_BYTES_MAX = 65536 };

bool proc_lines_open(struct proc_lines *lines, const char *path)
{
	*lines = (struct proc_lines){ .fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) };
	return lines->fd >= 0;
}

// Makes room at the front and reads once. false: end of file, or the process is gone.
static bool read_more(struct proc_lines *lines)
{
	if (lines->ended)
		return false;
	struct buf *buf = &lines->buf;
	if (lines->at > 0 && buf->data != NULL) {
		memmove(buf->data, buf->data + lines->at, buf->size - lines->at);
		buf->size -= lines->at;
		lines->at = 0;
	}
	buf_reserve(buf, CHUNK_BYTES + 1);
	ssize_t got;
	do
		got = read(lines->fd, buf->data + buf->size, CHUNK_BYTES);
	while (got < 0 && errno == EINTR);
	if (got <= 0) {
		lines->ended = true;
		return false;
	}
	buf->size += (size_t)got;
	lines->bytes_read += (uint64_t)got;
	return true;
}

char *proc_lines_next(struct proc_lines *lines, size_t *length)
{
	size_t searched = 0; // bytes behind `at` known to hold no newline
	bool skipping = false;

	for (;;) {
		struct buf *buf = &lines->buf;
		size_t have = buf->size - lines->at;
		char *line = buf->data != NULL ? buf->data + lines->at : NULL;
		char *newline = line != NULL && have > searched ? memchr(line + searched, '\n', have - searched) : NULL;
		if (newline != NULL) {
			lines->at = (size_t)(newline + 1 - buf->data);
			searched = 0;
			if (skipping || newline - line > LINE_BYTES_MAX) {
				skipping = false;
				continue;
			}
			*newline = '\0';
			*length = (size_t)(newline - line);
			return line;
		}
		searched = have;
		if (have > LINE_BYTES_MAX) {
			skipping = true;
			lines->at = buf->size;
			searched = 0;
		}
		if (read_more(lines))
			continue;
		have = buf->size - lines->at;
		if (have == 0 || buf->data == NULL || skipping)
			return NULL;
		buf->data[buf->size] = '\0'; // read_more keeps one byte free
		line = buf->data + lines->at;
		lines->at = buf->size;
		*length = have;
		return line;
	}
}

void proc_lines_close(struct proc_lines *lines)
{
	if (lines->fd >= 0)
		close(lines->fd);
	lines->fd = -1;
	buf_release(&lines->buf);
}

// Hexadecimal digits up to `stop`, which is passed over; false when there are none or too many.
static bool take_hex(char **at, char stop, uint64_t *value)
{
	const char *p = *at;
	uint64_t v = 0;

	for (; *p != stop; p++) {
		unsigned digit = *p >= '0' && *p <= '9' ? (unsigned)(*p - '0') : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10) : 16;
		if (digit == 16 || v >> 60 != 0)
			return false;
		v = v << 4 | digit;
	}
	if (p == *at)
		return false;
	*at += p + 1 - *at;
	*value = v;
	return true;
}

static void unescape_newlines(char *path)
{
	char *to = strstr(path, "\\012");
	if (to == NULL)
		return;
	for (const char *from = to; *from != '\0';) {
		if (strncmp(from, "\\012", 4) == 0) {
			*to++ = '\n';
			from += 4;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
}

bool proc_mapping_parse(char *line, struct proc_mapping *out)
{
	char *at = line;
	uint64_t major, minor;

	if (!take_hex(&at, '-', &out->start) || !take_hex(&at, ' ', &out->end) || out->end <= out->start)
		return false;
	if (strnlen(at, 5) < 5 || at[4] != ' ')
		return false;
	out->protection = (uint32_t)((at[0] == 'r' ? PROT_READ : 0) | (at[1] == 'w' ? PROT_WRITE : 0) | (at[2] == 'x' ? PROT_EXEC : 0));
	out->is_shared = at[3] == 's';
	at += 5;
	if (!take_hex(&at, ' ', &out->pgoff) || !take_hex(&at, ':', &major) || !take_hex(&at, ' ', &minor) || (major | minor) >> 32 != 0)
		return false;
	out->major = (uint32_t)major;
	out->minor = (uint32_t)minor;
	if (*at < '0' || *at > '9')
		return false;
	errno = 0;
	out->inode = strtoull(at, &at, 10);
	if (errno != 0 || (*at != ' ' && *at != '\0'))
		return false;
	// The kernel pads to column 73 with blanks (seq_pad); a path may begin with none of its own, as it is absolute or bracketed.
	at += strspn(at, " ");
	out->path = at;
	unescape_newlines(at);
	return true;
}

// struct procmap_query and its flags, which older kernel headers lack.
struct procmap_query_request {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY_REQUEST _IOWR('f', 17, struct procmap_query_request)
enum { QUERY_READABLE = 1, QUERY_WRITABLE = 2, QUERY_EXECUTABLE = 4, QUERY_SHARED = 8, QUERY_COVERING_OR_NEXT = 16 };

enum proc_queried proc_mapping_query(int maps_fd, enum proc_query query, uint64_t addr, struct proc_mapping *out, char *name, size_t size)
{
	struct procmap_query_request request = {
		.size = sizeof(request), .query_addr = addr, .vma_name_addr = (uint64_t)(uintptr_t)name, .vma_name_size = (uint32_t)size,
		.query_flags = query == PROC_QUERY_NEXT_EXECUTABLE ? QUERY_EXECUTABLE | QUERY_COVERING_OR_NEXT : 0,
	};

	name[0] = '\0';
	if (ioctl(maps_fd, PROCMAP_QUERY_REQUEST, &request) != 0 && errno == ENAMETOOLONG) {
		request.vma_name_addr = request.vma_name_size = 0;
		name[0] = '\0';
		if (ioctl(maps_fd, PROCMAP_QUERY_REQUEST, &request) != 0)
			return errno == ENOENT || errno == ESRCH ? PROC_QUERY_NONE : PROC_QUERY_UNSUPPORTED;
	} else if (request.vma_end == 0) {
		return errno == ENOENT || errno == ESRCH ? PROC_QUERY_NONE : PROC_QUERY_UNSUPPORTED;
	}
	name[size - 1] = '\0';
	*out = (struct proc_mapping){
		.start = request.vma_start, .end = request.vma_end, .pgoff = request.vma_offset, .inode = request.inode, .major = request.dev_major,
		.minor = request.dev_minor, .is_shared = (request.vma_flags & QUERY_SHARED) != 0, .path = name,
		.protection = (uint32_t)((request.vma_flags & QUERY_READABLE ? PROT_READ : 0) | (request.vma_flags & QUERY_WRITABLE ? PROT_WRITE : 0) |
		                         (request.vma_flags & QUERY_EXECUTABLE ? PROT_EXEC : 0)),
	};
	return PROC_QUERIED;
}

bool proc_stat_parse(const char *text, struct proc_stat *out)
{
	const char *behind_name = strrchr(text, ')');
	char state;

	if (behind_name == NULL)
		return false;
	return sscanf(behind_name + 1, " %c %" SCNd32 " %*d %*d %*d %*d %" SCNu32 " %*u %*u %*u %*u %" SCNu64 " %" SCNu64
	              " %*d %*d %*d %*d %*d %*d %" SCNu64, &state, &out->parent_pid, &out->flags, &out->user_ticks, &out->system_ticks, &out->start_ticks) == 6;
}

bool proc_stat_of(int32_t pid, struct proc_stat *out)
{
	char text[1024];

	return proc_read_of(pid, "stat", text, sizeof(text)) > 0 && proc_stat_parse(text, out);
}

bool proc_idle_parse(const char *line, uint32_t *cpu, uint64_t *ticks)
{
	unsigned long long idle, waiting = 0;
	unsigned number;
	if (strncmp(line, "cpu", 3) != 0 || !isdigit((unsigned char)line[3])) // %u would skip the blank in the line of all CPUs
		return false;
	if (sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &number, &idle, &waiting) < 2)
		return false;
	*cpu = number;
	*ticks = (uint64_t)idle + waiting;
	return true;
}
