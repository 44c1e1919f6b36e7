// Unpacking: everything in an archive is another's word.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "archive/layout.h"
#include "archive/store.h"
#include "archive/tar.h"
#include "archive/tar_format.h"
#include "base/buf.h"
#include "base/mem.h"

enum { NAME_BYTES_MOST = 64 * 1024, MEMBERS_MOST = 1000000, RATIO_MOST = 1000, SMALL_ARCHIVE = 1 << 20 };

struct unpacking {
	gzFile in;
	int folder_fd;
	uint64_t offset, file_bytes; // read, decompressed; of the archive as it is
	struct buf name, target;     // of the member at hand, when told by a header before it; size 0: not told
	uint64_t size;               // likewise
	bool has_size;
	struct tar_figures *figures;
};

static bool take(struct unpacking *u, void *bytes, size_t size, struct err *err)
{
	int got = gzread(u->in, bytes, (unsigned)size);
	if (got != (int)size)
		return err_set(err, STATUS_INPUT, "archive at 0x%llx: %d bytes, expected %zu", (unsigned long long)u->offset, got > 0 ? got : 0, size);
	u->offset += size;
	if (u->offset > SMALL_ARCHIVE && u->offset / RATIO_MOST > u->file_bytes)
		return err_set(err, STATUS_INPUT, "archive at 0x%llx: more than %d times its %llu bytes", (unsigned long long)u->offset, RATIO_MOST,
		               (unsigned long long)u->file_bytes);
	return true;
}

static bool octal(const char *field, size_t width, uint64_t *value)
{
	size_t i = 0;
	*value = 0;
	while (i < width && field[i] == ' ')
		i++;
	size_t first = i;
	for (; i < width && field[i] >= '0' && field[i] <= '7'; i++)
		*value = *value << 3 | (uint64_t)(field[i] - '0');
	return i > first && (i == width || field[i] == '\0' || field[i] == ' ');
}

// ---------------------------------------------------------------- what is said before a member

