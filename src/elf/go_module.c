#include "elf/go_module.h"

#include <elf.h>

// moduledata (Go's src/runtime/symtab.go), in words: the table's header, slices of its parts, addresses. Go 1.20 put covctrs and ecovctrs before what inline trees
// count from (gofunc).
enum { WORD = 8, MODULE_TEXT = 22, MODULE_INLINES_118 = 38, MODULE_INLINES_120 = 40 };

// The entries of DT_RELA. false: there are none.
static bool relocations(const struct image *image, struct bytes *entries)
{
	struct bytes dynamic;
	uint64_t table = 0, size = 0;

	if (!image->is_64 || !image_at_vaddr(image, image->dynamic_vaddr, image->dynamic_size, &dynamic))
		return false;
	dynamic.swap = image->swap;
	while (bytes_left(&dynamic) >= sizeof(Elf64_Dyn)) {
		uint64_t tag = bytes_u64(&dynamic), value = bytes_u64(&dynamic);
		table = tag == DT_RELA ? value : table;
		size = tag == DT_RELASZ ? value : size;
	}
	if (table == 0 || !image_at_vaddr(image, table, size, entries))
		return false;
	entries->swap = image->swap;
	return true;
}

// The next one that adds an address of the image's own. false: no more.
static bool next_relocation(struct bytes *entries, uint64_t *vaddr, uint64_t *value)
{
	while (bytes_left(entries) >= sizeof(Elf64_Rela)) {
		*vaddr = bytes_u64(entries);
		const uint64_t info = bytes_u64(entries);
		*value = bytes_u64(entries);
		if (ELF64_R_SYM(info) == 0)
			return true;
	}
	return false;
}

uint64_t go_pointer_at(const struct image *image, uint64_t vaddr)
{
	struct bytes at, entries;
	uint64_t where, value = 0;

	if (image_at_vaddr(image, vaddr, WORD, &at)) {
		at.swap = image->swap;
		value = bytes_u64(&at);
	}
	if (value != 0 || !relocations(image, &entries))
		return value;
	while (next_relocation(&entries, &where, &value))
		if (where == vaddr)
			return value;
	return 0;
}

static bool is_module(const struct image *image, const struct go_table *table, uint64_t names, uint64_t vaddr)
{
	return go_pointer_at(image, vaddr + WORD) == names && vaddr % WORD == 0 && go_pointer_at(image, vaddr) == table->vaddr;
}

static bool search(const struct image *image, const struct go_table *table, uint64_t names, uint64_t *vaddr)
{
	struct bytes entries;
	uint64_t value;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *segment = &image->segments[i];
		struct bytes rest;
		if ((segment->flags & PF_W) == 0 || segment->vaddr % WORD != 0 || !image_rest_at(image, segment->vaddr, &rest))
			continue;
		rest.swap = image->swap;
		for (*vaddr = segment->vaddr; bytes_left(&rest) >= 2 * WORD; *vaddr += WORD) {
			struct bytes next = rest;
			bytes_skip(&next, WORD);
			if (bytes_u64(&rest) == table->vaddr && bytes_u64(&next) == names)
				return true;
		}
	}
	if (!relocations(image, &entries))
		return false;
	while (next_relocation(&entries, vaddr, &value))
		if (value == table->vaddr && is_module(image, table, names, *vaddr))
			return true;
	return false;
}

bool go_module_find(const struct image *image, const struct go_table *table, uint64_t names, struct go_module *out)
{
	uint64_t vaddr;

	if (!image->is_64 || table->version < GO_118 || !search(image, table, names, &vaddr))
		return false;
	out->text = go_pointer_at(image, vaddr + MODULE_TEXT * WORD);
	out->inlines = go_pointer_at(image, vaddr + (table->version >= GO_120 ? MODULE_INLINES_120 : MODULE_INLINES_118) * WORD);
	return true;
}
