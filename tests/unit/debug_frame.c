// Images whose CFI is in .debug_frame, compressed or not, and Go's table of functions that change stacks.
#include "unwind/rule_table.h"

#include <elf.h>

#include "tests/compile.h"

static struct unwind_image *open_image(const char *name)
{
	struct image *image;
	struct unwind_image *made = NULL;
	struct err err = { 0 };
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	if (!image_open_path(&image, path, &err)) {
		diag("%s", err.text);
		return NULL;
	}
	unwind_image_new(&made, image, false, &err);
	image_release(image);
	return made;
}

static unsigned long compare(struct unwind_image *a, struct unwind_image *b, unsigned long *rules)
{
	struct unwind_counters counters = { 0 };
	unsigned long differing = 0;
	const struct image_section *text = image_find_section(a->image, ".text");

	for (uint64_t vaddr = text->vaddr; vaddr < text->vaddr + text->size; vaddr++) {
		struct unwind_rule x = rule_table_find(a, vaddr, &counters), y = rule_table_find(b, vaddr, &counters);
		differing += memcmp(&x, &y, sizeof(x)) != 0;
		*rules += x.kind != RULE_NONE;
	}
	return differing;
}

static const char source[] =
	"int leaf(int a) { return a * 3 + 1; }\n"
	"int middle(int a) { volatile int b[9] = { a }; b[a & 7] = leaf(a); return b[0] + b[a & 7]; }\n"
	"int many(int a) { int s = 0; for (int i = 0; i < a; i++) s += middle(i) ^ leaf(s); return s; }\n"
	"int main(int c, char **v) { (void)v; return many(c) & 1; }\n";

// One way to compress: the rules of every address are those of the plain file.
static void test_compressed(const char *how, struct unwind_image *plain)
{
	unsigned long rules = 0;

	if (!shell("objcopy --compress-debug-sections=%s plain packed 2>/dev/null", how) || !shell("readelf -SW packed | grep -qE 'debug_frame .* C |zdebug_frame'")) {
		skip("this objcopy cannot, or leaves it as it is", ".debug_frame compressed as %s", how);
		return;
	}
	struct unwind_image *packed = open_image("packed");
	unsigned long differing = packed != NULL ? compare(plain, packed, &rules) : 1;
	ok(packed != NULL && packed->table_count > 0 && differing == 0 && rules > 0, ".debug_frame as %s: the rules of %lu addresses, %lu differ", how,
	   rules, differing);
	ok(packed != NULL && unwind_image_bytes(packed) > unwind_image_bytes(plain), "%s: what was inflated counts as memory", how);
	unwind_image_free(packed);
}

// Changes the word at `at` of the compressed section's header.
static void test_broken(const char *what, size_t at, uint64_t value)
{
	char path[4096];
	struct unwind_image *packed = open_image("packed");

	if (packed == NULL) {
		ok(false, "%s: the compressed file opens", what);
		return;
	}
	const struct image_section *section = image_find_section(packed->image, ".debug_frame");
	struct buf file = { 0 };
	buf_add(&file, packed->image->data, packed->image->size);
	memcpy(file.data + section->offset + at, &value, 8);
	snprintf(path, sizeof(path), "%s/broken", scratch);
	FILE *f = fopen(path, "w");
	bool written = f != NULL && fwrite(file.data, 1, file.size, f) == file.size;
	if (f != NULL)
		written = fclose(f) == 0 && written;
	buf_release(&file);
	struct unwind_image *broken = written ? open_image("broken") : NULL;
	struct unwind_counters counters = { 0 };
	uint64_t vaddr = image_find_section(packed->image, ".text")->vaddr;
	bool none = broken != NULL;
	for (size_t i = 0; none && i < broken->table_count; i++)
		none = !broken->tables[i].section.is_debug_frame;
	ok(none, "%s: the section is not used", what);
	if (broken != NULL)
		rule_table_find(broken, vaddr, &counters);
	unwind_image_free(broken);
	unwind_image_free(packed);
}

// The image that was stripped, with the .debug_frame of its debug file, whose code is said to be at other addresses by so much.
static struct unwind_image *with_debug(const char *name, const char *debug_name, uint64_t moved)
{
	struct unwind_image *made = open_image(name), *other = open_image(debug_name);

	for (size_t i = 0; other != NULL && i < other->image->segment_count; i++)
		other->image->segments[i].vaddr += moved;
	if (made != NULL && other != NULL)
		unwind_image_add_debug(made, other->image);
	unwind_image_free(other);
	return made;
}

static void test_debug_file(struct unwind_image *plain)
{
	unsigned long rules = 0, differing;

	if (!shell("objcopy --only-keep-debug --compress-debug-sections=zlib plain debug && objcopy --strip-all plain bare 2>err")) {
		skip("this objcopy cannot", "a debug file's .debug_frame");
		return;
	}
	struct unwind_image *bare = with_debug("bare", "debug", 0), *own = with_debug("plain", "debug", 0), *moved = with_debug("bare", "debug", 0x10000);
	differing = compare(plain, bare, &rules);
	ok(differing == 0 && rules > 0 && bare->debug != NULL, "a debug file's .debug_frame: the rules of %lu addresses, %lu differ", rules, differing);
	ok(own->table_count == plain->table_count && own->debug == NULL, "where the image has one, that of the debug file is not read again");
	if (!ok(moved->debug == NULL && moved->table_count + 1 == bare->table_count, "nor where code is at other addresses"))
		diag("%zu tables, of %zu", moved->table_count, bare->table_count);
	unwind_image_free(bare);
	unwind_image_free(own);
	unwind_image_free(moved);
}

