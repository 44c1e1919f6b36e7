// The index of a .dwp package (7.3.5.3; version 2 is GNU's, of before DWARF 5): which part of each section belongs to which split unit.
#include <stdlib.h>

#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"
#include "symbols/damage.h"
#include "symbols/dwarf_internal.h"

enum { ID_INFO = 1, ID_ABBREV = 3, ID_STR_OFFSETS = 6, ID_RNGLISTS = 8, COLUMNS_MOST = 16, UNITS_MOST = 4 << 20 };

static struct bytes index_section(const struct image *image, struct buf *storage)
{
	struct bytes b;
	const struct image_section *section = image_find_section(image, ".debug_cu_index");
	if (section == NULL || !image_section_contents(image, section, storage, &b, NULL))
		b = bytes_of("", 0);
	b.swap = image->swap;
	return b;
}

static void set_column(struct dwarf_contribution *out, uint32_t id, uint32_t value, bool is_size, uint32_t version)
{
	if (id == ID_INFO && is_size)
		out->info_size = value;
	else if (id == ID_INFO)
		out->info = value;
	else if (!is_size && id == ID_ABBREV)
		out->abbrev = value;
	else if (!is_size && id == ID_STR_OFFSETS)
		out->str_offsets = value;
	else if (!is_size && id == ID_RNGLISTS && version >= 5)
		out->rnglists = value;
}

static int by_info(const void *a, const void *b)
{
	const struct dwarf_contribution *x = a, *y = b;
	return (x->info > y->info) - (x->info < y->info);
}

static void read_rows(struct dwarf *dwarf, struct bytes *b, uint32_t version, uint32_t columns, uint32_t units, uint32_t slots)
{
	struct bytes ids = bytes_sub(b, (size_t)slots * 8), rows = bytes_sub(b, (size_t)slots * 4), heads = bytes_sub(b, (size_t)columns * 4);
	struct bytes offsets = bytes_sub(b, (size_t)units * columns * 4), sizes = bytes_sub(b, (size_t)units * columns * 4);
	uint32_t column_ids[COLUMNS_MOST];
	if (b->bad)
		return;
	for (uint32_t c = 0; c < columns; c++)
		column_ids[c] = bytes_u32(&heads);
	for (uint32_t u = 0; u < units; u++) {
		struct dwarf_contribution *row = vec_add(&dwarf->package);
		for (uint32_t c = 0; c < columns; c++)
			set_column(row, column_ids[c], bytes_u32(&offsets), false, version);
		for (uint32_t c = 0; c < columns; c++)
			set_column(row, column_ids[c], bytes_u32(&sizes), true, version);
	}
	for (uint32_t s = 0; s < slots; s++) { // rows count from 1; 0 is an empty slot
		uint64_t id = bytes_u64(&ids);
		uint32_t row = bytes_u32(&rows);
		if (row > 0 && row <= units)
			dwarf->package.data[row - 1].id = id;
	}
}

void dwarf_package_read(struct dwarf *dwarf)
{
	struct buf storage = { 0 };
	struct bytes b = index_section(dwarf->image, &storage);
	b.bad = bytes_left(&b) > 0 && bytes_left(&b) < 16;
	if (bytes_left(&b) >= 16) {
		struct bytes peek = b;
		uint32_t version = bytes_u16(&peek);
		if (version == 5)
			bytes_skip(&b, 4); // 2 bytes and padding
		else
			version = bytes_u32(&b);
		uint32_t columns = bytes_u32(&b), units = bytes_u32(&b), slots = bytes_u32(&b);
		if ((version == 2 || version == 5) && columns > 0 && columns <= COLUMNS_MOST && units <= UNITS_MOST && slots <= 4 * UNITS_MOST)
			read_rows(dwarf, &b, version, columns, units, slots);
		else
			b.bad = true;
	}
	if (b.bad) {
		char *text = mem_printf("%s: section .debug_cu_index: expected an index of version 2 or 5 inside its bytes", dwarf->image->path);
		damages_note(dwarf->files.damages, dwarf->image->path, NULL, 1, text);
		free(text);
	}
	if (dwarf->package.count > 0)
		sort_stable(dwarf->package.data, dwarf->package.count, sizeof(*dwarf->package.data), by_info);
	buf_release(&storage);
}

const struct dwarf_contribution *dwarf_contribution(const struct dwarf *dwarf, uint64_t offset)
{
	const size_t next = first_not(0, dwarf->package.count, i, dwarf->package.data[i].info <= offset);
	const struct dwarf_contribution *row = next > 0 ? &dwarf->package.data[next - 1] : NULL;
	return row != NULL && offset - row->info < row->info_size ? row : NULL;
}

struct dwarf_unit *dwarf_package_unit(struct dwarf *package, uint64_t dwo_id)
{
	for (size_t i = 0; i < package->package.count; i++)
		if (package->package.data[i].id == dwo_id)
			return dwarf_unit_at(package, package->package.data[i].info);
	return NULL;
}
