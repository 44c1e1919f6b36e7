// How far symbols reach that have no size, or an impossible one, and what is known of functions that have none.
#include "elf/extents.h"
#include "tests/symbols.h"

// What a sample at `label` + `offset` is shown as: a name, "+START" of a function without one, or "??". Addresses are those of the file before it was stripped.
static const char *shown_at(struct looked *l, const char *full, const char *label, uint64_t offset)
{
	static char text[256];
	uint64_t at = 0, size = 0, start = 0;
	if (!nm(full, label, &at, &size))
		return "no such label";
	const struct symbol_result *r = at_vaddr(l, at + offset);
	if (r->frames[r->count - 1].name != NULL) {
		snprintf(text, sizeof(text), "%s", r->frames[r->count - 1].name);
		return text;
	}
	if (r->bounds == NULL)
		return "??";
	image_vaddr_to_offset(l->image, at + offset, &start);
	if (r->missing == SYMBOL_FOUND || start < r->bounds->start || start >= r->bounds->end || r->symbol_start != r->bounds->start)
		return "bounds that do not hold the address";
	// The label where the function begins, by nm, so that the expectation needs no address.
	static const char *const labels[] = { "hidden_one", "hidden_two", "hidden_part", "in_asm", "marker", "_start" };
	for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++)
		if (nm(full, labels[i], &at, &size) && at == r->bounds->vaddr) {
			snprintf(text, sizeof(text), "+%s", labels[i]);
			return text;
		}
	snprintf(text, sizeof(text), "+0x%llx", (unsigned long long)r->bounds->vaddr);
	return text;
}

struct expected { const char *label; uint64_t offset; const char *full, *stripped, *why; };

static void expect_all(const char *what, const struct expected *all, size_t count)
{
	static const char *const files[] = { "full.so", "stripped.so", "globals.so" };
	for (size_t f = 0; f < 3; f++) {
		struct looked l;
		if (!ok(look(&l, scratch_path("%s", files[f]), &all_options), "%s: %s opens", what, files[f]))
			continue;
		for (size_t i = 0; i < count; i++)
			is_str(shown_at(&l, scratch_path("full.so"), all[i].label, all[i].offset), f == 0 ? all[i].full : all[i].stripped, "%s: %s, %s + %llu: %s", what,
			       files[f], all[i].label, (unsigned long long)all[i].offset, all[i].why);
		look_end(&l);
	}
}

// From assembly: the library whole; with its dynamic symbols alone; and with a symbol table that local symbols were taken from.
static bool build(const char *assembly)
{
	scratch_write("x.s", assembly);
	return shell("%s", "gcc -nostdlib -shared -o full.so x.s -Wl,--build-id 2>gcc.err && strip -o stripped.so full.so && strip -x -o globals.so full.so");
}

// A function of 16 bytes, and what stands around it.
#define CODE "nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; nop; ret\n"
#define GLOBAL(name) ".globl " name "\n.type " name ",@function\n" name ":\n"
#define LOCAL(name) ".type " name ",@function\n" name ":\n"
#define FDE(code) ".cfi_startproc\n" code ".cfi_endproc\n"
#define TAIL ".section .note.GNU-stack,\"\",@progbits\n"

static void with_fdes(void)
{
	if (!build(".text\n" GLOBAL("sizeless") FDE(CODE)
	           ".globl marker\nmarker:\n" LOCAL("hidden_one") FDE(CODE) ".size hidden_one,.-hidden_one\n"
	           LOCAL("hidden_two") FDE(CODE) ".size hidden_two,.-hidden_two\n"
	           "between: " CODE
	           GLOBAL("sized") FDE(CODE) ".size sized,.-sized\n" TAIL)) {
		skip("no gcc for x86-64", "symbols among FDEs");
		return;
	}
	static const struct expected all[] = {
		{ "sizeless", 0, "sizeless", "sizeless", "its first byte" },
		{ "sizeless", 15, "sizeless", "sizeless", "to the end of its FDE" },
		{ "hidden_one", 0, "hidden_one", "+hidden_one", "a label that stands where a function begins does not name it" },
		{ "hidden_one", 15, "hidden_one", "+hidden_one", "nor further on" },
		{ "hidden_two", 1, "hidden_two", "+hidden_two", "the next function is another" },
		{ "between", 1, "between", "??", "code of which nothing tells" },
		{ "sized", 15, "sized", "sized", "what has a size" },
	};
	expect_all("FDEs", all, sizeof(all) / sizeof(all[0]));
}

