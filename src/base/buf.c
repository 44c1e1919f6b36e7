#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void buf_release(struct buf *buf)
{
	free(buf->data);
	*buf = (struct buf){ 0 };
}

void buf_clear(struct buf *buf)
{
	buf->size = 0;
}

void buf_reserve(struct buf *buf, size_t extra)
{
	size_t need = buf->size + extra + 1;
	if (need <= buf->capacity)
		return;
	size_t larger = buf->capacity + buf->capacity / 2 + 64;
	buf->capacity = larger > need ? larger : need;
	buf->data = mem_resize(buf->data, buf->capacity, 1);
}

void *buf_add(struct buf *buf, const void *bytes, size_t size)
{
	buf_reserve(buf, size);
	char *at = buf->data + buf->size;
	if (bytes != NULL && size > 0)
		memcpy(at, bytes, size);
	buf->size += size;
	buf->data[buf->size] = '\0';
	return at;
}

void buf_byte(struct buf *buf, uint8_t byte)
{
	buf_add(buf, &byte, 1);
}

void buf_u16(struct buf *buf, uint16_t value)
{
	buf_add(buf, &value, sizeof(value));
}

void buf_u32(struct buf *buf, uint32_t value)
{
	buf_add(buf, &value, sizeof(value));
}

void buf_u64(struct buf *buf, uint64_t value)
{
	buf_add(buf, &value, sizeof(value));
}

void buf_uleb(struct buf *buf, uint64_t value)
{
	do {
		uint8_t byte = value & 0x7f;
		value >>= 7;
		buf_byte(buf, value != 0 ? byte | 0x80 : byte);
	} while (value != 0);
}

void buf_decimal(struct buf *buf, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	buf_add(buf, digits + at, sizeof(digits) - at);
}

void buf_grouped(struct buf *buf, uint64_t value)
{
	size_t from = buf->size;
	buf_decimal(buf, value);
	for (size_t digits = buf->size - from, i = 1; i < digits; i++) // from the right
		if (i % 3 == 0) {
			size_t at = from + digits - i;
			buf_byte(buf, ',');
			memmove(buf->data + at + 1, buf->data + at, buf->size - 1 - at);
			buf->data[at] = ',';
		}
}

void buf_string(struct buf *buf, const char *s)
{
	buf_add(buf, s, strlen(s));
}

void buf_vprintf(struct buf *buf, const char *format, va_list args)
{
	enum { USUAL = 64 };
	va_list again;
	va_copy(again, args);
	buf_reserve(buf, USUAL);
	int length = vsnprintf(buf->data + buf->size, buf->capacity - buf->size, format, args);
	if (length > 0 && (size_t)length >= buf->capacity - buf->size) {
		buf_reserve(buf, (size_t)length);
		vsnprintf(buf->data + buf->size, (size_t)length + 1, format, again);
	}
	buf->size += length > 0 ? (size_t)length : 0;
	va_end(again);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	buf_vprintf(buf, format, args);
	va_end(args);
}

void buf_align(struct buf *buf, size_t alignment)
{
	while ((buf->size & (alignment - 1)) != 0)
		buf_byte(buf, 0);
}

const char *buf_text(struct buf *buf)
{
	buf_reserve(buf, 0);
	buf->data[buf->size] = '\0';
	return buf->data;
}

char *buf_detach(struct buf *buf)
{
	buf_text(buf);
	char *data = buf->data;
	*buf = (struct buf){ 0 };
	return data;
}
