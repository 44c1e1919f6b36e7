// Where an image keeps its CFI, and a sorted index of it.
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unwind/rule_table.h"

enum { HDR_VERSION = 1, HDR_TABLE_DATAREL_SDATA4 = 0x3b, HDR_OMIT = 0xff }; // LSB 5.0 Core, 10.6.2
enum { SPARSE_BYTES = 4096 };
enum { MAX_INFLATED_BYTES = 256 << 20 }; // of a compressed .debug_frame: 32 bytes for each of 8 million functions

bool rule_index_fde(struct rule_table *table, size_t offset, struct cfi_fde *fde)
{
	struct cfi_entry entry = cfi_entry_at(&table->section, offset);

	if (entry.kind != CFI_FDE)
		return false;
	if (!table->has_cie || table->cie.offset != entry.cie_offset) {
		struct cfi_entry cie = cfi_entry_at(&table->section, entry.cie_offset);
		table->has_cie = cie.kind == CFI_CIE && cfi_read_cie(&table->section, &cie, &table->cie);
		if (!table->has_cie)
			return false;
	}
	fde->cie = table->cie;
	return cfi_read_fde(&table->section, &entry, fde);
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

static int compare_refs(const void *a, const void *b)
{
	const struct fde_ref *x = a, *y = b;

	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

// About four FDEs a hint.
static void make_hints(struct rule_table *table)
{
	size_t count = table->fde_count;
	uint64_t span = count > 0 ? (uint64_t)rule_table_ref(table, count - 1).start + 1 : 0;

	free(table->hints);
	table->hints = NULL;
	table->hint_count = 0;
	table->hint_shift = 0;
	if (count < 16)
		return;
	while (span >> table->hint_shift > count / 4)
		table->hint_shift++;
	table->hint_count = (size_t)((span - 1) >> table->hint_shift) + 2;
	table->hints = mem_zero(table->hint_count, sizeof(*table->hints));
	// Each FDE tells its hint's successor how many there were up to it, the last one being right; no branch asks whether a hint is a new one.
	for (size_t i = 0; i < count; i++) {
		size_t next = (rule_table_ref(table, i).start >> table->hint_shift) + 1;
		if (next < table->hint_count) // always, unless the file has changed
			table->hints[next] = (uint32_t)i + 1;
	}
	for (size_t hint = 1; hint < table->hint_count; hint++)
		if (table->hints[hint] == 0)
			table->hints[hint] = table->hints[hint - 1];
}

static void take_index(struct rule_table *table, struct fde_ref *fdes, size_t count, bool sorted)
{
	free(table->fdes);
	free(table->compiled);
	vec_release(&table->rows);
	if (fdes == NULL && count == 0)
		fdes = mem_zero(1, sizeof(*fdes)); // a scan that found none: there may be a header, but it is wrong
	if (!sorted)
		qsort(fdes, count, sizeof(*fdes), compare_refs);
	table->fdes = fdes;
	table->fde_count = count;
	table->compiled = mem_zero(count > 0 ? count : 1, sizeof(*table->compiled));
	table->is_from_header = false;
	make_hints(table);
}

bool rule_index_takes(const struct unwind_image *image, const struct rule_table *table, const struct cfi_fde *fde)
{
	// A function that the linker threw away has its FDE in .debug_frame still, at address 0 or a tombstone.
	return fde->end > fde->start && (fde->start > 1 || !table->section.is_debug_frame) && fde->start >= image->base &&
	       fde->end - image->base <= UINT32_MAX && is_executable(image->image, fde->end - 1);
}

void rule_index_scan(struct unwind_image *image, struct rule_table *table)
{
	VEC(struct fde_ref) found = { 0 };
	bool sorted = true;
	size_t offset = 0;

	for (;;) {
		struct cfi_entry entry = cfi_entry_at(&table->section, offset);
		if (entry.kind == CFI_BAD || entry.next <= offset || (entry.kind == CFI_END && table->stops_at_zero))
			break;
		struct cfi_fde fde;
		if (entry.kind == CFI_FDE && offset <= UINT32_MAX && rule_index_fde(table, offset, &fde) && rule_index_takes(image, table, &fde)) {
			struct fde_ref ref = { .start = (uint32_t)(fde.start - image->base), .offset = (uint32_t)offset };
			sorted = sorted && (found.count == 0 || found.data[found.count - 1].start <= ref.start);
			vec_push(&found, ref);
		}
		offset = entry.next;
	}
	take_index(table, found.data, found.count, sorted);
}

struct eh_header {
	struct bytes table;
	uint64_t vaddr, eh_frame_vaddr, count;
	bool is_usable; // the table has the one form that linkers write
};

static bool read_eh_header(const struct image *image, struct eh_header *out)
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
	*out = (struct eh_header){ .vaddr = vaddr };
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

// The header's table, where it stands: what it leads to is checked once here, and again by whoever follows it. false: not usable.
static bool index_from_header(struct unwind_image *image, struct rule_table *table, struct eh_header *header)
{
	const uint8_t *at = header->is_usable ? bytes_take(&header->table, header->count * 8) : NULL;
	uint64_t mask = table->section.address_bytes == 4 ? UINT32_MAX : UINT64_MAX, size = bytes_left(&table->section.data);
	uint32_t before = 0;
	bool bad = false;

	if (at == NULL)
		return false;
	const uint64_t vaddr = header->vaddr, base = image->base, section = table->section.vaddr, most = size <= UINT32_MAX ? size : (uint64_t)UINT32_MAX + 1;
	const bool swap = header->table.swap;
	for (size_t i = 0; i < header->count; i++) { // a large library has 100,000 of them
		uint32_t words[2];
		memcpy(words, at + 8 * i, sizeof(words));
		if (swap) {
			words[0] = __builtin_bswap32(words[0]);
			words[1] = __builtin_bswap32(words[1]);
		}
		uint64_t start = ((vaddr + (uint64_t)(int32_t)words[0]) & mask) - base, offset = ((vaddr + (uint64_t)(int32_t)words[1]) & mask) - section;
		bad |= (start > UINT32_MAX) | (start < before) | (offset >= most); // one below its base is a very large number
		before = (uint32_t)start;
	}
	if (bad)
		return false;
	table->header = at;
	table->header_swap = header->table.swap;
	table->header_to_start = (uint32_t)(header->vaddr - image->base);
	table->header_to_offset = (uint32_t)(header->vaddr - table->section.vaddr);
	take_index(table, NULL, header->count, true);
	table->is_from_header = true;
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

static bool find_eh_frame(const struct image *image, const struct eh_header *header, struct rule_table *table)
{
	const struct image_section *section = image_find_section(image, ".eh_frame");
	struct bytes data;

	if (section != NULL) { // in a file of debug information it is there, but empty: then the header says nothing either
		if (!image_section_raw(image, section, &data))
			return false;
		table->section = describe(image, data, section->vaddr, false);
		return true;
	}
	if (header == NULL || !image_rest_at(image, header->eh_frame_vaddr, &data))
		return false;
	table->section = describe(image, data, header->eh_frame_vaddr, false);
	table->stops_at_zero = true;
	return true;
}

// Reads a byte of every page that is not in memory, so that the walk does not wait for the disk later. What is in memory already is not touched: to map a page
// and take the mapping away again takes 1 us, and they count as the recorder's memory.
static void fault_in(const struct image *image, struct bytes data)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), into = (uintptr_t)data.start % page, size = (size_t)(data.end - data.start) + into;
	size_t pages = (size + page - 1) / page;

	if (data.start == data.end || image->mapped == NULL)
		return;
	unsigned char *is_there = mem_zero(pages, 1);
	bool known = image->is_own && mincore((void *)(uintptr_t)(data.start - into), size, is_there) == 0;
	for (size_t i = 0; i < pages; i++)
		if (!known || (is_there[i] & 1) == 0)
			(void)*(const volatile uint8_t *)(i == 0 ? data.start : data.start - into + i * page);
	free(is_there);
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
static bool find_debug_frame(const struct image *image, struct rule_table *table)
{
	const struct image_section *section = image_find_section(image, ".debug_frame");
	struct bytes data;
	struct err err = { 0 };

	if (section == NULL || section->size == 0 || !image_section_raw(image, section, &data) ||
	    inflated_bytes(image, section, data) > MAX_INFLATED_BYTES)
		return false;
	if (!image_section_contents(image, section, &table->storage, &data, &err)) {
		buf_release(&table->storage);
		return false;
	}
	table->section = describe(image, data, section->vaddr, true);
	return true;
}

// Whether the CFI found so far may be that of a few functions only, as that of PLTs and start files: less than one FDE for a page of code.
static bool is_sparse(const struct unwind_image *image)
{
	uint64_t code_bytes = 0, fdes = 0;

	for (size_t i = 0; i < image->image->segment_count; i++)
		code_bytes += (image->image->segments[i].flags & PF_X) != 0 ? image->image->segments[i].mem_size : 0;
	for (size_t i = 0; i < image->table_count; i++)
		fdes += image->tables[i].fde_count;
	return fdes <= code_bytes / SPARSE_BYTES;
}

// Android's compiled Java code and its 32-bit libraries keep .debug_frame in .gnu_debugdata. To unpack that takes milliseconds, and Fedora's, in every
// file, holds none: so only where it must be.
static void add_mini(struct unwind_image *image)
{
	struct rule_table *table = &image->tables[image->table_count];
	struct err err = { 0 };
	struct image *mini = is_sparse(image) ? image_open_mini_debug(image->image, &err) : NULL;

	if (mini != NULL && find_debug_frame(mini, table)) {
		rule_index_scan(image, table);
		image->table_count++;
		image->mini = image_retain(mini);
	}
	image_release(mini);
}

static uint64_t code_vaddr(const struct image *image)
{
	for (size_t i = 0; i < image->segment_count; i++)
		if ((image->segments[i].flags & PF_X) != 0)
			return image->segments[i].vaddr;
	return UINT64_MAX;
}

void unwind_image_add_debug(struct unwind_image *image, struct image *debug)
{
	struct rule_table table = { 0 };

	if (image->arch == NULL || image->base == UINT64_MAX || image->debug != NULL || debug->machine != image->image->machine ||
	    code_vaddr(debug) != code_vaddr(image->image) || (image->table_count > 0 && image->tables[0].section.is_debug_frame && image->mini == NULL) ||
	    !find_debug_frame(debug, &table))
		return;
	rule_index_scan(image, &table);
	memmove(&image->tables[1], &image->tables[0], image->table_count * sizeof(table));
	image->tables[0] = table;
	image->table_count++;
	image->debug = image_retain(debug);
}

void rule_index_build(struct unwind_image *image, bool populate)
{
	const struct image *elf = image->image;

	// Where both describe a function they agree, with one exception that decides the order: 32-bit code built without
	// asynchronous tables, whose .eh_frame is right at calls only.
	if (find_debug_frame(elf, &image->tables[0]))
		rule_index_scan(image, &image->tables[image->table_count++]);
	struct eh_header header = { 0 };
	bool has_header = read_eh_header(elf, &header);
	struct rule_table *table = &image->tables[image->table_count];
	if (find_eh_frame(elf, has_header ? &header : NULL, table)) {
		image->table_count++;
		if (populate)
			fault_in(elf, table->section.data);
		if (!has_header || !index_from_header(image, table, &header))
			rule_index_scan(image, table);
	}
	add_mini(image);
}
