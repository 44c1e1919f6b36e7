// Over the DIEs of a unit from function to function, and over those inside a function from one inlined into it to the next.
#include <dwarf.h>

#include "symbols/dwarf_internal.h"

enum { INLINES_LIMIT = 1 << 20 };

// In C and C++ compilers write the code of member functions outside the type, but that of types local to a function (closures): gcc leaves
// it inside. In other languages (Rust) it may stand inside any type.
static bool is_c_family(uint16_t language)
{
	switch (language) {
	case DW_LANG_C89: case DW_LANG_C: case DW_LANG_C99: case DW_LANG_C11: case DW_LANG_C_plus_plus: case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11: case DW_LANG_C_plus_plus_14: case 0x2b: case 0x2c: return true; // C++17, C++20
	default: return false;
	}
}

// A function inside another's DIE, up to its children.
static void nested_function(struct dwarf_walk *w)
{
	dwarf_extent_read(w->unit, w->pass.entry, &w->pass.b, &w->extent);
	if (w->extent.has_code)
		(void)w->function(w, true);
	w->pass.depth += w->pass.entry->has_children;
}

// Over the children of a DIE in a function: functions in there are nested ones.
static void pass_inside(struct dwarf_walk *w)
{
	size_t depth = w->pass.depth;
	w->pass.depth = 1;
	if (w->wants_nested) // types, and with them functions, stand in a function's abstract instance, not again where it is inlined (3.3.8.2)
		while (dwarf_pass(&w->pass, DIE_CODE, DIE_CODELESS | DIE_INLINED))
			nested_function(w);
	else
		(void)dwarf_pass(&w->pass, 0, ANY_KIND);
	w->pass.depth = depth;
}

static void outer_function(struct dwarf_walk *w)
{
	const struct abbrev *entry = w->pass.entry;
	if ((entry->kinds & DIE_CODE) && w->wants_outer) {
		dwarf_extent_read(w->unit, entry, &w->pass.b, &w->extent);
		uint64_t sibling = w->extent.sibling;
		if (w->extent.has_code && w->function(w, false))
			return;
		if (entry->has_children && !w->wants_nested && sibling != 0 && dwarf_jump(w->unit, sibling, &w->pass.b))
			return;
	} else {
		dwarf_skip_attributes(w->unit, entry, &w->pass.b);
	}
	if (entry->has_children)
		pass_inside(w);
}

static void fault(const struct dwarf_walk *w)
{
	if (w->pass.b.bad)
		dwarf_fault(w->unit->dwarf, DWARF_INFO, w->pass.die, "an entry by the abbreviations at %#llx, inside its unit",
		            (unsigned long long)w->unit->abbrev_offset);
}

void dwarf_walk_functions(struct dwarf_walk *w)
{
	const unsigned skips = DIE_CODELESS | (is_c_family(w->unit->language) ? DIE_TYPE : 0) | (w->wants_nested ? 0 : DIE_FUNCTION);
	w->pass = (struct dwarf_pass){ .unit = w->unit, .b = dwarf_unit_bytes(w->unit, w->unit->first_die), .depth = 1 };
	const struct abbrev *root = abbrev_find(w->unit->abbrevs, dwarf_uleb(&w->pass.b));
	if (root == NULL || !root->has_children)
		return;
	dwarf_skip_attributes(w->unit, root, &w->pass.b);
	while (dwarf_pass(&w->pass, DIE_CODE | DIE_FUNCTION, skips))
		outer_function(w);
	fault(w);
}

// ---------------------------------------------------------------- inlined into a function

static uint32_t offset_in_unit(struct dwarf_unit *unit, const struct dwarf_value *v)
{
	struct dwarf_ref ref = v->form != DW_FORM_ref_addr && v->form != DW_FORM_GNU_ref_alt ? value_ref(unit, v) : (struct dwarf_ref){ 0 };
	return ref.unit == unit ? (uint32_t)(ref.offset - unit->offset) : 0;
}

