// Core files, laid out by hand: registers and thread numbers of three machines, mapped files, memory; and what is refused.
#include "elf/core.h"

#include <elf.h>

#include "tests/tap.h"

struct machine {
	const char *name;
	uint16_t machine;
	bool is_64;
	unsigned tid_at, regs_at, words, pid_at;
	uint8_t order[34]; // perf's number of each word; 99: none
};

// struct elf_prstatus of the three, from asm/elf.h, asm/user.h and asm/ptrace.h.
static const struct machine machines[] = {
	{ "x86-64", EM_X86_64, true, 32, 112, 27, 24, { 23, 22, 21, 20, 6, 1, 19, 18, 17, 16, 0, 2, 3, 4, 5, 99, 8, 99, 99, 7, 99, 99, 99, 99, 99, 99, 99 } },
	{ "i386", EM_386, false, 24, 72, 17, 12, { 1, 2, 3, 4, 5, 6, 0, 99, 99, 99, 99, 99, 8, 99, 99, 7, 99 } },
	{ "AArch64", EM_AARCH64, true, 32, 112, 34, 24, { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
	                                                  27, 28, 29, 30, 31, 32, 99 } },
};

static void put(struct buf *out, uint64_t value, unsigned bytes)
{
	buf_add(out, &value, bytes);
}

static void set(struct buf *out, size_t at, uint64_t value, unsigned bytes)
{
	memcpy(out->data + at, &value, bytes);
}

static void put_note(struct buf *out, uint32_t type, const struct buf *desc)
{
	put(out, 5, 4);
	put(out, desc->size, 4);
	put(out, type, 4);
	buf_add(out, "CORE\0\0\0", 8);
	buf_add(out, desc->data, desc->size);
	buf_align(out, 4);
}

static void put_thread(struct buf *out, const struct machine *m, uint32_t tid, uint64_t first)
{
	unsigned word = m->is_64 ? 8 : 4;
	struct buf desc = { 0 };

	memset(buf_add(&desc, NULL, m->regs_at + m->words * word + word), 0, m->regs_at + m->words * word + word);
	set(&desc, m->tid_at, tid, 4);
	for (unsigned i = 0; i < m->words; i++)
		set(&desc, m->regs_at + i * word, first + m->order[i], word);
	put_note(out, NT_PRSTATUS, &desc);
	buf_release(&desc);
}

// How long AArch64's scalable vectors are, as a header of NT_ARM_SVE: twice, of which the first counts.
static void put_vectors(struct buf *out, uint64_t vg)
{
	for (unsigned i = 0; i < 2; i++) {
		put(out, 6, 4), put(out, 16, 4), put(out, 0x405, 4);
		buf_add(out, "LINUX\0\0\0", 8);
		put(out, 16, 4), put(out, 16, 4);
		put(out, (vg + i) * 8, 2), put(out, 256, 2);
		put(out, 0, 4);
	}
}

static void put_notes(struct buf *out, const struct machine *m)
{
	unsigned word = m->is_64 ? 8 : 4;
	struct buf desc = { 0 };

	put_thread(out, m, 77, 0x1000);
	put_vectors(out, 0x1000 + 46);
	memset(buf_add(&desc, NULL, 136), 0, 136);
	set(&desc, m->pid_at, 70, 4);
	put_note(out, NT_PRPSINFO, &desc);
	buf_clear(&desc);
	const uint64_t pairs[] = { AT_ENTRY, 0x401000, AT_SYSINFO_EHDR, 0x7ff000, AT_NULL, 0, AT_ENTRY, 5 };
	for (size_t i = 0; i < 8; i++)
		put(&desc, pairs[i], word);
	put_note(out, NT_AUXV, &desc);
	buf_clear(&desc);
	const uint64_t files[] = { 2, 4096, 0x400000, 0x401000, 0, 0x401000, 0x402000, 3 };
	for (size_t i = 0; i < 8; i++)
		put(&desc, files[i], word);
	buf_add(&desc, "/bin/a\0/bin/b", 14);
	put_note(out, 0x46494c45, &desc);
	buf_release(&desc);
	put_thread(out, m, 78, 0x2000);
}

static void put_program_header(struct buf *out, bool is_64, uint32_t type, uint64_t offset, uint64_t vaddr, uint64_t size)
{
	unsigned word = is_64 ? 8 : 4;

	put(out, type, 4);
	if (is_64)
		put(out, PF_R | PF_W, 4);
	put(out, offset, word);
	put(out, vaddr, word);
	put(out, 0, word);
	put(out, size, word);
	put(out, size, word);
	if (!is_64)
		put(out, PF_R | PF_W, 4);
	put(out, 4, word);
}

