#include "load/jit_unwind.h"

#include <elf.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

enum { UNWIND_BYTES_MOST = 16 << 20 };

static bool add_from(struct buf *out, int fd, uint64_t offset, uint64_t size)
{
	char block[4096];
	while (size > 0) {
		size_t want = size < sizeof(block) ? (size_t)size : sizeof(block);
		ssize_t got = pread(fd, block, want, (off_t)offset);
		if (got <= 0)
			return false; // cut since it was read
		buf_add(out, block, (size_t)got);
		offset += (uint64_t)got;
		size -= (uint64_t)got;
	}
	return true;
}

struct image *jit_unwind_image(const struct jit_unwind *unwind, int fd, uint16_t machine)
{
	static const char names[] = "\0.eh_frame\0.shstrtab";
	Elf64_Ehdr header = { .e_type = ET_DYN, .e_machine = machine, .e_version = EV_CURRENT, .e_ehsize = sizeof(header), .e_phoff = sizeof(header),
	                      .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2 };
	Elf64_Phdr load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = JIT_UNWIND_VADDR, .p_vaddr = JIT_UNWIND_VADDR, .p_align = 1 };
	Elf64_Shdr sections[3] = { { 0 } };
	struct buf out = { 0 };
	struct image *image = NULL;
	_Static_assert(sizeof(header) + sizeof(load) <= JIT_UNWIND_VADDR, "headers stand before the code");

	if (unwind->size + unwind->unwind_size > UNWIND_BYTES_MOST || machine == EM_386)
		return NULL;
	memcpy(header.e_ident, ELFMAG, SELFMAG);
	header.e_ident[EI_CLASS] = ELFCLASS64;
	header.e_ident[EI_DATA] = ELFDATA2LSB;
	header.e_ident[EI_VERSION] = EV_CURRENT;
	buf_align(&out, 8);
	while (out.size < JIT_UNWIND_VADDR)
		buf_u32(&out, 0);
	bool good = add_from(&out, fd, unwind->offset, unwind->size);
	buf_align(&out, 8);
	sections[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = out.size, .sh_offset = out.size,
	                            .sh_size = unwind->unwind_size, .sh_addralign = 8 };
	good = good && add_from(&out, fd, unwind->unwind_offset, unwind->unwind_size);
	load.p_filesz = load.p_memsz = out.size - JIT_UNWIND_VADDR;
	sections[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = out.size, .sh_size = sizeof(names), .sh_addralign = 1 };
	buf_add(&out, names, sizeof(names));
	buf_align(&out, 8);
	header.e_shoff = out.size;
	buf_add(&out, sections, sizeof(sections));
	memcpy(out.data, &header, sizeof(header));
	memcpy(out.data + sizeof(header), &load, sizeof(load));
	if (!good || !image_open_bytes(&image, out.data, out.size, false, "[jit]", NULL))
		image = NULL;
	buf_release(&out);
	return image;
}
