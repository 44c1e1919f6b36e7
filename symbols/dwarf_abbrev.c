// Abbreviation tables (7.5.3): what attributes a DIE has and in which form. Units share them; each is read once for each shape of unit.
#include <dwarf.h>
#include <stdlib.h>

#include "base/search.h"
#include "base/sort.h"
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

// What is read of a DIE that may have code: where that is, and which DIE comes behind its children.
static void add_takes(struct abbrev_table *table, struct abbrev *entry)
{
	struct abbrev_take take = { 0 };
	entry->takes = (uint32_t)table->takes.count;
	for (uint32_t i = 0; i < entry->count; i++) {
		const struct abbrev_attr *attr = &table->attrs.data[entry->first + i];
		switch (attr->name) {
		case DW_AT_low_pc: take.what = TAKE_LOW; break;
		case DW_AT_high_pc: take.what = TAKE_HIGH; break;
		case DW_AT_ranges: take.what = TAKE_RANGES; break;
		case DW_AT_sibling: take.what = TAKE_SIBLING; break;
		default:
			if (attr->size >= 0) {
				take.skip += (uint32_t)attr->size;
				continue;
			}
			take.what = TAKE_NOTHING;
		}
		take.form = attr->form;
		take.size = attr->form == DW_FORM_implicit_const ? -1 : attr->size;
		take.constant = attr->constant;
		vec_push(&table->takes, take);
		take = (struct abbrev_take){ 0 };
	}
	take.what = TAKE_END;
	vec_push(&table->takes, take);
}

static void add_places(const struct abbrev_table *table, struct abbrev *entry)
{
	uint32_t at = 0;
	bool is_known = entry->steps == 0 && entry->fixed_size < NO_SIBLING;
	entry->at.low = entry->at.high = entry->at.ranges = entry->at.sibling = NO_SIBLING;
	for (uint32_t i = 0; i < entry->count && is_known; i++) {
		const struct abbrev_attr *attr = &table->attrs.data[entry->first + i];
		switch (attr->name) {
		case DW_AT_low_pc:
			is_known &= attr->form == DW_FORM_addr && attr->size == 8;
			entry->at.low = (uint8_t)at;
			break;
		case DW_AT_high_pc:
			is_known &= attr->form == DW_FORM_data8;
			entry->at.high = (uint8_t)at;
			break;
		case DW_AT_ranges:
			is_known &= attr->form == DW_FORM_sec_offset && attr->size == 4;
			entry->at.ranges = (uint8_t)at;
			break;
		case DW_AT_sibling:
			is_known &= attr->form == DW_FORM_ref4;
			entry->at.sibling = (uint8_t)at;
			break;
		}
		at += (uint32_t)attr->size;
	}
	entry->at.is_known = is_known;
}

static uint8_t kinds_of(const struct abbrev *entry)
{
	switch (entry->tag) {
	case DW_TAG_subprogram:
		if (entry->has_code)
			return DIE_CODE;
		return !entry->has_children ? 0 : entry->is_declaration ? DIE_CODELESS : DIE_FUNCTION;
	case DW_TAG_inlined_subroutine: return DIE_INLINED;
	case DW_TAG_structure_type: case DW_TAG_class_type: case DW_TAG_union_type: return entry->has_children ? DIE_TYPE : 0;
	case DW_TAG_namespace: case DW_TAG_interface_type: return entry->has_children ? DIE_SCOPE : 0;
	case DW_TAG_enumeration_type: case DW_TAG_array_type: case DW_TAG_subroutine_type: case DW_TAG_call_site: case DW_TAG_GNU_call_site:
	case DW_TAG_GNU_formal_parameter_pack: case DW_TAG_GNU_template_parameter_pack: return entry->has_children ? DIE_CODELESS : 0;
	default: return 0;
	}
}

static enum abbrev_varying varying_of(uint16_t form)
{
	switch (form) {
	case DW_FORM_udata: case DW_FORM_sdata: case DW_FORM_ref_udata: case DW_FORM_strx: case DW_FORM_addrx: case DW_FORM_loclistx:
	case DW_FORM_rnglistx: case DW_FORM_GNU_addr_index: case DW_FORM_GNU_str_index: return VARYING_ULEB;
	case DW_FORM_block: case DW_FORM_exprloc: return VARYING_BLOCK;
	case DW_FORM_block1: return VARYING_BLOCK1;
	case DW_FORM_string: return VARYING_STRING;
	default: return VARYING_NONE;
	}
}

