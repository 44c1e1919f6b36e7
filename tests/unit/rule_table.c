// The index of FDEs: from .eh_frame_hdr, from a scan where that is missing or wrong, without section headers; and images shared by threads.
#include "unwind/rule_table.h"

#include <elf.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/assembled.h"
#include "tests/compile.h"

static struct buf original;

static void read_file(const char *path, struct buf *out)
{
	FILE *file = fopen(path, "rb");
	size_t got;

	do {
		buf_reserve(out, 1 << 16);
		got = fread(out->data + out->size, 1, 1 << 16, file);
		out->size += got;
	} while (got > 0);
	fclose(file);
}

static struct unwind_image *open_copy(const struct buf *file)
{
	struct image *image;
	struct unwind_image *made;

	if (!image_open_bytes(&image, file->data, file->size, false, "copy", NULL))
		return NULL;
	unwind_image_new(&made, image, true, NULL);
	image_release(image);
	return made;
}

// Every rule of every function of `wanted`, asked of `image`.
static unsigned long differing(struct unwind_image *image, struct unwind_image *wanted, unsigned long *asked)
{
	struct unwind_counters counters = { 0 };
	struct rule_table *table = &wanted->tables[wanted->table_count - 1];
	unsigned long bad = 0;

	*asked = 0;
	for (size_t i = 0; i < table->fde_count; i++) {
		for (uint64_t into = 0; into < 48; into++) {
			uint64_t vaddr = wanted->base + rule_table_ref(table, i).start + into;
			struct unwind_rule a = rule_table_find(wanted, vaddr, &counters), b = rule_table_find(image, vaddr, &counters);
			bad += memcmp(&a, &b, sizeof(a)) != 0;
			++*asked;
		}
	}
	return bad;
}

static void compare(const char *what, const struct buf *file, struct unwind_image *wanted)
{
	unsigned long asked = 0, bad;
	struct unwind_image *image = open_copy(file);

	if (!ok(image != NULL && image->table_count > 0, "%s: opened", what))
		return;
	bad = differing(image, wanted, &asked);
	ok(asked > 1000 && bad == 0, "%s: %lu rules asked, %lu differ", what, asked, bad);
	ok(unwind_image_bytes(image) > sizeof(*image), "it says what it holds: %zu bytes", unwind_image_bytes(image));
	unwind_image_free(image);
}

static struct buf copy_of(const struct buf *file)
{
	struct buf copy = { 0 };
	buf_add(&copy, file->data, file->size);
	return copy;
}

static Elf64_Phdr *header_segment(struct buf *file)
{
	Elf64_Ehdr *ehdr = (Elf64_Ehdr *)(void *)file->data;
	Elf64_Phdr *phdr = (Elf64_Phdr *)(void *)(file->data + ehdr->e_phoff);

	for (int i = 0; i < ehdr->e_phnum; i++)
		if (phdr[i].p_type == PT_GNU_EH_FRAME)
			return &phdr[i];
	fputs("Bail out! no PT_GNU_EH_FRAME\n", stdout);
	exit(1);
}

static void rename_section(struct buf *file, const char *name)
{
	for (size_t i = 0; i + strlen(name) + 1 < file->size; i++)
		if (memcmp(file->data + i, name, strlen(name) + 1) == 0)
			file->data[i + 1] = '_';
}

static void test_headers(const char *path)
{
	read_file(path, &original);
	struct unwind_image *wanted = open_copy(&original);
	if (!ok(wanted != NULL && wanted->table_count > 0 && wanted->tables[wanted->table_count - 1].is_from_header, "%s: index from the header", path))
		return;

	struct buf file = copy_of(&original);
	((Elf64_Ehdr *)(void *)file.data)->e_shoff = 0;
	compare("no section headers", &file, wanted);
	buf_release(&file);

	file = copy_of(&original);
	((Elf64_Ehdr *)(void *)file.data)->e_shoff = 0;
	header_segment(&file)->p_memsz = header_segment(&file)->p_filesz = 1 << 30;
	compare("no section headers, and a header longer than its segment", &file, wanted);
	buf_release(&file);

	file = copy_of(&original);
	header_segment(&file)->p_type = PT_NULL;
	compare("no PT_GNU_EH_FRAME", &file, wanted);
	rename_section(&file, ".eh_frame_hdr");
	compare("nor a section of that name: a scan", &file, wanted);
	buf_release(&file);

	file = copy_of(&original);
	char *hdr = file.data + header_segment(&file)->p_offset;
	uint32_t count, entry[2], other[2];
	memcpy(&count, hdr + 8, 4);
	memset(hdr + 8, 0, 4);
	compare("a table of zero FDEs", &file, wanted);
	memset(hdr + 8, 0xff, 4);
	compare("a table of four billion", &file, wanted);
	memcpy(other, &count, 4);
	other[0] /= 2;
	memcpy(hdr + 8, other, 4);
	compare("a table of half of the FDEs", &file, wanted);
	memcpy(hdr + 8, &count, 4);
	hdr[0] = 9;
	compare("another version", &file, wanted);
	hdr[0] = 1;
	hdr[3] = 0x1b;
	compare("another encoding", &file, wanted);
	hdr[3] = 0x3b;
	memcpy(entry, hdr + 12 + 8 * (count / 2), 8); // two entries the wrong way round
	memcpy(other, hdr + 12 + 8 * (count / 3), 8);
	memcpy(hdr + 12 + 8 * (count / 2), other, 8);
	memcpy(hdr + 12 + 8 * (count / 3), entry, 8);
	compare("a table out of order", &file, wanted);
	buf_release(&file);

	file = copy_of(&original);
	hdr = file.data + header_segment(&file)->p_offset;
	for (uint32_t i = 0; i + 1 < count; i++) // in order, but each points at its neighbour's FDE
		memcpy(hdr + 12 + 8 * i + 4, original.data + (hdr - file.data) + 12 + 8 * (i + 1) + 4, 4);
	compare("a table that points at other FDEs", &file, wanted);
	buf_release(&file);

	file = copy_of(&original);
	rename_section(&file, ".eh_frame");
	header_segment(&file)->p_type = PT_NULL;
	rename_section(&file, ".eh_frame_hdr");
	struct unwind_image *none = open_copy(&file);
	struct unwind_counters counters = { 0 };
	ok(none != NULL && none->table_count == 0 && rule_table_find(none, none->base + 0x2000, &counters).kind == RULE_NONE, "no CFI at all is fine");
	unwind_image_free(none);
	buf_release(&file);
	unwind_image_free(wanted);
}

