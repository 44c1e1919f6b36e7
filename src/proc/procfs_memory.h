// An ELF file made again from what a process has mapped of it, when the file itself is gone; for procfs*.c.
#ifndef PERFSAMPLE_PROC_PROCFS_MEMORY_H
#define PERFSAMPLE_PROC_PROCFS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/image.h"
#include "proc/dso.h"

// The image has the file's own layout: mapped parts stand at their file offsets, the rest is zero, and a section table is made of
// what the program headers and the dynamic section tell (.eh_frame_hdr, .eh_frame, .dynsym, .dynstr). `start`: an address in the mapping.
bool procfs_image_from_memory(struct image **out, int32_t pid, const struct dso *dso, uint64_t start, struct err *err);

#endif
