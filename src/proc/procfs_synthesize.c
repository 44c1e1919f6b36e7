// What runs already, told as the kernel would have told it: FORK, COMM and MMAP2 of processes, MMAP of the kernel and its modules.
// Layouts: include/uapi/linux/perf_event.h at PERF_RECORD_*; what perf's tools expect of such records was read off `perf script -D`.
#include <errno.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/sort.h"
#include "proc/procfs.h"
#include "proc/procfs_moved.h"
#include "proc/procfs_read.h"

// Bit 13 on a FORK: perf's tools set it on synthesized ones (PERF_RECORD_MISC_FORK_EXEC), so that readers do not copy the parent's maps.
#ifndef PERF_RECORD_MISC_FORK_EXEC
#define PERF_RECORD_MISC_FORK_EXEC (1 << 13)
#endif

// A path beyond this cannot stand in a record of 64 KiB; PATH_MAX bounds those that the kernel writes.
enum { NAME_BYTES_MAX = 4096, RECORD_BUILD_ID_BYTES = 20 };

struct trailer { const void *bytes; size_t size; };

static size_t record_begin(struct buf *out, uint32_t type, uint16_t misc)
{
	size_t start = out->size;

	buf_u32(out, type);
	buf_u16(out, misc);
	buf_u16(out, 0);
	return start;
}

static void record_end(struct buf *out, size_t start, const struct trailer *trailer)
{
	if (trailer->size > 0)
		buf_add(out, trailer->bytes, trailer->size);
	struct perf_event_header header;
	memcpy(&header, out->data + start, sizeof(header));
	header.size = (uint16_t)(out->size - start);
	memcpy(out->data + start, &header, sizeof(header));
}

// NUL-terminated and filled with zeros to the next multiple of 8, counted from the record's start (which need not be aligned in `out`).
static void record_name(struct buf *out, const char *name)
{
	static const char zeros[8];
	size_t length = strnlen(name, NAME_BYTES_MAX - 1);

	buf_add(out, name, length);
	buf_add(out, zeros, 8 - length % 8);
}

static void add_fork(struct buf *out, int32_t pid, int32_t tid, int32_t parent, const struct trailer *trailer)
{
	size_t start = record_begin(out, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC);

	buf_u32(out, (uint32_t)pid);
	buf_u32(out, (uint32_t)parent);
	buf_u32(out, (uint32_t)tid);
	buf_u32(out, (uint32_t)parent);
	buf_u64(out, 0); // when is not known
	record_end(out, start, trailer);
}

static void add_comm(struct buf *out, int32_t pid, int32_t tid, const char *comm, const struct trailer *trailer)
{
	size_t start = record_begin(out, PERF_RECORD_COMM, 0);

	buf_u32(out, (uint32_t)pid);
	buf_u32(out, (uint32_t)tid);
	record_name(out, comm);
	record_end(out, start, trailer);
}

// What is told of one process's mappings.
struct mappings {
	struct buf *out;
	int32_t pid;
	const struct trailer *trailer;
	// The memfd that was looked into last (a JIT compiler maps one at many places), and its build ID, if it has any.
	uint64_t memfd_inode;
	struct build_id memfd_build_id;
	struct moved_texts moved;
};

// A program or library in a memfd has no path by which it would be known from a JIT compiler's code: its build ID, which the kernel tells where
// events see it being mapped, is what tells them apart (apply_mapping in space.c).
static const struct build_id *memfd_build_id(struct mappings *to, const struct proc_mapping *mapping)
{
	char path[NAME_BYTES_MAX];
	struct image *image = NULL;

	if (mapping->inode == 0 || strncmp(mapping->path, "/memfd:", 7) != 0)
		return NULL;
	if (mapping->inode != to->memfd_inode) {
		to->memfd_inode = mapping->inode;
		to->memfd_build_id.size = 0;
		snprintf(path, sizeof(path), "%s", mapping->path);
		char *mark = strstr(path, " (deleted)");
		if (mark != NULL)
			*mark = '\0';
		const struct dso dso = { .path = path, .kind = DSO_FILE, .deleted = true, .major = mapping->major, .minor = mapping->minor, .inode = mapping->inode };
		if (procfs_open_image(&image, to->pid, &dso, mapping->start, mapping->end, mapping->pgoff, NULL))
			to->memfd_build_id = image->build_id;
		if (to->memfd_build_id.size > RECORD_BUILD_ID_BYTES)
			to->memfd_build_id.size = 0; // nor would the kernel tell it
		image_release(image);
	}
	return to->memfd_build_id.size > 0 ? &to->memfd_build_id : NULL;
}

