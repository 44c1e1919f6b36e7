// Where the code of a DIE is (2.17).
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

struct found { // attributes; ranges and high need their form
	struct dwarf_value ranges, high;
	uint64_t low, sibling;
	bool has_ranges, has_high;
};

static inline void take(struct dwarf_unit *unit, uint8_t what, uint16_t form, uint64_t value, struct found *found)
{
	switch (what) {
	case TAKE_LOW:
		if (form == DW_FORM_addr)
			found->low = value;
		else
			(void)value_address(unit, &(struct dwarf_value){ .form = form, .u = value }, &found->low);
		break;
	case TAKE_HIGH:
		found->high = (struct dwarf_value){ .form = form, .u = value };
		found->has_high = true;
		break;
	case TAKE_RANGES:
		found->ranges = (struct dwarf_value){ .form = form, .u = value };
		found->has_ranges = true;
		break;
	case TAKE_SIBLING: found->sibling = form != DW_FORM_ref_addr ? value : 0; break;
	}
}

static void take_attributes(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *from, struct found *found)
{
	struct bytes b = *from;
	for (const struct abbrev_take *step = &unit->abbrevs->takes.data[entry->takes];; step++) {
		bytes_skip(&b, step->skip);
		if (step->what == TAKE_END || b.bad)
			break;
		switch (step->size) {
		case 1: take(unit, step->what, step->form, bytes_u8(&b), found); continue;
		case 4: take(unit, step->what, step->form, bytes_u32(&b), found); continue;
		case 8: take(unit, step->what, step->form, bytes_u64(&b), found); continue;
		}
		if (step->form == DW_FORM_addrx || step->form == DW_FORM_rnglistx) {
			take(unit, step->what, step->form, dwarf_uleb(&b), found);
			continue;
		}
		struct dwarf_value value;
		struct bytes copy = b;
		form_read(unit, &(struct abbrev_attr){ .form = step->form, .size = step->size, .constant = step->constant }, &copy, &value);
		b = copy;
		take(unit, step->what, value.form, value.u, found);
	}
	*from = b;
}

void dwarf_extent_read(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b, struct dwarf_extent *out)
{
	struct found found = { 0 };
	uint64_t hi;
	vec_clear(&out->ranges);
	take_attributes(unit, entry, b, &found);
	out->sibling = found.sibling;
	out->has_code = !b->bad && (found.has_ranges || (found.has_high && found.low > 1));
	if (!out->has_code)
		return;
	if (found.has_ranges) {
		dwarf_ranges(unit, &found.ranges, &out->ranges);
		return;
	}
	if (!value_address(unit, &found.high, &hi))
		hi = found.low + found.high.u; // an offset (2.17.2)
	if (hi > found.low)
		vec_push(&out->ranges, (struct dwarf_range){ found.low, hi });
}
