// The dynamic section (gABI, "Dynamic Section"), as far as anything here needs it.
#include <elf.h>

#include "elf/image.h"

// The table's bytes: by its program header, as the loader finds it, else by its section.
static bool find_table(const struct image *image, struct bytes *out)
{
	if (image->dynamic_size > 0 && image_at_vaddr(image, image->dynamic_vaddr, image->dynamic_size, out))
		return true;
	const struct image_section *section = image_find_section(image, ".dynamic");
	return section != NULL && image_section_raw(image, section, out);
}

const char *image_soname(const struct image *image)
{
	struct bytes table, strings;
	uint64_t name = 0, strings_vaddr = 0, strings_size = 0;

	if (!find_table(image, &table))
		return NULL;
	table.swap = image->swap;
	while (bytes_left(&table) >= (image->is_64 ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn))) {
		uint64_t tag = image->is_64 ? bytes_u64(&table) : bytes_u32(&table), value = image->is_64 ? bytes_u64(&table) : bytes_u32(&table);
		if (tag == DT_NULL)
			break;
		if (tag == DT_SONAME)
			name = value;
		else if (tag == DT_STRTAB)
			strings_vaddr = value;
		else if (tag == DT_STRSZ)
			strings_size = value;
	}
	if (name == 0 || name >= strings_size || !image_rest_at(image, strings_vaddr, &strings))
		return NULL;
	if (strings_size < bytes_left(&strings))
		strings.end = strings.at + strings_size;
	bytes_skip(&strings, (size_t)name);
	const char *text = bytes_cstr(&strings);
	return !strings.bad && text[0] != '\0' ? text : NULL;
}
