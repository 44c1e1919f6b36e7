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
	hash_map_release(&dwarf->name_ids);
	vec_release(&dwarf->slots);
	vec_release(&dwarf->unit_offsets);
	vec_release(&dwarf->abbrevs);
	vec_release(&dwarf->names);
	vec_release(&dwarf->splits);
	vec_release(&dwarf->package);
	arena_release(&dwarf->arena);
	image_release(dwarf->image);
	free(dwarf);
}

// The frames from `node` outwards: each says its name, and where its caller called it.
static void add_frames(struct dwarf_unit *dies, struct dwarf_unit *lines, uint32_t index, struct symbol_chain *out)
{
	const struct dwarf_functions *functions = dies->functions;
	while (index != SPAN_NONE) {
		const struct dwarf_node *node = &functions->nodes.data[index];
		struct symbol_source *frame = &out->frames[out->count - 1];
		dwarf_name(dies, dies->offset + node->die, frame);
		out->start = node->start;
		if (!node->is_inlined || node->parent == SPAN_NONE)
			return;
		index = node->parent;
		if (out->count < SYMBOL_CHAIN_LIMIT) // deeper than that, the outermost frames stand for what is between
			out->count++;
		struct symbol_source *caller = &out->frames[out->count - 1];
		*caller = (struct symbol_source){ 0 };
		if (dies->dwarf->with_lines || lines->dwarf->with_lines) {
			caller->file = dwarf_line_path(lines, node->call_file);
			caller->line = node->call_line;
		}
	}
}

bool dwarf_chain(struct dwarf *dwarf, uint64_t vaddr, struct symbol_chain *out)
{
	struct dwarf_unit *unit = dwarf_unit_for_address(dwarf, vaddr);
	out->count = 0;
	out->start = 0;
	if (unit == NULL || !dwarf_unit_root(unit))
		return false;
	struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
	uint32_t node = dies != NULL ? span_find(&dwarf_unit_functions(dies)->spans, vaddr) : SPAN_NONE;
	struct symbol_source *leaf = &out->frames[0];
	*leaf = (struct symbol_source){ 0 };
	uint32_t file;
	bool has_line = dwarf->with_lines && dwarf_line_find(dwarf_unit_lines(unit), vaddr, &file, &leaf->line);
	if (has_line)
		leaf->file = dwarf_line_path(unit, file);
	out->count = node != SPAN_NONE || has_line;
	if (node != SPAN_NONE)
		add_frames(dies, unit, node, out);
	return out->count > 0;
}
