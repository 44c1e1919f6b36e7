// Forms of attributes (7.5.5, 7.5.6), GNU extensions for split and supplementary files among them.
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

uint64_t dwarf_odd_address(const struct dwarf_unit *unit, struct bytes *b)
{
	switch (unit->address_size) {
	case 4: return bytes_u32(b);
	case 2: return bytes_u16(b);
	default: b->bad = true; return 0;
	}
}

static uint64_t three_bytes(struct bytes *b)
{
	uint64_t low = bytes_u8(b), middle = bytes_u8(b), high = bytes_u8(b);
	return b->swap ? low << 16 | middle << 8 | high : high << 16 | middle << 8 | low;
}

int8_t form_fixed_size(const struct dwarf_unit *unit, uint16_t form)
{
	switch (form) {
	case DW_FORM_flag_present: case DW_FORM_implicit_const: return 0;
	case DW_FORM_data1: case DW_FORM_flag: case DW_FORM_ref1: case DW_FORM_strx1: case DW_FORM_addrx1: return 1;
	case DW_FORM_data2: case DW_FORM_ref2: case DW_FORM_strx2: case DW_FORM_addrx2: return 2;
	case DW_FORM_strx3: case DW_FORM_addrx3: return 3;
	case DW_FORM_data4: case DW_FORM_ref4: case DW_FORM_strx4: case DW_FORM_addrx4: case DW_FORM_ref_sup4: return 4;
	case DW_FORM_data8: case DW_FORM_ref8: case DW_FORM_ref_sig8: case DW_FORM_ref_sup8: return 8;
	case DW_FORM_data16: return 16;
	case DW_FORM_addr: return unit->address_size <= 8 ? (int8_t)unit->address_size : -1;
	case DW_FORM_ref_addr: // DWARF 2 had addresses here
		return unit->version > 2 ? (int8_t)unit->offset_size : form_fixed_size(unit, DW_FORM_addr);
	case DW_FORM_strp: case DW_FORM_line_strp: case DW_FORM_sec_offset: case DW_FORM_strp_sup: case DW_FORM_GNU_ref_alt:
	case DW_FORM_GNU_strp_alt: return (int8_t)unit->offset_size;
	default: return -1;
	}
}

static void read_block(struct bytes *b, uint64_t size, struct dwarf_value *out)
{
	out->u = size;
	out->at = bytes_take(b, size);
}

void form_read(const struct dwarf_unit *unit, const struct abbrev_attr *attr, struct bytes *b, struct dwarf_value *out)
{
	int8_t size = attr->size;
	*out = (struct dwarf_value){ .form = attr->form };
	if (out->form == DW_FORM_indirect) {
		uint64_t form = dwarf_uleb(b);
		if (form == DW_FORM_indirect || form == DW_FORM_implicit_const || form > UINT16_MAX) {
			b->bad = true;
			return;
		}
		out->form = (uint16_t)form;
		size = form_fixed_size(unit, out->form);
	}
	switch (size) {
	case 1: out->u = bytes_u8(b); return;
	case 2: out->u = bytes_u16(b); return;
	case 3: out->u = three_bytes(b); return;
	case 4: out->u = bytes_u32(b); return;
	case 8: out->u = bytes_u64(b); return;
	}
	switch (out->form) {
	case DW_FORM_flag_present: out->u = 1; return;
	case DW_FORM_implicit_const: out->u = (uint64_t)attr->constant; return;
	case DW_FORM_sdata: out->u = (uint64_t)bytes_sleb(b); return;
	case DW_FORM_udata: case DW_FORM_ref_udata: case DW_FORM_strx: case DW_FORM_addrx: case DW_FORM_loclistx: case DW_FORM_rnglistx:
	case DW_FORM_GNU_addr_index: case DW_FORM_GNU_str_index: out->u = dwarf_uleb(b); return;
	case DW_FORM_string: out->at = b->at; (void)bytes_cstr(b); return;
	case DW_FORM_block1: read_block(b, bytes_u8(b), out); return;
	case DW_FORM_block2: read_block(b, bytes_u16(b), out); return;
	case DW_FORM_block4: read_block(b, bytes_u32(b), out); return;
	case DW_FORM_block: case DW_FORM_exprloc: read_block(b, dwarf_uleb(b), out); return;
	case DW_FORM_data16: read_block(b, 16, out); return;
	default: b->bad = true; // a form not known has no size to skip
	}
}

static void skip_varying(const struct dwarf_unit *unit, uint16_t form, struct bytes *b)
{
	struct dwarf_value unused;
	switch (form) {
	case DW_FORM_exprloc: bytes_skip(b, dwarf_uleb(b)); return; // by far the most frequent
	case DW_FORM_udata: case DW_FORM_strx: case DW_FORM_addrx: case DW_FORM_loclistx: case DW_FORM_rnglistx: (void)dwarf_uleb(b); return;
	default: form_read(unit, &(struct abbrev_attr){ .form = form, .size = -1 }, b, &unused);
	}
}

