// Which function, and which function inlined into it, has which addresses (3.3), for any address: a first pass over a unit's DIEs lists its
// functions. What is inside one is read when an address of it is asked for: most of a unit's DIEs are inside functions, and most functions are
// never met. Addresses known beforehand are answered without such lists (dwarf_ask.c).
#include <stdlib.h>

#include "symbols/dwarf_internal.h"

enum { REREAD_LIMIT = 16 }; // how many times a unit's size is read for what is inside functions

static bool list_function(struct dwarf_walk *w, bool is_nested)
{
	struct dwarf_functions *out = w->context;
	struct span_table *table = is_nested ? &out->nested : &out->spans;
	const struct dwarf_range_list *ranges = &w->extent.ranges;
	for (size_t i = 0; i < ranges->count; i++)
		span_add(table, ranges->data[i].lo, ranges->data[i].hi, (uint32_t)out->all.count);
	struct dwarf_function function = { .die = (uint32_t)(w->pass.die - w->unit->offset) };
	if (ranges->count > 0)
		function.start = ranges->data[0].lo;
	vec_push(&out->all, function);
	return false;
}

static void list_functions(struct dwarf_unit *unit, bool outer, bool nested)
{
	struct dwarf_functions *out = unit->functions;
	struct dwarf_walk w = { .unit = unit, .wants_outer = outer, .wants_nested = nested, .function = list_function, .context = out };
	if (dwarf_unit_root(unit))
		dwarf_walk_functions(&w);
	dwarf_walk_release(&w);
	if (outer)
		span_finish(&out->spans);
	if (nested)
		span_finish(&out->nested);
	out->is_listed |= outer;
	out->has_nested |= nested;
}

struct dwarf_function *dwarf_function_find(struct dwarf_unit *unit, uint64_t vaddr)
{
	if (unit->functions == NULL)
		unit->functions = NEW(struct dwarf_functions);
	struct dwarf_functions *functions = unit->functions;
	if (!functions->is_listed)
		list_functions(unit, true, !dwarf_unit_root(unit) || !unit->abbrevs->has_siblings); // what is inside functions is passed anyway
	uint32_t found = span_find(&functions->spans, vaddr);
	if (found == SPAN_NONE) {
		if (!functions->has_nested)
			list_functions(unit, false, true);
		found = span_find(&functions->nested, vaddr);
	}
	return found != SPAN_NONE ? &functions->all.data[found] : NULL;
}

static bool list_inlined(struct dwarf_walk *w, uint32_t index)
{
	struct dwarf_inlines *out = w->context;
	for (size_t i = 0; i < w->extent.ranges.count; i++)
		span_add(&out->spans, w->extent.ranges.data[i].lo, w->extent.ranges.data[i].hi, index);
	return true;
}

struct dwarf_inlines *dwarf_function_inlines(struct dwarf_unit *unit, struct dwarf_function *function)
{
	if (function->inlines == NULL) {
		struct dwarf_inlines *out = function->inlines = NEW(struct dwarf_inlines);
		struct dwarf_walk w = { .unit = unit, .inlined = list_inlined, .context = out };
		// Functions may stand inside each other, but not to make work without end.
		if (unit->functions->bytes_read / REREAD_LIMIT <= unit->end - unit->offset)
			unit->functions->bytes_read += dwarf_walk_inlined_at(&w, function->die, &out->all);
		dwarf_walk_release(&w);
		span_finish(&out->spans);
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
	vec_release(&functions->answers);
	vec_release(&functions->met);
	vec_release(&functions->met_inlined);
	span_release(&functions->spans);
	span_release(&functions->nested);
	free(functions);
}
