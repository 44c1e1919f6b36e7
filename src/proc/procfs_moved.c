#include "proc/procfs_moved.h"

#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "proc/procfs.h"

enum { PAGE_BYTES = 4096, PAGES_COMPARED = 64, PATCHED_BYTES_MOST = 64, FILES_MOST = 1 << 16 };
#define HUGE_PAGE_BYTES (UINT64_C(2) << 20)

static void list_files(struct moved_texts *texts)
{
	struct proc_lines lines;
	struct proc_mapping mapping;
	char path[64], *line;
	size_t length;
	int32_t task = procfs_task_with_memory(texts->pid);

	texts->is_listed = true;
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/mem", task);
	texts->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%" PRId32 "/maps", task);
	if (!proc_lines_open(&lines, path))
		return;
	while ((line = proc_lines_next(&lines, &length)) != NULL && texts->files.count < FILES_MOST) {
		// What may be written was: it says less of the file.
		if (!proc_mapping_parse(line, &mapping) || mapping.path[0] != '/' || mapping.inode == 0 || (mapping.protection & PROT_WRITE) != 0 ||
		    dso_kind_of(mapping.path, false) != DSO_FILE)
			continue;
		mapping.path = arena_string(&texts->arena, mapping.path, strlen(mapping.path));
		vec_push(&texts->files, mapping);
	}
	proc_lines_close(&lines);
}

static const struct image *image_of(struct moved_texts *texts, const struct proc_mapping *file)
{
	static const char deleted[] = " (deleted)"; // fs/d_path.c
	size_t length = strlen(file->path), suffix = sizeof(deleted) - 1;
	bool is_deleted = length > suffix && strcmp(file->path + length - suffix, deleted) == 0;
	char *path = mem_string(file->path);
	if (texts->image != NULL && texts->image_start == file->start) {
		free(path);
		return texts->image;
	}
	image_release(texts->image);
	if (is_deleted)
		path[length - suffix] = '\0';
	const struct dso dso = { .path = path, .kind = DSO_FILE, .deleted = is_deleted, .major = file->major, .minor = file->minor, .inode = file->inode };
	if (!procfs_open_image(&texts->image, texts->pid, &dso, file->start, file->end, file->pgoff, NULL))
		texts->image = NULL;
	texts->image_start = file->start;
	free(path);
	return texts->image;
}

static bool is_one_byte(const uint8_t *bytes, size_t size)
{
	for (size_t i = 1; i < size; i++)
		if (bytes[i] != bytes[0])
			return false;
	return true;
}

// Pages spread evenly. Code is not relocated: they are equal but for the few bytes that breakpoints, probes and the like replaced. What is all one byte
// says nothing.
static bool holds(int mem_fd, const struct image *image, uint64_t bias, uint64_t start, uint64_t end)
{
	uint8_t memory[PAGE_BYTES];
	uint64_t pages = (end - start) / PAGE_BYTES, step = pages > PAGES_COMPARED ? pages / PAGES_COMPARED : 1;
	unsigned told = 0;

	for (uint64_t page = 0; page < pages; page += step) {
		uint64_t at = start + page * PAGE_BYTES;
		struct bytes stored;
		if (!image_rest_at(image, at - bias, &stored))
			continue; // before the segment's first byte, or behind its last
		size_t size = bytes_left(&stored) < PAGE_BYTES ? bytes_left(&stored) : PAGE_BYTES;
		unsigned different = 0;
		if (pread(mem_fd, memory, size, (off_t)at) != (ssize_t)size)
			return false;
		for (size_t i = 0; i < size; i++)
			different += memory[i] != stored.at[i];
		if (different > PATCHED_BYTES_MOST)
			return false;
		told += !is_one_byte(stored.at, size);
	}
	return told > 0;
}

// Nothing but its place is known.
static bool is_huge_hole(const struct proc_mapping *memory, const struct proc_mapping *below, const struct proc_mapping *above)
{
	return below != NULL && above != NULL && below->inode == above->inode && below->major == above->major && below->minor == above->minor &&
	       strcmp(below->path, above->path) == 0 && below->end == memory->start && above->start == memory->end &&
	       above->pgoff - below->pgoff == above->start - below->start && memory->start % HUGE_PAGE_BYTES == 0 && memory->end % HUGE_PAGE_BYTES == 0;
}

// The part of `memory` that the file's executable segments cover, if they are there.
static bool is_text_of(struct moved_texts *texts, const struct proc_mapping *memory, const struct proc_mapping *file, bool is_hole, struct proc_mapping *out)
{
	const struct image *image = image_of(texts, file);
	uint64_t bias, offset;
	if (image == NULL || !image_bias(image, file->start, file->end, file->pgoff - image->file_start, &bias))
		return false;
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *segment = &image->segments[i];
		uint64_t from = segment->vaddr / PAGE_BYTES * PAGE_BYTES + bias;
		uint64_t to = (segment->vaddr + segment->file_size + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES + bias;
		from = from > memory->start ? from : memory->start;
		to = to < memory->end ? to : memory->end;
		if ((segment->flags & PF_X) == 0 || from >= to || (texts->mem_fd >= 0 ? !holds(texts->mem_fd, image, bias, from, to) : !is_hole))
			continue;
		offset = segment->offset - segment->vaddr + (from - bias) + image->file_start;
		*out = *file;
		out->start = from;
		out->end = to;
		out->pgoff = offset;
		out->protection = memory->protection;
		out->is_shared = memory->is_shared;
		return true;
	}
	return false;
}

bool moved_text_find(struct moved_texts *texts, const struct proc_mapping *memory, struct proc_mapping *out)
{
	const struct proc_mapping *below = NULL, *above = NULL;
	if (!texts->is_listed)
		list_files(texts);
	for (size_t i = 0; i < texts->files.count; i++) {
		const struct proc_mapping *file = &texts->files.data[i];
		if (file->end <= memory->start)
			below = file;
		else if (file->start >= memory->end && above == NULL)
			above = file;
	}
	bool is_hole = is_huge_hole(memory, below, above);
	return (below != NULL && is_text_of(texts, memory, below, is_hole, out)) ||
	       (above != NULL && is_text_of(texts, memory, above, is_hole, out));
}

void moved_texts_release(struct moved_texts *texts)
{
	if (texts->is_listed && texts->mem_fd >= 0)
		close(texts->mem_fd);
	image_release(texts->image);
	vec_release(&texts->files);
	arena_release(&texts->arena);
}
