// Where the code of a DIE is (2.17).
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

struct taken { // an attribute; form 0: there is none
	uint64_t value;
	uint16_t form;
};

static inline uint64_t load(const uint8_t *attributes, uint8_t at, size_t size)
{
	uint64_t value = 0;
	if (at != NO_SIBLING)
		memcpy(&value, attributes + at, size);
	return value;
}

// Where all attributes stand at known places (what gcc writes); in the byte order of this machine.
static void read_at_once(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b, struct dwarf_extent *out)
{
	const uint8_t *attributes = bytes_take(b, entry->fixed_size);
	vec_clear(&out->ranges);
	out->has_code = false;
	out->sibling = 0;
	if (attributes == NULL)
		return;
	out->sibling = load(attributes, entry->at.sibling, 4);
	if (entry->at.ranges != NO_SIBLING) {
		out->has_code = true;
		dwarf_ranges(unit, &(struct dwarf_value){ .form = DW_FORM_sec_offset, .u = load(attributes, entry->at.ranges, 4) }, &out->ranges);
		return;
	}
	uint64_t low = load(attributes, entry->at.low, 8), size = load(attributes, entry->at.high, 8);
	out->has_code = entry->at.high != NO_SIBLING && low > 1;
	if (out->has_code && low + size > low)
		vec_push(&out->ranges, (struct dwarf_range){ low, low + size });
}

void dwarf_extent_read(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *from, struct dwarf_extent *out)
{
	struct taken low = { 0 }, high = { 0 }, ranges = { 0 }, sibling = { 0 };
	struct bytes b = *from;
	if (entry->at.is_known && !b.swap) {
		read_at_once(unit, entry, from, out);
		return;
	}
	for (const struct abbrev_take *step = &unit->abbrevs->takes.data[entry->takes];; step++) {
		struct taken taken = { .form = step->form };
		bytes_skip(&b, step->skip);
		if (step->what == TAKE_END || b.bad)
			break;
		if (step->size == 4) {
			taken.value = bytes_u32(&b);
		} else if (step->size == 8) {
			taken.value = bytes_u64(&b);
		} else if (step->form == DW_FORM_addrx || step->form == DW_FORM_rnglistx) {
			taken.value = dwarf_uleb(&b);
		} else {
			struct dwarf_value value;
			struct bytes copy = b;
			form_read(unit, &(struct abbrev_attr){ .form = step->form, .size = step->size, .constant = step->constant }, &copy, &value);
			b = copy;
			taken = (struct taken){ .value = value.u, .form = value.form };
		}
		switch (step->what) {
		case TAKE_LOW: low = taken; break;
		case TAKE_HIGH: high = taken; break;
		case TAKE_RANGES: ranges = taken; break;
		case TAKE_SIBLING: sibling = taken; break;
		}
	}
	*from = b;
	vec_clear(&out->ranges);
	out->sibling = sibling.form != DW_FORM_ref_addr ? sibling.value : 0;
	out->has_code = false;
	if (b.bad)
		return;
	if (ranges.form != 0) {
		out->has_code = true;
		dwarf_ranges(unit, &(struct dwarf_value){ .form = ranges.form, .u = ranges.value }, &out->ranges);
		return;
	}
	struct dwarf_range range = { .lo = low.value };
	if (low.form != DW_FORM_addr && !value_address(unit, &(struct dwarf_value){ .form = low.form, .u = low.value }, &range.lo))
		range.lo = 0;
	out->has_code = high.form != 0 && range.lo > 1;
	if (!value_address(unit, &(struct dwarf_value){ .form = high.form, .u = high.value }, &range.hi))
		range.hi = range.lo + high.value; // an offset (2.17.2)
	if (out->has_code && range.hi > range.lo)
		vec_push(&out->ranges, range);
}
