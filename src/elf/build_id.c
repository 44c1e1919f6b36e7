#include <string.h>

#include "elf/image.h"

enum { NOTE_GNU_BUILD_ID = 3 }; // NT_GNU_BUILD_ID, <elf.h>

bool build_id_equal(const struct build_id *a, const struct build_id *b)
{
	return a->size > 0 && a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0;
}

char *build_id_hex(const struct build_id *id, char *text)
{
	static const char digits[] = "0123456789abcdef";
	size_t size = id->size <= sizeof(id->bytes) ? id->size : sizeof(id->bytes);

	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[id->bytes[i] >> 4];
		text[2 * i + 1] = digits[id->bytes[i] & 15];
	}
	text[2 * size] = '\0';
	return text;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool build_id_parse(struct build_id *id, const char *hex)
{
	size_t length = strlen(hex);

	memset(id, 0, sizeof(*id));
	if (length == 0 || length % 2 != 0 || length / 2 > sizeof(id->bytes))
		return false;
	for (size_t i = 0; i < length / 2; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		id->bytes[i] = (uint8_t)(high << 4 | low);
	}
	id->size = (uint8_t)(length / 2);
	return true;
}

// Elf64_Nhdr is {namesz, descsz, type}; name and descriptor are padded to 4 bytes, or to 8 in segments aligned so (gABI,
// "Note Section").
bool image_note_next(struct bytes *notes, uint64_t align, struct image_note *out)
{
	size_t mask = align == 8 ? 7 : 3;

	if (bytes_left(notes) < 12)
		return false;
	uint32_t name_size = bytes_u32(notes);
	uint32_t desc_size = bytes_u32(notes);
	out->type = bytes_u32(notes);
	out->name = bytes_sub(notes, name_size);
	bytes_skip(notes, -(12 + (size_t)name_size) & mask);
	out->desc = bytes_sub(notes, desc_size);
	if (notes->bad)
		return false;
	size_t padding = -(size_t)desc_size & mask;
	bytes_skip(notes, padding < bytes_left(notes) ? padding : bytes_left(notes));
	return true;
}

bool build_id_from_notes(struct bytes notes, uint64_t align, struct build_id *out)
{
	struct image_note note;

	while (image_note_next(&notes, align, &note)) {
		size_t size = bytes_left(&note.desc);
		if (note.type == NOTE_GNU_BUILD_ID && bytes_left(&note.name) == 4 && memcmp(note.name.at, "GNU", 4) == 0 && size > 0 &&
		    size <= sizeof(out->bytes)) {
			memset(out, 0, sizeof(*out));
			out->size = (uint8_t)size;
			memcpy(out->bytes, note.desc.at, size);
			return true;
		}
	}
	return false;
}
