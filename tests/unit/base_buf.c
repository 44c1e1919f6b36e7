#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "tests/tap.h"

#include <errno.h>
#include <stdint.h>

static void test_buf(void)
{
	struct buf b = { 0 };
	is_str(buf_text(&b), "", "an empty buffer has text");
	buf_string(&b, "ab");
	buf_byte(&b, 'c');
	buf_add(&b, "de", 2);
	buf_printf(&b, "-%d-%s", 42, "x");
	is_str(b.data, "abcde-42-x", "appended");
	is_u64(b.size, 10, "its size");
	buf_printf(&b, "%s", "");
	is_u64(b.size, 10, "an empty format adds nothing");
	buf_clear(&b);
	ok(b.size == 0 && b.capacity > 0, "clear keeps the memory");
	buf_decimal(&b, 0);
	buf_byte(&b, ' ');
	buf_decimal(&b, UINT64_MAX);
	is_str(b.data, "0 18446744073709551615", "decimal numbers");
	buf_clear(&b);
	for (int width = 1; width < 300; width++)
		buf_printf(&b, "%*d", width, 7);
	ok(b.size == 299 * 300 / 2 && b.data[b.size - 1] == '7' && b.data[b.size - 2] == ' ' && b.data[b.size] == 0, "formats of any length");
	buf_clear(&b);
	buf_u16(&b, 0x0102);
	buf_u32(&b, 0x03040506);
	buf_u64(&b, 0x0708090a0b0c0d0e);
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	memcpy(&u16, b.data, 2), memcpy(&u32, b.data + 2, 4), memcpy(&u64, b.data + 6, 8);
	ok(b.size == 14 && u16 == 0x0102 && u32 == 0x03040506 && u64 == 0x0708090a0b0c0d0e, "numbers in host order");
	buf_align(&b, 8);
	ok(b.size == 16 && b.data[14] == 0 && b.data[15] == 0, "aligned with zeros");
	buf_align(&b, 8);
	is_u64(b.size, 16, "aligned already");
	buf_clear(&b);
	char *room = buf_add(&b, NULL, 5000);
	memset(room, 'z', 5000);
	ok(b.size == 5000 && b.data[5000] == '\0' && b.capacity > 5000, "room unwritten, a NUL behind it");
	for (int i = 0; i < 3000; i++)
		buf_byte(&b, (uint8_t)i);
	ok(b.size == 8000 && b.data[4999] == 'z' && (uint8_t)b.data[5000 + 300] == 300 % 256, "growing keeps what was there");
	char *text = buf_detach(&b);
	ok(text[0] == 'z' && b.data == NULL && b.size == 0 && b.capacity == 0, "detached");
	free(text);
	buf_add(&b, "a\0b", 3);
	ok(b.size == 3 && memcmp(b.data, "a\0b", 4) == 0, "bytes, not strings");
	buf_release(&b);
	ok(b.data == NULL && b.size == 0, "released");
}

static void uleb_is(uint64_t value, const char *bytes, size_t size)
{
	struct buf b = { 0 };
	buf_uleb(&b, value);
	ok(b.size == size && memcmp(b.data, bytes, size) == 0, "ULEB128 of %llu", (unsigned long long)value);
	buf_release(&b);
}

