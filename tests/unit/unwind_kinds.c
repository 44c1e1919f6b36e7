// Layouts that linkers and tools make: two CFI sections that disagree, several executable segments at different distances from their file
// offsets; rules of a form of their own (a PLT's, a realigned stack's, the outermost frame's); the vdso. Each program is built here.
#include "unwind/rule_table.h"

#include <elf.h>
#include <sys/auxv.h>

#include "tests/assembled.h"
#include "tests/compile.h"

static struct unwind_image *open_bytes(const char *data, size_t size)
{
	struct image *image;
	struct unwind_image *made;

	if (!image_open_bytes(&image, data, size, false, "built", NULL))
		return NULL;
	unwind_image_new(&made, image, false, NULL);
	image_release(image);
	return made;
}

static bool read_built(const char *name, struct buf *out)
{
	FILE *f = fopen(scratch_path("%s", name), "rb");

	while (f != NULL && !feof(f)) {
		buf_reserve(out, 1 << 16);
		out->size += fread(out->data + out->size, 1, 1 << 16, f);
	}
	return f != NULL && fclose(f) == 0 && out->size > 0;
}

// ---------------------------------------------------------------- .eh_frame and .debug_frame

static const char both_source[] =
	".cfi_sections .eh_frame, .debug_frame\n"
	".text\n.globl _start\n_start: .cfi_startproc\nsub $104, %rsp\n.cfi_def_cfa_offset 112\nnop\nnop\nadd $104, %rsp\n.cfi_def_cfa_offset 8\nret\n"
	".cfi_endproc\n";

// In one section, makes the CFA offset of 112 (DW_CFA_def_cfa_offset, uleb) another.
static bool patch_offset(struct buf *file, const char *section_name, uint8_t to)
{
	return patch_section(file, section_name, (const uint8_t[]){ 0x0e, 112 }, (const uint8_t[]){ 0x0e, to });
}

static int32_t offset_inside(const struct buf *file)
{
	struct unwind_counters counters = { 0 };
	struct unwind_image *image = open_bytes(file->data, file->size);
	int32_t offset = image != NULL ? rule_table_find(image, image->image->entry + 5, &counters).cfa_off : -1;

	unwind_image_free(image);
	return offset;
}

static void test_both(void)
{
	static const struct { const char *what, *patched, *removed; int32_t wanted; } cases[] = {
		{ "both agree", NULL, NULL, 112 },
		{ ".eh_frame says otherwise: .debug_frame is believed", ".eh_frame", NULL, 112 },
		{ ".debug_frame says otherwise: it is believed", ".debug_frame", NULL, 40 },
		{ ".eh_frame alone", NULL, ".debug_frame", 112 },
		{ ".debug_frame alone", NULL, ".eh_frame", 112 },
	};
	scratch_write("both.s", both_source);
	if (!shell("test $(uname -m) = x86_64 && as -o both.o both.s 2>err && ld -o both both.o 2>>err")) {
		skip("no assembler for it", ".eh_frame and .debug_frame");
		return;
	}
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf file = { 0 };
		if (cases[i].removed != NULL)
			shell("objcopy -R %s -R .eh_frame_hdr both one 2>err", cases[i].removed);
		bool built = read_built(cases[i].removed != NULL ? "one" : "both", &file) &&
		             (cases[i].patched == NULL || patch_offset(&file, cases[i].patched, 40));
		is_u64((unsigned)(built ? offset_inside(&file) : -1), (unsigned)cases[i].wanted, "%s", cases[i].what);
		buf_release(&file);
	}
}

// ---------------------------------------------------------------- segments

static const char segments_source[] =
	"volatile int sink; int hot(int a) { sink += a; return sink * 3; }\n"
	"__attribute__((section(\".far\"))) int far(int a) { sink -= a; return hot(a) + 1; }\n"
	"__attribute__((section(\".farther\"))) int farther(int a) { return far(a) + far(a + 1); }\n"
	"void _start(void) { farther(1); for (;;) ; }\n";

// Two texts, each with a segment of its own, at distances from their file offsets that differ.
static const char two_texts[] =
	"PHDRS { a PT_LOAD FLAGS(5); b PT_LOAD FLAGS(5); c PT_LOAD FLAGS(5); d PT_LOAD FLAGS(6); h PT_GNU_EH_FRAME; }\n"
	"SECTIONS { . = 0x10000 + SIZEOF_HEADERS; .eh_frame_hdr : { *(.eh_frame_hdr) } :a :h .eh_frame : { KEEP(*(.eh_frame)) } :a .text : { *(.text*) } :a\n"
	". = 0x4003000; .far : { *(.far) } :b . = 0x9005000; .farther : { *(.farther) } :c . = 0xa000000; .data : { *(.data*) *(.bss*) *(COMMON) } :d }\n";

