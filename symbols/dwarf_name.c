// The name of a function's DIE: its own, or what its abstract origin (3.3.8.1) or specification (2.13.2) says, wherever that stands.
#include <dwarf.h>
#include <string.h>

#include "symbols/dwarf_internal.h"

enum { REFERENCES_LIMIT = 64, SCOPES_LIMIT = 1 << 20, QUALIFIED_LIMIT = 4096, REREAD_LIMIT = 8 };

struct naming {
	const char *linkage, *name;
	struct dwarf_ref next, named; // where to look further; whose `name` it is
};

static void read_die(struct dwarf_ref ref, struct naming *n)
{
	struct dwarf_unit *unit = ref.unit;
	n->next.unit = NULL;
	if (!dwarf_unit_root(unit))
		return;
	struct bytes b = dwarf_unit_bytes(unit, ref.offset);
	const struct abbrev *entry = abbrev_find(unit->abbrevs, dwarf_uleb(&b));
	for (uint32_t i = 0; entry != NULL && i < entry->count && !b.bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		switch (attr->name) {
		case DW_AT_linkage_name: case DW_AT_MIPS_linkage_name:
			form_read(unit, attr, &b, &v);
			if (n->linkage == NULL && !b.bad)
				n->linkage = value_string(unit, &v);
			break;
		case DW_AT_name:
			form_read(unit, attr, &b, &v);
			if (n->name == NULL && !b.bad) {
				n->name = value_string(unit, &v);
				n->named = ref;
			}
			break;
		case DW_AT_abstract_origin: case DW_AT_specification:
			form_read(unit, attr, &b, &v);
			if (!b.bad)
				n->next = value_ref(unit, &v);
			break;
		default: form_skip(unit, attr, &b);
		}
	}
}

// ---------------------------------------------------------------- qualified names

static bool has_namespaces(uint16_t language)
{
	switch (language) {
	case DW_LANG_C_plus_plus: case DW_LANG_C_plus_plus_03: case DW_LANG_C_plus_plus_11: case DW_LANG_C_plus_plus_14: case DW_LANG_Rust:
	case 0x2b: case 0x2c: return true; // C++17, C++20
	default: return false;
	}
}

static bool is_scope(uint16_t tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_class_type || tag == DW_TAG_structure_type || tag == DW_TAG_union_type ||
		tag == DW_TAG_interface_type;
}

static const char *scope_name(struct dwarf_unit *unit, const struct abbrev *entry, struct bytes *b)
{
	const char *name = NULL;
	for (uint32_t i = 0; i < entry->count && !b->bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		form_read(unit, attr, b, &v);
		if (attr->name == DW_AT_name && !b->bad)
			name = value_string(unit, &v);
	}
	return name != NULL ? name : entry->tag == DW_TAG_namespace ? "(anonymous namespace)" : "{unnamed type}";
}

// Lists the namespaces and types there, in the order of their DIEs; with `passes_bodies` functions stand for what is inside them.
static void list_scopes(struct dwarf_unit *unit, struct bytes b, bool passes_bodies, struct dwarf_scopes *out)
{
	VEC(uint32_t) open = { 0 }; // scope that each open DIE is, or SPAN_NONE
	uint32_t current = SPAN_NONE;
	out->is_listed = true;
	while (bytes_left(&b) > 0 && !b.bad && out->all.count < SCOPES_LIMIT) {
		uint64_t die = bytes_offset(&b), code = dwarf_uleb(&b);
		if (code == 0) {
			if (open.count == 0)
				break;
			uint32_t closed = open.data[--open.count];
			if (closed < out->all.count) { // not SPAN_NONE
				out->all.data[closed].end = (uint32_t)(bytes_offset(&b) - unit->offset);
				current = out->all.data[closed].parent;
			}
			continue;
		}
		const struct abbrev *entry = abbrev_find(unit->abbrevs, code);
		if (entry == NULL)
			break;
		struct dwarf_scope scope = { .begin = (uint32_t)(die - unit->offset), .end = UINT32_MAX, .parent = current };
		uint32_t opened = SPAN_NONE;
		if (passes_bodies && entry->tag == DW_TAG_subprogram && entry->has_children && dwarf_skip_to_sibling(unit, entry, &b)) {
			scope.end = (uint32_t)(bytes_offset(&b) - unit->offset);
			vec_push(&out->all, scope);
			continue;
		}
		if (is_scope(entry->tag) && entry->has_children) {
			scope.name = scope_name(unit, entry, &b);
			current = opened = (uint32_t)out->all.count;
			vec_push(&out->all, scope);
		} else {
			dwarf_skip_attributes(unit, entry, &b);
		}
		if (entry->has_children)
			vec_push(&open, opened);
	}
	vec_release(&open);
}

