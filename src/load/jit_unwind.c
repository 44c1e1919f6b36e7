#include "load/jit_unwind.h"

#include <elf.h>
#include <unistd.h>

#include "base/buf.h"
#include "elf/image_parts.h"

enum { UNWIND_BYTES_MOST = 16 << 20 };

static bool add_from(struct buf *out, int fd, uint64_t offset, uint64_t size)
{
	char block[4096];
	while (size > 0) {
		size_t want = size < sizeof(block) ? (size_t)size : sizeof(block);
		ssize_t got = pread(fd, block, want, (off_t)offset);
		if (got <= 0)
			return false; // cut since it was read
		buf_add(out, block, (size_t)got);
		offset += (uint64_t)got;
		size -= (uint64_t)got;
	}
	return true;
}

struct image *jit_unwind_image(const struct jit_unwind *unwind, int fd, uint16_t machine)
{
	struct buf code = { 0 }, frames = { 0 };
	struct image *image = NULL;

	if (unwind->size + unwind->unwind_size > UNWIND_BYTES_MOST || machine == EM_386)
		return NULL;
	if (add_from(&code, fd, unwind->offset, unwind->size) && add_from(&frames, fd, unwind->unwind_offset, unwind->unwind_size)) {
		struct image_parts parts = { .machine = machine, .code = code.data, .code_size = code.size, .code_vaddr = JIT_UNWIND_VADDR,
		                             .frames = frames.data, .frames_size = frames.size, .frames_vaddr = (JIT_UNWIND_VADDR + code.size + 7) / 8 * 8 };
		if (!image_open_parts(&image, &parts, "[jit]", NULL))
			image = NULL;
	}
	buf_release(&code);
	buf_release(&frames);
	return image;
}
