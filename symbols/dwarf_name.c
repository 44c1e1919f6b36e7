// The name of a function's DIE: its own, or what its abstract origin (3.3.8.1) or specification (2.13.2) says, wherever that stands.
#include <dwarf.h>
#include <string.h>

#include "base/search.h"
#include "symbols/dwarf_internal.h"

enum { REFERENCES_LIMIT = 64, SCOPES_LIMIT = 1 << 20, QUALIFIED_LIMIT = 4096, SEARCHES_LIMIT = 16 };

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
	for (uint32_t i = 0; entry != NULL && i < entry->count && !b.bad && n->linkage == NULL; i++) {
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

static const char *scope_name(struct dwarf_unit *unit, struct dwarf_scope *scope)
{
	if (scope->name != NULL)
		return scope->name;
	struct bytes b = dwarf_unit_bytes(unit, unit->offset + scope->begin);
	const struct abbrev *entry = abbrev_find(unit->abbrevs, dwarf_uleb(&b));
	for (uint32_t i = 0; entry != NULL && i < entry->count && !b.bad; i++) {
		const struct abbrev_attr *attr = &unit->abbrevs->attrs.data[entry->first + i];
		struct dwarf_value v;
		form_read(unit, attr, &b, &v);
		if (attr->name == DW_AT_name && !b.bad)
			scope->name = value_string(unit, &v);
	}
	if (scope->name == NULL)
		scope->name = entry != NULL && entry->tag == DW_TAG_namespace ? "(anonymous namespace)" : "{unnamed type}";
	return scope->name;
}

// Adds the namespaces and types that are before `end` and not passed by `skips`, in the order of their DIEs. The innermost that is still open at
// `end`, or SPAN_NONE.
static uint32_t read_scopes(struct dwarf_unit *unit, uint64_t end, unsigned skips, struct dwarf_scopes *out)
{
	VEC(size_t) open = { 0 }; // how many DIEs are open around each open scope
	uint32_t current = SPAN_NONE;
	struct dwarf_pass p = { .unit = unit, .b = dwarf_unit_bytes(unit, unit->first_die), .depth = 1 };
	p.b.end = p.b.start + end;
	while (out->all.count < SCOPES_LIMIT) {
		if (dwarf_pass(&p, DIE_SCOPE | DIE_TYPE, skips)) {
			dwarf_skip_attributes(unit, p.entry, &p.b);
			vec_push(&open, p.depth);
			vec_push(&out->all, (struct dwarf_scope){ .begin = (uint32_t)(p.die - unit->offset), .end = UINT32_MAX, .parent = current });
			current = (uint32_t)out->all.count - 1;
			p.depth = 1;
		} else if (open.count > 0 && p.depth == 0) {
			p.depth = open.data[--open.count];
			out->all.data[current].end = (uint32_t)(bytes_offset(&p.b) - unit->offset);
			current = out->all.data[current].parent;
		} else {
			break;
		}
	}
	vec_release(&open);
	return current;
}

static struct dwarf_scope *scope_at(const struct dwarf_scopes *scopes, uint32_t index)
{
	return index != SPAN_NONE ? &scopes->all.data[index] : NULL;
}

static struct dwarf_scope *innermost(const struct dwarf_scopes *scopes, uint32_t die)
{
	const size_t next = first_not(0, scopes->all.count, i, scopes->all.data[i].begin <= die);
	struct dwarf_scope *scope = next > 0 ? &scopes->all.data[next - 1] : NULL;
	while (scope != NULL && scope->end <= die)
		scope = scope_at(scopes, scope->parent);
	return scope;
}

struct scope_names { // from the innermost outwards
	const char *names[REFERENCES_LIMIT];
	size_t depth;
};

// The scopes around a DIE: where siblings lead past all others, by way of those alone for the first few that are asked for.
static struct dwarf_scope *scope_of(struct dwarf_unit *unit, uint64_t die, struct dwarf_scopes *few)
{
	struct dwarf_scopes *all = &unit->scopes;
	if (!all->is_listed && all->searches++ < (unit->abbrevs->has_siblings ? SEARCHES_LIMIT : 0))
		return scope_at(few, read_scopes(unit, die, ANY_KIND, few));
	if (!all->is_listed)
		(void)read_scopes(unit, unit->end, DIE_CODELESS, all);
	all->is_listed = true;
	return innermost(all, (uint32_t)(die - unit->offset));
}

static const char *qualified(struct dwarf_ref ref, const char *name)
{
	struct dwarf_unit *unit = ref.unit;
	const char *names[REFERENCES_LIMIT]; // from the innermost outwards
	struct dwarf_scopes few = { 0 };
	size_t depth = 0, size = strlen(name) + 1;
	struct dwarf_scope *scope = scope_of(unit, ref.offset, &few);
	for (; scope != NULL && depth < REFERENCES_LIMIT; scope = scope_at(few.all.count > 0 ? &few : &unit->scopes, scope->parent)) {
		names[depth] = scope_name(unit, scope);
		size += strlen(names[depth++]) + 2;
	}
	vec_release(&few.all);
	if (depth == 0 || size > QUALIFIED_LIMIT)
		return name;
	char *text = arena_alloc(&unit->dwarf->arena, size), *at = text;
	while (depth > 0)
		at = stpcpy(stpcpy(at, names[--depth]), "::");
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
