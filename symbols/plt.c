// Entries of the procedure linkage table have no symbols. Each jumps through a slot of the GOT; the dynamic relocation of that slot
// names the function. Decoding the jump, rather than counting entries, holds for .plt, .plt.sec (IBT), .plt.got and every linker.
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/sort.h"
#include "symbols/elf_symbols.h"

enum { RELOCATIONS_LIMIT = 16 * 1024 * 1024, PLT_ENTRY_BYTES = 16 };

struct slot {
	uint64_t vaddr;
	uint32_t symbol; // index into .dynsym; 0: none (IRELATIVE)
	uint64_t addend;
};

struct plt {
	const struct image *image;
	bool has_own, has_all;  // relocations of the PLT's own slots were read; and all others
	VEC(struct slot) slots; // by vaddr
	struct hash_map names;  // entry vaddr -> index into texts
	VEC(char *) texts;
};

struct plt *plt_new(const struct image *image)
{
	struct plt *plt = NEW(struct plt);
	plt->image = image;
	return plt;
}

void plt_free(struct plt *plt)
{
	if (plt == NULL)
		return;
	for (size_t i = 0; i < plt->texts.count; i++)
		free(plt->texts.data[i]);
	vec_release(&plt->texts);
	vec_release(&plt->slots);
	hash_map_release(&plt->names);
	free(plt);
}

static int compare_slots(const void *a, const void *b)
{
	uint64_t x = ((const struct slot *)a)->vaddr, y = ((const struct slot *)b)->vaddr;
	return x < y ? -1 : x > y;
}

// Types of relocations that fill a slot with a function's address; the others (RELATIVE above all) are many and of no use here.
static bool fills_slot(uint16_t machine, uint32_t type)
{
	switch (machine) {
	case EM_X86_64: return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT || type == R_X86_64_IRELATIVE;
	case EM_AARCH64: return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT || type == R_AARCH64_IRELATIVE;
	default: return false;
	}
}

// `own`: of the slots that entries have to themselves (.rela.plt says whose they are); else all others, of which a library may have hundreds of thousands.
static void read_relocations(struct plt *plt, bool own)
{
	const struct image *image = plt->image;
	for (size_t i = 0; i < image->section_count; i++) {
		struct bytes b;
		bool is_own = (image->sections[i].flags & SHF_INFO_LINK) != 0;
		if (image->sections[i].type != SHT_RELA || is_own != own || !image->is_64 || !image_section_raw(image, &image->sections[i], &b))
			continue;
		b.swap = image->swap;
		while (bytes_left(&b) >= sizeof(Elf64_Rela) && plt->slots.count < RELOCATIONS_LIMIT) {
			uint64_t offset = bytes_u64(&b), info = bytes_u64(&b), addend = bytes_u64(&b);
			if (fills_slot(image->machine, (uint32_t)info))
				vec_push(&plt->slots, (struct slot){ .vaddr = offset, .symbol = (uint32_t)(info >> 32), .addend = addend });
		}
	}
	if (plt->slots.count > 0)
		sort_stable(plt->slots.data, plt->slots.count, sizeof(plt->slots.data[0]), compare_slots);
}

// The GOT slot of an x86-64 entry: [endbr64] [bnd] jmp *disp32(%rip), in one 16-byte entry (8 in .plt.got).
static bool x86_64_slot(struct bytes b, uint64_t vaddr, uint64_t *slot)
{
	const uint8_t *p = b.at;
	size_t n = bytes_left(&b), i = 0;
	if (n >= 4 && memcmp(p, "\xf3\x0f\x1e\xfa", 4) == 0)
		i = 4;
	if (i < n && p[i] == 0xf2)
		i++;
	if (n < i + 6 || p[i] != 0xff || p[i + 1] != 0x25)
		return false;
	int32_t displacement;
	memcpy(&displacement, p + i + 2, sizeof(displacement));
	*slot = vaddr + i + 6 + (uint64_t)(int64_t)displacement;
	return true;
}