void form_skip(const struct dwarf_unit *unit, const struct abbrev_attr *attr, struct bytes *b)
{
	if (attr->size >= 0)
		bytes_skip(b, (size_t)attr->size);
	else
		skip_varying(unit, attr->form, b);
}

void form_skip_steps(const struct dwarf_unit *unit, const struct abbrev_step *steps, struct bytes *b)
{
	const struct abbrev_step *step = steps;
	do {
		skip_varying(unit, step->form, b);
		bytes_skip(b, step->fixed_size);
	} while (!step++->is_last && !b->bad);
}

static const char *string_at(struct dwarf *dwarf, enum dwarf_section_id id, uint64_t offset)
{
	struct bytes b = dwarf_section(dwarf, id);
	bytes_skip(&b, offset);
	const char *s = bytes_cstr(&b);
	return b.bad ? NULL : s;
}

static const char *indexed_string(struct dwarf_unit *unit, uint64_t index)
{
	struct bytes b = dwarf_section(unit->dwarf, DWARF_STR_OFFSETS);
	if (index > UINT32_MAX)
		return NULL;
	bytes_skip(&b, unit->str_offsets_base);
	bytes_skip(&b, index * unit->offset_size);
	uint64_t offset = dwarf_offset(unit, &b);
	return b.bad ? NULL : string_at(unit->dwarf, DWARF_STR, offset);
}

struct dwarf *dwarf_alternative(struct dwarf *dwarf)
{
	if (!dwarf->is_alt_tried) {
		dwarf->is_alt_tried = true;
		struct image *image = dwarf->files.alt != NULL ? dwarf->files.alt(dwarf->files.context) : NULL;
		if (image != NULL) {
			struct dwarf_files none = { .damages = dwarf->files.damages };
			dwarf->alt = dwarf_new(image, &none, false);
			image_release(image);
		}
	}
	return dwarf->alt;
}

const char *value_string(struct dwarf_unit *unit, const struct dwarf_value *value)
{
	switch (value->form) {
	case DW_FORM_string: return (const char *)value->at;
	case DW_FORM_strp: return string_at(unit->dwarf, DWARF_STR, value->u);
	case DW_FORM_line_strp: return string_at(unit->dwarf, DWARF_LINE_STR, value->u);
	case DW_FORM_strx: case DW_FORM_strx1: case DW_FORM_strx2: case DW_FORM_strx3: case DW_FORM_strx4: case DW_FORM_GNU_str_index:
		return indexed_string(unit, value->u);
	case DW_FORM_strp_sup: case DW_FORM_GNU_strp_alt: {
		struct dwarf *alt = dwarf_alternative(unit->dwarf);
		return alt != NULL ? string_at(alt, DWARF_STR, value->u) : NULL;
	}
	default: return NULL;
	}
}

bool value_address(struct dwarf_unit *unit, const struct dwarf_value *value, uint64_t *addr)
{
	switch (value->form) {
	case DW_FORM_data1: case DW_FORM_data2: case DW_FORM_data4: case DW_FORM_data8: return false;
	case DW_FORM_addr: *addr = value->u; return true;
	case DW_FORM_addrx: case DW_FORM_addrx1: case DW_FORM_addrx2: case DW_FORM_addrx3: case DW_FORM_addrx4: case DW_FORM_GNU_addr_index: {
		struct dwarf_unit *owner = unit->skeleton != NULL ? unit->skeleton : unit; // addresses stay in the linked file
		struct bytes b = dwarf_section(owner->dwarf, DWARF_ADDR);
		if (value->u > UINT32_MAX)
			return false;
		bytes_skip(&b, owner->addr_base);
		bytes_skip(&b, value->u * owner->address_size);
		*addr = dwarf_address(owner, &b);
		return !b.bad;
	}
	default: return false;
	}
}

struct dwarf_ref value_ref(struct dwarf_unit *unit, const struct dwarf_value *value)
{
	struct dwarf_ref ref = { 0 };
	switch (value->form) {
	case DW_FORM_ref1: case DW_FORM_ref2: case DW_FORM_ref4: case DW_FORM_ref8: case DW_FORM_ref_udata:
		if (value->u < unit->end - unit->offset)
			ref = (struct dwarf_ref){ .unit = unit, .offset = unit->offset + value->u };
		break;
	case DW_FORM_ref_addr:
		ref = (struct dwarf_ref){ .unit = dwarf_unit_containing(unit->dwarf, value->u), .offset = value->u };
		break;
	case DW_FORM_GNU_ref_alt: case DW_FORM_ref_sup4: case DW_FORM_ref_sup8: {
		struct dwarf *alt = dwarf_alternative(unit->dwarf);
		if (alt != NULL)
			ref = (struct dwarf_ref){ .unit = dwarf_unit_containing(alt, value->u), .offset = value->u };
		break;
	}
	}
	if (ref.unit != NULL && (ref.offset < ref.unit->first_die || ref.offset >= ref.unit->end))
		ref.unit = NULL;
	return ref;
}