// Maps each executable segment as a loader does, page by page, and asks at its first and last byte.
static void expect_segments(const char *what, unsigned least)
{
	struct buf file = { 0 };
	struct unwind_counters counters = { 0 };
	unsigned texts = 0, wrong = 0, ruled = 0, distances = 0;
	uint64_t last_distance = UINT64_MAX;
	const uint64_t slide = 0x7f1234560000;

	struct unwind_image *image = read_built("built", &file) ? open_bytes(file.data, file.size) : NULL;
	for (size_t i = 0; image != NULL && i < image->image->segment_count; i++) {
		const struct image_segment *s = &image->image->segments[i];
		uint64_t bias = 0, start = (s->vaddr & ~(uint64_t)4095) + slide, end = ((s->vaddr + s->mem_size + 4095) & ~(uint64_t)4095) + slide;
		if ((s->flags & PF_X) == 0)
			continue;
		texts++;
		distances += s->vaddr - s->offset != last_distance;
		last_distance = s->vaddr - s->offset;
		wrong += !image_bias(image->image, start, end, s->offset & ~(uint64_t)4095, &bias) || bias != slide;
		for (uint64_t at = s->vaddr; at < s->vaddr + s->mem_size; at++)
			ruled += rule_table_find(image, at, &counters).kind != RULE_NONE;
	}
	ok(texts >= least && distances >= least && wrong == 0 && ruled > 20, "%s: %u executable segments at %u distances, %u biases wrong, %u bytes with rules",
	   what, texts, distances, wrong, ruled);
	unwind_image_free(image);
	buf_release(&file);
}

static void test_segments(void)
{
	scratch_write("segments.c", segments_source);
	scratch_write("two.ld", two_texts);
	if (!have("gcc")) {
		skip("no gcc", "executable segments");
		return;
	}
	const char *compile = "gcc -O1 -fno-pic -no-pie -nostdlib -fno-stack-protector -static";
	if (shell("%s -Wl,-T,two.ld -Wl,--no-warn-rwx-segments -Wl,--build-id=none -o built segments.c 2>err", compile) ||
	    shell("%s -Wl,-T,two.ld -Wl,--build-id=none -o built segments.c 2>err", compile))
		expect_segments("a linker script with three texts", 3);
	else
		skip("the linker takes no such script", "a linker script with three texts");
	if (shell("%s -Wl,--section-start=.far=0x4003000 -Wl,--section-start=.farther=0x9005000 -o built segments.c 2>err", compile))
		expect_segments("--section-start", 2);
	else
		skip("the linker does not", "--section-start");
	if (have("ld.lld") && have("clang") && shell("clang -O1 -fno-pic -no-pie -nostdlib -static -fuse-ld=lld -o built segments.c 2>err"))
		expect_segments("lld's layout", 1);
	else
		skip("no clang with lld", "lld's layout");
}

// ---------------------------------------------------------------- rules of a form of their own

// Functions of 64 bytes: the outermost; one that realigns its stack and finds the caller's from a slot; a slot of ld's lazy PLT, two pushes in.
static const char forms_source[] =
	".text\n.globl _start\n.balign 64\n_start: .cfi_startproc\n.cfi_undefined rip\nnop\ncall *%rax\nnop\n.cfi_endproc\n"
	".balign 64\n.cfi_startproc\n.cfi_escape 0x0f, 3, 0x76, 0x78, 0x06\n.cfi_escape 0x10, 6, 2, 0x76, 0\nnop\ncall *%rax\nnop\n.cfi_endproc\n"
	".balign 64\n.cfi_startproc\n.cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22\n.skip 64, 0x90\n.cfi_endproc\n";

struct mapped { struct unwind_image *image; uint64_t bias; };

static struct unwind_map map_entry(void *context, uint64_t addr)
{
	const struct mapped *mapped = context;
	uint64_t start = mapped->image->image->entry + mapped->bias;

	if (addr < start || addr >= start + 256)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = start, .end = start + 256, .bias = mapped->bias, .image = mapped->image };
}

// `regs`: rax, then the frame pointer, sp and pc.
static void walk_with_rax(struct mapped *mapped, const uint64_t *regs, const uint64_t *words, size_t count, struct unwind_stack *out)
{
	struct unwinder *unwinder = unwinder_new();
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 | 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)words, .stack_size = count * sizeof(*words),
		.generation = 1, .map = map_entry, .map_context = mapped,
	};
	unwind_stack(unwinder, &input, out);
	unwinder_free(unwinder);
}