static void add_record(struct mappings *to, const struct proc_mapping *mapping)
{
	const struct build_id *build_id = memfd_build_id(to, mapping);
	struct buf *out = to->out;
	size_t start = record_begin(out, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER | (build_id != NULL ? PERF_RECORD_MISC_MMAP_BUILD_ID : 0));

	buf_u32(out, (uint32_t)to->pid);
	buf_u32(out, (uint32_t)to->pid);
	buf_u64(out, mapping->start);
	buf_u64(out, mapping->end - mapping->start);
	buf_u64(out, mapping->pgoff);
	if (build_id != NULL) {
		uint8_t bytes[RECORD_BUILD_ID_BYTES] = { 0 };
		memcpy(bytes, build_id->bytes, build_id->size);
		buf_u32(out, build_id->size); // a byte, and three that are reserved
		buf_add(out, bytes, sizeof(bytes));
	} else {
		buf_u32(out, mapping->major);
		buf_u32(out, mapping->minor);
		buf_u64(out, mapping->inode);
		buf_u64(out, 0); // inode generation: not in maps
	}
	buf_u32(out, mapping->protection);
	buf_u32(out, mapping->is_shared ? MAP_SHARED : MAP_PRIVATE);
	record_name(out, mapping->path[0] != '\0' ? mapping->path : "//anon"); // the kernel's name for it, perf_event_mmap_event()
	record_end(out, start, to->trailer);
}

// Memory that holds a file's text is the file's.
static void add_mapping(struct mappings *to, const struct proc_mapping *mapping)
{
	struct proc_mapping text, rest = *mapping;
	bool is_code = (mapping->protection & PROT_EXEC) != 0;
	if (!is_code || dso_kind_of(mapping->path, false) != DSO_ANON || memfd_build_id(to, mapping) != NULL || !moved_text_find(&to->moved, mapping, &text)) {
		add_record(to, mapping);
		return;
	}
	rest.end = text.start;
	if (rest.start < rest.end)
		add_record(to, &rest);
	add_record(to, &text);
	rest = *mapping;
	rest.start = text.end;
	rest.pgoff += text.end - mapping->start;
	if (rest.start < rest.end)
		add_record(to, &rest);
}

// Beyond so many bytes of maps (some 5,000 mappings) the few that hold code are asked for one by one, where the kernel can: a runtime may
// have a million.
enum { MAPS_READ_MAX = 512 * 1024 };

// The [vsyscall] page stands in every maps of x86-64 but is no process's own, so that asking never finds it: taken from our own maps.
static void add_vsyscall(struct mappings *to)
{
	struct proc_lines lines;
	struct proc_mapping mapping;
	char *line;
	size_t length;

	if (!proc_lines_open(&lines, "/proc/self/maps"))
		return;
	while ((line = proc_lines_next(&lines, &length)) != NULL)
		if (length > 10 && strcmp(line + length - 10, "[vsyscall]") == 0 && proc_mapping_parse(line, &mapping))
			add_mapping(to, &mapping);
	proc_lines_close(&lines);
}

static bool query_the_rest(struct mappings *to, int maps_fd, uint64_t from)
{
	struct proc_mapping mapping;
	char name[NAME_BYTES_MAX];
	enum proc_queried queried;

	while ((queried = proc_mapping_query(maps_fd, PROC_QUERY_NEXT_EXECUTABLE, from, &mapping, name, sizeof(name))) == PROC_QUERIED && mapping.end > from) {
		add_mapping(to, &mapping);
		from = mapping.end;
	}
	if (queried == PROC_QUERY_NONE)
		add_vsyscall(to);
	return queried != PROC_QUERY_UNSUPPORTED;
}