static void test_debug_frame(void)
{
	scratch_write("a.c", source);
	if (!have("gcc") || !have("objcopy") ||
	    !shell("gcc -g -O1 -fno-asynchronous-unwind-tables -fno-unwind-tables -nostartfiles -Wl,-e,main -o plain a.c 2>err")) {
		skip("no gcc that can", "compressed .debug_frame");
		return;
	}
	struct unwind_image *plain = open_image("plain");
	ok(plain != NULL && plain->table_count > 0 && plain->tables[0].section.is_debug_frame, "the program has a .debug_frame");
	test_compressed("zlib-gnu", plain);
	test_compressed("zlib-gabi", plain);
	test_debug_file(plain);
	if (shell("objcopy --compress-debug-sections=zlib-gabi plain packed && readelf -SW packed | grep -q 'debug_frame .* C '")) {
		test_broken("a size of 1 TiB", 8, (uint64_t)1 << 40);
		test_broken("a size above 256 MiB", 8, ((uint64_t)256 << 20) + 1);
		test_broken("a size that is not what comes out", 8, 8192);
		test_broken("an unknown way to compress", 0, 77);
		test_broken("a damaged stream", 24, 0x1122334455667788);
	} else {
		skip("objcopy leaves it as it is", "damaged compressed sections");
	}
	unwind_image_free(plain);
}

// ---------------------------------------------------------------- Go

// MAGIC 0xfffffff0 is Go 1.18's, 0xfffffff1 Go 1.20's, with a word more per function.
static const char go_source[] =
	".text\n"
	"text: .skip 32, 0x90\n.skip 16, 0x90\n.skip 16, 0x90\n.skip 16, 0x90\n"
	".section .gopclntab, \"a\", @progbits\n"
	"tab: .long MAGIC\n.byte 0, 0, 1, 8\n"
	".quad COUNT, 1, text, names - tab, 0, 0, 0, functab - tab\n"
	"names: n0: .asciz \"runtime.goexit\"\nn1: .asciz \"runtime.systemstack\"\nn2: .asciz \"runtime.mcall\"\nn3: .asciz \"main.plain\"\nn4: .asciz \"runtime.sigtramp\"\n"
	"functab: .long 0, f0 - functab, 16, f1 - functab, 32, f2 - functab, 48, f3 - functab, 64, f4 - functab, 80\n"
	".macro func label, name, flag\n"
	"\\label: .long 0, \\name - names, 0, 0, 0, 0, 0, 0, 0\n.ifdef NEWER\n.long 0\n.endif\n.byte 0, \\flag, 0, 0\n"
	".endm\n"
	"func f0, n0, 5\nfunc f1, n1, 6\nfunc f2, n2, 6\nfunc f3, n3, 4\nfunc f4, n4, 5\n";

static struct unwind_image *go_image(const char *magic, const char *count, bool is_newer)
{
	if (!shell("as --defsym MAGIC=%s --defsym COUNT=%s %s go.s -o go.o && ld -Ttext=0x401000 -e 0x401000 go.o -o go", magic, count,
	           is_newer ? "--defsym NEWER=1" : ""))
		return NULL;
	return open_image("go");
}

static void test_go_version(const char *what, const char *magic, bool is_newer)
{
	static const uint8_t wanted[5] = { RULE_ROOT, RULE_ROOT | RULE_ELSEWHERE, RULE_ROOT | RULE_ELSEWHERE, RULE_NONE, RULE_NONE };
	struct unwind_image *image = go_image(magic, "5", is_newer);
	unsigned right = 0;

	for (unsigned i = 0; image != NULL && i < 80; i++)
		right += rule_table_stop(image, 0x401000 + i).kind == wanted[i / 16];
	ok(right == 80, "%s: goexit is the outermost, systemstack and mcall change stacks, the rest is plain (%u of 80 addresses)", what, right);
	ok(image != NULL && rule_table_stop(image, 0x400fff).kind == RULE_NONE && rule_table_stop(image, 0x401050).kind == RULE_NONE &&
	   rule_table_stop(image, 0).kind == RULE_NONE, "%s: nothing outside the functions", what);
	unwind_image_free(image);
}

static void test_go_table(void)
{
	scratch_write("go.s", go_source);
	if (!have("as") || !have("ld") || !shell("test $(uname -m) = x86_64")) {
		skip("no assembler for it", "Go's function table");
		return;
	}
	test_go_version("Go 1.18", "0xfffffff0", false);
	test_go_version("Go 1.20", "0xfffffff1", true);
	static const struct { const char *what, *magic, *count; } broken[] = {
		{ "an unknown magic", "0xfffffff7", "5" }, { "more functions than the table holds", "0xfffffff0", "4000" },
		{ "a count beyond all bounds", "0xfffffff0", "0xffffffffffffffff" },
	};
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct unwind_image *image = go_image(broken[i].magic, broken[i].count, false);
		ok(image != NULL && image->stops.count == 0, "%s: no table", broken[i].what);
		unwind_image_free(image);
	}
}

int main(void)
{
	scratch_make();
	test_debug_frame();
	test_go_table();
	return tap_done();
}
