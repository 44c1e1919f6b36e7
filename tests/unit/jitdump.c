// jitdump files: every kind of record, both byte orders, what is cut, broken or hostile; lookups by offset through the symbolizer.
#include "symbols/jitdump.h"
#include "base/buf.h"
#include "symbols/symbolizer.h"
#include "tests/tap.h"

#include <sys/mman.h>
#include <unistd.h>

static bool swapped; // write the other byte order

static void u32(struct buf *out, uint32_t v) { buf_u32(out, swapped ? __builtin_bswap32(v) : v); }
static void u64(struct buf *out, uint64_t v) { buf_u64(out, swapped ? __builtin_bswap64(v) : v); }
static void text(struct buf *out, const char *s) { buf_add(out, s, strlen(s) + 1); }

static void header(struct buf *out)
{
	u32(out, 0x4a695444), u32(out, 1), u32(out, 40), u32(out, 62), u32(out, 0), u32(out, 4242), u64(out, 1000), u64(out, 0);
}

static void record(struct buf *out, uint32_t id, uint64_t time_ns, const struct buf *body)
{
	u32(out, id), u32(out, (uint32_t)(16 + body->size)), u64(out, time_ns);
	buf_add(out, body->data, body->size);
}

static void load(struct buf *out, uint64_t time_ns, uint64_t addr, uint64_t size, uint64_t index, const char *name)
{
	struct buf body = { 0 };
	u32(&body, 1), u32(&body, 1), u64(&body, addr), u64(&body, addr), u64(&body, size), u64(&body, index);
	text(&body, name);
	for (uint64_t i = 0; i < size; i++)
		buf_byte(&body, (uint8_t)index);
	record(out, 0, time_ns, &body);
	buf_release(&body);
}

static void move(struct buf *out, uint64_t time_ns, uint64_t from, uint64_t to, uint64_t size, uint64_t index)
{
	struct buf body = { 0 };
	u32(&body, 1), u32(&body, 1), u64(&body, to), u64(&body, from), u64(&body, to), u64(&body, size), u64(&body, index);
	record(out, 1, time_ns, &body);
	buf_release(&body);
}

static void lines(struct buf *out, uint64_t addr)
{
	struct buf body = { 0 };
	u64(&body, addr), u64(&body, 3);
	u64(&body, addr), u32(&body, 10), u32(&body, 0), text(&body, "a.js");
	u64(&body, addr + 8), u32(&body, 12), u32(&body, 0), text(&body, "\xff"); // the file before
	u64(&body, addr + 4), u32(&body, 11), u32(&body, 0), text(&body, "b.js");
	record(out, 2, 1, &body);
	buf_release(&body);
}

static void unwinding(struct buf *out)
{
	struct buf body = { 0 };
	u64(&body, 12), u64(&body, 4), u64(&body, 0);
	buf_add(&body, "frames and h", 12);
	record(out, 4, 2, &body);
	buf_release(&body);
}

static void whole(struct buf *out)
{
	struct buf empty = { 0 };
	header(out);
	lines(out, 0x10000);
	unwinding(out);
	load(out, 2000, 0x10000, 16, 1, "first");
	load(out, 3000, 0x20000, 32, 2, "second");
	move(out, 4000, 0x10000, 0x30000, 16, 1);
	load(out, 5000, 0x10000, 8, 3, "compiled again");
	move(out, 6000, 0x999, 0x40000, 16, 77); // of code that never was
	record(out, 99, 7000, &empty);           // of a later version
	record(out, 3, 8000, &empty);
}

static void kinds(void)
{
	struct buf bytes = { 0 };
	struct jitdump dump;
	struct err err = { 0 };
	whole(&bytes);
	ok(jitdump_parse(&dump, bytes.data, bytes.size, &err), "a whole dump%s %s", swapped ? " of the other byte order" : "", err.text);
	is_u64(dump.pid, 4242, "its pid");
	ok(dump.is_closed && !dump.is_cut, "closed, not cut");
	is_u64(dump.codes.count, 4, "three loads and a move");
	if (dump.codes.count != 4)
		return;
	const struct jitdump_code *moved = &dump.codes.data[2], *first = &dump.codes.data[0];
	ok(moved->is_move && moved->addr == 0x30000 && moved->offset == first->offset && moved->time_ns == 4000, "moved code is the code that was loaded");
	const struct jitdump_code *at = jitdump_find(&dump, first->offset + 15);
	ok(at == first, "its last byte is found");
	ok(jitdump_find(&dump, first->offset + 16) == NULL && jitdump_find(&dump, 0) == NULL, "what is between is not");
	ok(first->name_length == 5 && memcmp(bytes.data + first->name, "first", 5) == 0, "its name");
	ok(bytes.data[first->offset] == 1 && bytes.data[dump.codes.data[3].offset] == 3, "offsets are those of the code itself");
	const struct jitdump_line *line = jitdump_line(&dump, first, first->offset + 5);
	ok(line != NULL && line->line == 11 && memcmp(bytes.data + line->file, "b.js", 5) == 0, "a line, though not in order");
	line = jitdump_line(&dump, first, first->offset + 9);
	ok(line != NULL && line->line == 12 && memcmp(bytes.data + line->file, "a.js", 5) == 0, "the file of the entry before");
	ok(jitdump_line(&dump, &dump.codes.data[1], dump.codes.data[1].offset) == NULL, "code without lines has none");
	ok(first->unwind_size == 8 && memcmp(bytes.data + first->unwind_offset, "frames", 6) == 0 && dump.codes.data[1].unwind_size == 0,
	   "unwinding information belongs to the load behind it");
	jitdump_release(&dump);
	buf_release(&bytes);
}

