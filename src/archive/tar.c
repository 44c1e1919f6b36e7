#include "archive/tar.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "archive/layout.h"
#include "archive/tar_format.h"
#include "base/buf.h"
#include "base/mem.h"

struct tar_writer {
	gzFile out; // of zlib, which also writes plain
};

bool tar_writer_open(struct tar_writer **out, int fd, bool compress, struct err *err)
{
	int own = dup(fd);
	*out = NULL;
	if (own < 0)
		return err_errno(err, STATUS_FINISH, "archive");
	gzFile file = gzdopen(own, compress ? "wb1" : "wbT"); // T: not compressed
	if (file == NULL) {
		close(own);
		return err_set(err, STATUS_FINISH, "archive: out of memory");
	}
	(void)gzbuffer(file, 256 * 1024);
	*out = NEW(struct tar_writer);
	(*out)->out = file;
	return true;
}

static bool put(struct tar_writer *tar, const void *bytes, uint64_t size, struct err *err)
{
	const char *at = bytes;
	while (size > 0) {
		unsigned piece = size > 1 << 20 ? 1 << 20 : (unsigned)size;
		if (gzwrite(tar->out, at, piece) != (int)piece)
			return err_errno(err, STATUS_FINISH, "writing the archive");
		at += piece;
		size -= piece;
	}
	return true;
}

static bool put_padding(struct tar_writer *tar, uint64_t size, struct err *err)
{
	static const char zeros[TAR_BLOCK];
	return put(tar, zeros, (TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK, err);
}

static void set_octal(char *field, size_t width, uint64_t value)
{
	for (size_t i = width - 1; i-- > 0; value >>= 3)
		field[i] = (char)('0' + (value & 7));
	field[width - 1] = '\0';
}

static bool put_header(struct tar_writer *tar, const char *name, const char *target, uint64_t size, char type, struct err *err)
{
	struct tar_header header;
	memset(&header, 0, sizeof(header));
	memcpy(header.name, name, strnlen(name, sizeof(header.name)));
	memcpy(header.link, target, strnlen(target, sizeof(header.link)));
	set_octal(header.mode, sizeof(header.mode), type == TAR_LINK ? 0777 : 0644);
	set_octal(header.uid, sizeof(header.uid), 0);
	set_octal(header.gid, sizeof(header.gid), 0);
	set_octal(header.size, sizeof(header.size), size);
	set_octal(header.time, sizeof(header.time), 0); // the same contents are the same bytes
	header.type = type;
	memcpy(header.magic, "ustar", 6);
	memcpy(header.version, "00", 2);
	memset(header.sum, ' ', sizeof(header.sum));
	set_octal(header.sum, 7, tar_sum(&header));
	return put(tar, &header, sizeof(header), err);
}

// One line of a pax header: "LENGTH KEY=VALUE\n", the length counting itself.
static void pax_line(struct buf *out, const char *key, const char *value)
{
	size_t rest = strlen(key) + strlen(value) + 3, length = rest + 1;
	char digits[24];
	while ((size_t)snprintf(digits, sizeof(digits), "%zu", length) + rest != length)
		length = (size_t)snprintf(digits, sizeof(digits), "%zu", length) + rest;
	buf_printf(out, "%zu %s=%s\n", length, key, value);
}

static bool put_member(struct tar_writer *tar, const char *name, const char *target, uint64_t size, char type, struct err *err)
{
	struct tar_header limits;
	struct buf pax = { 0 };
	char number[24];
	bool good = true;
	if (!layout_is_inside(name))
		return err_set(err, STATUS_INPUT, "member '%s' does not lie below a folder", name);
	if (strlen(name) > sizeof(limits.name))
		pax_line(&pax, "path", name);
	if (strlen(target) > sizeof(limits.link))
		pax_line(&pax, "linkpath", target);
	if (size > TAR_SIZE_MOST) {
		snprintf(number, sizeof(number), "%llu", (unsigned long long)size);
		pax_line(&pax, "size", number);
	}
	if (pax.size > 0)
		good = put_header(tar, "pax", "", pax.size, TAR_PAX, err) && put(tar, pax.data, pax.size, err) && put_padding(tar, pax.size, err);
	buf_release(&pax);
	return good && put_header(tar, name, target, size > TAR_SIZE_MOST ? 0 : size, type, err);
}

bool tar_add_file(struct tar_writer *tar, const char *name, const void *bytes, uint64_t size, struct err *err)
{
	return put_member(tar, name, "", size, TAR_FILE, err) && put(tar, bytes, size, err) && put_padding(tar, size, err);
}

bool tar_add_link(struct tar_writer *tar, const char *name, const char *target, struct err *err)
{
	return put_member(tar, name, target, 0, TAR_LINK, err);
}

bool tar_writer_close(struct tar_writer *tar, struct err *err)
{
	static const char zeros[2 * TAR_BLOCK];
	bool good = put(tar, zeros, sizeof(zeros), err);
	if (gzclose(tar->out) != Z_OK && good)
		good = err_errno(err, STATUS_FINISH, "writing the archive");
	free(tar);
	return good;
}

void tar_writer_abort(struct tar_writer *tar)
{
	if (tar == NULL)
		return;
	(void)gzclose(tar->out);
	free(tar);
}