// Where it is called, and which DIE names it.
static struct dwarf_inlined read_inlined(struct dwarf_unit *unit, const struct abbrev *entry, uint64_t die, struct bytes b)
{
	struct dwarf_inlined out = { .die = (uint32_t)(die - unit->offset) };
	struct dwarf_value v;
	for (uint32_t i = 0; i < entry->count && !b.bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		switch (attr->name) {
		case DW_AT_call_file:
			form_read(unit, attr, &b, &v);
			out.call_file = (uint32_t)v.u;
			break;
		case DW_AT_call_line:
			form_read(unit, attr, &b, &v);
			out.call_line = (uint32_t)v.u;
			break;
		case DW_AT_abstract_origin:
			form_read(unit, attr, &b, &v);
			if (!entry->has_name)
				out.origin = offset_in_unit(unit, &v);
			break;
		default: form_skip(unit, attr, &b);
		}
	}
	return out;
}

static void inlined_function(struct dwarf_walk *w, uint32_t parent, struct dwarf_inlined_list *out)
{
	const struct abbrev *entry = w->pass.entry;
	struct bytes attributes = w->pass.b;
	uint64_t die = w->pass.die;
	dwarf_extent_read(w->unit, entry, &w->pass.b, &w->extent);
	if (w->pass.b.bad)
		return;
	uint32_t index = (uint32_t)out->count;
	if (w->inlined(w, index)) {
		struct dwarf_inlined inlined = read_inlined(w->unit, entry, die, attributes);
		inlined.parent = parent;
		vec_push(out, inlined);
		if (entry->has_children) {
			vec_reserve(&w->open, 1);
			w->open.data[w->open.count].depth = w->pass.depth;
			w->open.data[w->open.count++].inlined = index;
			w->pass.depth = 1;
		}
	} else if (entry->has_children && (w->wants_nested || w->extent.sibling == 0 || !dwarf_jump(w->unit, w->extent.sibling, &w->pass.b))) {
		pass_inside(w);
	}
}

// A DIE inside a function that is neither code of the function nor inlined into it: what is inside functions in it is theirs.
static void foreign(struct dwarf_walk *w)
{
	const struct abbrev *entry = w->pass.entry;
	size_t depth = w->pass.depth;
	if ((entry->kinds & DIE_CODE) && w->wants_nested)
		nested_function(w);
	else
		dwarf_skip_attributes(w->unit, entry, &w->pass.b);
	w->pass.depth = depth;
	if (entry->has_children)
		pass_inside(w);
}

void dwarf_walk_inlined(struct dwarf_walk *w, struct dwarf_inlined_list *out)
{
	const unsigned of_others = DIE_TYPE | DIE_FUNCTION | DIE_CODE, skips = w->wants_nested ? DIE_CODELESS : DIE_CODELESS | of_others;
	size_t outside = w->pass.depth;
	vec_clear(&w->open);
	w->pass.depth = 1;
	for (;;) {
		unsigned stops = out->count < INLINES_LIMIT ? DIE_INLINED | of_others : 0;
		if (!dwarf_pass(&w->pass, stops, skips)) { // the end of the children of the function, or of the innermost one inlined that is open
			if (w->open.count == 0 || w->pass.b.bad)
				break;
			w->pass.depth = w->open.data[--w->open.count].depth;
		} else if (w->pass.entry->kinds & DIE_INLINED) {
			inlined_function(w, w->open.count > 0 ? w->open.data[w->open.count - 1].inlined : SPAN_NONE, out);
		} else {
			foreign(w);
		}
	}
	w->pass.depth = outside;
}

uint64_t dwarf_walk_inlined_at(struct dwarf_walk *w, uint32_t die, struct dwarf_inlined_list *out)
{
	w->pass = (struct dwarf_pass){ .unit = w->unit, .b = dwarf_unit_bytes(w->unit, w->unit->offset + die) };
	size_t from = bytes_offset(&w->pass.b);
	const struct abbrev *entry = abbrev_find(w->unit->abbrevs, dwarf_uleb(&w->pass.b));
	if (entry == NULL || !entry->has_children)
		return 0;
	dwarf_skip_attributes(w->unit, entry, &w->pass.b);
	dwarf_walk_inlined(w, out);
	return bytes_offset(&w->pass.b) - from;
}

void dwarf_walk_release(struct dwarf_walk *w)
{
	vec_release(&w->extent.ranges);
	vec_release(&w->open);
}
