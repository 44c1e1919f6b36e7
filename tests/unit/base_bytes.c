#include "base/buf.h"
#include "base/bytes.h"
#include "tests/tap.h"

static void test_fixed(void)
{
	static const uint8_t data[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	struct bytes b = bytes_of(data, sizeof(data));
	ok(bytes_left(&b) == 15 && bytes_offset(&b) == 0 && !b.bad, "a cursor at the start");
	is_u64(bytes_u8(&b), 1, "u8");
	is_u64(bytes_u16(&b), 0x0302, "u16, unaligned");
	is_u64(bytes_u32(&b), 0x07060504, "u32, unaligned");
	is_u64(bytes_offset(&b), 7, "moved on");
	is_u64(bytes_u64(&b), 0x0f0e0d0c0b0a0908, "u64 up to the last byte");
	ok(bytes_left(&b) == 0 && !b.bad, "the end is not past the end");
	is_u64(bytes_u8(&b), 0, "past the end yields zero");
	ok(b.bad && bytes_left(&b) == 0, "and is bad");
	b = bytes_of(data, sizeof(data));
	b.swap = true;
	is_u64(bytes_u8(&b), 1, "one byte has no order");
	is_u64(bytes_u16(&b), 0x0203, "u16 swapped");
	is_u64(bytes_u32(&b), 0x04050607, "u32 swapped");
	is_u64(bytes_u64(&b), 0x08090a0b0c0d0e0f, "u64 swapped");
	b = bytes_of(data, 7);
	is_u64(bytes_u64(&b), 0, "one byte short yields zero");
	ok(b.bad && bytes_left(&b) == 0, "bad, and at the end");
	is_u64(bytes_u8(&b), 0, "bad stays bad, though a byte was there");
	b = bytes_of(data, 3);
	is_u64(bytes_u32(&b), 0, "u32 short");
	b = bytes_of(data, 1);
	is_u64(bytes_u16(&b), 0, "u16 short");
	b = bytes_of(data, 4);
	bytes_skip(&b, 4);
	ok(!b.bad && bytes_left(&b) == 0, "skip all");
	bytes_skip(&b, 1);
	ok(b.bad, "skip one more");
	b = bytes_of(data, 4);
	ok(bytes_take(&b, SIZE_MAX) == NULL && b.bad, "a huge size does not wrap");
	b = bytes_of(data, 4);
	ok(bytes_take(&b, 0) == data && !b.bad, "taking nothing is fine");
	b = bytes_of(NULL, 0);
	ok(bytes_u8(&b) == 0 && b.bad, "nothing at all");
}

static void uleb_is(const char *name, const char *data, size_t size, uint64_t wanted, bool bad, size_t used)
{
	struct bytes b = bytes_of(data, size);
	uint64_t v = bytes_uleb(&b);
	ok(v == wanted && b.bad == bad && (bad || bytes_offset(&b) == used), "uleb: %s", name);
}

static void sleb_is(const char *name, const char *data, size_t size, int64_t wanted, bool bad)
{
	struct bytes b = bytes_of(data, size);
	int64_t v = bytes_sleb(&b);
	ok(v == wanted && b.bad == bad, "sleb: %s", name);
}

static void test_leb(void)
{
	uleb_is("0", "\0", 1, 0, false, 1);
	uleb_is("127, a byte behind it", "\x7f\x01", 2, 127, false, 1);
	uleb_is("128", "\x80\x01", 2, 128, false, 2);
	uleb_is("padded zero", "\x80\x80\x00", 3, 0, false, 3);
	uleb_is("624485", "\xe5\x8e\x26", 3, 624485, false, 3);
	uleb_is("2^64 - 1", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, UINT64_MAX, false, 10);
	uleb_is("2^64", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, true, 0);
	uleb_is("48 in thirteen bytes", "\xb0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 13, 48, false, 13);
	uleb_is("2^70", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, true, 0);
	uleb_is("cut", "\x80", 1, 0, true, 0);
	uleb_is("empty", "", 0, 0, true, 0);
	sleb_is("2", "\x02", 1, 2, false);
	sleb_is("-2", "\x7e", 1, -2, false);
	sleb_is("127", "\xff\x00", 2, 127, false);
	sleb_is("-127", "\x81\x7f", 2, -127, false);
	sleb_is("-128", "\x80\x7f", 2, -128, false);
	sleb_is("least", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f", 10, INT64_MIN, false);
	sleb_is("largest", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x00", 10, INT64_MAX, false);
	sleb_is("-48 in twelve bytes", "\xd0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 12, -48, false);
	sleb_is("48 in twelve bytes", "\xb0\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 12, 48, false);
	sleb_is("2^70", "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11, 0, true);
	sleb_is("cut", "\xff", 1, 0, true);
	uint64_t x = 88172645463325252u;
	bool is_same = true;
	for (int i = 0; i < 2000; i++) {
		struct buf w = { 0 };
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		uint64_t value = x >> (i % 64);
		buf_uleb(&w, value);
		struct bytes b = bytes_of(w.data, w.size);
		is_same = is_same && bytes_uleb(&b) == value && !b.bad && bytes_left(&b) == 0;
		buf_release(&w);
	}
	ok(is_same, "what is written is read again, for 2,000 numbers of every length");
}

static void test_strings(void)
{
	struct bytes b = bytes_of("ab\0\0cd", 6);
	is_str(bytes_cstr(&b), "ab", "a string");
	is_str(bytes_cstr(&b), "", "an empty one");
	ok(!b.bad && bytes_offset(&b) == 4, "behind its NUL");
	is_str(bytes_cstr(&b), "", "no NUL is left");
	ok(b.bad && bytes_left(&b) == 0, "bad");
	b = bytes_of("abcdef", 6);
	b.swap = true;
	struct bytes sub = bytes_sub(&b, 4);
	ok(bytes_left(&sub) == 4 && bytes_left(&b) == 2 && sub.swap && bytes_offset(&sub) == 0, "a cursor over a part");
	bytes_skip(&sub, 5);
	ok(sub.bad && !b.bad, "its end is its own");
	sub = bytes_sub(&b, 3);
	ok(sub.bad && b.bad && bytes_left(&sub) == 0, "a part too large is bad on both sides");
	is_u64(bytes_u8(&sub), 0, "and yields zeros");
}

int main(void)
{
	test_fixed();
	test_leb();
	test_strings();
	return tap_done();
}
