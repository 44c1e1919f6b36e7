#include "base/bytes.h"

uint64_t bytes_uleb(struct bytes *b)
{
	uint64_t value = 0;
	for (unsigned shift = 0;; shift += shift < 64 ? 7 : 0) {
		uint8_t byte = bytes_u8(b);
		if (__builtin_expect(shift >= 63, 0) && (byte & (shift == 63 ? 0x7e : 0x7f)) != 0) {
			b->bad = true;
			return 0;
		}
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if ((byte & 0x80) == 0)
			return b->bad ? 0 : value;
	}
}

int64_t bytes_sleb(struct bytes *b)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;
	do {
		byte = bytes_u8(b);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		else if ((byte & 0x7f) != ((int64_t)value < 0 ? 0x7f : 0)) { // padding repeats the sign
			b->bad = true;
			return 0;
		}
		shift += shift < 70 ? 7 : 0;
	} while ((byte & 0x80) != 0);
	if (shift < 64 && (byte & 0x40) != 0)
		value |= ~(uint64_t)0 << shift;
	return b->bad ? 0 : (int64_t)value;
}

const char *bytes_cstr(struct bytes *b)
{
	size_t left = bytes_left(b);
	const uint8_t *nul = left > 0 ? memchr(b->at, '\0', left) : NULL;
	if (b->bad || nul == NULL) {
		b->bad = true;
		b->at = b->end;
		return "";
	}
	const char *s = (const char *)b->at;
	b->at = nul + 1;
	return s;
}

struct bytes bytes_sub(struct bytes *b, size_t size)
{
	const uint8_t *p = bytes_take(b, size);
	struct bytes sub = { .at = p, .end = p != NULL ? p + size : p, .start = p, .swap = b->swap, .bad = p == NULL };
	return sub;
}
