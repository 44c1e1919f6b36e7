// Where functions begin and end, as an image's FDEs say (.eh_frame, .debug_frame): all that a stripped file still knows of them. The part of a function
// that a compiler moved away (.text.unlikely) has an FDE, and so an extent, of its own.
#ifndef PERFSAMPLE_ELF_EXTENTS_H
#define PERFSAMPLE_ELF_EXTENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "elf/image.h"

struct extent { uint64_t start, end; }; // vaddrs

struct extents; // borrows the image's bytes: the image must live longer
struct extents *extents_new(const struct image *image); // cheap where .eh_frame_hdr is there, which is searched where it stands; else its FDEs are read once
void extents_free(struct extents *extents); // NULL is allowed
// The last extent that begins at `vaddr` or before; it may have ended before `vaddr`. false: none.
bool extents_find(struct extents *extents, uint64_t vaddr, struct extent *out);

#endif
