// Which function, and which function inlined into it, has which addresses (3.3). A first pass over a unit's DIEs finds its functions. What is
// inside one is read when an address of it is asked for: most of a unit's DIEs are inside functions, and most functions are never met.
#include <dwarf.h>
#include <stdlib.h>

#include "symbols/dwarf_internal.h"

enum { INLINES_LIMIT = 1 << 20, REREAD_LIMIT = 16 }; // of a function; how many times a unit's size is read for what is inside functions
#define NO_DEPTH SIZE_MAX

struct walk {
	struct dwarf_unit *unit;
	struct dwarf_functions *out;
	struct bytes b;
	bool skips_types;  // types outside functions hold no code
	// Where functions go that are not inside another's DIE, and those that are; NULL: they are not wanted.
	struct span_table *spans, *nested;
	size_t depth, function_depth; // how many DIEs are open around what is read; around the outermost function
	uint32_t outer;    // index of that function, or SPAN_NONE
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

// ---------------------------------------------------------------- addresses of one DIE

struct code { // attributes that say where code is
	struct dwarf_value ranges, high;
	uint64_t low, sibling; // sibling: offset from the unit's start; 0: none
	bool has_ranges, has_high;
	uint32_t call_file, call_line;
};

static void take_code(struct dwarf_unit *unit, uint16_t name, const struct dwarf_value *v, struct code *code)
{
	switch (name) {
	case DW_AT_low_pc: (void)value_address(unit, v, &code->low); break;
	case DW_AT_high_pc: code->high = *v; code->has_high = true; break;
	case DW_AT_ranges: code->ranges = *v; code->has_ranges = true; break;
	case DW_AT_call_file: code->call_file = (uint32_t)v->u; break;
	case DW_AT_call_line: code->call_line = (uint32_t)v->u; break;
	case DW_AT_sibling: code->sibling = v->form != DW_FORM_ref_addr ? v->u : 0; break;
	}
}

static struct code read_code(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b)
{
	struct code code = { 0 };
	const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first], *end = attr + entry->count;
	for (; attr < end && !b->bad; attr++) {
		struct dwarf_value v;
		if (!attr->is_code) {
			form_skip(unit, attr, b);
			continue;
		}
		form_read(unit, attr, b, &v);
		take_code(unit, attr->name, &v, &code);
	}
	return code;
}

struct adding {
	struct span_table *table;
	uint32_t value;
	uint64_t start; // lowest address of the first range
};

static void add_range(void *context, uint64_t lo, uint64_t hi)
{
	struct adding *a = context;
	if (a->start == 0)
		a->start = lo;
	span_add(a->table, lo, hi, a->value);
}

static void add_code(struct dwarf_unit *unit, const struct code *code, struct adding *adding)
{
	uint64_t hi;
	if (code->has_ranges) {
		dwarf_ranges(unit, &code->ranges, add_range, adding);
	} else if (code->has_high && code->low > 1) {
		if (!value_address(unit, &code->high, &hi))
			hi = code->low + code->high.u; // an offset (2.17.2)
		add_range(adding, code->low, hi);
	}
}

// ---------------------------------------------------------------- passing over DIEs

// To DW_AT_sibling's DIE, the cursor behind the attributes; false: it does not lead forward.
static bool jump(const struct dwarf_unit *unit, uint64_t sibling, struct bytes *b)
{
	uint64_t here = bytes_offset(b), target = unit->offset + sibling;
	if (b->bad || target < here || target >= unit->end)
		return false;
	bytes_skip(b, target - here);
	return true;
}

bool dwarf_skip_to_sibling(const struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *from)
{
	if (entry->sibling < 0)
		return false;
	struct bytes b = *from;
	const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first];
	for (int32_t i = 0; i < entry->sibling; i++)
		form_skip(unit, attr++, &b);
	struct dwarf_value v;
	form_read(unit, attr, &b, &v);
	if (v.form == DW_FORM_ref_addr || !jump(unit, v.u, &b))
		return false;
	*from = b;
	return true;
}

// Passes over the children of a DIE, the cursor behind its attributes.
static void skip_children(const struct dwarf_unit *unit, struct bytes *b)
{
	for (size_t depth = 1; bytes_left(b) > 0 && !b->bad;) {
		uint64_t code = dwarf_uleb(b);
		if (code == 0) {
			if (--depth == 0)
				return;
			continue;
		}
		const struct abbrev *entry = abbrev_find(unit->abbrevs, code);
		if (entry == NULL) {
			b->bad = true;
			return;
		}
		dwarf_skip_attributes(unit, entry, b);
		depth += entry->has_children;
	}
}