// What V8 of Node.js 20 writes for some functions: the file's name from memory that was freed, with NULs in it, so that the entries behind it are shifted.
static void freed_names(void)
{
	struct buf bytes = { 0 }, body = { 0 };
	struct jitdump dump;
	struct err err = { 0 };
	header(&bytes);
	u64(&body, 0x10000), u64(&body, 3);
	for (int i = 0; i < 3; i++) {
		u64(&body, 0x10000 + 4 * (uint64_t)i), u32(&body, 1 + (uint32_t)i), u32(&body, 0);
		buf_add(&body, "\xeb\x60\0\0\0\0\0\0\x77\x89\x5f\xaf\x2e\xd8\x37\x68js\0", 19);
	}
	record(&bytes, 2, 1, &body);
	load(&bytes, 2000, 0x10000, 16, 1, "named");
	ok(jitdump_parse(&dump, bytes.data, bytes.size, &err) && dump.codes.count == 1, "a dump with shifted lines");
	ok(dump.codes.count == 1 && dump.codes.data[0].line_count == 0, "none of them is believed");
	jitdump_release(&dump);
	buf_release(&body);
	buf_release(&bytes);
}

static void broken(void)
{
	struct buf bytes = { 0 };
	struct jitdump dump;
	struct err err = { 0 };
	whole(&bytes);
	bool good = true;
	for (size_t size = 40; size < bytes.size; size++) { // as far as it was written
		good &= jitdump_parse(&dump, bytes.data, size, NULL) && dump.codes.count <= 4;
		jitdump_release(&dump);
	}
	ok(good, "a dump that is being written is read as far as it goes");
	for (size_t size = 0; size < 40; size++) {
		good &= !jitdump_parse(&dump, bytes.data, size, &err);
		jitdump_release(&dump);
	}
	ok(good && err.status == STATUS_INPUT && err.text[0] != '\0', "without a whole header it is none: %s", err.text);
	memcpy(bytes.data + 44, &(uint32_t){ 3 }, 4); // the first record's size
	ok(!jitdump_parse(&dump, bytes.data, bytes.size, &err) && strstr(err.text, "0x28") != NULL, "a record of 3 bytes: %s", err.text);
	jitdump_release(&dump);
	buf_clear(&bytes);
	header(&bytes);
	load(&bytes, 1, UINT64_MAX - 4, 16, 1, "past the end");
	load(&bytes, 1, 0x1000, 0, 2, "empty");
	load(&bytes, 1, 0x2000, 16, 3, "good");
	ok(jitdump_parse(&dump, bytes.data, bytes.size, NULL) && dump.codes.count == 1 && dump.codes.data[0].addr == 0x2000,
	   "impossible code is left out, what follows is not");
	jitdump_release(&dump);
	buf_release(&bytes);
}

static void symbolizer(void)
{
	struct buf bytes = { 0 };
	whole(&bytes);
	int fd = memfd_create("dump", 0);
	if (fd < 0 || write(fd, bytes.data, bytes.size) != (ssize_t)bytes.size) {
		skip("no memfd", "through the symbolizer");
		return;
	}
	struct jitdump dump;
	(void)jitdump_parse(&dump, bytes.data, bytes.size, NULL);
	struct symbolizer_options options = { .inlines = true, .lines = true };
	struct symbolizer *s = symbolizer_new(&options);
	uint32_t id = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_JITDUMP, .path = "/tmp/jit-4242.dump", .map_fd = fd });
	const struct symbol_result *r = symbolizer_lookup(s, id, dump.codes.data[0].offset + 8);
	is_str(r->frames[0].name, "first", "the symbolizer names an offset");
	is_str(r->frames[0].file, "a.js", "and its file");
	is_u64(r->frames[0].line, 12, "and line");
	is_u64(r->symbol_start, dump.codes.data[0].offset, "and where the code starts");
	is_u64(symbolizer_lookup(s, id, 3)->missing, SYMBOL_NOT_COVERED, "no code there");
	uint32_t none = symbolizer_image(s, &(struct symbol_image){ .kind = SYMBOL_IMAGE_JITDUMP, .path = "/tmp/jit-1.dump", .map_fd = -1 });
	is_u64(symbolizer_lookup(s, none, 100)->missing, SYMBOL_NO_MAP, "no dump");
	symbolizer_free(s);
	jitdump_release(&dump);
	buf_release(&bytes);
	close(fd);
}

int main(void)
{
	kinds();
	swapped = true;
	kinds();
	swapped = false;
	freed_names();
	broken();
	symbolizer();
	ok(jitdump_is_path("/tmp/jit-1.dump") && jitdump_is_path("jit-99.dump"), "names of dumps");
	ok(!jitdump_is_path("/tmp/jit-.dump") && !jitdump_is_path("/tmp/xjit-1.dump") && !jitdump_is_path("/tmp/jit-1.dump.gz"), "names of other files");
	return tap_done();
}
