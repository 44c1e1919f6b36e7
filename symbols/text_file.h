// A text file from the kernel or from another process, read whole: its size is not known before, and bounded.
#ifndef PERFSAMPLE_SYMBOLS_TEXT_FILE_H
#define PERFSAMPLE_SYMBOLS_TEXT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

// Reads from the start of `fd` to its end or to `limit` bytes, whichever comes first. false: reading failed at once.
bool text_file_read(int fd, size_t limit, struct buf *out);

// Hex digits at *at (a leading 0x allowed), *at moved behind them. false: none, or more than 64 bits.
static inline bool text_hex(const char **at, const char *end, uint64_t *value)
{
	const char *p = *at;
	if (end - p > 2 && p[0] == '0' && (p[1] == 'x' || p[1] == 'X'))
		p += 2;
	const char *first = p;
	uint64_t v = 0;
	for (; p < end; p++) {
		unsigned c = (unsigned char)*p, digit;
		if (c - '0' < 10)
			digit = c - '0';
		else if ((c | 32) - 'a' < 6)
			digit = (c | 32) - 'a' + 10;
		else
			break;
		if (v >> 60 != 0)
			return false;
		v = v << 4 | digit;
	}
	*at = p;
	*value = v;
	return p > first;
}

#endif
