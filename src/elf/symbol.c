// Symbols as they stand in an image's tables, for the few that are looked for so; most addresses are the symbolizer's business (symbols/).
#include <elf.h>
#include <string.h>

#include "elf/image.h"

struct table { struct bytes symbols, names; };

struct symbol {
	const char *name; // "" when it is out of bounds
	uint64_t vaddr, size;
	uint8_t type;
	bool is_defined;
};

static bool open_table(const struct image *image, const struct image_section *section, struct table *out)
{
	return (section->type == SHT_SYMTAB || section->type == SHT_DYNSYM) && section->link < image->section_count &&
	       image_section_raw(image, section, &out->symbols) && image_section_raw(image, &image->sections[section->link], &out->names);
}

// false: no further one.
static bool next(const struct image *image, struct table *table, struct symbol *out)
{
	struct bytes *from = &table->symbols, text = table->names;
	uint32_t index;

	if (bytes_left(from) < (image->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym)))
		return false;
	bytes_skip(&text, bytes_u32(from));
	if (image->is_64) {
		out->type = bytes_u8(from) & 15;
		bytes_skip(from, 1);
		index = bytes_u16(from);
		out->vaddr = bytes_u64(from);
		out->size = bytes_u64(from);
	} else {
		out->vaddr = bytes_u32(from);
		out->size = bytes_u32(from);
		out->type = bytes_u8(from) & 15;
		bytes_skip(from, 1);
		index = bytes_u16(from);
	}
	const char *name = bytes_cstr(&text);
	out->name = text.bad ? "" : name;
	out->is_defined = index != SHN_UNDEF;
	return true;
}

bool image_find_symbol(const struct image *image, const char *name, uint64_t *vaddr)
{
	struct table table;
	struct symbol symbol;

	for (size_t i = 0; i < image->section_count; i++) {
		if (!open_table(image, &image->sections[i], &table))
			continue;
		while (next(image, &table, &symbol))
			if (symbol.is_defined && strcmp(symbol.name, name) == 0) {
				*vaddr = symbol.vaddr;
				return true;
			}
	}
	return false;
}

const char *image_function_at(const struct image *image, uint64_t vaddr, uint64_t *start)
{
	struct table table;
	struct symbol symbol;
	const char *best = NULL;

	for (size_t i = 0; best == NULL && i < image->section_count; i++) {
		if (!open_table(image, &image->sections[i], &table))
			continue;
		while (next(image, &table, &symbol))
			if (symbol.is_defined && symbol.type == STT_FUNC && symbol.name[0] != '\0' && vaddr - symbol.vaddr < symbol.size &&
			    (best == NULL || symbol.vaddr > *start)) {
				best = symbol.name;
				*start = symbol.vaddr;
			}
	}
	return best;
}
