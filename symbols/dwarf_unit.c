// Unit headers (7.5.1) and the attributes of their root DIEs.
#include <dwarf.h>
#include <stdlib.h>

#include "base/search.h"
#include "symbols/dwarf_internal.h"

// Length of a unit (7.4): 32-bit, or 64-bit behind 0xffffffff. Values from 0xfffffff0 are reserved.
static uint64_t initial_length(struct bytes *b, uint8_t *offset_size)
{
	uint64_t length = bytes_u32(b);
	*offset_size = 4;
	if (length == 0xffffffff) {
		length = bytes_u64(b);
		*offset_size = 8;
	} else if (length >= 0xfffffff0) {
		b->bad = true;
	}
	return length;
}

void dwarf_walk_units(struct dwarf *dwarf, uint64_t until)
{
	struct bytes info = dwarf_section(dwarf, DWARF_INFO);
	uint64_t size = bytes_left(&info);
	while (!dwarf->is_walked) {
		uint64_t at = dwarf->slots.count > 0 ? dwarf->slots.data[dwarf->slots.count - 1].end : 0;
		if (at > until)
			return;
		uint64_t head = size - at < 12 ? size - at : 12;
		uint8_t offset_size;
		struct bytes b = info;
		bytes_skip(&b, at);
		if (at >= size || !dwarf_info_reaches(dwarf, at + head)) {
			dwarf->is_walked = true;
			return;
		}
		uint64_t length = initial_length(&b, &offset_size);
		// Smaller than any header or past the end: what follows cannot be found.
		if (b.bad || length < 7 || length > bytes_left(&b)) {
			if (b.bad || length != 0) // padding
				dwarf_fault(dwarf, DWARF_INFO, at, "a unit of 7 to %zu bytes, found %llu", bytes_left(&b), (unsigned long long)length);
			dwarf->is_walked = true;
			return;
		}
		vec_push(&dwarf->slots, (struct dwarf_slot){ .offset = at, .end = bytes_offset(&b) + length });
	}
}

static bool read_header(struct dwarf_unit *unit, struct bytes b)
{
	(void)initial_length(&b, &unit->offset_size);
	unit->version = bytes_u16(&b);
	if (unit->version < 2 || unit->version > 5)
		return false;
	if (unit->version >= 5) {
		unit->type = bytes_u8(&b);
		unit->address_size = bytes_u8(&b);
		unit->abbrev_offset = dwarf_offset(unit, &b);
		if (unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile)
			unit->dwo_id = bytes_u64(&b);
		else if (unit->type == DW_UT_type || unit->type == DW_UT_split_type) {
			bytes_skip(&b, 8);
			(void)dwarf_offset(unit, &b);
		}
	} else {
		unit->type = DW_UT_compile;
		unit->abbrev_offset = dwarf_offset(unit, &b);
		unit->address_size = bytes_u8(&b);
	}
	unit->first_die = bytes_offset(&b);
	return !b.bad && unit->first_die < unit->end;
}

static struct dwarf_unit *slot_unit(struct dwarf *dwarf, struct dwarf_slot *slot)
{
	if (slot->unit == NULL) {
		struct dwarf_unit *unit = NEW(struct dwarf_unit);
		unit->dwarf = dwarf;
		unit->offset = slot->offset;
		unit->end = slot->end;
		struct bytes b = dwarf_section(dwarf, DWARF_INFO);
		b.end = b.start + slot->end;
		bytes_skip(&b, slot->offset);
		// DIEs are addressed by 32 bits from the unit's start here.
		unit->is_bad = unit->end - unit->offset > UINT32_MAX || !dwarf_info_reaches(dwarf, slot->end) || !read_header(unit, b);
		if (unit->is_bad)
			dwarf_fault(dwarf, DWARF_INFO, unit->offset, "the header of a unit of version 2 to 5, found version %u", unit->version);
		const struct dwarf_contribution *part = dwarf_contribution(dwarf, unit->offset);
		if (part != NULL) {
			unit->abbrev_offset += part->abbrev;
			unit->str_offsets_at = unit->str_offsets_base = part->str_offsets;
			unit->rnglists_at = part->rnglists;
		}
		slot->unit = unit;
	}
	return slot->unit->is_bad ? NULL : slot->unit;
}