static struct abbrev_hot hot_of(const struct abbrev_table *table, const struct abbrev *entry)
{
	const struct abbrev_hot too_long = { .kinds = entry->kinds | DIE_LONG, .sibling_at = NO_SIBLING };
	struct abbrev_hot hot = { .depth = entry->has_children, .sibling_at = NO_SIBLING, .kinds = entry->kinds };
	uint32_t size = 0, varying = 0;
	for (uint32_t i = 0; i <= entry->count; i++) {
		const struct abbrev_attr *attr = i < entry->count ? &table->attrs.data[entry->first + i] : NULL;
		if (attr != NULL && attr->name == DW_AT_sibling && attr->form == DW_FORM_ref4 && varying == 0 && size < NO_SIBLING)
			hot.sibling_at = (uint8_t)size;
		if (attr != NULL && attr->size >= 0) {
			size += (uint32_t)attr->size;
			continue;
		}
		if (size > UINT8_MAX)
			return too_long;
		*(varying == 0 ? &hot.size : &hot.varying[varying - 1].size) = (uint8_t)size;
		size = 0;
		if (attr == NULL)
			break;
		if (varying == 2 || varying_of(attr->form) == VARYING_NONE)
			return too_long;
		hot.varying[varying++].form = (uint8_t)varying_of(attr->form);
	}
	if (varying > 0)
		hot.sibling_at = NO_SIBLING;
	return hot;
}

static void add_hot(struct abbrev_table *table)
{
	vec_reserve(&table->hot, table->entries.count + 1);
	vec_push(&table->hot, (struct abbrev_hot){ .depth = -1, .sibling_at = NO_SIBLING });
	for (size_t i = 0; i < table->entries.count && table->hot.count < HOT_CODES; i++)
		vec_push(&table->hot, hot_of(table, &table->entries.data[i]));
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
		case DW_AT_sibling: entry->sibling = (int32_t)entry->count; break;
		case DW_AT_low_pc: case DW_AT_high_pc: case DW_AT_ranges: entry->has_code = true; break;
		case DW_AT_declaration: entry->is_declaration = true; break;
		case DW_AT_name: case DW_AT_linkage_name: case DW_AT_MIPS_linkage_name: case DW_AT_specification: entry->has_name = true; break;
		}
		vec_push(&table->attrs, attr);
		entry->count++;
	}
	add_steps(table, entry);
	entry->kinds = kinds_of(entry);
	if (entry->kinds & (DIE_CODE | DIE_INLINED)) {
		add_takes(table, entry);
		add_places(table, entry);
	}
}

static int compare_codes(const void *a, const void *b)
{
	uint64_t x = ((const struct abbrev *)a)->code, y = ((const struct abbrev *)b)->code;
	return x < y ? -1 : x > y;
}

// A copy that takes no more memory than it must; what is read grew it in steps, and is used again for the next table.
#define COPY_VEC(to, from) \
	((to)->data = mem_copy((from)->data, (from)->count * sizeof(*(from)->data)), (to)->count = (to)->capacity = (from)->count)

static struct abbrev_table *copy_table(const struct abbrev_table *table)
{
	struct abbrev_table *copy = NEW(struct abbrev_table);
	COPY_VEC(&copy->entries, &table->entries);
	COPY_VEC(&copy->attrs, &table->attrs);
	COPY_VEC(&copy->steps, &table->steps);
	COPY_VEC(&copy->takes, &table->takes);
	copy->is_dense = table->is_dense;
	copy->has_siblings = table->has_siblings;
	if (copy->is_dense)
		add_hot(copy);
	return copy;
}

static struct abbrev_table *read_table(const struct dwarf_unit *unit)
{
	struct abbrev_table *table = &unit->dwarf->abbrevs_read;
	struct bytes b = dwarf_section(unit->dwarf, DWARF_ABBREV);
	bytes_skip(&b, unit->abbrev_offset);
	bool sorted = true;
	table->is_dense = true;
	table->has_siblings = false;
	vec_clear(&table->entries);
	vec_clear(&table->attrs);
	vec_clear(&table->steps);
	vec_clear(&table->takes);
	vec_push(&table->steps, (struct abbrev_step){ 0 });
	vec_push(&table->takes, (struct abbrev_take){ 0 });
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
		sort_stable(table->entries.data, table->entries.count, sizeof(struct abbrev), compare_codes);
	return copy_table(table);
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
	const size_t at = first_not(0, table->entries.count, i, table->entries.data[i].code < code);
	return at < table->entries.count && table->entries.data[at].code == code ? &table->entries.data[at] : NULL;
}

void abbrev_table_release(struct abbrev_table *table)
{
	vec_release(&table->entries);
	vec_release(&table->attrs);
	vec_release(&table->steps);
	vec_release(&table->takes);
	vec_release(&table->hot);
}