static void add_mappings(struct mappings *to)
{
	struct proc_lines lines;
	struct proc_mapping mapping;
	char path[64], *line;
	size_t length;
	bool may_query = true;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/maps", procfs_task_with_memory(to->pid));
	if (!proc_lines_open(&lines, path))
		return; // another user's, or gone: what is known of it stands
	while ((line = proc_lines_next(&lines, &length)) != NULL) {
		if (may_query && lines.bytes_read > MAPS_READ_MAX && proc_mapping_parse(line, &mapping)) {
			size_t before = to->out->size;
			if (query_the_rest(to, lines.fd, mapping.start))
				break;
			to->out->size = before;
			may_query = false;
			if ((mapping.protection & PROT_EXEC) != 0)
				add_mapping(to, &mapping);
			continue;
		}
		// "55e0c5a00000-55e0c5a02000 r-xp …": most lines map no code, and are not worth parsing.
		const char *blank = memchr(line, ' ', length);
		if (blank != NULL && length - (size_t)(blank - line) > 4 && blank[3] == 'x' && proc_mapping_parse(line, &mapping))
			add_mapping(to, &mapping);
	}
	proc_lines_close(&lines);
	moved_texts_release(&to->moved);
}

static void thread_comm(int32_t pid, int32_t tid, char comm[64])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/task/%" PRId32 "/comm", pid, tid);
	ssize_t length = proc_read(path, comm, 64);
	if (length <= 0)
		comm[0] = '\0';
	else if (comm[length - 1] == '\n')
		comm[length - 1] = '\0';
}

bool procfs_synthesize(int32_t pid, bool with_threads, const void *sample_id_trailer, size_t trailer_bytes, struct buf *out)
{
	struct trailer trailer = { sample_id_trailer, trailer_bytes };
	struct proc_stat stat;
	char comm[64];

	if (!proc_stat_of(pid, &stat))
		return false;
	thread_comm(pid, pid, comm);
	if (comm[0] == '\0')
		return false; // gone between the two, or a tid that leads no process
	add_fork(out, pid, pid, stat.parent_pid, &trailer);
	add_comm(out, pid, pid, comm, &trailer);
	if (with_threads) {
		struct procfs_ids threads = { 0 };
		procfs_threads(pid, &threads, NULL);
		for (size_t i = 0; i < threads.ids.count; i++) {
			int32_t tid = threads.ids.data[i];
			if (tid == pid)
				continue;
			thread_comm(pid, tid, comm);
			if (comm[0] == '\0')
				continue;
			add_fork(out, pid, tid, pid, &trailer);
			add_comm(out, pid, tid, comm, &trailer);
		}
		vec_release(&threads.ids);
	}
	if ((stat.flags & 0x00200000) == 0) // PF_KTHREAD: no memory of its own
		add_mappings(&(struct mappings){ .out = out, .pid = pid, .trailer = &trailer, .moved.pid = pid });
	return true;
}

// ---------------------------------------------------------------- the kernel

static void add_kernel_mapping(struct buf *out, uint64_t start_addr, uint64_t end_addr, uint64_t pgoff, const char *name,
                               const struct trailer *trailer)
{
	size_t start = record_begin(out, PERF_RECORD_MMAP, PERF_RECORD_MISC_KERNEL);

	buf_u32(out, UINT32_MAX); // pid -1, tid 0: as perf writes them
	buf_u32(out, 0);
	buf_u64(out, start_addr);
	buf_u64(out, end_addr - start_addr);
	buf_u64(out, pgoff);
	record_name(out, name);
	record_end(out, start, trailer);
}

// Bytes from _text to _etext. /proc/iomem tells them as the physical extent of "Kernel code" (x86: setup_arch(), arm64:
// request_standard_resources()) in a fraction of a millisecond, where kallsyms up to _etext takes tens; 0 where it may not be read.
static uint64_t kernel_code_bytes(const char *iomem)
{
	struct proc_lines lines;
	uint64_t bytes = 0;
	char *line;
	size_t length;

	if (!proc_lines_open(&lines, iomem))
		return 0;
	while (bytes == 0 && (line = proc_lines_next(&lines, &length)) != NULL) {
		uint64_t first, last;
		if (strstr(line, " : Kernel code") != NULL && sscanf(line, " %" SCNx64 "-%" SCNx64, &first, &last) == 2 && last > first && last != UINT64_MAX)
			bytes = last + 1 - first;
	}
	proc_lines_close(&lines);
	return bytes;
}

struct kernel_range { uint64_t start, end; const char *name; };

