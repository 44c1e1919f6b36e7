// .gnu_debugdata (GDB's manual, "Debugging information in a special section"): Fedora's and Android's files keep symbols there, Android's their .debug_frame too.
#include <lzma.h>

#include "elf/image.h"

enum { FIRST_BYTES = 256 * 1024, MOST_BYTES = 64 * 1024 * 1024 };
#define DECODER_MEMORY (256ull << 20)

// Decodes the whole xz stream, the room doubled as long as it does not suffice.
static bool decode(struct bytes in, struct buf *out)
{
	size_t most = bytes_left(&in) < MOST_BYTES / 1000 ? bytes_left(&in) * 1000 : MOST_BYTES;
	for (size_t room = FIRST_BYTES < most ? FIRST_BYTES : most;; room = room * 2 < most ? room * 2 : most) {
		uint64_t memory = DECODER_MEMORY;
		size_t read = 0, written = 0;
		buf_reserve(out, room);
		lzma_ret status = lzma_stream_buffer_decode(&memory, 0, NULL, in.at, &read, bytes_left(&in), (uint8_t *)out->data, &written, room);
		out->size = written;
		if (status != LZMA_BUF_ERROR || room == most)
			return status == LZMA_OK;
		out->size = 0;
	}
}

struct image *image_open_mini_debug(const struct image *image, struct err *err)
{
	const struct image_section *section = image_find_section(image, ".gnu_debugdata");
	struct buf storage = { 0 }, out = { 0 };
	struct bytes in;
	struct image *mini = NULL;

	if (section != NULL && image_section_contents(image, section, &storage, &in, err)) {
		if (!decode(in, &out))
			err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: expected an xz stream of at most %d bytes", image->path,
			        (unsigned long long)section->offset, section->name, MOST_BYTES);
		else
			image_open_bytes(&mini, out.data, out.size, false, image->path, err);
	}
	buf_release(&out);
	buf_release(&storage);
	return mini;
}