static bool is_type(uint16_t tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type || tag == DW_TAG_union_type;
}

// ---------------------------------------------------------------- functions

// The DIE at `die` becomes one of the functions when it has code of its own (else it is a declaration, or the abstract instance).
static void add_function(struct walk *w, const struct abbrev *entry, uint64_t die, struct span_table *table, const struct code *code)
{
	if (w->b.bad || (!code->has_ranges && !(code->has_high && code->low > 1)))
		return;
	struct adding adding = { .table = table, .value = (uint32_t)w->out->all.count };
	add_code(w->unit, code, &adding);
	uint64_t end = entry->has_children ? w->unit->end : bytes_offset(&w->b);
	vec_push(&w->out->all, (struct dwarf_function){ .die = (uint32_t)(die - w->unit->offset), .end = (uint32_t)(end - w->unit->offset),
	                                                .start = adding.start });
}

// A function's attributes, and its children where those need not be read. Whether its children come next.
static bool read_function(struct walk *w, const struct abbrev *entry, uint64_t die)
{
	bool is_nested = w->function_depth != NO_DEPTH;
	struct span_table *table = is_nested ? w->nested : w->spans;
	size_t before = w->out->all.count;
	struct code code = { 0 };
	if (entry->has_code && table != NULL) {
		code = read_code(w->unit, entry, &w->b);
		add_function(w, entry, die, table, &code);
	} else if (entry->has_children && w->nested == NULL && dwarf_skip_to_sibling(w->unit, entry, &w->b)) {
		return false;
	} else {
		dwarf_skip_attributes(w->unit, entry, &w->b);
	}
	if (!entry->has_children)
		return false;
	bool is_added = w->out->all.count > before;
	if (w->nested == NULL && code.sibling != 0 && jump(w->unit, code.sibling, &w->b)) {
		if (is_added)
			w->out->all.data[before].end = (uint32_t)code.sibling;
		return false;
	}
	if (!is_nested) {
		w->function_depth = w->depth;
		w->outer = is_added ? (uint32_t)before : SPAN_NONE;
	}
	return true;
}

// The end of an open DIE's children; false: of all.
static bool close_die(struct walk *w)
{
	if (w->depth == 0 || --w->depth == 0)
		return false;
	if (w->depth == w->function_depth) {
		w->function_depth = NO_DEPTH;
		if (w->outer != SPAN_NONE)
			w->out->all.data[w->outer].end = (uint32_t)(bytes_offset(&w->b) - w->unit->offset);
	}
	return true;
}

// Where an entry is that cannot be read, nor what follows it (what was read holds); 0: none.
static uint64_t walk_dies(struct walk *w)
{
	uint64_t die = 0;
	while (bytes_left(&w->b) > 0 && !w->b.bad) {
		die = bytes_offset(&w->b);
		uint64_t code = dwarf_uleb(&w->b);
		if (code == 0) {
			if (!close_die(w))
				return 0;
			continue;
		}
		const struct abbrev *entry = abbrev_find(w->unit->abbrevs, code);
		if (entry == NULL)
			return die;
		if (entry->tag == DW_TAG_subprogram) {
			w->depth += read_function(w, entry, die) ? 1 : 0;
			continue;
		}
		bool may_skip = is_codeless(entry->tag) || (w->skips_types && w->function_depth == NO_DEPTH && is_type(entry->tag));
		if (entry->has_children && may_skip && dwarf_skip_to_sibling(w->unit, entry, &w->b))
			continue;
		dwarf_skip_attributes(w->unit, entry, &w->b);
		w->depth += entry->has_children;
	}
	return w->b.bad ? die : 0;
}

static void walk_unit(struct dwarf_unit *unit, struct span_table *spans, struct span_table *nested)
{
	struct walk w = { .unit = unit, .out = unit->functions, .b = dwarf_unit_bytes(unit, unit->first_die), .spans = spans, .nested = nested,
	                  .function_depth = NO_DEPTH, .outer = SPAN_NONE, .skips_types = is_c_family(unit->language) };
	uint64_t bad_at = walk_dies(&w);
	if (bad_at != 0)
		dwarf_fault(unit->dwarf, DWARF_INFO, bad_at, "an entry by the abbreviations at %#llx, inside its unit", (unsigned long long)unit->abbrev_offset);
}