// ---------------------------------------------------------------- threads

static struct image *shared;

static void *in_thread(void *arg)
{
	unsigned long *found = arg;
	struct unwind_counters counters = { 0 };

	for (int i = 0; i < 20; i++) {
		struct unwind_image *mine;
		struct image *other;
		unwind_image_new(&mine, shared, true, NULL);
		struct rule_table *table = &mine->tables[mine->table_count - 1];
		for (size_t f = 0; f < table->fde_count; f += 37)
			*found += rule_table_find(mine, mine->base + rule_table_ref(table, f).start, &counters).kind != RULE_NONE;
		unwind_image_free(mine);
		if (image_open_path(&other, "/proc/self/exe", NULL))
			image_release(other);
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t threads[4];
	unsigned long found[4] = { 0 };

	image_open_path(&shared, "/proc/self/exe", NULL);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, in_thread, &found[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	image_release(shared);
	ok(found[0] > 0 && found[0] == found[1] && found[1] == found[2] && found[2] == found[3], "four threads share an image: %lu rules each", found[0]);
}

// Rules are made from the row before where that is enough: they must be those of the rows themselves.
static void test_rows(const char *path)
{
	struct unwind_counters counters = { 0 };
	struct buf file = { 0 };
	unsigned long asked = 0, bad = 0;

	if (access(path, R_OK) != 0) {
		skip("not here", "rules and rows of %s", path);
		return;
	}
	read_file(path, &file);
	struct unwind_image *image = open_copy(&file);
	if (image == NULL || image->table_count == 0) {
		ok(false, "rules and rows of %s", path);
		buf_release(&file);
		return;
	}
	struct rule_table *table = &image->tables[image->table_count - 1];
	for (size_t i = 0; i < table->fde_count && i < 4000; i++)
		for (uint64_t into = 0; into < 64; into++) {
			uint64_t vaddr = image->base + rule_table_ref(table, i).start + into;
			const struct cfi_section *section;
			struct cfi_row row;
			struct cfi_fde fde;
			struct unwind_rule found = rule_table_find(image, vaddr, &counters), wanted = { 0 };
			if (rule_table_row(image, vaddr, &row, &fde, &section))
				wanted = rule_from_row(section, image->arch, &fde.cie, &row);
			if (memcmp(&found, &wanted, sizeof(found)) != 0 && ++bad < 4)
				diag("%#llx: kind %u, cfa %d, fp %d, ra %d", (unsigned long long)vaddr, found.kind, found.cfa_off, found.fp_off, found.ra_off);
			asked++;
		}
	ok(asked > 1000 && bad == 0, "%s: %lu rules are those of their rows", path, asked);
	unwind_image_free(image);
	buf_release(&file);
}

// ---------------------------------------------------------------- CFI that cannot be run

// In _start a row, then (where GNU_args_size becomes an instruction that nobody knows) nothing that could be understood. It calls `called`, whose frame
// a walk may begin in with a frame pointer of somebody else's.
static const char unreadable_source[] =
	".cfi_sections .eh_frame, .debug_frame\n.text\n.globl _start, called, behind\n"
	"_start: .cfi_startproc\ncall called\nnop\nret\n.cfi_endproc\n"
	"called: .cfi_startproc\nsub $104, %rsp\n.cfi_def_cfa_offset 112\nnop\n.cfi_escape 0x2e, 0x11\nnop\nadd $104, %rsp\n.cfi_def_cfa_offset 8\nret\n.cfi_endproc\n"
	"behind: .cfi_startproc\nnop\nret\n.cfi_endproc\n";

static bool spoil(struct buf *file, const char *section_name)
{
	return patch_section(file, section_name, (const uint8_t[]){ 0x2e, 0x11 }, (const uint8_t[]){ 0x3a, 0x11 }); // DW_CFA_lo_user and above
}

static struct unwind_map map_of(void *context, uint64_t addr)
{
	struct unwind_image *image = context;
	(void)addr;
	return (struct unwind_map){ .start = image->base, .end = image->base + 0x10000, .image = image };
}

// From an address, with a frame pointer that points at a pair whose return address is a good one.
static struct unwind_stack walk_from(struct unwind_image *image, uint64_t pc, struct frame *frames)
{
	enum { SP = 0x7000, FRAME_WORDS = 13 };
	uint64_t start, called, words[32] = { 0 };
	struct unwind_regs regs;
	image_find_symbol(image->image, "_start", &start);
	image_find_symbol(image->image, "called", &called);
	words[FRAME_WORDS] = start + 5;     // where the call put it
	words[20] = SP + 8 * 24;            // somebody's frame
	words[21] = start + 5;
	unwind_regs_for(EM_X86_64, &regs);
	const uint64_t values[] = { SP + 8 * 20, SP, pc }; // rbp, rsp, rip: 6, 7 and 8 of perf's numbers
	struct unwind_input input = { .machine = EM_X86_64, .regs = values, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)words, .stack_size = sizeof(words),
	                              .generation = 1, .map = map_of, .map_context = image };
	struct unwind_stack out = { .frames = frames, .capacity = 16 };
	struct unwinder *unwinder = unwinder_new();
	unwind_stack(unwinder, &input, &out);
	unwinder_free(unwinder);
	return out;
}

static void unreadable(const char *what, const char *first, const char *second, bool is_known)
{
	struct buf file = { 0 };
	struct unwind_counters counters = { 0 };
	struct frame frames[16];
	uint64_t called, behind, start;

	read_file(scratch_path("unreadable"), &file);
	bool made = (first == NULL || spoil(&file, first)) && (second == NULL || spoil(&file, second));
	struct unwind_image *image = made ? open_copy(&file) : NULL;
	if (!ok(image != NULL && image_find_symbol(image->image, "called", &called) && image_find_symbol(image->image, "behind", &behind) &&
	        image_find_symbol(image->image, "_start", &start), "%s: built", what)) {
		buf_release(&file);
		return;
	}
	struct unwind_rule before = rule_table_find(image, called + 4, &counters), inside = rule_table_find(image, called + 5, &counters),
	                   last = rule_table_find(image, behind - 1, &counters), next = rule_table_find(image, behind, &counters);
	ok((before.kind & RULE_BASE_MASK) == RULE_SP && before.cfa_off == 112, "%s: what stands before that is believed", what);
	ok((next.kind & RULE_BASE_MASK) == RULE_SP && next.cfa_off == 8, "%s: and so is the next function's", what);
	struct unwind_stack stack = walk_from(image, called + 5, frames);
	if (is_known) {
		ok((inside.kind & RULE_BASE_MASK) == RULE_SP && inside.cfa_off == 112 && (last.kind & RULE_BASE_MASK) == RULE_SP && last.cfa_off == 8, "%s: rules to the end", what);
		ok(stack.count >= 2 && frames[1].addr == start + 5 && frames[1].via == VIA_CFI, "%s: the caller is found", what);
	} else {
		ok(inside.kind == RULE_UNREADABLE && last.kind == RULE_UNREADABLE, "%s: from there to the function's end nothing is known", what);
		ok(stack.count == 1 && stack.end == UNWIND_UNSUPPORTED, "%s: the stack ends there, whatever the frame pointer points at: %s", what, unwind_end_name(stack.end));
	}
	unwind_image_free(image);
	buf_release(&file);
}

static void test_unreadable(void)
{
	scratch_write("unreadable.s", unreadable_source);
	if (!shell("test $(uname -m) = x86_64 && as -o u.o unreadable.s 2>err && ld -o unreadable u.o 2>>err")) {
		skip("no assembler for it", "CFI that cannot be run");
		return;
	}
	unreadable("CFI as it should be", NULL, NULL, true);
	unreadable("an unknown instruction in both sections", ".eh_frame", ".debug_frame", false);
	unreadable("one in .debug_frame alone: .eh_frame is asked", ".debug_frame", NULL, true);
	unreadable("one in .eh_frame alone", ".eh_frame", NULL, true);
}

int main(void)
{
	scratch_make();
	test_unreadable();
	test_headers("/proc/self/exe");
	test_rows("/proc/self/exe");
	test_rows("/lib/x86_64-linux-gnu/libc.so.6");
	test_rows("/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
	test_threads();
	buf_release(&original);
	return tap_done();
}
