#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <zlib.h>

#include "symbols/damage.h"
#include "symbols/dwarf_internal.h"

// .debug_info is by far the largest section, and units lie in it in the order of linking: a zlib stream needs to be decompressed no
// further than the last unit asked for.
struct dwarf_inflating {
	z_stream stream;
	size_t done;
	bool is_over; // the stream ended or is damaged
};
enum { STEP_BYTES = 64 * 1024 };
#define DECOMPRESSED_LIMIT (1ull << 30)
#define RATIO_LIMIT 1000u

static const char *const names[DWARF_SECTIONS] = {
	[DWARF_INFO] = "info", [DWARF_ABBREV] = "abbrev", [DWARF_LINE] = "line", [DWARF_STR] = "str", [DWARF_LINE_STR] = "line_str",
	[DWARF_RANGES] = "ranges", [DWARF_RNGLISTS] = "rnglists", [DWARF_ADDR] = "addr", [DWARF_STR_OFFSETS] = "str_offsets",
	[DWARF_ARANGES] = "aranges",
};

static const struct image_section *find(const struct dwarf *dwarf, enum dwarf_section_id id)
{
	char name[40];
	snprintf(name, sizeof(name), ".debug_%s%s", names[id], dwarf->is_split ? ".dwo" : "");
	const struct image_section *section = image_find_section(dwarf->image, name);
	if (section == NULL && !dwarf->is_split) {
		snprintf(name, sizeof(name), ".zdebug_%s", names[id]);
		section = image_find_section(dwarf->image, name);
	}
	return section;
}

// Sets up the decompression of an SHF_COMPRESSED zlib section; false: it is none, or its sizes are not to be believed.
static bool start_inflating(struct dwarf *dwarf, const struct image_section *section, struct dwarf_section *out)
{
	struct bytes b;
	if (!(section->flags & SHF_COMPRESSED) || !dwarf->image->is_64 || !image_section_raw(dwarf->image, section, &b))
		return false;
	b.swap = dwarf->image->swap;
	uint32_t type = bytes_u32(&b);
	bytes_skip(&b, 4);
	uint64_t size = bytes_u64(&b);
	bytes_skip(&b, 8);
	// The checksum at the stream's end may never be reached, so it is not computed either: the two bytes of zlib's header (RFC 1950)
	// are read here and the rest as a raw stream.
	uint8_t method = bytes_u8(&b), flags = bytes_u8(&b);
	if ((method & 15) != 8 || (flags & 0x20) || (method << 8 | flags) % 31 != 0)
		return false;
	if (b.bad || type != ELFCOMPRESS_ZLIB || size > DECOMPRESSED_LIMIT || size > (uint64_t)bytes_left(&b) * RATIO_LIMIT ||
	    bytes_left(&b) > UINT32_MAX)
		return false;
	struct dwarf_inflating *inflating = NEW(struct dwarf_inflating);
	if (inflateInit2(&inflating->stream, -MAX_WBITS) != Z_OK) {
		free(inflating);
		return false;
	}
	inflating->stream.next_in = (Bytef *)b.at;
	inflating->stream.avail_in = (uInt)bytes_left(&b);
	buf_reserve(&out->storage, (size_t)size); // untouched pages cost nothing
	out->inflating = inflating;
	out->bytes = bytes_of(out->storage.data, (size_t)size);
	return true;
}

void dwarf_fault(struct dwarf *dwarf, enum dwarf_section_id id, uint64_t at, const char *expected, ...)
{
	struct buf text = { 0 };
	va_list args;
	if (dwarf->files.damages == NULL)
		return;
	const struct image_section *section = find(dwarf, id);
	buf_printf(&text, "%s: section %s: offset %#llx: expected ", dwarf->image->path, section != NULL ? section->name : names[id], (unsigned long long)at);
	va_start(args, expected);
	buf_vprintf(&text, expected, args);
	va_end(args);
	damages_note(dwarf->files.damages, dwarf->image->path, NULL, (uint64_t)(id + 1) << 56 | (at & (((uint64_t)1 << 56) - 1)), buf_text(&text));
	buf_release(&text);
}

void dwarf_section_load(struct dwarf *dwarf, enum dwarf_section_id id)
{
	struct dwarf_section *s = &dwarf->sections[id];
	struct err err = { 0 };
	s->is_loaded = true;
	s->bytes = bytes_of("", 0);
	const struct image_section *section = find(dwarf, id);
	if (section != NULL && !(id == DWARF_INFO && start_inflating(dwarf, section, s)) &&
	    !image_section_contents(dwarf->image, section, &s->storage, &s->bytes, &err)) {
		s->bytes = bytes_of("", 0);
		if (section->type != SHT_NOBITS)
			damages_note(dwarf->files.damages, dwarf->image->path, NULL, 1, err.text);
	}
	s->bytes.swap = dwarf->image->swap;
	s->bytes.bad = false;
}

bool dwarf_info_reaches(struct dwarf *dwarf, uint64_t end)
{
	struct bytes info = dwarf_section(dwarf, DWARF_INFO);
	struct dwarf_section *s = &dwarf->sections[DWARF_INFO];
	struct dwarf_inflating *z = s->inflating;
	size_t size = bytes_left(&info);
	if (end > size)
		return false;
	if (z == NULL || end <= z->done)
		return true;
	while (z->done < end && !z->is_over) {
		size_t step = size - z->done < STEP_BYTES ? size - z->done : STEP_BYTES;
		z->stream.next_out = (Bytef *)s->storage.data + z->done;
		z->stream.avail_out = (uInt)step;
		int status = inflate(&z->stream, Z_NO_FLUSH);
		size_t got = step - z->stream.avail_out;
		z->done += got;
		z->is_over = status != Z_OK || got == 0;
	}
	if (z->done < end)
		dwarf_fault(dwarf, DWARF_INFO, z->done, "%zu bytes out of its zlib stream", size);
	return z->done >= end;
}

void dwarf_sections_load(struct dwarf *dwarf)
{
	for (enum dwarf_section_id id = 0; id < DWARF_SECTIONS; id++)
		if (id != DWARF_ARANGES && (dwarf->with_lines || (id != DWARF_LINE && id != DWARF_LINE_STR)))
			(void)dwarf_section(dwarf, id);
	if (image_find_section(dwarf->image, ".gnu_debugaltlink") != NULL && dwarf_alternative(dwarf) != NULL)
		(void)dwarf_section(dwarf->alt, DWARF_STR);
}

void dwarf_sections_release(struct dwarf *dwarf)
{
	for (size_t i = 0; i < DWARF_SECTIONS; i++) {
		if (dwarf->sections[i].inflating != NULL) {
			inflateEnd(&dwarf->sections[i].inflating->stream);
			free(dwarf->sections[i].inflating);
		}
		buf_release(&dwarf->sections[i].storage);
	}
}