// The first of _text and _stext in kallsyms (they stand among its first lines), and the end of the text.
static bool find_kernel(const struct procfs_kernel_files *files, struct kernel_range *range)
{
	struct proc_lines lines;
	char *line, name[64];
	size_t length;
	uint64_t text = 0, stext = 0, bytes = kernel_code_bytes(files->iomem), end = 0;
	bool found = false;

	*range = (struct kernel_range){ .name = "[kernel.kallsyms]_text" };
	if (!proc_lines_open(&lines, files->kallsyms))
		return false;
	while (end == 0 && (line = proc_lines_next(&lines, &length)) != NULL) {
		uint64_t addr;
		char type;
		// "ffffffff81000000 T _text", and behind a tab "[module]"
		if (length < 20 || line[length - 1] == ']' || strstr(line, "text") == NULL || sscanf(line, "%" SCNx64 " %c %63s", &addr, &type, name) != 3)
			continue;
		if (strcmp(name, "_text") == 0)
			text = addr, found = true;
		else if (strcmp(name, "_stext") == 0)
			stext = addr, found = true;
		else if (strcmp(name, "_etext") == 0)
			end = addr;
		if (found && text == 0 && stext == 0)
			break; // kptr_restrict: every address reads as 0
		if (text != 0 && bytes != 0)
			end = text + bytes;
	}
	proc_lines_close(&lines);
	range->start = text != 0 ? text : stext;
	if (text == 0 && stext != 0)
		range->name = "[kernel.kallsyms]_stext";
	range->end = end > range->start ? end : UINT64_MAX;
	return range->start != 0;
}

struct module { uint64_t start, bytes; char name[64]; };

static int compare_modules(const void *a, const void *b)
{
	uint64_t x = ((const struct module *)a)->start, y = ((const struct module *)b)->start;
	return x < y ? -1 : x > y;
}

// "NAME BYTES REFERENCES USERS STATE 0xADDRESS" (proc_modules(5)). Since 6.4 a module's parts lie apart and BYTES counts them all while
// ADDRESS is the text's: a range that would run into the next module ends there.
static void add_modules(struct buf *out, const char *file, const struct trailer *trailer)
{
	struct proc_lines lines;
	VEC(struct module) modules = { 0 };
	char *line, bracketed[72];
	size_t length;

	if (!proc_lines_open(&lines, file))
		return; // a kernel without modules
	while ((line = proc_lines_next(&lines, &length)) != NULL) {
		struct module module;
		memset(&module, 0, sizeof(module));
		if (sscanf(line, "%63s %" SCNu64 " %*s %*s %*s 0x%" SCNx64, module.name, &module.bytes, &module.start) == 3 && module.start != 0 &&
		    module.bytes > 0 && module.start + module.bytes > module.start)
			vec_push(&modules, module);
	}
	proc_lines_close(&lines);
	if (modules.count > 0)
		sort_stable(modules.data, modules.count, sizeof(*modules.data), compare_modules);
	for (size_t i = 0; i < modules.count; i++) {
		const struct module *module = &modules.data[i];
		uint64_t end = module->start + module->bytes;
		if (i + 1 < modules.count && end > modules.data[i + 1].start)
			end = modules.data[i + 1].start;
		if (end == module->start)
			continue;
		snprintf(bracketed, sizeof(bracketed), "[%s]", module->name);
		add_kernel_mapping(out, module->start, end, 0, bracketed, trailer);
	}
	vec_release(&modules);
}

bool procfs_synthesize_kernel_from(const struct procfs_kernel_files *files, const void *sample_id_trailer, size_t trailer_bytes,
                                   struct buf *out)
{
	struct trailer trailer = { sample_id_trailer, trailer_bytes };
	struct kernel_range kernel;
	bool known = find_kernel(files, &kernel);

	add_kernel_mapping(out, kernel.start, known ? kernel.end : UINT64_MAX, kernel.start, kernel.name, &trailer);
	add_modules(out, files->modules, &trailer);
	return known;
}

bool procfs_synthesize_kernel(const void *sample_id_trailer, size_t trailer_bytes, struct buf *out)
{
	static const struct procfs_kernel_files host = { "/proc/kallsyms", "/proc/modules", "/proc/iomem" };

	return procfs_synthesize_kernel_from(&host, sample_id_trailer, trailer_bytes, out);
}
