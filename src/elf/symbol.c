// A symbol by its name, for the few that are looked for so; addresses are the symbolizer's business (symbols/).
#include <elf.h>
#include <string.h>

#include "elf/image.h"

static bool find_in_table(const struct image *image, const struct image_section *section, const char *name, uint64_t *vaddr)
{
	struct bytes table, names;

	if (section->link >= image->section_count || !image_section_raw(image, section, &table) ||
	    !image_section_raw(image, &image->sections[section->link], &names))
		return false;
	while (bytes_left(&table) >= (image->is_64 ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym))) {
		uint32_t at = bytes_u32(&table), index;
		if (image->is_64) {
			bytes_skip(&table, 2);
			index = bytes_u16(&table);
			*vaddr = bytes_u64(&table);
			bytes_skip(&table, 8);
		} else {
			*vaddr = bytes_u32(&table);
			bytes_skip(&table, 6);
			index = bytes_u16(&table);
		}
		struct bytes text = names;
		bytes_skip(&text, at);
		const char *found = index != SHN_UNDEF && at != 0 ? bytes_cstr(&text) : NULL;
		if (found != NULL && !text.bad && strcmp(found, name) == 0)
			return true;
	}
	return false;
}

bool image_find_symbol(const struct image *image, const char *name, uint64_t *vaddr)
{
	for (size_t i = 0; i < image->section_count; i++)
		if ((image->sections[i].type == SHT_SYMTAB || image->sections[i].type == SHT_DYNSYM) &&
		    find_in_table(image, &image->sections[i], name, vaddr))
			return true;
	return false;
}