static void make_core(struct buf *out, const struct machine *m)
{
	unsigned word = m->is_64 ? 8 : 4, header = m->is_64 ? 64 : 52, entry = m->is_64 ? 56 : 32;
	struct buf notes = { 0 };

	put_notes(&notes, m);
	const uint8_t ident[16] = { 0x7f, 'E', 'L', 'F', m->is_64 ? 2 : 1, 1, 1 };
	buf_add(out, ident, 16);
	put(out, ET_CORE, 2);
	put(out, m->machine, 2);
	put(out, 1, 4);
	put(out, 0, word);
	put(out, header, word);
	put(out, 0, word);
	put(out, 0, 4);
	const uint16_t sizes[] = { (uint16_t)header, (uint16_t)entry, 2, 0, 0, 0 };
	buf_add(out, sizes, sizeof(sizes));
	size_t at = header + 2 * entry;
	put_program_header(out, m->is_64, PT_NOTE, at, 0, notes.size);
	put_program_header(out, m->is_64, PT_LOAD, at + notes.size, 0x7000, 64);
	buf_add(out, notes.data, notes.size);
	for (unsigned i = 0; i < 64; i++)
		buf_byte(out, (uint8_t)i);
	buf_release(&notes);
}

static bool open_core(const struct buf *file, struct core **out, struct err *err)
{
	struct image *image;

	*out = NULL;
	if (!image_open_bytes(&image, file->data, file->size, false, "made", err))
		return false;
	bool good = core_open(out, image, err);
	image_release(image);
	return good;
}

static bool has_registers(const struct core_thread *thread, const struct machine *m, uint64_t first)
{
	unsigned count = 0;

	for (unsigned number = 0; number < 64; number++)
		if ((thread->regs_mask >> number & 1) != 0 && thread->regs[count++] != first + number)
			return false;
	for (unsigned i = 0; i < m->words; i++)
		if (m->order[i] != 99 && (thread->regs_mask >> m->order[i] & 1) == 0)
			return false;
	return true;
}

static void test_machine(const struct machine *m)
{
	struct buf file = { 0 };
	struct core *core;
	struct err err = { 0 };
	struct bytes at;

	make_core(&file, m);
	if (!ok(open_core(&file, &core, &err), "%s: opened %s", m->name, err.text))
		return;
	ok(core->pid == 70 && core->threads.count == 2 && core->threads.data[0].tid == 77 && core->threads.data[1].tid == 78, "%s: threads in order", m->name);
	ok(has_registers(&core->threads.data[0], m, 0x1000) && has_registers(&core->threads.data[1], m, 0x2000), "%s: each register under its number", m->name);
	ok((core->threads.data[0].regs_mask >> 46 & 1) == (m->machine == EM_AARCH64) && (core->threads.data[1].regs_mask >> 46 & 1) == 0,
	   "%s: the length of vectors, of the thread that has them", m->name);
	ok(core->entry == 0x401000 && core->vdso == 0x7ff000, "%s: the auxiliary vector, up to its end", m->name);
	ok(core->has_files && core->files.count == 2 && core->files.data[1].pgoff == 3 * 4096 && strcmp(core->files.data[1].path, "/bin/b") == 0,
	   "%s: mapped files", m->name);
	ok(core_memory(core, 0x7010, &at) && bytes_left(&at) == 48 && bytes_u8(&at) == 16, "%s: memory from an address on", m->name);
	ok(!core_memory(core, 0x7040, &at) && !core_memory(core, 0x6fff, &at), "%s: none beside it", m->name);
	core_close(core);
	buf_release(&file);
}

static void test_cut(void)
{
	struct buf file = { 0 };
	struct core *core;
	struct bytes at;
	unsigned opened = 0, refused = 0, silent = 0;

	make_core(&file, &machines[0]);
	size_t whole = file.size;
	for (size_t size = 0; size < whole; size++) {
		struct err err = { 0 };
		file.size = size;
		if (open_core(&file, &core, &err)) {
			opened += size >= whole - 64;
			silent += size < whole - 64;
			core_memory(core, 0x7000, &at);
			silent += bytes_left(&at) != size - (whole - 64);
		} else {
			refused++;
			silent += err.status != STATUS_INPUT || strstr(err.text, "made: ") == NULL;
		}
		core_close(core);
	}
	ok(opened == 64 && refused == whole - 64 && silent == 0, "cut anywhere: %u refused with the file's name, %u opened with less memory", refused, opened);
	buf_release(&file);
}

static void test_refused(void)
{
	static const struct { const char *what; size_t at; uint64_t value; unsigned bytes; const char *wanted; } cases[] = {
		{ "no core", 16, ET_EXEC, 2, "offset 16: ELF type 2, expected 4" },
		{ "a machine that is not known", 18, EM_PPC64, 2, "offset 18: a core of machine 21" },
		{ "of the other class", 18, EM_386, 2, "offset 18: a core of machine 3, 64 bits" },
		{ "NT_PRSTATUS too short", 64 + 112 + 4, 100, 4, "NT_PRSTATUS of 100 bytes, expected 280" },
		{ "no note of its kind", 64 + 112 + 12, 0, 4, NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf file = { 0 };
		struct core *core;
		struct err err = { 0 };
		make_core(&file, &machines[0]);
		set(&file, cases[i].at, cases[i].value, cases[i].bytes);
		bool good = open_core(&file, &core, &err);
		ok(cases[i].wanted == NULL ? good && core->threads.count == 1 : !good && strstr(err.text, cases[i].wanted) != NULL, "%s: %s", cases[i].what, err.text);
		core_close(core);
		buf_release(&file);
	}
}

int main(void)
{
	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++)
		test_machine(&machines[i]);
	test_cut();
	test_refused();
	return tap_done();
}
