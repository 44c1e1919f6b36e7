// What a call calls by its name in the source: DW_TAG_call_site (3.4.1), and what GNU compilers wrote before version 5 had it.
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

enum { FUNCTION_BYTES_LIMIT = 8 << 20 }; // DIEs of one function; interpreters' loops have some 100 KiB

struct call_site {
	uint64_t return_pc;
	struct dwarf_ref origin;
};

// A call site's attributes, the cursor moved behind them.
static struct call_site read_site(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b)
{
	struct call_site site = { 0 };
	for (uint32_t i = 0; i < entry->count && !b->bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		switch (attr->name) {
		case DW_AT_call_return_pc: case DW_AT_low_pc: // the GNU extension's DW_AT_low_pc is the return address, too
			form_read(unit, attr, b, &v);
			if (!b->bad)
				(void)value_address(unit, &v, &site.return_pc);
			break;
		case DW_AT_call_origin: case DW_AT_abstract_origin:
			form_read(unit, attr, b, &v);
			if (!b->bad)
				site.origin = value_ref(unit, &v);
			break;
		default: form_skip(unit, attr, b);
		}
	}
	return site;
}

// A call through a pointer may have the pointer's variable as its origin.
static bool is_function(struct dwarf_ref ref)
{
	if (ref.unit == NULL || !dwarf_unit_root(ref.unit))
		return false;
	struct bytes b = dwarf_unit_bytes(ref.unit, ref.offset);
	const struct abbrev *entry = abbrev_find(ref.unit->abbrevs, dwarf_uleb(&b));
	return entry != NULL && !b.bad && entry->tag == DW_TAG_subprogram;
}

// The call site below one function's DIE that returns to `return_pc`.
static bool find_site(struct dwarf_unit *unit, uint64_t die, uint64_t return_pc, struct dwarf_ref *origin)
{
	struct bytes b = dwarf_unit_bytes(unit, die);
	if (bytes_left(&b) > FUNCTION_BYTES_LIMIT)
		b.end = b.at + FUNCTION_BYTES_LIMIT;
	for (size_t depth = 0; bytes_left(&b) > 0 && !b.bad;) {
		uint64_t code = dwarf_uleb(&b);
		if (code == 0) {
			if (depth <= 1)
				return false;
			depth--;
			continue;
		}
		const struct abbrev *entry = abbrev_find(unit->abbrevs, code);
		if (entry == NULL)
			return false;
		if (entry->tag == DW_TAG_call_site || entry->tag == DW_TAG_GNU_call_site) {
			struct call_site site = read_site(unit, entry, &b);
			if (site.return_pc == return_pc && !b.bad) {
				*origin = site.origin;
				return is_function(site.origin);
			}
		} else {
			dwarf_skip_attributes(unit, entry, &b);
		}
		if (entry->has_children)
			depth++;
		else if (depth == 0)
			return false;
	}
	return false;
}

bool dwarf_callee(struct dwarf *dwarf, uint64_t vaddr, struct symbol_source *out)
{
	struct dwarf_unit *unit = dwarf_unit_for_address(dwarf, vaddr);
	if (unit == NULL || !dwarf_unit_root(unit))
		return false;
	struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
	if (dies == NULL)
		return false;
	// Compilers put a call site where it was written, or below the function that has the code: so from there.
	const struct dwarf_function *function = dwarf_function_find(dies, vaddr);
	struct dwarf_ref origin;
	if (function == NULL || !find_site(dies, dies->offset + function->die, vaddr + 1, &origin))
		return false;
	*out = (struct symbol_source){ 0 };
	dwarf_name(origin.unit, origin.offset, out);
	return out->linkage_name != NULL || out->name != NULL;
}
