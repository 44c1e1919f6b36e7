#include "symbols/dwarf_internal.h"

#include <stdlib.h>

struct dwarf *dwarf_new(struct image *image, const struct dwarf_files *files, bool with_lines)
{
	bool is_split = image_find_section(image, ".debug_info.dwo") != NULL;
	const struct image_section *info = image_find_section(image, is_split ? ".debug_info.dwo" : ".debug_info");
	if (info == NULL)
		info = image_find_section(image, ".zdebug_info");
	struct bytes raw;
	if (info == NULL || !image_section_raw(image, info, &raw)) // absent, or of no bytes in the file
		return NULL;
	struct dwarf *dwarf = NEW(struct dwarf);
	dwarf->image = image_retain(image);
	dwarf->files = *files;
	dwarf->with_lines = with_lines;
	dwarf->is_split = is_split;
	if (is_split)
		dwarf_package_read(dwarf);
	return dwarf;
}

void dwarf_free(struct dwarf *dwarf)
{
	if (dwarf == NULL)
		return;
	for (size_t i = 0; i < dwarf->slots.count; i++)
		dwarf_unit_free(dwarf->slots.data[i].unit);
	for (size_t i = 0; i < dwarf->abbrevs.count; i++)
		abbrev_table_free(dwarf->abbrevs.data[i]);
	for (size_t i = 0; i < dwarf->splits.count; i++)
		dwarf_free(dwarf->splits.data[i]);
	dwarf_free(dwarf->alt);
	dwarf_sections_release(dwarf);
	span_release(&dwarf->by_addr);
	hash_map_release(&dwarf->abbrev_ids);
	hash_map_release(&dwarf->qualified_ids);
	vec_release(&dwarf->slots);
	vec_release(&dwarf->unit_offsets);
	vec_release(&dwarf->abbrevs);
	vec_release(&dwarf->qualified);
	vec_release(&dwarf->splits);
	vec_release(&dwarf->package);
	arena_release(&dwarf->arena);
	image_release(dwarf->image);
	free(dwarf);
}

static void name_inlined(struct dwarf_unit *dies, struct dwarf_inlined *inlined, struct symbol_source *out)
{
	if (!inlined->is_named) {
		dwarf_name(dies, dies->offset + inlined->die, out);
		inlined->linkage_name = out->linkage_name;
		inlined->name = out->name;
		inlined->is_named = true;
	}
	out->linkage_name = inlined->linkage_name;
	out->name = inlined->name;
}

// The frames at an address of `function`, from the innermost outwards: each says its name, and where its caller called it.
static void add_frames(struct dwarf_unit *dies, struct dwarf_unit *lines, struct dwarf_function *function, uint64_t vaddr, struct symbol_chain *out)
{
	struct dwarf_inlines *inlines = dwarf_function_inlines(dies, function);
	for (uint32_t i = span_find(&inlines->spans, vaddr); i != SPAN_NONE; i = inlines->all.data[i].parent) {
		struct dwarf_inlined *inlined = &inlines->all.data[i];
		name_inlined(dies, inlined, &out->frames[out->count - 1]);
		if (out->count < SYMBOL_CHAIN_LIMIT) // deeper than that, the outermost frames stand for what is between
			out->count++;
		struct symbol_source *caller = &out->frames[out->count - 1];
		*caller = (struct symbol_source){ 0 };
		if (dies->dwarf->with_lines || lines->dwarf->with_lines) {
			caller->file = dwarf_line_path(lines, inlined->call_file);
			caller->line = inlined->call_line;
		}
	}
	if (!out->is_named)
		dwarf_name(dies, dies->offset + function->die, &out->frames[out->count - 1]);
	out->start = function->start;
}

bool dwarf_chain(struct dwarf *dwarf, uint64_t vaddr, struct symbol_chain *out)
{
	struct dwarf_unit *unit = dwarf_unit_for_address(dwarf, vaddr);
	out->count = 0;
	out->start = 0;
	if (unit == NULL || !dwarf_unit_root(unit))
		return false;
	struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
	struct dwarf_function *function = dies != NULL ? dwarf_function_find(dies, vaddr) : NULL;
	struct symbol_source *leaf = &out->frames[0];
	*leaf = (struct symbol_source){ 0 };
	uint32_t file;
	bool has_line = dwarf->with_lines && dwarf_line_find(dwarf_unit_lines(unit), vaddr, &file, &leaf->line);
	if (has_line)
		leaf->file = dwarf_line_path(unit, file);
	out->count = function != NULL || has_line;
	if (function != NULL)
		add_frames(dies, unit, function, vaddr, out);
	return out->count > 0;
}
