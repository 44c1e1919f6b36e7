// Where an image keeps its CFI, and a sorted index of it.
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sort.h"
#include "unwind/rule_table.h"

enum { SPARSE_BYTES = 4096 };

bool rule_index_fde(struct rule_table *table, size_t offset, struct cfi_fde *fde)
{
	return cfi_fde_at(&table->section, offset, &table->cie, &table->has_cie, fde);
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
		sort_stable(fdes, count, sizeof(*fdes), compare_refs);
	table->fdes = fdes;
	table->fde_count = count;
	table->compiled = mem_zero(count > 0 ? count : 1, sizeof(*table->compiled));
	table->is_from_header = false;
	make_hints(table);
}

bool rule_index_takes(const struct unwind_image *image, const struct rule_table *table, const struct cfi_fde *fde)
{
	return cfi_fde_has_code(image->image, &table->section, fde) && fde->start >= image->base && fde->end - image->base <= UINT32_MAX;
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

// The header's table, where it stands: what it leads to is checked once here, and again by whoever follows it. false: not usable.
static bool index_from_header(struct unwind_image *image, struct rule_table *table, struct cfi_header *header)
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

	if (mini != NULL && cfi_find_debug_frame(mini, &table->storage, &table->section)) {
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
	    !cfi_find_debug_frame(debug, &table.storage, &table.section))
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
	if (cfi_find_debug_frame(elf, &image->tables[0].storage, &image->tables[0].section))
		rule_index_scan(image, &image->tables[image->table_count++]);
	struct cfi_header header = { 0 };
	bool has_header = cfi_read_header(elf, &header);
	struct rule_table *table = &image->tables[image->table_count];
	if (cfi_find_eh_frame(elf, has_header ? &header : NULL, &table->section, &table->stops_at_zero)) {
		image->table_count++;
		if (populate)
			fault_in(elf, table->section.data);
		if (!has_header || !index_from_header(image, table, &header))
			rule_index_scan(image, table);
	}
	add_mini(image);
}