static void walk_words(struct mapped *mapped, const uint64_t *regs, const uint64_t *words, size_t count, struct unwind_stack *out)
{
	walk_with_rax(mapped, (const uint64_t[]){ 0, regs[0], regs[1], regs[2] }, words, count, out);
}

// From a PLT slot through the realigned function to the root: the addresses must be these.
static bool walks(struct unwind_image *image, uint64_t bias, unsigned into_slot, unsigned pushed)
{
	struct mapped mapped = { image, bias };
	uint64_t entry = image->image->entry + bias, words[16] = { 0 }, sp = 0x7000, regs[3] = { 0, sp, entry + 128 + into_slot };
	struct frame frames[8];
	struct unwind_stack out = { .frames = frames, .capacity = 8 };

	words[pushed] = entry + 64 + 3;   // return address behind what the slot has pushed
	words[8] = sp + 8 * 14;           // rbp - 8: the caller's CFA
	words[9] = 0x1234;                // rbp points here: the caller's rbp
	words[13] = entry + 3;            // CFA - 8
	regs[0] = sp + 8 * 9;
	walk_words(&mapped, regs, words, 16, &out);
	bool good = out.end == UNWIND_ROOT && out.count == 3 && frames[1].addr == entry + 67 && frames[2].addr == entry + 3;
	for (size_t i = 0; !good && i < out.count; i++)
		diag("%#llx via %u, end %s", (unsigned long long)(frames[i].addr - entry), frames[i].via, unwind_end_name(out.end));
	return good;
}

static void test_forms(void)
{
	struct buf file = { 0 };
	struct unwind_counters counters = { 0 };

	scratch_write("forms.s", forms_source);
	if (!shell("test $(uname -m) = x86_64 && as -o forms.o forms.s 2>err && ld -o forms forms.o 2>>err") || !read_built("forms", &file)) {
		skip("no assembler for it", "rules of a form of their own");
		return;
	}
	struct unwind_image *image = open_bytes(file.data, file.size);
	uint64_t entry = image->image->entry;
	ok(rule_table_find(image, entry, &counters).kind == RULE_ROOT, "an undefined return address is the root, by a rule");
	ok((rule_table_find(image, entry + 64, &counters).kind & RULE_BASE_MASK) == RULE_FP_DEREF, "a CFA in a slot below the frame pointer");
	ok(rule_table_find(image, entry + 128, &counters).kind == RULE_PLT, "ld's PLT is known by its expression");
	ok(walks(image, 0, 0, 0) && walks(image, 0, 6, 0) && walks(image, 0, 10, 0), "a PLT slot before it pushes, a realigned stack, the root");
	ok(walks(image, 0, 11, 1) && walks(image, 0, 15, 1) && walks(image, 0, 16, 0), "a PLT slot behind its push, and the next slot");
	unwind_image_free(image);
	buf_release(&file);
}

// The same as a static-pie has it: rules by the addresses of the file, wherever it was mapped.
static void test_static_pie(void)
{
	struct buf file = { 0 };

	if (!shell("test $(uname -m) = x86_64 && as -o forms.o forms.s 2>err && ld -static -pie --no-dynamic-linker -o pie forms.o 2>>err") || !read_built("pie", &file)) {
		skip("no assembler or linker for it", "static-pie");
		return;
	}
	struct unwind_image *image = open_bytes(file.data, file.size);
	const uint64_t high = 0x7f1234560000;
	ok(image->image->entry < high && walks(image, high, 0, 0) && walks(image, high, 11, 1), "static-pie: to the root, by rules");
	unwind_image_free(image);
	buf_release(&file);
}

// ---------------------------------------------------------------- a CFA in a register that callees may change

static const char kept_source[] =
	".text\n.globl _start\n_start: .cfi_startproc\n.cfi_undefined rip\ncall keeper\nnop\nnop\nnop\n.cfi_endproc\n" // a call ends at 5
	".balign 64\nkeeper: .cfi_startproc\nmov %rsp, %rax\n.cfi_def_cfa_register rax\nsub $24, %rsp\ncall small\nmov %rax, %rsp\n" // 76
	".cfi_def_cfa_register rsp\nret\n.cfi_endproc\n"
	".balign 64\nsmall: .cfi_startproc\nnop\nret\n.cfi_endproc\n"; // 128

