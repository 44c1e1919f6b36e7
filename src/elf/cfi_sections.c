// Where an image keeps its CFI.
#include <elf.h>

#include "elf/cfi.h"

enum { HDR_VERSION = 1, HDR_TABLE_DATAREL_SDATA4 = 0x3b, HDR_OMIT = 0xff }; // LSB 5.0 Core, 10.6.2
enum { MAX_INFLATED_BYTES = 256 << 20 }; // of a compressed .debug_frame: 32 bytes for each of 8 million functions

bool cfi_read_header(const struct image *image, struct cfi_header *out)
{
	struct bytes hdr;
	uint64_t vaddr = image->eh_frame_hdr_vaddr, size = image->eh_frame_hdr_size;

	if (size == 0) {
		const struct image_section *section = image_find_section(image, ".eh_frame_hdr");
		if (section == NULL || section->type == SHT_NOBITS)
			return false;
		vaddr = section->vaddr;
		size = section->size;
	}
	if (!image_at_vaddr(image, vaddr, size, &hdr) && !image_rest_at(image, vaddr, &hdr)) // its size may be wrong, as anything in it
		return false;
	struct cfi_section as_section = { .data = hdr, .vaddr = vaddr, .data_vaddr = vaddr, .address_bytes = image->is_64 ? 8 : 4 };
	uint8_t version = bytes_u8(&hdr), frame_encoding = bytes_u8(&hdr), count_encoding = bytes_u8(&hdr), table_encoding = bytes_u8(&hdr);
	if (hdr.bad || version != HDR_VERSION)
		return false;
	*out = (struct cfi_header){ .vaddr = vaddr };
	out->eh_frame_vaddr = cfi_pointer(&as_section, &hdr, frame_encoding, 0);
	if (hdr.bad)
		return false;
	if (count_encoding != HDR_OMIT && table_encoding == HDR_TABLE_DATAREL_SDATA4) {
		out->count = cfi_pointer(&as_section, &hdr, count_encoding, 0);
		out->is_usable = !hdr.bad && out->count > 0 && out->count <= bytes_left(&hdr) / 8;
		out->table = hdr;
	}
	return true;
}

static uint64_t section_vaddr(const struct image *image, const char *name)
{
	const struct image_section *section = image_find_section(image, name);

	return section != NULL ? section->vaddr : 0;
}

static struct cfi_section describe(const struct image *image, struct bytes data, uint64_t vaddr, bool is_debug_frame)
{
	uint64_t got = section_vaddr(image, ".got.plt");

	return (struct cfi_section){
		.data = data, .vaddr = vaddr, .machine = image->machine, .is_debug_frame = is_debug_frame,
		.text_vaddr = section_vaddr(image, ".text"), .data_vaddr = got != 0 ? got : section_vaddr(image, ".got"),
		.address_bytes = image->is_64 ? 8 : 4,
	};
}

bool cfi_find_eh_frame(const struct image *image, const struct cfi_header *header, struct cfi_section *out, bool *stops_at_zero)
{
	const struct image_section *section = image_find_section(image, ".eh_frame");
	struct bytes data;

	if (section != NULL) { // in a file of debug information it is there, but empty: then the header says nothing either
		if (!image_section_raw(image, section, &data))
			return false;
		*out = describe(image, data, section->vaddr, false);
		return true;
	}
	if (header == NULL || !image_rest_at(image, header->eh_frame_vaddr, &data))
		return false;
	*out = describe(image, data, header->eh_frame_vaddr, false);
	*stops_at_zero = true;
	return true;
}

// What the section would take of memory, told by its compression header (gABI, "Compressed Sections"; .zdebug_: "ZLIB", then the size,
// big-endian).
static uint64_t inflated_bytes(const struct image *image, const struct image_section *section, struct bytes raw)
{
	uint64_t size = 0;

	if ((section->flags & SHF_COMPRESSED) != 0) {
		bytes_skip(&raw, image->is_64 ? 8 : 4);
		return image->is_64 ? bytes_u64(&raw) : bytes_u32(&raw);
	}
	if (section->name[1] != 'z')
		return 0;
	bytes_skip(&raw, 4);
	for (int i = 0; i < 8; i++)
		size = size << 8 | bytes_u8(&raw);
	return size;
}

// .debug_frame is for debuggers, so linkers compress it (Go's does unless told not to). Inflated here, once, where images are opened; how it
// fails does not matter: the image then has none.
bool cfi_find_debug_frame(const struct image *image, struct buf *storage, struct cfi_section *out)
{
	const struct image_section *section = image_find_section(image, ".debug_frame");
	struct bytes data;
	struct err err = { 0 };

	if (section == NULL || section->size == 0 || !image_section_raw(image, section, &data) ||
	    inflated_bytes(image, section, data) > MAX_INFLATED_BYTES)
		return false;
	if (!image_section_contents(image, section, storage, &data, &err)) {
		buf_release(storage);
		return false;
	}
	*out = describe(image, data, section->vaddr, true);
	return true;
}

static bool is_executable(const struct image *image, uint64_t vaddr)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if ((s->flags & PF_X) != 0 && vaddr >= s->vaddr && vaddr - s->vaddr < s->mem_size)
			return true;
	}
	return false;
}

bool cfi_fde_has_code(const struct image *image, const struct cfi_section *section, const struct cfi_fde *fde)
{
	// A function that the linker threw away has its FDE in .debug_frame still, at address 0 or a tombstone.
	return fde->end > fde->start && (fde->start > 1 || !section->is_debug_frame) && is_executable(image, fde->end - 1);
}
