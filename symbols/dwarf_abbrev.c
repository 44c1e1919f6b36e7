// Abbreviation tables (7.5.3): what attributes a DIE has and in which form. Units share them; each is read once for each shape of unit.
#include <dwarf.h>
#include <stdlib.h>

#include "symbols/dwarf_internal.h"

enum { ATTRS_LIMIT = 1 << 20, ENTRIES_LIMIT = 1 << 20 };

// How a DIE's attributes are passed over: what is of fixed size at once.
static void add_steps(struct abbrev_table *table, struct abbrev *entry)
{
	uint32_t *fixed_size = &entry->fixed_size; // behind the last attribute that varies
	for (uint32_t i = 0; i < entry->count; i++) {
		const struct abbrev_attr *attr = &table->attrs.data[entry->first + i];
		if (attr->size >= 0) {
			*fixed_size += (uint32_t)attr->size;
			continue;
		}
		if (entry->steps == 0)
			entry->steps = (uint32_t)table->steps.count;
		vec_push(&table->steps, (struct abbrev_step){ .form = attr->form });
		fixed_size = &table->steps.data[table->steps.count - 1].fixed_size;
	}
	if (entry->steps != 0)
		table->steps.data[table->steps.count - 1].is_last = true;
}

static void read_attrs(struct abbrev_table *table, struct abbrev *entry, const struct dwarf_unit *unit, struct bytes *b)
{
	while (!b->bad && table->attrs.count < ATTRS_LIMIT) {
		uint64_t name = dwarf_uleb(b), form = dwarf_uleb(b);
		struct abbrev_attr attr = { .name = name <= UINT16_MAX ? (uint16_t)name : 0, .form = form <= UINT16_MAX ? (uint16_t)form : 0 };
		if (form == DW_FORM_implicit_const)
			attr.constant = bytes_sleb(b);
		if (name == 0 && form == 0)
			break;
		attr.size = form_fixed_size(unit, attr.form);
		switch (attr.name) {
		case DW_AT_sibling: entry->sibling = (int32_t)entry->count; attr.is_code = true; break;
		case DW_AT_low_pc: case DW_AT_high_pc: case DW_AT_ranges: entry->has_code = attr.is_code = true; break;
		case DW_AT_call_file: case DW_AT_call_line: case DW_AT_abstract_origin: attr.is_code = true; break;
		case DW_AT_name: case DW_AT_linkage_name: case DW_AT_MIPS_linkage_name: case DW_AT_specification: entry->has_name = true; break;
		}
		vec_push(&table->attrs, attr);
		entry->count++;
	}
	add_steps(table, entry);
}

static int compare_codes(const void *a, const void *b)
{
	uint64_t x = ((const struct abbrev *)a)->code, y = ((const struct abbrev *)b)->code;
	return x < y ? -1 : x > y;
}

static struct abbrev_table *read_table(const struct dwarf_unit *unit)
{
	struct abbrev_table *table = NEW(struct abbrev_table);
	struct bytes b = dwarf_section(unit->dwarf, DWARF_ABBREV);
	bytes_skip(&b, unit->abbrev_offset);
	bool sorted = true;
	table->is_dense = true;
	vec_push(&table->steps, (struct abbrev_step){ 0 });
	while (!b.bad && table->entries.count < ENTRIES_LIMIT) {
		struct abbrev entry = { .code = dwarf_uleb(&b), .sibling = -1, .first = (uint32_t)table->attrs.count };
		if (entry.code == 0)
			break;
		uint64_t tag = dwarf_uleb(&b);
		entry.tag = tag <= UINT16_MAX ? (uint16_t)tag : 0;
		entry.has_children = bytes_u8(&b) != 0;
		read_attrs(table, &entry, unit, &b);
		if (b.bad)
			break;
		if (table->entries.count > 0)
			sorted &= entry.code > table->entries.data[table->entries.count - 1].code;
		table->has_siblings |= entry.tag == DW_TAG_subprogram && entry.sibling >= 0;
		table->is_dense &= entry.code == table->entries.count + 1;
		vec_push(&table->entries, entry);
	}
	if (!sorted)
		qsort(table->entries.data, table->entries.count, sizeof(struct abbrev), compare_codes);
	return table;
}

const struct abbrev_table *dwarf_abbrevs(const struct dwarf_unit *unit)
{
	struct dwarf *dwarf = unit->dwarf;
	// Fixed sizes depend on the unit's address and offset sizes and, for DW_FORM_ref_addr, on its version.
	uint64_t shape = (uint64_t)unit->version << 16 | (uint64_t)unit->address_size << 8 | unit->offset_size;
	bool is_new;
	uint32_t id = *hash_map_put(&dwarf->abbrev_ids, hash_pair(unit->abbrev_offset, shape), (uint32_t)dwarf->abbrevs.count, &is_new);
	if (is_new)
		vec_push(&dwarf->abbrevs, read_table(unit));
	return dwarf->abbrevs.data[id];
}

const struct abbrev *abbrev_search(const struct abbrev_table *table, uint64_t code)
{
	size_t lo = 0, hi = table->entries.count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		if (table->entries.data[middle].code < code)
			lo = middle + 1;
		else
			hi = middle;
	}
	return lo < table->entries.count && table->entries.data[lo].code == code ? &table->entries.data[lo] : NULL;
}

void abbrev_table_free(struct abbrev_table *table)
{
	vec_release(&table->entries);
	vec_release(&table->attrs);
	vec_release(&table->steps);
	free(table);
}
