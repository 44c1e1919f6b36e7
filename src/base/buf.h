// A growable run of bytes: text under construction, a record to be written, a section read whole.
#ifndef PERFSAMPLE_BASE_BUF_H
#define PERFSAMPLE_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;      // NUL behind data[size - 1] after the text functions
	size_t size;     // bytes in use
	size_t capacity;
};

// A zeroed struct is an empty buffer.
void buf_release(struct buf *buf);
void buf_clear(struct buf *buf);
void buf_reserve(struct buf *buf, size_t extra);
// Appends `size` bytes and returns where they stand; `bytes` may be NULL for room left unwritten.
void *buf_add(struct buf *buf, const void *bytes, size_t size);
void buf_byte(struct buf *buf, uint8_t byte);
void buf_u16(struct buf *buf, uint16_t value);  // host byte order, as the perf ABI wants it
void buf_u32(struct buf *buf, uint32_t value);
void buf_u64(struct buf *buf, uint64_t value);
void buf_uleb(struct buf *buf, uint64_t value);  // DWARF 5, 7.6
void buf_decimal(struct buf *buf, uint64_t value);
void buf_grouped(struct buf *buf, uint64_t value);  // 1234567 as 1,234,567
void buf_string(struct buf *buf, const char *s); // without its NUL
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *buf, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
// Zero bytes up to the next multiple of `alignment` (a power of two).
void buf_align(struct buf *buf, size_t alignment);
// Never NULL; the text so far.
const char *buf_text(struct buf *buf);
// Hands the bytes over to the caller, who frees them; the buffer is empty then.
char *buf_detach(struct buf *buf);

#endif
