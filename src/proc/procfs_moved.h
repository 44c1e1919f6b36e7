// Text that a process moved onto anonymous memory before anybody saw it (node --use-largepages, hugify, iodlr): /proc/PID/maps has a hole in the file's
// mappings there, filled by executable memory without a file. What it is, its neighbours tell, and the bytes in it. For procfs_synthesize.c.
#ifndef PERFSAMPLE_PROC_PROCFS_MOVED_H
#define PERFSAMPLE_PROC_PROCFS_MOVED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/vec.h"
#include "elf/image.h"
#include "proc/procfs_read.h"

struct moved_texts { // of one process; zeroed but for pid
	int32_t pid;
	bool is_listed;
	int mem_fd; // when listed; -1: its memory may not be read
	struct arena arena;
	VEC(struct proc_mapping) files; // its mappings of files, ascending
	struct image *image;            // that was looked into last, and its mapping
	uint64_t image_start;
};

// Of executable memory without a file: the part that holds what a file mapped beside it has there, as the mapping of that file. The bytes are compared; where
// memory may not be read, a hole of whole huge pages between two mappings of one file, as far apart as in the file, is believed.
bool moved_text_find(struct moved_texts *texts, const struct proc_mapping *memory, struct proc_mapping *out);
void moved_texts_release(struct moved_texts *texts);

#endif
