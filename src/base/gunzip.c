#include "base/gunzip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/tmpfile.h"

enum { GZIP_WINDOW = 15 + 16, OUT_BYTES = 1 << 18, RATIO_MOST = 200, ALWAYS_ALLOWED = 64 << 20 };

bool gunzip_is_packed(const void *bytes, size_t size)
{
	static const uint8_t magic[] = { 0x1f, 0x8b, 8 }; // two of gzip's, and deflate, the only method there is
	return size >= sizeof(magic) && memcmp(bytes, magic, sizeof(magic)) == 0;
}

size_t gunzip_begin(const void *bytes, size_t size, void *out, size_t capacity)
{
	z_stream stream = { .next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)size, .next_out = out, .avail_out = (uInt)capacity };
	if (size > UINT32_MAX || capacity > UINT32_MAX || inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
		return 0;
	(void)inflate(&stream, Z_SYNC_FLUSH);
	inflateEnd(&stream);
	return capacity - stream.avail_out;
}

bool gunzip_more_of_fd(void *gunzip_fd, const void **bytes, size_t *size, struct err *err)
{
	struct gunzip_fd *from = gunzip_fd;
	ssize_t n;
	do
		n = read(from->fd, from->bytes, sizeof(from->bytes));
	while (n < 0 && errno == EINTR);
	*bytes = from->bytes;
	*size = n > 0 ? (size_t)n : 0;
	return n >= 0 || err_errno(err, STATUS_INPUT, "reading");
}

static bool write_all(int fd, const uint8_t *bytes, size_t size, struct err *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, bytes + done, size - done);
		if (n < 0 && errno != EINTR)
			return err_errno(err, STATUS_FINISH, "unpacking into a temporary file");
		done += n > 0 ? (size_t)n : 0;
	}
	return true;
}

struct unpacking {
	z_stream stream;
	uint64_t read, made;   // bytes so far
	bool in_member;        // of which some bytes were seen
	int fd;
	uint8_t *out;
};

// What one piece of the packed file holds.
static bool unpack_piece(struct unpacking *u, const uint8_t *bytes, size_t size, struct err *err)
{
	u->stream.next_in = (Bytef *)(uintptr_t)bytes;
	u->stream.avail_in = (uInt)size;
	u->read += size;
	for (bool is_full = false; u->stream.avail_in > 0 || is_full;) {
		if (!u->in_member) {
			if (*u->stream.next_in == 0) { // padding, as tapes have it
				u->stream.next_in++;
				u->stream.avail_in--;
				continue;
			}
			inflateReset(&u->stream);
			u->in_member = true;
		}
		u->stream.next_out = u->out;
		u->stream.avail_out = OUT_BYTES;
		int result = inflate(&u->stream, Z_NO_FLUSH);
		size_t made = OUT_BYTES - u->stream.avail_out;
		is_full = made == OUT_BYTES;
		u->made += made;
		uint64_t offset = u->read - u->stream.avail_in, allowed = u->read * RATIO_MOST;
		if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
			return err_set(err, STATUS_INPUT, "gzip data at 0x%" PRIx64 ": %s", offset, u->stream.msg != NULL ? u->stream.msg : zError(result));
		if (u->made > (allowed > ALWAYS_ALLOWED ? allowed : ALWAYS_ALLOWED))
			return err_set(err, STATUS_INPUT, "gzip data at 0x%" PRIx64 ": %" PRIu64 " bytes of contents so far, expected %d times the packed ones at most", offset,
			               u->made, RATIO_MOST);
		if (!write_all(u->fd, u->out, made, err))
			return false;
		if (result == Z_STREAM_END)
			u->in_member = is_full = false;
		else if (result == Z_BUF_ERROR && !is_full)
			break;
	}
	return true;
}

int gunzip_unpack(gunzip_more_fn *more, void *context, bool *cut_off, struct err *err)
{
	struct unpacking u = { .fd = tmpfile_open() };
	if (u.fd < 0) {
		err_errno(err, STATUS_FINISH, "unpacking into a temporary file");
		return -1;
	}
	int result = inflateInit2(&u.stream, GZIP_WINDOW);
	if (result != Z_OK) {
		err_set(err, STATUS_FINISH, "unpacking: %s", zError(result));
		close(u.fd);
		return -1;
	}
	u.out = mem_alloc(OUT_BYTES);
	const void *bytes;
	size_t size;
	bool good;
	while ((good = more(context, &bytes, &size, err)) && size > 0 && (good = unpack_piece(&u, bytes, size, err)))
		;
	*cut_off = u.in_member;
	inflateEnd(&u.stream);
	free(u.out);
	if (good && lseek(u.fd, 0, SEEK_SET) == 0)
		return u.fd;
	close(u.fd);
	return -1;
}