static void test_err(void)
{
	struct err e = { 0 };
	ok(!err_set(&e, STATUS_INPUT, "size %d below %d", 3, 8) && e.status == STATUS_INPUT, "err_set returns false and keeps the status");
	is_str(e.text, "size 3 below 8", "its text");
	ok(!err_context(&e, "record at %#x", 0x1f20) && e.status == STATUS_INPUT, "context keeps the status");
	is_str(e.text, "record at 0x1f20: size 3 below 8", "context goes before");
	errno = ENOENT;
	ok(!err_errno(&e, STATUS_HOST, "opening %s", "x") && e.status == STATUS_HOST && errno == ENOENT, "errno is kept");
	is_str(e.text, "opening x: No such file or directory", "and said");
	err_clear(&e);
	ok(e.status == STATUS_OK && e.text[0] == '\0', "cleared");
	ok(!err_set(NULL, STATUS_USAGE, "x") && !err_context(NULL, "y") && !err_errno(NULL, STATUS_USAGE, "z"), "nobody need listen");
	char longest[3000];
	memset(longest, 'a', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	err_set(&e, STATUS_USAGE, "%s", longest);
	is_u64(strlen(e.text), sizeof(e.text) - 1, "cut at the end");
	err_context(&e, "%s", longest);
	is_u64(strlen(e.text), sizeof(e.text) - 1, "context too long is cut as well");
	err_set(&e, STATUS_USAGE, "%s", "inner");
	err_context(&e, "%s", longest);
	ok(e.text[0] == 'a' && strlen(e.text) == sizeof(e.text) - 1, "a long context pushes the text out");
	errno = EIO;
	err_errno(&e, STATUS_FINISH, "%s", longest);
	is_u64(strlen(e.text), sizeof(e.text) - 1, "errno with no room left");
}

static void test_vec(void)
{
	VEC(int) v = { 0 };
	for (int i = 0; i < 1000; i++)
		vec_push(&v, i * 3);
	bool is_kept = v.count == 1000 && v.capacity >= 1000;
	for (int i = 0; i < 1000; i++)
		is_kept = is_kept && v.data[i] == i * 3;
	ok(is_kept, "a thousand values, each in its place");
	size_t capacity = v.capacity;
	vec_clear(&v);
	ok(v.count == 0 && v.capacity == capacity, "clear keeps the memory");
	memset(v.data, 0xff, capacity * sizeof(int));
	is_u64((unsigned)*vec_add(&v), 0, "an added element is zeroed");
	is_u64(v.count, 1, "and counted");
	vec_reserve(&v, 5000);
	ok(v.capacity >= 5001 && v.count == 1, "reserved");
	int *before = v.data;
	vec_reserve(&v, 10);
	ok(v.data == before, "nothing moves when there is room");
	vec_release(&v);
	ok(v.data == NULL && v.count == 0 && v.capacity == 0, "released");
}

static void test_arena(void)
{
	struct arena a = { 0 };
	char *first = arena_alloc(&a, 1);
	char *second = arena_alloc(&a, 17);
	ok(((uintptr_t)first & 15) == 0 && ((uintptr_t)second & 15) == 0, "aligned to 16 bytes");
	ok(second - first == 16, "one byte takes one step");
	bool is_zero = true;
	memset(second, 0xff, 17);
	char *third = arena_alloc(&a, 100);
	for (int i = 0; i < 100; i++)
		is_zero = is_zero && third[i] == 0;
	ok(is_zero && third >= second + 17, "zeroed, and not overlapping");
	char *big = arena_alloc(&a, 1 << 20);
	big[0] = big[(1 << 20) - 1] = 1;
	char *s = arena_string(&a, "hello world", 5);
	is_str(s, "hello", "a string is cut and ends");
	ok(arena_string(&a, NULL, 0)[0] == '\0', "an empty string");
	for (int i = 0; i < 20000; i++)
		*(int *)arena_alloc(&a, sizeof(int)) = i;
	ok(first[0] == 0 && strcmp(s, "hello") == 0, "earlier memory stays");
	ok(a.bytes >= (1u << 20) + 20000 * 16 && a.bytes % 16 == 0, "bytes handed out are counted");
	arena_release(&a);
	ok(a.blocks == NULL && a.bytes == 0, "released");
}

int main(void)
{
	test_buf();
	uleb_is(0, "\x00", 1);
	uleb_is(127, "\x7f", 1);
	uleb_is(128, "\x80\x01", 2);
	uleb_is(624485, "\xe5\x8e\x26", 3); // DWARF 5, 7.6's example
	uleb_is(UINT64_MAX, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
	test_err();
	test_vec();
	test_arena();
	return tap_done();
}