static const struct dwarf_functions *functions_of(struct dwarf_unit *unit)
{
	if (unit->functions == NULL) {
		struct dwarf_functions *out = unit->functions = NEW(struct dwarf_functions);
		out->has_nested = !dwarf_unit_root(unit) || !unit->abbrevs->has_siblings; // all that is inside functions is passed anyway
		if (!unit->is_bad)
			walk_unit(unit, &out->spans, out->has_nested ? &out->nested : NULL);
		span_finish(&out->spans);
		if (out->has_nested)
			span_finish(&out->nested);
	}
	return unit->functions;
}

struct dwarf_function *dwarf_function_find(struct dwarf_unit *unit, uint64_t vaddr)
{
	uint32_t found = span_find(&functions_of(unit)->spans, vaddr);
	if (found == SPAN_NONE) {
		if (!unit->functions->has_nested) {
			unit->functions->has_nested = true;
			walk_unit(unit, NULL, &unit->functions->nested);
			span_finish(&unit->functions->nested);
		}
		found = span_find(&unit->functions->nested, vaddr);
	}
	return found != SPAN_NONE ? &unit->functions->all.data[found] : NULL;
}

// ---------------------------------------------------------------- inlines

static void read_inlines(struct walk *w, struct bytes b, struct dwarf_inlines *out)
{
	VEC(uint32_t) open = { 0 }; // the function inlined that each open DIE is or is in, or SPAN_NONE
	uint32_t now = SPAN_NONE;
	size_t from = bytes_offset(&b);
	while (bytes_left(&b) > 0 && !b.bad && out->all.count < INLINES_LIMIT) {
		uint64_t die = bytes_offset(&b), code = dwarf_uleb(&b);
		if (code == 0) {
			if (open.count <= 1)
				break;
			now = open.data[--open.count - 1];
			continue;
		}
		const struct abbrev *entry = abbrev_find(w->unit->abbrevs, code);
		if (entry == NULL)
			break;
		uint32_t in = now;
		if (entry->tag == DW_TAG_inlined_subroutine) {
			struct code range = read_code(w->unit, entry, &b);
			struct adding adding = { .table = &out->spans, .value = (uint32_t)out->all.count };
			if (b.bad)
				break;
			vec_push(&out->all, (struct dwarf_inlined){ .parent = now, .die = (uint32_t)(die - w->unit->offset),
			                                            .call_file = range.call_file, .call_line = range.call_line });
			add_code(w->unit, &range, &adding);
			in = adding.value;
		} else if (entry->has_children && open.count > 0 && (is_codeless(entry->tag) || is_type(entry->tag) || entry->tag == DW_TAG_subprogram)) {
			if (!dwarf_skip_to_sibling(w->unit, entry, &b)) { // what is inside functions in it is theirs
				dwarf_skip_attributes(w->unit, entry, &b);
				skip_children(w->unit, &b);
			}
			continue;
		} else {
			dwarf_skip_attributes(w->unit, entry, &b);
		}
		if (entry->has_children) {
			vec_push(&open, in);
			now = in;
		} else if (open.count == 0) {
			break;
		}
	}
	w->out->bytes_read += bytes_offset(&b) - from;
	vec_release(&open);
}

struct dwarf_inlines *dwarf_function_inlines(struct dwarf_unit *unit, struct dwarf_function *function)
{
	if (function->inlines == NULL) {
		struct walk w = { .unit = unit, .out = unit->functions };
		struct bytes b = dwarf_unit_bytes(unit, unit->offset + function->die);
		function->inlines = NEW(struct dwarf_inlines);
		b.end = b.start + unit->offset + function->end;
		// Functions may stand inside each other, but not to make work without end.
		if (w.out->bytes_read / REREAD_LIMIT <= unit->end - unit->offset)
			read_inlines(&w, b, function->inlines);
		span_finish(&function->inlines->spans);
	}
	return function->inlines;
}

void dwarf_functions_free(struct dwarf_functions *functions)
{
	if (functions == NULL)
		return;
	for (size_t i = 0; i < functions->all.count; i++) {
		struct dwarf_inlines *inlines = functions->all.data[i].inlines;
		if (inlines == NULL)
			continue;
		vec_release(&inlines->all);
		span_release(&inlines->spans);
		free(inlines);
	}
	vec_release(&functions->all);
	span_release(&functions->spans);
	span_release(&functions->nested);
	free(functions);
}