static bool take_text(struct unpacking *u, uint64_t size, struct buf *out, struct err *err)
{
	if (size > NAME_BYTES_MOST)
		return err_set(err, STATUS_INPUT, "archive at 0x%llx: a header of %llu bytes, expected at most %d", (unsigned long long)u->offset,
		               (unsigned long long)size, NAME_BYTES_MOST);
	size_t whole = (size_t)(size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
	buf_clear(out);
	buf_reserve(out, whole + 1);
	if (!take(u, out->data, whole, err))
		return false;
	out->size = (size_t)size;
	out->data[size] = '\0';
	return true;
}

static bool take_pax(struct unpacking *u, uint64_t size, struct err *err)
{
	struct buf text = { 0 };
	bool good = take_text(u, size, &text, err);
	for (size_t at = 0; good && at < text.size;) {
		char *end;
		unsigned long length = strtoul(text.data + at, &end, 10);
		size_t head = (size_t)(end - (text.data + at));
		if (head == 0 || *end != ' ' || length <= head + 1 || length > text.size - at || text.data[at + length - 1] != '\n') {
			good = err_set(err, STATUS_INPUT, "archive before 0x%llx: a pax header that is none", (unsigned long long)u->offset);
			break;
		}
		text.data[at + length - 1] = '\0';
		const char *key = end + 1, *value = strchr(key, '=');
		if (value != NULL && strncmp(key, "path=", 5) == 0)
			buf_clear(&u->name), buf_string(&u->name, value + 1);
		else if (value != NULL && strncmp(key, "linkpath=", 9) == 0)
			buf_clear(&u->target), buf_string(&u->target, value + 1);
		else if (value != NULL && strncmp(key, "size=", 5) == 0)
			u->size = strtoull(value + 1, NULL, 10), u->has_size = true;
		at += length;
	}
	buf_release(&text);
	return good;
}

// ---------------------------------------------------------------- below the folder

static bool copy_bytes(struct unpacking *u, int fd, uint64_t size, const char *name, struct err *err)
{
	static const size_t piece = 64 * 1024;
	char *bytes = mem_alloc(piece);
	bool good = true;
	for (uint64_t left = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK, kept = size; good && left > 0;) {
		size_t now = left < piece ? (size_t)left : piece, wanted = kept < now ? (size_t)kept : now;
		good = take(u, bytes, now, err);
		for (size_t done = 0; good && fd >= 0 && done < wanted;) {
			ssize_t n = write(fd, bytes + done, wanted - done);
			if (n < 0 && errno != EINTR)
				good = err_errno(err, STATUS_FINISH, "%s", name);
			done += n > 0 ? (size_t)n : 0;
		}
		left -= now;
		kept -= wanted;
	}
	free(bytes);
	return good;
}

static bool unpack_file(struct unpacking *u, const char *name, uint64_t size, struct err *err)
{
	const char *last;
	struct stat st;
	int folder = store_folder(u->folder_fd, name, &last, err);
	if (folder < 0)
		return false;
	bool is_there = fstatat(folder, last, &st, AT_SYMLINK_NOFOLLOW) == 0;
	char *temporary = mem_printf(".%.200s.%d.tmp", last, (int)getpid());
	int fd = is_there ? -1 : openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	bool good = is_there || fd >= 0 || err_errno(err, STATUS_FINISH, "%s", name);
	good = good && copy_bytes(u, fd, size, name, err);
	if (fd >= 0) {
		if (close(fd) != 0 && good)
			good = err_errno(err, STATUS_FINISH, "%s", name);
		if (good && renameat(folder, temporary, folder, last) != 0)
			good = err_errno(err, STATUS_FINISH, "%s", name);
		if (!good)
			unlinkat(folder, temporary, 0);
	}
	u->figures->files += good && !is_there;
	u->figures->present += is_there;
	u->figures->bytes += good && !is_there ? size : 0;
	free(temporary);
	close(folder);
	return good;
}

// A link of the layout: some "..", no more than its own name has folders, then a path inside.
static bool is_target_inside(const char *name, const char *target)
{
	size_t depth = 0;
	for (const char *p = name; *p != '\0'; p++)
		depth += *p == '/';
	while (strncmp(target, "../", 3) == 0 && depth > 0) {
		target += 3;
		depth--;
	}
	return layout_is_inside(target);
}

static bool unpack_link(struct unpacking *u, const char *name, const char *target, struct err *err)
{
	const char *last;
	bool is_there = false;
	if (!is_target_inside(name, target))
		return err_set(err, STATUS_INPUT, "member '%s' is a link out of the folder: '%s'", name, target);
	int folder = store_folder(u->folder_fd, name, &last, err);
	if (folder < 0)
		return false;
	bool good = store_link_in(folder, last, name, target, &is_there, err);
	u->figures->links += good && !is_there;
	u->figures->present += is_there;
	close(folder);
	return good;
}

// ---------------------------------------------------------------- members

static void use_header_names(struct unpacking *u, const struct tar_header *header)
{
	bool is_ustar = memcmp(header->magic, "ustar", 5) == 0 && header->prefix[0] != '\0';
	if (u->name.size == 0 && is_ustar)
		buf_printf(&u->name, "%.155s/%.100s", header->prefix, header->name);
	else if (u->name.size == 0)
		buf_printf(&u->name, "%.100s", header->name);
	if (u->target.size == 0)
		buf_printf(&u->target, "%.100s", header->link);
}

static bool unpack_member(struct unpacking *u, const struct tar_header *header, uint64_t size, struct err *err)
{
	use_header_names(u, header);
	if (u->has_size)
		size = u->size;
	char *name = mem_string(buf_text(&u->name)), *target = mem_string(buf_text(&u->target));
	bool good = true;
	size_t length = strlen(name);
	if (strncmp(name, "./", 2) == 0) // as tar writes what it was given as "."
		memmove(name, name + 2, length - 1), length -= 2;
	if (header->type == TAR_FOLDER && length > 0 && name[length - 1] == '/')
		name[length - 1] = '\0';
	bool is_root = header->type == TAR_FOLDER && name[0] == '\0';
	if (!is_root && !layout_is_inside(name))
		good = err_set(err, STATUS_INPUT, "member '%s' would lie outside the folder: refused", buf_text(&u->name));
	else if (header->type == TAR_FILE || header->type == TAR_OLD_FILE)
		good = unpack_file(u, name, size, err);
	else if (header->type == TAR_LINK)
		good = unpack_link(u, name, target, err);
	else if (header->type != TAR_FOLDER) // folders are made as they are needed
		good = err_set(err, STATUS_INPUT, "member '%s' is neither a file nor a link: refused", name);
	buf_clear(&u->name);
	buf_clear(&u->target);
	u->has_size = false;
	free(name);
	free(target);
	return good;
}

static bool next_member(struct unpacking *u, bool *ends, struct err *err)
{
	struct tar_header header;
	static const struct tar_header zeros;
	uint64_t size, sum;
	uint64_t at = u->offset;
	if (!take(u, &header, sizeof(header), err))
		return false;
	*ends = memcmp(&header, &zeros, sizeof(header)) == 0;
	if (*ends)
		return true;
	if (!octal(header.sum, sizeof(header.sum), &sum) || sum != tar_sum(&header) || !octal(header.size, sizeof(header.size), &size))
		return err_set(err, STATUS_INPUT, "archive at 0x%llx: not a tar header", (unsigned long long)at);
	struct buf ignored = { 0 };
	bool good;
	switch (header.type) {
	case TAR_PAX: return take_pax(u, size, err);
	case TAR_GNU_NAME: return take_text(u, size, &u->name, err);
	case TAR_GNU_TARGET: return take_text(u, size, &u->target, err);
	case TAR_PAX_GLOBAL:
		good = take_text(u, size, &ignored, err);
		buf_release(&ignored);
		return good;
	default: return unpack_member(u, &header, size, err);
	}
}

bool tar_unpack(int fd, int folder_fd, struct tar_figures *figures, struct err *err)
{
	struct stat st;
	struct unpacking u = { .folder_fd = folder_fd, .figures = figures };
	*figures = (struct tar_figures){ 0 };
	int own = dup(fd);
	u.in = own >= 0 && fstat(fd, &st) == 0 ? gzdopen(own, "rb") : NULL;
	if (u.in == NULL) {
		if (own >= 0)
			close(own);
		return err_errno(err, STATUS_INPUT, "archive");
	}
	u.file_bytes = (uint64_t)st.st_size;
	bool good = true, ends = false;
	for (size_t members = 0; good && !ends; members++) {
		good = next_member(&u, &ends, err);
		if (members > MEMBERS_MOST)
			good = err_set(err, STATUS_INPUT, "archive: more than %d members", MEMBERS_MOST);
	}
	buf_release(&u.name);
	buf_release(&u.target);
	gzclose_r(u.in);
	return good;
}
