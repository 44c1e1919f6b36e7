// Packed files: members one after another, padding, what is cut off, damaged, or grows beyond measure.
#include "base/gunzip.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/gzip.h"
#include "tests/tap.h"

struct feed { const struct buf *of; size_t at, step; };

static bool more(void *context, const void **bytes, size_t *size, struct err *err)
{
	struct feed *feed = context;
	size_t left = feed->of->size - feed->at;
	(void)err;
	*bytes = feed->of->data + feed->at;
	*size = left < feed->step ? left : feed->step;
	feed->at += *size;
	return true;
}

static char *read_back(int fd, size_t *size)
{
	static char bytes[1 << 20];
	ssize_t n = read(fd, bytes, sizeof(bytes));
	close(fd);
	*size = n > 0 ? (size_t)n : 0;
	return bytes;
}

static void unpacks(const struct buf *packed, size_t step, const char *wanted, size_t wanted_size, bool is_cut, const char *what)
{
	struct err err = { 0 };
	struct feed feed = { packed, 0, step };
	bool cut_off = !is_cut;
	size_t size = 0;
	int fd = gunzip_unpack(more, &feed, &cut_off, &err);
	const char *bytes = fd >= 0 ? read_back(fd, &size) : "";
	bool good = is_cut ? size <= wanted_size : size == wanted_size;
	ok(fd >= 0 && good && memcmp(bytes, wanted, size) == 0 && cut_off == is_cut, "%s, %zu bytes at a time: %zu bytes %s", what, step, size, err.text);
}

int main(void)
{
	struct err err = { 0 };
	struct buf text = { 0 }, packed = { 0 };
	for (int i = 0; i < 40000; i++)
		buf_printf(&text, "main;work%d %d\n", i * 7919 % 1000, i);
	gzip_pack(&packed, text.data, text.size, &err);
	for (size_t step = 1; step < packed.size * 4; step *= 37)
		unpacks(&packed, step, text.data, text.size, false, "a file");
	char begin[100];
	ok(gunzip_is_packed(packed.data, 3) && !gunzip_is_packed(packed.data, 2) && !gunzip_is_packed("PERFILE2", 8), "is told by its first bytes");
	ok(gunzip_begin(packed.data, 4096, begin, sizeof(begin)) == sizeof(begin) && memcmp(begin, text.data, sizeof(begin)) == 0, "how it begins");

	struct buf two = { 0 };
	buf_add(&two, packed.data, packed.size);
	gzip_pack(&two, "more", 4, &err);
	buf_add(&two, "\0\0\0\0\0", 5);
	struct buf wanted = { 0 };
	buf_add(&wanted, text.data, text.size);
	buf_add(&wanted, "more", 4);
	unpacks(&two, 1, wanted.data, wanted.size, false, "two members and padding");
	unpacks(&two, 65536, wanted.data, wanted.size, false, "two members and padding");
	packed.size /= 2;
	unpacks(&packed, 1000, text.data, text.size, true, "half of a file");
	packed.size *= 2;

	packed.data[packed.size / 2] ^= 0x55;
	packed.data[packed.size / 2 + 1] ^= 0x55;
	struct feed feed = { &packed, 0, 512 };
	bool cut_off;
	ok(gunzip_unpack(more, &feed, &cut_off, &err) < 0 && err.status == STATUS_INPUT && strstr(err.text, "gzip data at 0x") != NULL, "damaged: %s", err.text);

	enum { ZEROS = 96 << 20 };
	char *zeros = calloc(1, ZEROS);
	struct buf bomb = { 0 };
	struct feed all = { &bomb, 0, 4096 };
	err = (struct err){ 0 };
	gzip_pack(&bomb, zeros, ZEROS, &err);
	ok(gunzip_unpack(more, &all, &cut_off, &err) < 0 && strstr(err.text, "expected 200 times") != NULL, "%zu bytes that would be 96 MiB: %s", bomb.size, err.text);
	free(zeros);
	buf_release(&bomb);
	buf_release(&two);
	buf_release(&wanted);
	buf_release(&packed);
	buf_release(&text);
	return tap_done();
}
