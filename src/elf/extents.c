#include "elf/extents.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"
#include "base/vec.h"
#include "elf/cfi.h"

struct table { // of one section
	struct cfi_section section;
	struct buf storage;
	struct bytes header;         // pairs of 32 bits, from header_vaddr on: .eh_frame_hdr, where it can be searched
	uint64_t header_vaddr;
	size_t header_count;         // 0: `found` has them
	VEC(struct extent) found;    // ascending by start
	struct cfi_cie cie;          // the last one that was read
	bool has_cie;
};

struct extents {
	const struct image *image;
	struct table tables[2]; // .eh_frame, .debug_frame
	size_t count;
};

static bool read_fde(const struct extents *e, struct table *table, size_t offset, struct cfi_fde *fde)
{
	return cfi_fde_at(&table->section, offset, &table->cie, &table->has_cie, fde) && cfi_fde_has_code(e->image, &table->section, fde);
}

static int by_start(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static void scan(const struct extents *e, struct table *table, bool stops_at_zero)
{
	struct cfi_fde fde;
	for (size_t offset = 0;;) {
		struct cfi_entry entry = cfi_entry_at(&table->section, offset);
		if (entry.kind == CFI_BAD || entry.next <= offset || (entry.kind == CFI_END && stops_at_zero))
			break;
		if (entry.kind == CFI_FDE && read_fde(e, table, offset, &fde))
			vec_push(&table->found, (struct extent){ fde.start, fde.end });
		offset = entry.next;
	}
	if (table->found.count > 0)
		sort_stable(table->found.data, table->found.count, sizeof(*table->found.data), by_start);
}

struct extents *extents_new(const struct image *image)
{
	struct extents *e = NEW(struct extents);
	struct cfi_header header = { 0 };
	bool has_header = cfi_read_header(image, &header), stops_at_zero = false;
	struct table *table = &e->tables[0];
	e->image = image;
	if (cfi_find_eh_frame(image, has_header ? &header : NULL, &table->section, &stops_at_zero)) {
		e->count++;
		if (has_header && header.is_usable) {
			table->header = header.table;
			table->header_vaddr = header.vaddr;
			table->header_count = (size_t)header.count;
		} else {
			scan(e, table, stops_at_zero);
		}
	}
	table = &e->tables[e->count];
	if (cfi_find_debug_frame(image, &table->storage, &table->section)) {
		e->count++;
		scan(e, table, false);
	}
	return e;
}

void extents_free(struct extents *e)
{
	for (size_t i = 0; e != NULL && i < e->count; i++) {
		vec_release(&e->tables[i].found);
		buf_release(&e->tables[i].storage);
	}
	free(e);
}

// Both words of a pair count from where the header begins (DW_EH_PE_datarel | sdata4). The file may lie: what it leads to is read and checked.
static uint64_t header_word(const struct table *table, size_t i, size_t word)
{
	uint32_t bits;
	memcpy(&bits, table->header.at + 8 * i + 4 * word, sizeof(bits));
	if (table->header.swap)
		bits = __builtin_bswap32(bits);
	uint64_t vaddr = table->header_vaddr + (uint64_t)(int64_t)(int32_t)bits;
	return table->section.address_bytes == 4 ? (uint32_t)vaddr : vaddr;
}

static bool find_in_header(const struct extents *e, struct table *table, uint64_t vaddr, struct extent *out)
{
	size_t next = first_not(0, table->header_count, i, header_word(table, i, 0) <= vaddr);
	struct cfi_fde fde;
	uint64_t offset;
	// Those that begin at one address: one that has code counts.
	for (size_t i = next; i-- > 0 && header_word(table, i, 0) == header_word(table, next - 1, 0);) {
		offset = header_word(table, i, 1) - table->section.vaddr;
		if (offset > (uint64_t)(table->section.data.end - table->section.data.start) || !read_fde(e, table, (size_t)offset, &fde) || fde.start > vaddr)
			continue;
		*out = (struct extent){ fde.start, fde.end };
		return true;
	}
	return false;
}

bool extents_find(struct extents *e, uint64_t vaddr, struct extent *out)
{
	bool is_found = false;
	for (size_t t = 0; t < e->count; t++) {
		struct table *table = &e->tables[t];
		struct extent extent;
		if (table->header_count > 0) {
			if (!find_in_header(e, table, vaddr, &extent))
				continue;
		} else {
			size_t next = first_not(0, table->found.count, i, table->found.data[i].start <= vaddr);
			if (next == 0)
				continue;
			extent = table->found.data[next - 1];
		}
		if (!is_found || extent.start > out->start)
			*out = extent;
		is_found = true;
	}
	return is_found;
}
