#include "elf/container.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/regular.h"
#include "elf/guard.h"

enum {
	END_RECORD = 0x06054b50, END_BYTES = 22, END64_RECORD = 0x06064b50, END64_LOCATOR = 0x07064b50, LOCATOR_BYTES = 20,
	CENTRAL_RECORD = 0x02014b50, LOCAL_RECORD = 0x04034b50, LOCAL_BYTES = 30, EXTRA_ZIP64 = 1, METHOD_STORED = 0,
	MAX_COMMENT = 65535,
};
#define IN_EXTRA 0xffffffffu // a value that does not fit its 32 bits and stands in the extra field

static struct bytes from(struct bytes file, uint64_t offset)
{
	uint64_t size = (uint64_t)(file.end - file.start);

	if (offset > size)
		return (struct bytes){ .bad = true };
	return bytes_of(file.start + offset, size - offset);
}

bool container_is(struct bytes file)
{
	struct bytes first = from(file, 0);
	uint32_t mark = bytes_u32(&first);

	return !first.bad && (mark == LOCAL_RECORD || mark == END_RECORD);
}

// Where the central directory begins, by the record at the file's end that a comment may follow.
static bool find_directory(struct bytes file, struct bytes *out)
{
	uint64_t size = (uint64_t)(file.end - file.start), at = size < END_BYTES ? 0 : size - END_BYTES, last = at < MAX_COMMENT ? 0 : at - MAX_COMMENT;

	for (; size >= END_BYTES; at--) {
		struct bytes end = from(file, at);
		if (bytes_u32(&end) == END_RECORD) {
			bytes_skip(&end, 12);
			uint64_t start = bytes_u32(&end);
			struct bytes locator = at >= LOCATOR_BYTES ? from(file, at - LOCATOR_BYTES) : (struct bytes){ .bad = true };
			if (start == IN_EXTRA && bytes_u32(&locator) == END64_LOCATOR) {
				bytes_skip(&locator, 4);
				end = from(file, bytes_u64(&locator));
				if (bytes_u32(&end) != END64_RECORD)
					return false;
				bytes_skip(&end, 44);
				start = bytes_u64(&end);
			}
			*out = from(file, start);
			return !end.bad && !out->bad;
		}
		if (at == last)
			break;
	}
	return false;
}

struct central {
	uint16_t method;
	uint64_t size, local; // compressed size; where the local header is
	struct bytes name;
};

// The 64-bit values stand in the order of the fields that lack them: uncompressed size, compressed size, local header.
static void read_extra(struct bytes extra, uint64_t whole, struct central *out)
{
	while (bytes_left(&extra) >= 4) {
		uint16_t id = bytes_u16(&extra), length = bytes_u16(&extra);
		struct bytes data = bytes_sub(&extra, length);
		if (id != EXTRA_ZIP64)
			continue;
		if (whole == IN_EXTRA)
			bytes_u64(&data);
		if (out->size == IN_EXTRA)
			out->size = bytes_u64(&data);
		if (out->local == IN_EXTRA)
			out->local = bytes_u64(&data);
		return;
	}
}

// false: the directory ends here.
static bool next(struct bytes *directory, struct central *out)
{
	if (bytes_u32(directory) != CENTRAL_RECORD)
		return false;
	bytes_skip(directory, 6);
	out->method = bytes_u16(directory);
	bytes_skip(directory, 8);
	out->size = bytes_u32(directory);
	uint64_t whole = bytes_u32(directory);
	uint16_t name = bytes_u16(directory), extra = bytes_u16(directory), comment = bytes_u16(directory);
	bytes_skip(directory, 8);
	out->local = bytes_u32(directory);
	out->name = bytes_sub(directory, name);
	read_extra(bytes_sub(directory, extra), whole, out);
	bytes_skip(directory, comment);
	return !directory->bad;
}

// The bytes of an entry begin behind its local header, whose name and extra field may differ in length from the directory's.
static bool locate(struct bytes file, const struct central *central, struct container_entry *out)
{
	struct bytes local = from(file, central->local);

	if (bytes_u32(&local) != LOCAL_RECORD)
		return false;
	bytes_skip(&local, 22);
	uint16_t name = bytes_u16(&local), extra = bytes_u16(&local);
	bytes_skip(&local, (size_t)name + extra);
	if (local.bad || central->size > bytes_left(&local))
		return false;
	*out = (struct container_entry){ .start = (uint64_t)(local.at - file.start), .size = central->size, .name = central->name };
	return true;
}

bool container_find_at(struct bytes file, uint64_t offset, struct container_entry *out)
{
	struct bytes directory;
	struct central entry;

	if (!find_directory(file, &directory))
		return false;
	while (next(&directory, &entry))
		if (entry.method == METHOD_STORED && entry.local < offset && locate(file, &entry, out) && offset >= out->start &&
		    offset - out->start < out->size)
			return true;
	return false;
}

static bool ends_in(struct bytes path, const char *name, size_t length)
{
	size_t size = bytes_left(&path);

	return size >= length && memcmp(path.end - length, name, length) == 0 && (size == length || path.end[-(ptrdiff_t)length - 1] == '/');
}

bool container_find_name(struct bytes file, const char *name, struct container_entry *out)
{
	struct bytes directory;
	struct central entry;
	size_t length = strlen(name);
	bool found = false;

	if (!find_directory(file, &directory) || length == 0)
		return false;
	while (next(&directory, &entry)) {
		bool is_whole = bytes_left(&entry.name) == length;
		if (entry.method == METHOD_STORED && (is_whole || !found) && ends_in(entry.name, name, length) && locate(file, &entry, out)) {
			if (is_whole)
				return true;
			found = true;
		}
	}
	return found;
}

bool container_name_at(const char *path, uint64_t offset, uint64_t *start, char **name)
{
	struct container_entry entry;
	struct stat st;
	int fd = regular_open(path, 0);

	if (fd < 0)
		return false;
	const void *data = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 ? guard_map(fd, (size_t)st.st_size) : NULL;
	close(fd);
	if (data == NULL)
		return false;
	bool found = container_find_at(bytes_of(data, (size_t)st.st_size), offset, &entry);
	if (found) {
		*start = entry.start;
		*name = mem_string_n((const char *)entry.name.start, (size_t)(entry.name.end - entry.name.start));
	}
	guard_unmap(data, (size_t)st.st_size);
	return found;
}
