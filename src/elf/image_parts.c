#include "elf/image_parts.h"

#include <elf.h>
#include <string.h>

bool image_open_parts(struct image **out, const struct image_parts *parts, const char *path, struct err *err)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_machine = parts->machine, .e_version = EV_CURRENT, .e_ehsize = sizeof(header), .e_phoff = sizeof(header),
	                      .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2 };
	Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = sizeof(header) + sizeof(load), .p_vaddr = parts->code_vaddr,
	                    .p_filesz = parts->code != NULL ? parts->code_size : 0, .p_memsz = parts->code_size, .p_align = 1 };
	Elf64_Shdr sections[3] = { { 0 } };
	struct buf file = { 0 };

	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_add(&file, &header, sizeof(header));
	buf_add(&file, &load, sizeof(load));
	buf_add(&file, parts->code, (size_t)load.p_filesz);
	buf_align(&file, 8);
	sections[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = parts->frames_vaddr, .sh_offset = file.size,
	                            .sh_size = parts->frames_size, .sh_addralign = 8 };
	buf_add(&file, parts->frames, parts->frames_size);
	sections[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = file.size, .sh_size = sizeof(names), .sh_addralign = 1 };
	buf_add(&file, names, sizeof(names));
	buf_align(&file, 8);
	header.e_shoff = file.size;
	buf_add(&file, sections, sizeof(sections));
	memcpy(file.data, &header, sizeof(header));
	bool good = image_open_bytes(out, file.data, file.size, false, path, err);
	buf_release(&file);
	return good;
}
