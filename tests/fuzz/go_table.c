// Any bytes as Go's function table (.gopclntab) of a small image: stops ascending, apart from each other, inside what a rule can reach; functions that have
// the addresses that they are found by, with lines, what is inlined into them, and rules.
#include <elf.h>

#include "base/buf.h"
#include "tests/fuzz/replay.h"
#include "unwind/rule_table.h"

enum { TEXT = 0x401000, TEXT_BYTES = 0x1000, TABLE = 0x500000, FRAMES = 8 };

static void put_section(struct buf *out, uint32_t name, uint32_t type, uint64_t vaddr, uint64_t offset, uint64_t size)
{
	const Elf64_Shdr header = { .sh_name = name, .sh_type = type, .sh_flags = SHF_ALLOC, .sh_addr = vaddr, .sh_offset = offset, .sh_size = size };
	buf_add(out, &header, sizeof(header));
}

static void look_up(const struct unwind_image *made)
{
	struct go_table table = made->go;
	struct go_frame frames[FRAMES];

	go_table_open_inlines(&table, made->image);
	for (uint64_t at = TEXT - 16; at < TEXT + TEXT_BYTES + 16; at += 3) {
		struct go_function function;
		uint64_t end = 0;
		if (!go_table_find(&made->go, at, &function))
			continue;
		if (at < function.start || at >= function.end)
			abort();
		struct go_line line = go_table_line(&made->go, &function, at);
		if (line.file != NULL && strlen(line.file) > 1 << 20)
			abort();
		const size_t count = go_table_chain(&table, &function, at, frames, FRAMES);
		if (count < 1 || count > FRAMES)
			abort();
		struct unwind_rule rule = go_table_rule(made, at, &end);
		if (rule.kind != RULE_NONE && (end <= at || rule.cfa_off < 0 || (rule.kind & RULE_BASE_MASK) != RULE_SP))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char names[] = "\0.gopclntab\0.text\0.names";
	struct buf file = { 0 };
	const uint64_t table_at = sizeof(Elf64_Ehdr) + 2 * sizeof(Elf64_Phdr), names_at = table_at + size, sections_at = names_at + sizeof(names);
	const Elf64_Ehdr header = {
		.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_phoff = sizeof(header),
		.e_shoff = sections_at, .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4, .e_shstrndx = 3,
	};
	const Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT, .p_memsz = TEXT_BYTES };
	const Elf64_Phdr data_load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = TABLE, .p_offset = table_at, .p_filesz = size, .p_memsz = size };
	struct image *image;
	struct unwind_image *made;

	buf_add(&file, &header, sizeof(header));
	buf_add(&file, &load, sizeof(load));
	buf_add(&file, &data_load, sizeof(data_load));
	buf_add(&file, data, size);
	buf_add(&file, names, sizeof(names));
	put_section(&file, 0, SHT_NULL, 0, 0, 0);
	put_section(&file, 1, SHT_PROGBITS, TABLE, table_at, size);
	put_section(&file, 12, SHT_NOBITS, TEXT, 0, TEXT_BYTES);
	put_section(&file, 18, SHT_STRTAB, 0, names_at, sizeof(names));
	if (!image_open_bytes(&image, file.data, file.size, false, "fuzz", NULL))
		abort();
	unwind_image_new(&made, image, false, NULL);
	for (size_t i = 0; i < made->stops.count; i++) {
		const struct rule_stop *stop = &made->stops.data[i];
		if (stop->start >= stop->end || (i > 0 && stop->start < stop[-1].end))
			abort();
		const struct unwind_rule rule = rule_table_stop(made, made->base + stop->start);
		if ((rule.kind & RULE_BASE_MASK) != RULE_ROOT && rule.kind != RULE_SIGNAL)
			abort();
	}
	look_up(made);
	if (unwind_image_bytes(made) > (1 << 16) + 16 * size)
		abort();
	unwind_image_free(made);
	image_release(image);
	buf_release(&file);
	return 0;
}
