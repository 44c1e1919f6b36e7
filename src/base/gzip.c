#include "base/gzip.h"

#include <stdint.h>
#include <zlib.h>

enum { STEP_BYTES = 1 << 20, GZIP_WINDOW = 15 + 16 }; // zlib.h: 16 more asks for a gzip header

bool gzip_pack(struct buf *out, const void *bytes, size_t size, struct err *err)
{
	z_stream stream = { 0 };
	const uint8_t *at = bytes;
	int result = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY);
	if (result != Z_OK)
		return err_set(err, STATUS_FINISH, "compressing: %s", zError(result));
	while (result != Z_STREAM_END) {
		if (stream.avail_in == 0 && size > 0) {
			uInt step = size < STEP_BYTES ? (uInt)size : STEP_BYTES;
			stream.next_in = (Bytef *)(uintptr_t)at; // zlib only reads it
			stream.avail_in = step;
			at += step;
			size -= step;
		}
		buf_reserve(out, STEP_BYTES / 4);
		uInt room = (uInt)(out->capacity - out->size < UINT32_MAX / 2 ? out->capacity - out->size : UINT32_MAX / 2);
		stream.next_out = (Bytef *)out->data + out->size;
		stream.avail_out = room;
		result = deflate(&stream, size == 0 ? Z_FINISH : Z_NO_FLUSH);
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			break;
		out->size += room - stream.avail_out;
	}
	deflateEnd(&stream);
	return result == Z_STREAM_END || err_set(err, STATUS_FINISH, "compressing: %s", zError(result));
}
