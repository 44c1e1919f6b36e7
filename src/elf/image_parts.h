// An image made of code and its .eh_frame, which no file holds together: what a JIT compiler made.
#ifndef PERFSAMPLE_ELF_IMAGE_PARTS_H
#define PERFSAMPLE_ELF_IMAGE_PARTS_H

#include "elf/image.h"

struct image_parts { // 64-bit, little endian
	uint16_t machine;
	const void *code, *frames;       // bytes; NULL code: its place is all that is known
	size_t code_size, frames_size;
	uint64_t code_vaddr, frames_vaddr; // as far apart as the .eh_frame says
};
// A reference; false: as image_open_bytes.
bool image_open_parts(struct image **out, const struct image_parts *parts, const char *path, struct err *err);

#endif