static void test_kept(void)
{
	struct buf file = { 0 };
	struct frame frames[8];

	scratch_write("kept.s", kept_source);
	if (!shell("test $(uname -m) = x86_64 && as -o kept.o kept.s 2>err && ld -o kept kept.o 2>>err") || !read_built("kept", &file)) {
		skip("no assembler for it", "a CFA in a register that callees may change");
		return;
	}
	struct mapped mapped = { .image = open_bytes(file.data, file.size) };
	uint64_t entry = mapped.image->image->entry, sp = 0x7000;
	const uint64_t words[16] = { entry + 76, 1, 2, 3, entry + 5, entry + 7 };
	struct unwind_stack out = { .frames = frames, .capacity = 8 };
	for (uint64_t rax = sp + 8; rax < sp + 8 * 16; rax += 8) {
		bool is_kept = rax == sp + 8 * 4;
		walk_with_rax(&mapped, (const uint64_t[]){ rax, 0, sp, entry + 128 }, words, 16, &out);
		bool good = is_kept ? out.end == UNWIND_ROOT && out.count == 3 && frames[2].addr == entry + 5 : out.end == UNWIND_UNSUPPORTED && out.count == 2;
		ok(good, "rax %s: %zu frames, %s", is_kept ? "as it was" : "changed, behind no call", out.count, unwind_end_name(out.end));
	}
	unwind_image_free(mapped.image);
	buf_release(&file);
}

// ---------------------------------------------------------------- an entry without CFI

// An entry that pushes two words, and a function right behind it.
static const char entry_source[] =
	".text\n.globl _start\n_start: push %rax\npush %rsp\ncall *%rbx\ncall small\nnop\nnop\n.balign 16\nsmall: nop\n nop\nret\n";

static bool ends_at_entry(struct mapped *mapped, unsigned pc, unsigned called_from, size_t frame_count)
{
	uint64_t entry = mapped->image->image->entry, sp = 0x7000, regs[3] = { 1, sp, entry + pc };
	uint64_t words[16] = { 0 };
	size_t at = 0;
	struct frame frames[8];
	struct unwind_stack out = { .frames = frames, .capacity = 8 };

	if (called_from != 0)
		words[at++] = entry + called_from;
	words[at++] = 0x7040;
	words[at++] = 1;
	words[at++] = 1;      // argc
	words[at++] = 0x7078; // argv[0]
	words[at + 2] = 33;   // behind both NULLs the auxiliary vector
	walk_words(mapped, regs, words, 16, &out);
	bool good = out.end == UNWIND_ROOT_GUESSED && out.count == frame_count && (called_from == 0 || frames[1].addr == entry + called_from);
	for (size_t i = 0; !good && i < out.count; i++)
		diag("%#llx via %s, end %s", (unsigned long long)(frames[i].addr - entry), frame_via_name(frames[i].via), unwind_end_name(out.end));
	return good;
}

static void test_entry(void)
{
	struct buf file = { 0 };

	scratch_write("entry.s", entry_source);
	if (!shell("test $(uname -m) = x86_64 && as -o entry.o entry.s 2>err && ld -o entry entry.o 2>>err") || !read_built("entry", &file)) {
		skip("no assembler for it", "an entry without CFI");
		return;
	}
	struct mapped mapped = { .image = open_bytes(file.data, file.size) };
	ok(ends_at_entry(&mapped, 2, 0, 1), "the entry, two words pushed: a guessed root");
	ok(ends_at_entry(&mapped, 16, 9, 2), "a function right behind the entry, called from there: the entry is the root");
	ok(ends_at_entry(&mapped, 16, 4, 2), "the same, called through a register");
	unwind_image_free(mapped.image);
	buf_release(&file);
}

// ---------------------------------------------------------------- the vdso

static void test_vdso(void)
{
	const char *vdso = (const char *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	struct unwind_counters counters = { 0 };
	struct image *image;
	struct unwind_image *made;
	unsigned ruled = 0;

	if (vdso == NULL || !image_open_bytes(&image, vdso, 4096, true, "[vdso]", NULL)) {
		skip("no vdso", "the vdso");
		return;
	}
	unwind_image_new(&made, image, false, NULL);
	for (size_t i = 0; i < image->segment_count; i++)
		for (uint64_t at = 0; at < image->segments[i].file_size; at++)
			ruled += rule_table_find(made, image->segments[i].vaddr + at, &counters).kind != RULE_NONE;
	ok(ruled > 100, "the vdso, as it stands in memory: %u bytes with rules", ruled);
	unwind_image_free(made);
	image_release(image);
}

int main(void)
{
	scratch_make();
	test_both();
	test_segments();
	test_forms();
	test_static_pie();
	test_kept();
	test_entry();
	test_vdso();
	return tap_done();
}
