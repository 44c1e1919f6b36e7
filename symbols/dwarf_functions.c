// One pass over a unit's DIEs: which function, and which function inlined into it, has which addresses (3.3).
#include <dwarf.h>
#include <stdlib.h>

#include "symbols/dwarf_internal.h"

struct open_die {
	uint32_t node;    // that encloses its children
	bool in_function; // its children stand in a function, if only an abstract one
};

struct walk {
	struct dwarf_unit *unit;
	struct dwarf_functions *out;
	struct bytes b;
	VEC(struct open_die) open; // whose children are being read
	bool skips_types;   // types outside functions hold no code
	uint32_t node;      // that ranges are added to
};

// Tags whose children are never code, in any language.
static bool is_codeless(uint16_t tag)
{
	switch (tag) {
	case DW_TAG_enumeration_type: case DW_TAG_array_type: case DW_TAG_subroutine_type: case DW_TAG_call_site: case DW_TAG_GNU_call_site:
	case DW_TAG_GNU_formal_parameter_pack: case DW_TAG_GNU_template_parameter_pack: return true;
	default: return false;
	}
}

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

static void add_range(void *context, uint64_t lo, uint64_t hi)
{
	struct walk *w = context;
	struct dwarf_node *node = &w->out->nodes.data[w->node];
	if (node->start == 0)
		node->start = lo; // the first range holds the entry
	span_add(&w->out->spans, lo, hi, w->node);
}

// A function's attributes; becomes a node when it has code. The node that its children stand in.
static uint32_t read_function(struct walk *w, const struct abbrev *entry, uint64_t die, uint32_t parent)
{
	struct dwarf_unit *unit = w->unit;
	struct dwarf_node node = { .parent = parent, .die = (uint32_t)(die - unit->offset),
	                           .is_inlined = entry->tag == DW_TAG_inlined_subroutine };
	struct dwarf_value ranges = { 0 }, high = { 0 };
	uint64_t low = 0, hi;
	bool has_ranges = false, has_high = false;
	for (uint32_t i = 0; i < entry->count && !w->b.bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		switch (attr->name) {
		case DW_AT_low_pc: form_read(unit, attr, &w->b, &v); (void)value_address(unit, &v, &low); break;
		case DW_AT_high_pc: form_read(unit, attr, &w->b, &high); has_high = true; break;
		case DW_AT_ranges: form_read(unit, attr, &w->b, &ranges); has_ranges = true; break;
		case DW_AT_call_file: form_read(unit, attr, &w->b, &v); node.call_file = (uint32_t)v.u; break;
		case DW_AT_call_line: form_read(unit, attr, &w->b, &v); node.call_line = (uint32_t)v.u; break;
		default: form_skip(unit, attr->form, &w->b);
		}
	}
	if (w->b.bad || (!node.is_inlined && !has_ranges && !(has_high && low > 1)))
		return parent; // a declaration, or the abstract instance
	w->node = (uint32_t)w->out->nodes.count;
	vec_push(&w->out->nodes, node);
	if (has_ranges) {
		dwarf_ranges(unit, &ranges, add_range, w);
	} else if (has_high && low > 1) {
		if (!value_address(unit, &high, &hi))
			hi = low + high.u; // an offset (2.17.2)
		add_range(w, low, hi);
	}
	return w->node;
}

static void skip_attributes(struct walk *w, const struct abbrev *entry)
{
	if (entry->fixed_size >= 0) {
		bytes_skip(&w->b, (size_t)entry->fixed_size);
		return;
	}
	for (uint32_t i = 0; i < entry->count && !w->b.bad; i++)
		form_skip(w->unit, w->unit->abbrevs->attrs.data[entry->first + i].form, &w->b);
}

// Passes over a DIE with all its children by DW_AT_sibling; false: it has none that leads forward.
static bool skip_to_sibling(struct walk *w, const struct abbrev *entry)
{
	struct bytes b = w->b;
	for (int32_t i = 0; i <= entry->sibling; i++) {
		const struct abbrev_attr *attr = &w->unit->abbrevs->attrs.data[entry->first + (uint32_t)i];
		if (i < entry->sibling) {
			form_skip(w->unit, attr->form, &b);
			continue;
		}
		struct dwarf_value v;
		form_read(w->unit, attr, &b, &v);
		uint64_t here = bytes_offset(&b), target = w->unit->offset + v.u;
		if (b.bad || v.form == DW_FORM_ref_addr || target < here || target >= w->unit->end)
			return false;
		bytes_skip(&b, target - here);
		w->b = b;
	}
	return true;
}

static bool may_skip_children(const struct walk *w, const struct abbrev *entry, bool in_function)
{
	if (!entry->has_children || entry->sibling < 0)
		return false;
	if (is_codeless(entry->tag))
		return true;
	return w->skips_types && !in_function &&
		(entry->tag == DW_TAG_structure_type || entry->tag == DW_TAG_class_type || entry->tag == DW_TAG_union_type);
}

static void walk_dies(struct walk *w)
{
	while (bytes_left(&w->b) > 0 && !w->b.bad) {
		uint64_t die = bytes_offset(&w->b), code = dwarf_uleb(&w->b);
		if (code == 0) {
			if (w->open.count == 0)
				return;
			w->open.count--;
			continue;
		}
		const struct abbrev *entry = abbrev_find(w->unit->abbrevs, code);
		if (entry == NULL)
			return; // what follows cannot be read; what was read holds
		struct open_die here = { .node = SPAN_NONE };
		if (w->open.count > 0)
			here = w->open.data[w->open.count - 1];
		if (entry->tag == DW_TAG_subprogram || entry->tag == DW_TAG_inlined_subroutine) {
			here.node = read_function(w, entry, die, here.node);
			here.in_function = true;
		} else if (may_skip_children(w, entry, here.in_function) && skip_to_sibling(w, entry)) {
			continue;
		} else {
			skip_attributes(w, entry);
		}
		if (entry->has_children)
			vec_push(&w->open, here);
	}
}

const struct dwarf_functions *dwarf_unit_functions(struct dwarf_unit *unit)
{
	if (unit->functions == NULL) {
		unit->functions = NEW(struct dwarf_functions);
		if (dwarf_unit_root(unit)) {
			struct walk w = { .unit = unit, .out = unit->functions, .b = dwarf_unit_bytes(unit, unit->first_die) };
			w.skips_types = is_c_family(unit->language);
			walk_dies(&w);
			vec_release(&w.open);
		}
		span_finish(&unit->functions->spans);
	}
	return unit->functions;
}

void dwarf_functions_free(struct dwarf_functions *functions)
{
	if (functions == NULL)
		return;
	vec_release(&functions->nodes);
	span_release(&functions->spans);
	free(functions);
}
