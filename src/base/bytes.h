// A cursor over bytes that nobody vouches for: a file, a ring, another process's memory.
//
// Every read is checked. The first read past the end sets `bad` and, like every later one, yields zero, so a
// parser may read a whole structure and look at `bad` once. Nothing here allocates or copies.
#ifndef PERFSAMPLE_BASE_BYTES_H
#define PERFSAMPLE_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
	const uint8_t *at;
	const uint8_t *end;
	const uint8_t *start;
	bool swap; // the bytes are of the other byte order
	bool bad;  // something was read past the end
};

static inline struct bytes bytes_of(const void *data, size_t size)
{
	const uint8_t *p = data;
	return (struct bytes){ .at = p, .end = p + size, .start = p };
}

static inline size_t bytes_left(const struct bytes *b)
{
	return (size_t)(b->end - b->at);
}

static inline size_t bytes_offset(const struct bytes *b)
{
	return (size_t)(b->at - b->start);
}

// Where `size` bytes stand, the cursor moved behind them; NULL and bad when there are fewer.
static inline const void *bytes_take(struct bytes *b, size_t size)
{
	if (b->bad || bytes_left(b) < size) {
		b->bad = true;
		b->at = b->end;
		return NULL;
	}
	const void *p = b->at;
	b->at += size;
	return p;
}

static inline void bytes_skip(struct bytes *b, size_t size)
{
	(void)bytes_take(b, size);
}

static inline uint8_t bytes_u8(struct bytes *b)
{
	const uint8_t *p = bytes_take(b, 1);
	return p != NULL ? *p : 0;
}

static inline uint16_t bytes_u16(struct bytes *b)
{
	uint16_t v = 0;
	const void *p = bytes_take(b, sizeof(v));
	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return b->swap ? __builtin_bswap16(v) : v;
}

static inline uint32_t bytes_u32(struct bytes *b)
{
	uint32_t v = 0;
	const void *p = bytes_take(b, sizeof(v));
	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return b->swap ? __builtin_bswap32(v) : v;
}

static inline uint64_t bytes_u64(struct bytes *b)
{
	uint64_t v = 0;
	const void *p = bytes_take(b, sizeof(v));
	if (p != NULL)
		memcpy(&v, p, sizeof(v));
	return b->swap ? __builtin_bswap64(v) : v;
}

// LEB128 (DWARF 5, 7.6), padded to any length. Bits beyond the 64th that say more than the sign set bad.
uint64_t bytes_uleb(struct bytes *b);
int64_t bytes_sleb(struct bytes *b);
// A NUL-terminated string inside the bytes, the cursor behind its NUL; "" and bad when no NUL is left.
const char *bytes_cstr(struct bytes *b);
// A cursor over the next `size` bytes, this one moved behind them; empty and bad (both) when there are fewer.
struct bytes bytes_sub(struct bytes *b, size_t size);

#endif