// AArch64: [bti c] adrp x16, page; ldr x17, [x16, #offset] (ELF for the Arm 64-bit Architecture, PLT sequences).
static bool aarch64_slot(struct bytes b, uint64_t vaddr, uint64_t *slot)
{
	uint32_t first = bytes_u32(&b);
	if (first == 0xd503245f) {
		first = bytes_u32(&b);
		vaddr += 4;
	}
	uint32_t load = bytes_u32(&b);
	if (b.bad || (first & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
		return false;
	uint64_t page = ((uint64_t)(first >> 5 & 0x7ffff) << 2 | (first >> 29 & 3)) << 12;
	if (page & 1ull << 32)
		page |= ~((1ull << 33) - 1);
	*slot = (vaddr & ~0xfffull) + page + (uint64_t)(load >> 10 & 0xfff) * 8;
	return true;
}

static const struct image_section *code_section(const struct image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct image_section *s = &image->sections[i];
		if ((s->flags & SHF_EXECINSTR) && s->type == SHT_PROGBITS && vaddr >= s->vaddr && vaddr - s->vaddr < s->size)
			return s;
	}
	return NULL;
}

static bool is_plt(const struct image_section *section)
{
	return section != NULL && (strncmp(section->name, ".plt", 4) == 0 || strcmp(section->name, ".iplt") == 0);
}

bool plt_has(const struct image *image, uint64_t vaddr, uint64_t *until)
{
	const struct image_section *section = image != NULL ? code_section(image, vaddr) : NULL;
	if (until != NULL)
		*until = section != NULL ? section->vaddr + section->size : vaddr;
	return is_plt(section);
}

static const char *dynamic_name(const struct image *image, uint32_t symbol)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct image_section *s = &image->sections[i];
		struct bytes symbols, names;
		if (s->type != SHT_DYNSYM || s->link >= image->section_count || !image_section_raw(image, s, &symbols) ||
		    !image_section_raw(image, &image->sections[s->link], &names))
			continue;
		symbols.swap = image->swap;
		bytes_skip(&symbols, (size_t)symbol * sizeof(Elf64_Sym));
		bytes_skip(&names, bytes_u32(&symbols));
		const char *name = bytes_cstr(&names);
		return symbols.bad || names.bad || *name == '\0' ? NULL : name;
	}
	return NULL;
}

static const struct slot *slot_at(struct plt *plt, uint64_t vaddr)
{
	const struct slot key = { .vaddr = vaddr }, *slot = NULL;
	if (!plt->has_own)
		read_relocations(plt, true);
	plt->has_own = true;
	if (plt->slots.count > 0)
		slot = bsearch(&key, plt->slots.data, plt->slots.count, sizeof(key), compare_slots);
	if (slot != NULL || plt->has_all)
		return slot;
	read_relocations(plt, false);
	plt->has_all = true;
	return slot_at(plt, vaddr);
}

// NULL: the entry cannot be named.
static char *entry_name(struct plt *plt, struct symbol_table *table, uint64_t slot_vaddr)
{
	const struct slot *slot = slot_at(plt, slot_vaddr);
	if (slot == NULL)
		return NULL;
	if (slot->symbol != 0) {
		const char *name = dynamic_name(plt->image, slot->symbol);
		return name != NULL ? mem_printf("%s@plt", name) : NULL;
	}
	// IRELATIVE: the addend is the resolver of an indirect function, which bears the function's name.
	const struct table_symbol *resolver = symbol_table_find(table, slot->addend);
	if (resolver == NULL || resolver->start != slot->addend)
		return mem_printf("*ABS*+0x%llx@plt", (unsigned long long)slot->addend);
	size_t length;
	const char *name = symbol_table_name(table, resolver, &length);
	return mem_printf("%.*s@plt", (int)(length < 4096 ? length : 4096), name);
}

bool plt_lookup(struct plt *plt, struct symbol_table *table, uint64_t vaddr, struct symbol_hit *out)
{
	const struct image *image = plt->image;
	const struct image_section *section = code_section(image, vaddr);
	if (!is_plt(section))
		return false;
	uint64_t size = strcmp(section->name, ".plt.got") == 0 && section->entry_size == 8 ? 8 : PLT_ENTRY_BYTES;
	// AArch64's first entry, the resolver's, has 32 bytes; the others 16 or, with BTI, 24.
	if (image->machine == EM_AARCH64 && section->entry_size == 24)
		size = 24;
	uint64_t head = image->machine == EM_AARCH64 && strcmp(section->name, ".plt") == 0 ? 32 : 0;
	if (vaddr - section->vaddr < head)
		return false;
	uint64_t start = section->vaddr + head + (vaddr - section->vaddr - head) / size * size, slot;
	struct bytes code;
	uint64_t left = section->vaddr + section->size - start;
	if (!image_at_vaddr(image, start, left < size ? left : size, &code))
		return false;
	if (!(image->machine == EM_AARCH64 ? aarch64_slot(code, start, &slot) : image->machine == EM_X86_64 && x86_64_slot(code, start, &slot)))
		return false;
	bool is_new;
	uint32_t *index = hash_map_put(&plt->names, start, (uint32_t)plt->texts.count, &is_new);
	if (is_new)
		vec_push(&plt->texts, entry_name(plt, table, slot));
	const char *text = plt->texts.data[*index];
	if (text == NULL)
		return false;
	*out = (struct symbol_hit){ .name = text, .length = strlen(text), .start = start, .is_stub = true };
	return true;
}