static const struct dwarf_scope *scope_at(const struct dwarf_scopes *scopes, uint32_t index)
{
	return index != SPAN_NONE ? &scopes->all.data[index] : NULL;
}

static const struct dwarf_scope *innermost(const struct dwarf_scopes *scopes, uint32_t die)
{
	size_t lo = 0, hi = scopes->all.count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		if (scopes->all.data[middle].begin <= die)
			lo = middle + 1;
		else
			hi = middle;
	}
	const struct dwarf_scope *scope = lo > 0 ? &scopes->all.data[lo - 1] : NULL;
	while (scope != NULL && scope->end <= die)
		scope = scope_at(scopes, scope->parent);
	return scope;
}

struct scope_names { // from the innermost outwards
	const char *names[REFERENCES_LIMIT];
	size_t depth;
};

static void add_names(struct dwarf_unit *unit, const struct dwarf_scopes *scopes, uint32_t die, struct scope_names *out)
{
	const struct dwarf_scope *scope = innermost(scopes, die);
	if (scope != NULL && scope->name == NULL) { // types inside a function
		struct dwarf_scopes inside = { 0 };
		struct bytes b = dwarf_unit_bytes(unit, unit->offset + scope->begin);
		b.end = b.start + unit->offset + scope->end;
		unit->scopes.bytes_read += bytes_left(&b);
		if (scope->begin < die) {
			list_scopes(unit, b, false, &inside);
			add_names(unit, &inside, die, out);
			vec_release(&inside.all);
		}
		scope = scope_at(scopes, scope->parent);
	}
	for (; scope != NULL && out->depth < REFERENCES_LIMIT; scope = scope_at(scopes, scope->parent))
		out->names[out->depth++] = scope->name;
}

static const char *qualified(struct dwarf_ref ref, const char *name)
{
	struct dwarf_unit *unit = ref.unit;
	struct dwarf_scopes *scopes = &unit->scopes;
	struct scope_names found;
	found.depth = 0;
	// Bodies may be read again and again, but not to make work without end.
	bool is_often = scopes->bytes_read / REREAD_LIMIT > unit->end - unit->offset;
	if (is_often) {
		vec_clear(&scopes->all);
		scopes->bytes_read = 0;
	}
	if (!scopes->is_listed || is_often)
		list_scopes(unit, dwarf_unit_bytes(unit, unit->first_die), !is_often, scopes);
	add_names(unit, scopes, (uint32_t)(ref.offset - unit->offset), &found);
	size_t size = strlen(name) + 1;
	for (size_t i = 0; i < found.depth; i++)
		size += strlen(found.names[i]) + 2;
	if (found.depth == 0 || size > QUALIFIED_LIMIT)
		return name;
	char *text = arena_alloc(&unit->dwarf->arena, size), *at = text;
	while (found.depth > 0)
		at = stpcpy(stpcpy(at, found.names[--found.depth]), "::");
	strcpy(at, name);
	return text;
}

static const char *qualified_once(struct dwarf_ref ref, const char *name)
{
	struct dwarf *dwarf = ref.unit->dwarf;
	bool is_new;
	uint32_t index = *hash_map_put(&dwarf->qualified_ids, ref.offset, (uint32_t)dwarf->qualified.count, &is_new);
	if (is_new)
		vec_push(&dwarf->qualified, qualified(ref, name));
	return dwarf->qualified.data[index];
}

void dwarf_name(struct dwarf_unit *unit, uint64_t die, struct symbol_source *out)
{
	struct naming n = { .next = { .unit = unit, .offset = die } };
	for (int i = 0; i < REFERENCES_LIMIT && n.next.unit != NULL && n.linkage == NULL; i++)
		read_die(n.next, &n);
	if (n.linkage == NULL && n.name != NULL && has_namespaces(unit->language))
		n.name = qualified_once(n.named, n.name);
	out->linkage_name = n.linkage;
	out->name = n.name;
}
