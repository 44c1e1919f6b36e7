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
	uint32_t origin; // offset from the unit's start; 0: none, or in another unit
};

static void take_code(struct dwarf_unit *unit, uint16_t name, const struct dwarf_value *v, struct code *code)
{
	switch (name) {
	case DW_AT_low_pc: (void)value_address(unit, v, &code->low); break;
	case DW_AT_high_pc: code->high = *v; code->has_high = true; break;
	case DW_AT_ranges: code->ranges = *v; code->has_ranges = true; break;
	case DW_AT_call_file: code->call_file = (uint32_t)v->u; break;
	case DW_AT_call_line: code->call_line = (uint32_t)v->u; break;
	case DW_AT_abstract_origin: {
		struct dwarf_ref ref = v->form != DW_FORM_ref_addr && v->form != DW_FORM_GNU_ref_alt ? value_ref(unit, v) : (struct dwarf_ref){ 0 };
		code->origin = ref.unit == unit ? (uint32_t)(ref.offset - unit->offset) : 0;
		break;
	}
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
	struct dwarf_answer *answers; // instead of a table, where that is NULL
	size_t count;
	uint32_t value;
	uint64_t start; // lowest address of the first range
};

// The range that begins last holds, of two that begin together the shorter, of two equal ones the later: as in span.h.
static void answer_range(struct adding *a, uint64_t lo, uint64_t hi)
{
	size_t i = 0, end = a->count;
	while (i < end) {
		size_t middle = i + (end - i) / 2;
		if (a->answers[middle].addr < lo)
			i = middle + 1;
		else
			end = middle;
	}
	for (; i < a->count && a->answers[i].addr < hi; i++) {
		struct dwarf_answer *answer = &a->answers[i];
		if (answer->inlined != SPAN_NONE && (lo < answer->lo || (lo == answer->lo && hi > answer->hi)))
			continue;
		answer->lo = lo;
		answer->hi = hi;
		answer->inlined = a->value;
	}
}

static void add_range(void *context, uint64_t lo, uint64_t hi)
{
	struct adding *a = context;
	if (a->start == 0)
		a->start = lo;
	if (a->table != NULL)
		span_add(a->table, lo, hi, a->value);
	else
		answer_range(a, lo, hi);
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

struct inlines { // what reading a function's makes
	VEC(struct dwarf_inlined) all;
	VEC(uint32_t) open;         // the function inlined that each open DIE is or is in, or SPAN_NONE
	VEC(uint32_t) kept;         // of each of `all`: its place among those met, or SPAN_NONE
	struct adding adding;       // where their ranges go
};

static uint32_t add_inlined(struct dwarf_unit *unit, const struct abbrev *entry, uint32_t parent, uint64_t die, struct bytes *b, struct inlines *out)
{
	struct code range = read_code(unit, entry, b);
	if (b->bad)
		return SPAN_NONE;
	out->adding.value = (uint32_t)out->all.count;
	vec_push(&out->all, (struct dwarf_inlined){ .parent = parent, .die = (uint32_t)(die - unit->offset), .call_file = range.call_file,
	                                            .call_line = range.call_line, .origin = entry->has_name ? 0 : range.origin });
	add_code(unit, &range, &out->adding);
	return out->adding.value;
}

// The bytes read.
static uint64_t read_inlines(struct dwarf_unit *unit, const struct dwarf_function *function, struct inlines *out)
{
	uint32_t now = SPAN_NONE;
	struct bytes b = dwarf_unit_bytes(unit, unit->offset + function->die);
	b.end = b.start + unit->offset + function->end;
	vec_clear(&out->all);
	vec_clear(&out->open);
	size_t from = bytes_offset(&b);
	while (bytes_left(&b) > 0 && !b.bad && out->all.count < INLINES_LIMIT) {
		uint64_t die = bytes_offset(&b), code = dwarf_uleb(&b);
		if (code == 0) {
			if (out->open.count <= 1)
				break;
			now = out->open.data[--out->open.count - 1];
			continue;
		}
		const struct abbrev *entry = abbrev_find(unit->abbrevs, code);
		if (entry == NULL)
			break;
		uint32_t in = now;
		if (entry->tag == DW_TAG_inlined_subroutine) {
			in = add_inlined(unit, entry, now, die, &b, out);
		} else if (entry->has_children && out->open.count > 0 &&
		           (is_codeless(entry->tag) || is_type(entry->tag) || entry->tag == DW_TAG_subprogram)) {
			if (!dwarf_skip_to_sibling(unit, entry, &b)) { // what is inside functions in it is theirs
				dwarf_skip_attributes(unit, entry, &b);
				skip_children(unit, &b);
			}
			continue;
		} else {
			dwarf_skip_attributes(unit, entry, &b);
		}
		if (entry->has_children) {
			vec_push(&out->open, in);
			now = in;
		} else if (out->open.count == 0) {
			break;
		}
	}
	return bytes_offset(&b) - from;
}

static void inlines_release(struct inlines *inlines)
{
	vec_release(&inlines->all);
	vec_release(&inlines->open);
	vec_release(&inlines->kept);
}

struct dwarf_inlines *dwarf_function_inlines(struct dwarf_unit *unit, struct dwarf_function *function)
{
	if (function->inlines == NULL) {
		struct dwarf_inlines *out = function->inlines = NEW(struct dwarf_inlines);
		struct inlines read = { .adding = { .table = &out->spans } };
		// Functions may stand inside each other, but not to make work without end.
		if (unit->functions->bytes_read / REREAD_LIMIT <= unit->end - unit->offset)
			unit->functions->bytes_read += read_inlines(unit, function, &read);
		out->all.data = read.all.data;
		out->all.count = read.all.count;
		out->all.capacity = read.all.capacity;
		read.all.data = NULL;
		inlines_release(&read);
		span_finish(&out->spans);
	}
	return function->inlines;
}

// ---------------------------------------------------------------- addresses known beforehand

// The function inlined and those it is inlined into, moved from `from->all` to those met.
static uint32_t keep(struct dwarf_functions *out, struct inlines *from, uint32_t inlined)
{
	uint32_t inside = SPAN_NONE; // whose parent is not known yet
	bool is_kept = false;
	for (uint32_t i = inlined; i != SPAN_NONE && !is_kept; i = from->all.data[i].parent) {
		is_kept = from->kept.data[i] != SPAN_NONE;
		if (!is_kept) {
			from->kept.data[i] = (uint32_t)out->met.count;
			vec_push(&out->met, from->all.data[i]);
		}
		if (inside != SPAN_NONE)
			out->met.data[inside].parent = from->kept.data[i];
		inside = from->kept.data[i];
	}
	return inlined != SPAN_NONE ? from->kept.data[inlined] : SPAN_NONE;
}

static void answer_inlines(struct dwarf_functions *out, struct inlines *from)
{
	bool is_any = false;
	for (size_t i = 0; i < from->adding.count; i++)
		is_any |= from->adding.answers[i].inlined != SPAN_NONE;
	if (!is_any)
		return;
	vec_clear(&from->kept);
	vec_reserve(&from->kept, from->all.count);
	memset(from->kept.data, 0xff, from->all.count * sizeof(from->kept.data[0]));
	for (size_t i = 0; i < from->adding.count; i++) {
		struct dwarf_answer *answer = &from->adding.answers[i];
		answer->inlined = keep(out, from, answer->inlined);
	}
}

void dwarf_functions_ask(struct dwarf_unit *unit, const uint64_t *vaddrs, size_t count)
{
	const struct dwarf_functions *functions = functions_of(unit);
	struct dwarf_functions *out = unit->functions;
	struct inlines read = { 0 };
	uint64_t bytes_read = 0;
	size_t hint = 0;
	if (out->answers.count > 0)
		return;
	vec_reserve(&out->answers, count);
	for (size_t i = 0; i < count; i++) {
		struct dwarf_answer answer = { .addr = vaddrs[i], .inlined = SPAN_NONE };
		answer.function = span_find_next(&functions->spans, vaddrs[i], &hint);
		if (answer.function == SPAN_NONE) {
			const struct dwarf_function *nested = dwarf_function_find(unit, vaddrs[i]);
			answer.function = nested != NULL ? (uint32_t)(nested - out->all.data) : SPAN_NONE;
		}
		vec_push(&out->answers, answer);
	}
	size_t to;
	for (size_t from = 0; from < out->answers.count; from = to) {
		uint32_t function = out->answers.data[from].function;
		for (to = from + 1; to < out->answers.count && out->answers.data[to].function == function;)
			to++;
		if (function == SPAN_NONE)
			continue;
		if (bytes_read / REREAD_LIMIT > unit->end - unit->offset) { // as above: from here on by tables
			out->answers.count = from;
			break;
		}
		read.adding = (struct adding){ .answers = &out->answers.data[from], .count = to - from };
		bytes_read += read_inlines(unit, &out->all.data[function], &read);
		answer_inlines(out, &read);
	}
	inlines_release(&read);
}

const struct dwarf_answer *dwarf_functions_answer(struct dwarf_unit *unit, uint64_t vaddr)
{
	struct dwarf_functions *functions = unit->functions;
	if (functions == NULL)
		return NULL;
	size_t lo = 0, hi = functions->answers.count;
	if (functions->next_answer < hi && functions->answers.data[functions->next_answer].addr == vaddr)
		return &functions->answers.data[functions->next_answer++];
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		if (functions->answers.data[middle].addr < vaddr)
			lo = middle + 1;
		else
			hi = middle;
	}
	if (lo >= functions->answers.count || functions->answers.data[lo].addr != vaddr)
		return NULL;
	functions->next_answer = lo + 1;
	return &functions->answers.data[lo];
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
	vec_release(&functions->answers);
	vec_release(&functions->met);
	span_release(&functions->spans);
	span_release(&functions->nested);
	free(functions);
}