static void without_fdes(void)
{
	if (!build(".text\n" GLOBAL("sizeless") CODE LOCAL("hidden_one") CODE
	           ".globl label\nlabel: " CODE ".hidden hidden_two\n.globl hidden_two\nhidden_two: " CODE
	           GLOBAL("impossible") CODE ".size impossible,0x10000000\n" LOCAL("hidden_part") CODE
	           GLOBAL("last") CODE
	           ".section .text.other,\"ax\",@progbits\n" LOCAL("in_asm") CODE ".size in_asm,.-in_asm\n" TAIL)) {
		skip("no gcc for x86-64", "symbols in assembly");
		return;
	}
	static const struct expected all[] = {
		{ "sizeless", 0, "sizeless", "sizeless", "a label says where code begins" },
		{ "sizeless", 1, "sizeless", "??", "and a stripped file's says nothing of what is behind" },
		{ "hidden_one", 15, "hidden_one", "??", "which may be a function that has lost its name" },
		{ "label", 0, "label", "label", "the same of one without a type" },
		{ "label", 15, "label", "??", "and behind it" },
		{ "hidden_two", 15, "hidden_two", "??", "a hidden label ends what stands before it" },
		{ "impossible", 15, "impossible", "??", "a size that leaves its section is none" },
		{ "hidden_part", 1, "hidden_part", "??", "so it hides nothing" },
		{ "last", 15, "last", "??", "the section's end is where a complete table lets the last one end" },
		{ "in_asm", 1, "in_asm", "??", "another section" },
	};
	expect_all("assembly", all, sizeof(all) / sizeof(all[0]));
}

// Several at one address, one inside another.
static void crowded(void)
{
	if (!build(".text\n" LOCAL("first") LOCAL("first_too") CODE LOCAL("second") CODE
	           GLOBAL("outer") CODE GLOBAL("inner") CODE ".size outer,.-outer\n" LOCAL("hidden_one") CODE
	           GLOBAL("bare") LOCAL("measured") CODE ".size measured,.-measured\n" LOCAL("hidden_two") CODE ".size hidden_two,.-hidden_two\n" TAIL)) {
		skip("no gcc for x86-64", "symbols beside each other");
		return;
	}
	struct looked l;
	const char *full = scratch_path("full.so");
	if (!ok(look(&l, full, &all_options), "the library opens"))
		return;
	is_str(shown_at(&l, full, "first", 1), "first_too", "two without a size at one address: one of them is shown");
	is_str(shown_at(&l, full, "second", 0), "second", "and does not hide what is behind");
	is_str(shown_at(&l, full, "second", 15), "second", "to its end");
	is_str(shown_at(&l, full, "outer", 15), "outer", "before what is inside it");
	is_str(shown_at(&l, full, "inner", 15), "inner", "one without a size inside one with a size");
	is_str(shown_at(&l, full, "hidden_one", 0), "hidden_one", "ends with it");
	is_str(shown_at(&l, full, "bare", 15), "measured", "of one address the one with a size is shown");
	look_end(&l);
	look(&l, scratch_path("stripped.so"), &all_options);
	is_str(shown_at(&l, full, "inner", 15), "inner", "stripped: inside one with a size");
	is_str(shown_at(&l, full, "hidden_one", 1), "??", "stripped: not beyond it");
	look_end(&l);
}

// An FDE of several functions is of none of them.
static void shared_fde(void)
{
	if (!build(".text\n" LOCAL("hidden_one") ".cfi_startproc\n" CODE GLOBAL("known") CODE ".size known,.-known\nhidden_part: " CODE ".cfi_endproc\n" TAIL)) {
		skip("no gcc for x86-64", "functions that share an FDE");
		return;
	}
	static const struct expected all[] = {
		{ "hidden_one", 1, "hidden_one", "+hidden_one", "before the one that is known" },
		{ "known", 1, "known", "known", "that one" },
		{ "hidden_part", 1, "hidden_part", "??", "what is behind it may be a third" },
	};
	expect_all("one FDE", all, sizeof(all) / sizeof(all[0]));
}

