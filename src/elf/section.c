// Contents of sections: as they stand, or decompressed (gABI, "Compressed Sections"; .zdebug_ as gold and old gas wrote them).
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "elf/image.h"

#ifndef ELFCOMPRESS_ZSTD
#define ELFCOMPRESS_ZSTD 2
#endif

enum { MAX_RATIO = 1000, MAX_CONTENTS_BYTES = 1 << 30 };

static const struct image_section *find_exact(const struct image *image, const char *name)
{
	for (size_t i = 1; i < image->section_count; i++)
		if (strcmp(image->sections[i].name, name) == 0)
			return &image->sections[i];
	return NULL;
}

const struct image_section *image_find_section(const struct image *image, const char *name)
{
	const struct image_section *section = find_exact(image, name);

	if (section == NULL && strncmp(name, ".debug_", 7) == 0) {
		char old[64];
		snprintf(old, sizeof(old), ".z%s", name + 1);
		section = find_exact(image, old);
	}
	return section;
}

bool image_section_raw(const struct image *image, const struct image_section *section, struct bytes *out)
{
	*out = (struct bytes){ 0 };
	if (section->type == SHT_NOBITS || section->offset > image->size || section->size > image->size - section->offset)
		return false;
	*out = bytes_of(image->data + section->offset, section->size);
	out->swap = image->swap;
	return true;
}

// One or more zlib streams on end (gas writes one for each input section it merged). The bytes that came out.
static size_t inflate_all(struct bytes in, uint8_t *out, size_t size)
{
	z_stream stream = { 0 };
	size_t done = 0;

	if (inflateInit(&stream) != Z_OK)
		return 0;
	while (done < size && bytes_left(&in) > 0) {
		size_t in_part = bytes_left(&in) < UINT32_MAX / 2 ? bytes_left(&in) : UINT32_MAX / 2;
		size_t out_part = size - done < UINT32_MAX / 2 ? size - done : UINT32_MAX / 2;
		stream.next_in = (Bytef *)(uintptr_t)in.at;
		stream.avail_in = (uInt)in_part;
		stream.next_out = out + done;
		stream.avail_out = (uInt)out_part;
		int status = inflate(&stream, Z_NO_FLUSH);
		size_t eaten = in_part - stream.avail_in, made = out_part - stream.avail_out;
		bytes_skip(&in, eaten);
		done += made;
		if (status == Z_STREAM_END)
			inflateReset(&stream);
		else if (status != Z_OK || (eaten == 0 && made == 0))
			break;
	}
	inflateEnd(&stream);
	return done;
}

static bool decompress(const struct image *image, const struct image_section *section, uint32_t type, struct bytes in, uint64_t size,
                       struct buf *storage, struct bytes *out, struct err *err)
{
	if (type != ELFCOMPRESS_ZLIB && type != ELFCOMPRESS_ZSTD)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: compression type %u, expected 1 (zlib) or 2 (zstd)",
		               image->path, (unsigned long long)section->offset, section->name, type);
	if (size > MAX_CONTENTS_BYTES || size > MAX_RATIO * (uint64_t)bytes_left(&in))
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: %llu bytes out of %zu, expected at most %d and %d times as many",
		               image->path, (unsigned long long)section->offset, section->name, (unsigned long long)size, bytes_left(&in), MAX_CONTENTS_BYTES, MAX_RATIO);
	buf_clear(storage);
	uint8_t *to = buf_add(storage, NULL, size);
	size_t got;
	if (type == ELFCOMPRESS_ZLIB) {
		got = inflate_all(in, to, size);
	} else {
		got = ZSTD_decompress(to, size, in.at, bytes_left(&in));
		if (ZSTD_isError(got))
			return err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: expected a zstd stream: %s", image->path,
			               (unsigned long long)section->offset, section->name, ZSTD_getErrorName(got));
	}
	if (got != size)
		return err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: %zu bytes came out, expected %llu", image->path,
		               (unsigned long long)section->offset, section->name, got, (unsigned long long)size);
	*out = bytes_of(storage->data, size);
	out->swap = image->swap;
	return true;
}

bool image_section_contents(const struct image *image, const struct image_section *section, struct buf *storage,
                            struct bytes *out, struct err *err)
{
	struct bytes raw;

	*out = (struct bytes){ 0 };
	if (!image_section_raw(image, section, &raw))
		return err_set(err, STATUS_INPUT, "%s: section %s: nothing in the file (offset %#llx, %llu bytes, type %u)", image->path,
		               section->name, (unsigned long long)section->offset, (unsigned long long)section->size, section->type);
	if ((section->flags & SHF_COMPRESSED) != 0) {
		uint32_t type = bytes_u32(&raw);
		if (image->is_64)
			bytes_skip(&raw, 4);
		uint64_t size = image->is_64 ? bytes_u64(&raw) : bytes_u32(&raw);
		bytes_skip(&raw, image->is_64 ? 8 : 4); // ch_addralign
		if (raw.bad)
			return err_set(err, STATUS_INPUT, "%s: offset %#llx: section %s: %llu bytes, expected a compression header", image->path,
			               (unsigned long long)section->offset, section->name, (unsigned long long)section->size);
		return decompress(image, section, type, raw, size, storage, out, err);
	}
	if (strncmp(section->name, ".zdebug_", 8) == 0 && bytes_left(&raw) >= 12 && memcmp(raw.at, "ZLIB", 4) == 0) {
		uint64_t size = 0;
		bytes_skip(&raw, 4);
		for (int i = 0; i < 8; i++) // big-endian in files of either order
			size = size << 8 | bytes_u8(&raw);
		return decompress(image, section, ELFCOMPRESS_ZLIB, raw, size, storage, out, err);
	}
	*out = raw;
	return true;
}
