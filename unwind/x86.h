// What the two x86 machines share.
#ifndef PERFSAMPLE_UNWIND_X86_H
#define PERFSAMPLE_UNWIND_X86_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

// e8 rel32, or ff /2 with any addressing form (Intel SDM volume 2, CALL).
static inline bool x86_is_call(const uint8_t *end, size_t size, int64_t *distance)
{
	*distance = 0;
	if (size >= 5 && end[-5] == 0xe8) {
		int32_t relative;
		memcpy(&relative, end - 4, 4);
		*distance = relative;
		return true;
	}
	for (size_t length = 2; length <= 7 && length <= size; length++) {
		const uint8_t *op = end - length;
		if (op[0] != 0xff || (op[1] >> 3 & 7) != 2)
			continue;
		unsigned mode = op[1] >> 6, rm = op[1] & 7;
		size_t need = 2;
		if (mode != 3 && rm == 4)
			need += 1 + (mode == 0 && length > 2 && (op[2] & 7) == 5 ? 4 : 0); // a SIB byte
		if (mode == 1)
			need += 1;
		else if (mode == 2 || (mode == 0 && rm == 5))
			need += 4;
		if (need == length)
			return true;
	}
	return false;
}

static inline size_t x86_next_call(const uint8_t *code, size_t size, size_t from)
{
	int64_t distance;

	for (size_t at = from; at + 2 <= size; at++) {
		if (code[at] == 0xe8 && at + 5 <= size && at + 5 > from)
			return at + 5;
		if (code[at] != 0xff || (code[at + 1] >> 3 & 7) != 2)
			continue;
		for (size_t length = 2; length <= 7 && at + length <= size; length++)
			if (x86_is_call(code + at + length, length, &distance) && at + length > from)
				return at + length;
	}
	return size + 1;
}

// An optional endbr, then jmp through memory (ff 25 or, in i386's position-independent PLTs, ff a3), with or without a bnd prefix.
static inline bool x86_is_stub(const uint8_t *code, size_t size)
{
	if (size >= 4 && code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e) {
		code += 4;
		size -= 4;
	}
	if (size >= 1 && code[0] == 0xf2) {
		code++;
		size--;
	}
	return size >= 2 && code[0] == 0xff && (code[1] == 0x25 || code[1] == 0xa3);
}

// No push of the frame pointer first; a jmp through a register (ff e0 to e7), or a jmp or jcc to far above or anywhere below: V8's call builtins.
static inline bool x86_jumps_on(const uint8_t *code, size_t size)
{
	enum { FUNCTION_BYTES = 1 << 16 };

	if (size == 0 || code[0] == 0x55)
		return false;
	for (size_t i = 0; i + 6 <= size; i++) {
		if (code[i] == 0xff && (code[i + 1] & 0xf8) == 0xe0)
			return true;
		bool is_jcc = code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80;
		if (!is_jcc && code[i] != 0xe9)
			continue;
		int32_t relative;
		memcpy(&relative, code + i + 1 + is_jcc, 4);
		int64_t to = (int64_t)i + 5 + is_jcc + relative;
		if ((to < 0 && to > -(1 << 28)) || (to > FUNCTION_BYTES && to < 1 << 28))
			return true;
	}
	return false;
}

// ret, hlt, ud2
static inline bool x86_has_end(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (code[i] == 0xc3 || code[i] == 0xf4 || (code[i] == 0x0f && i + 1 < size && code[i + 1] == 0x0b))
			return true;
	return false;
}

// hlt, syscall, int $0x80 or ud2 before a ret
static inline bool x86_is_exit(const uint8_t *code, size_t size)
{
	for (size_t i = 0; i < size && code[i] != 0xc3; i++)
		if (code[i] == 0xf4 || (i + 1 < size && ((code[i] == 0x0f && (code[i + 1] == 0x05 || code[i + 1] == 0x0b)) ||
		                                         (code[i] == 0xcd && code[i + 1] == 0x80))))
			return true;
	return false;
}

#endif