// Of one function all addresses have one result; bounds that came with a recording stand in for a file that is not here.
static void bounds(void)
{
	if (!build(".text\n" LOCAL("hidden_one") FDE(CODE) LOCAL("hidden_two") FDE(CODE) TAIL)) {
		skip("no gcc for x86-64", "bounds");
		return;
	}
	struct looked l;
	uint64_t one = 0, two = 0, size;
	nm(scratch_path("full.so"), "hidden_one", &one, &size);
	nm(scratch_path("full.so"), "hidden_two", &two, &size);
	if (!ok(look(&l, scratch_path("stripped.so"), &all_options), "the library opens"))
		return;
	const struct symbol_result *r = at_vaddr(&l, one + 3);
	ok(r == at_vaddr(&l, one + 9) && r != at_vaddr(&l, two), "one result for a function");
	ok(r->frames[0].name == NULL && r->missing == SYMBOL_NO_SYMBOLS && r->bounds != NULL && r->bounds->vaddr == one && r->bounds->end - r->bounds->start == two - one, "its bounds");
	struct symbol_bounds known = *r->bounds;
	struct symbol_bounds wrong = { .start = known.start + 0x1000, .end = known.start + 0x1000 };
	uint32_t id = symbolizer_image(l.symbolizer, &(struct symbol_image){ .path = "/no/such/file", .map_fd = -1 });
	symbolizer_preset_bounds(l.symbolizer, id, &known);
	symbolizer_preset_bounds(l.symbolizer, id, &wrong);
	r = symbolizer_lookup(l.symbolizer, id, known.start + 5);
	ok(r->frames[0].name == NULL && r->missing == SYMBOL_NO_FILE && r->bounds != NULL && r->bounds->vaddr == one && r->symbol_start == known.start, "of a file that is not here");
	ok(symbolizer_lookup(l.symbolizer, id, known.end)->bounds == NULL && symbolizer_lookup(l.symbolizer, id, known.start - 1)->bounds == NULL, "and not beside them");
	ok(symbolizer_lookup(l.symbolizer, id, wrong.start)->bounds == NULL, "empty bounds are none");
	look_end(&l);
}

// The index where it stands and the one made by reading all FDEs are of one mind.
static void indexes(void)
{
	scratch_write("y.c", "int f(int x) { return x * 3; }\nint g(int x) { return f(x) + 1; }\nint main(int c, char **v) { (void)v; return g(c); }\n");
	if (!shell("gcc -O1 -fno-inline -o y y.c && objcopy --remove-section=.eh_frame_hdr y bare 2>/dev/null")) {
		skip("no gcc, or no objcopy", "indexes");
		return;
	}
	struct image *image, *bare;
	if (!ok(image_open_path(&image, scratch_path("y"), NULL) && image_open_path(&bare, scratch_path("bare"), NULL), "both open"))
		return;
	bare->eh_frame_hdr_size = 0; // its segment is still told of
	struct extents *a = extents_new(image), *b = extents_new(bare);
	unsigned checked = 0, right = 0, found = 0;
	for (uint64_t vaddr = image->entry - 64; vaddr < image->entry + 1024; vaddr++, checked++) {
		struct extent x = { 0 }, y = { 0 };
		bool has_x = extents_find(a, vaddr, &x), has_y = extents_find(b, vaddr, &y);
		right += has_x == has_y && x.start == y.start && x.end == y.end && x.start <= vaddr;
		found += has_x && vaddr < x.end;
	}
	ok(right == checked && found > 20, "%u of %u addresses alike, %u of them in functions", right, checked, found);
	extents_free(a);
	extents_free(b);
	image_release(image);
	image_release(bare);
}

int main(void)
{
	scratch_make();
	with_fdes();
	without_fdes();
	crowded();
	shared_fde();
	bounds();
	indexes();
	return tap_done();
}
