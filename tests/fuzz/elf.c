// Any bytes as an ELF image, as a file and as memory: no crash, nothing outside of it, and its CFI compiled.
#include "elf/extents.h"
#include "elf/image.h"
#include "tests/fuzz/replay.h"
#include "unwind/rule_table.h"

static void check_inside(const struct image *image, struct bytes bytes)
{
	if (bytes_left(&bytes) > 0 && (bytes.at < image->data || bytes.end > image->data + image->size))
		abort();
}

static void look_at_sections(const struct image *image)
{
	for (size_t i = 0; i < image->section_count && i < 64; i++) {
		struct buf storage = { 0 };
		struct bytes out;
		struct err err;
		if (image_section_raw(image, &image->sections[i], &out))
			check_inside(image, out);
		if (image->sections[i].size < 1 << 16)
			image_section_contents(image, &image->sections[i], &storage, &out, &err);
		buf_release(&storage);
	}
}

static void look_at_addresses(const struct image *image)
{
	for (size_t i = 0; i < image->segment_count && i < 64; i++) {
		const struct image_segment *s = &image->segments[i];
		struct bytes out;
		uint64_t value;
		if (image_at_vaddr(image, s->vaddr, s->file_size, &out))
			check_inside(image, out);
		image_offset_to_vaddr(image, s->offset, &value);
		image_vaddr_to_offset(image, s->vaddr, &value);
		image_bias(image, 0x7f0000000000, 0x7f0000000000 + (s->file_size & 0xffffff), s->offset & ~(uint64_t)0xfff, &value);
	}
}

static bool is_text(void *context, const char *name, uint64_t start, uint64_t size)
{
	const struct image *image = context;
	if ((const uint8_t *)name < image->data || (const uint8_t *)name + strlen(name) >= image->data + image->size || size == 0)
		abort();
	return start != 1;
}

static void look_at_names(const struct image *image)
{
	const char *soname = image_soname(image);
	uint64_t vaddr;

	if (soname != NULL && ((const uint8_t *)soname < image->data || (const uint8_t *)soname + strlen(soname) >= image->data + image->size))
		abort();
	image_find_symbol(image, "main", &vaddr);
	image_each_function(image, is_text, (void *)(uintptr_t)image);
	for (size_t i = 0; i < image->segment_count && i < 8; i++) {
		image_function_at(image, image->segments[i].vaddr + 100, &vaddr);
		image_symbol_at(image, image->segments[i].vaddr + 100, &vaddr);
	}
}

static void look_at_cfi(struct image *image)
{
	struct unwind_image *cfi;
	struct unwind_counters counters = { 0 };

	unwind_image_new(&cfi, image, true, NULL);
	for (size_t t = 0; t < cfi->table_count; t++) {
		for (size_t i = 0; i < cfi->tables[t].fde_count && i < 200; i++) {
			uint64_t vaddr = cfi->base + rule_table_ref(&cfi->tables[t], i).start;
			struct cfi_row row;
			struct cfi_fde fde;
			const struct cfi_section *section;
			for (int step = 0; step < 4; step++) {
				rule_table_find(cfi, vaddr + (uint64_t)step * 7, &counters);
				rule_table_row(cfi, vaddr + (uint64_t)step * 7, &row, &fde, &section);
			}
		}
	}
	size_t mini_bytes = cfi->mini != NULL ? cfi->mini->size : 0;
	if (unwind_image_bytes(cfi) > (1 << 20) + 64 * (image->size + mini_bytes))
		abort();
	unwind_image_free(cfi);
}

// An extent begins no later than what was asked for, and is of code.
static void look_at_extents(const struct image *image)
{
	struct extents *extents = extents_new(image);
	for (size_t i = 0; i < image->segment_count && i < 8; i++)
		for (uint64_t step = 0; step < 64; step++) {
			uint64_t vaddr = image->segments[i].vaddr + step * (image->segments[i].mem_size / 64 + 1);
			struct extent extent;
			if (extents_find(extents, vaddr, &extent) && (extent.start > vaddr || extent.end <= extent.start))
				abort();
		}
	extents_free(extents);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int from_memory = 0; from_memory < 2; from_memory++) {
		struct image *image;
		struct err err;
		if (!image_open_bytes(&image, data, size, from_memory, "fuzz", &err))
			continue;
		look_at_sections(image);
		look_at_addresses(image);
		look_at_names(image);
		look_at_cfi(image);
		look_at_extents(image);
		image_release(image);
	}
	return 0;
}