struct dwarf_unit *dwarf_unit_containing(struct dwarf *dwarf, uint64_t offset)
{
	dwarf_walk_units(dwarf, offset);
	const size_t next = first_not(0, dwarf->slots.count, i, dwarf->slots.data[i].offset <= offset);
	if (next == 0 || offset >= dwarf->slots.data[next - 1].end)
		return NULL;
	return slot_unit(dwarf, &dwarf->slots.data[next - 1]);
}

struct dwarf_unit *dwarf_unit_at(struct dwarf *dwarf, uint64_t offset)
{
	struct dwarf_unit *unit = dwarf_unit_containing(dwarf, offset);
	return unit != NULL && unit->offset == offset ? unit : NULL;
}

struct bytes dwarf_unit_bytes(struct dwarf_unit *unit, uint64_t offset)
{
	struct bytes b = dwarf_section(unit->dwarf, DWARF_INFO);
	b.end = b.start + unit->end;
	bytes_skip(&b, offset);
	return b;
}

// Attributes that others are read by come first, whatever their order in the DIE.
static void take_base(struct dwarf_unit *unit, uint16_t name, const struct dwarf_value *v)
{
	switch (name) {
	case DW_AT_str_offsets_base: unit->str_offsets_base = v->u; break;
	case DW_AT_addr_base: case DW_AT_GNU_addr_base: unit->addr_base = v->u; break;
	case DW_AT_rnglists_base: unit->rnglists_base = v->u; break;
	case DW_AT_GNU_ranges_base: unit->ranges_base = v->u; break;
	case DW_AT_stmt_list: unit->line_offset = v->u; unit->has_lines = true; break;
	case DW_AT_language: unit->language = (uint16_t)v->u; break;
	case DW_AT_GNU_dwo_id: unit->dwo_id = v->u; break;
	}
}

static void take_attribute(struct dwarf_unit *unit, uint16_t name, const struct dwarf_value *v)
{
	switch (name) {
	case DW_AT_name: unit->name = value_string(unit, v); break;
	case DW_AT_comp_dir: unit->comp_dir = value_string(unit, v); break;
	case DW_AT_dwo_name: case DW_AT_GNU_dwo_name: unit->dwo_name = value_string(unit, v); break;
	case DW_AT_low_pc: unit->has_low = value_address(unit, v, &unit->low_pc); break;
	}
}

bool dwarf_unit_root(struct dwarf_unit *unit)
{
	if (unit->is_root_read)
		return !unit->is_bad;
	unit->is_root_read = true;
	unit->abbrevs = dwarf_abbrevs(unit);
	if (unit->dwarf->is_split && unit->version >= 5) // a split file's first (or only) table of offsets stands behind its header (7.26)
		unit->str_offsets_base = unit->str_offsets_at + (unit->offset_size == 8 ? 16 : 8);
	for (int pass = 0; pass < 2; pass++) {
		struct bytes b = dwarf_unit_bytes(unit, unit->first_die);
		uint64_t code = dwarf_uleb(&b);
		const struct abbrev *entry = abbrev_find(unit->abbrevs, code);
		for (uint32_t i = 0; entry != NULL && i < entry->count && !b.bad; i++) {
			const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
			struct dwarf_value v;
			form_read(unit, attr, &b, &v);
			if (b.bad)
				break;
			if (pass == 0)
				take_base(unit, attr->name, &v);
			else
				take_attribute(unit, attr->name, &v);
		}
		if (entry == NULL || b.bad)
			unit->is_bad = true;
		if (unit->is_bad && code != 0) {
			dwarf_fault(unit->dwarf, DWARF_INFO, unit->first_die, "a unit's first entry by the abbreviations at %#llx, found abbreviation %llu",
			            (unsigned long long)unit->abbrev_offset, (unsigned long long)code);
			break;
		}
	}
	return !unit->is_bad;
}

void dwarf_unit_free(struct dwarf_unit *unit)
{
	if (unit == NULL)
		return;
	dwarf_functions_free(unit->functions);
	dwarf_lines_free(unit->lines);
	vec_release(&unit->scopes.all);
	free(unit);
}
