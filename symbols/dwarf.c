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
	for (size_t i = 0; i < dwarf->abbrevs.count; i++) {
		abbrev_table_release(dwarf->abbrevs.data[i]);
		free(dwarf->abbrevs.data[i]);
	}
	abbrev_table_release(&dwarf->abbrevs_read);
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

// By its origin, which is that of others inlined elsewhere, where that is in the unit.
static void name_inlined(struct dwarf_unit *dies, struct dwarf_inlined *inlined, struct symbol_source *out)
{
	uint32_t die = inlined->origin != 0 ? inlined->origin : inlined->die;
	struct dwarf_named *recent = &dies->dwarf->recent[hash_u64(die) % (sizeof(dies->dwarf->recent) / sizeof(dies->dwarf->recent[0]))];
	if (!inlined->is_named) {
		if (recent->unit != dies || recent->die != die) {
			dwarf_name(dies, dies->offset + die, out);
			*recent = (struct dwarf_named){ .unit = dies, .die = die, .linkage_name = out->linkage_name, .name = out->name };
		}
		inlined->linkage_name = recent->linkage_name;
		inlined->name = recent->name;
		inlined->is_named = true;
	}
	out->linkage_name = inlined->linkage_name;
	out->name = inlined->name;
}

struct place { // of an address
	struct dwarf_function *function; // NULL: none has it
	struct dwarf_inlined *inlined;   // those of the function or of the unit
	uint32_t innermost;              // of those, or SPAN_NONE
};

static struct place find_place(struct dwarf_unit *dies, uint64_t vaddr)
{
	struct place place = { .innermost = SPAN_NONE };
	const struct dwarf_answer *answer = dwarf_functions_answer(dies, vaddr);
	if (answer != NULL && answer->function != SPAN_NONE) {
		place.function = &dies->functions->met.data[answer->function];
		place.inlined = dies->functions->met_inlined.data;
		place.innermost = answer->inlined;
	} else if (answer == NULL && (place.function = dwarf_function_find(dies, vaddr)) != NULL) {
		struct dwarf_inlines *inlines = dwarf_function_inlines(dies, place.function);
		place.inlined = inlines->all.data;
		place.innermost = span_find(&inlines->spans, vaddr);
	}
	return place;
}

// The frames at an address, from the innermost outwards: each says its name, and where its caller called it.
static void add_frames(struct dwarf_unit *dies, struct dwarf_unit *lines, const struct place *place, struct symbol_chain *out)
{
	for (uint32_t i = place->innermost; i != SPAN_NONE; i = place->inlined[i].parent) {
		struct dwarf_inlined *inlined = &place->inlined[i];
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
		dwarf_name(dies, dies->offset + place->function->die, &out->frames[out->count - 1]);
	out->start = place->function->start;
}

bool dwarf_chain(struct dwarf *dwarf, uint64_t vaddr, struct symbol_chain *out)
{
	struct dwarf_unit *unit = dwarf_unit_for_address(dwarf, vaddr);
	out->count = 0;
	out->start = 0;
	if (unit == NULL || !dwarf_unit_root(unit))
		return false;
	struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
	struct place place = { .innermost = SPAN_NONE };
	if (dies != NULL)
		place = find_place(dies, vaddr);
	struct symbol_source *leaf = &out->frames[0];
	*leaf = (struct symbol_source){ 0 };
	uint32_t file;
	bool has_line = dwarf->with_lines && dwarf_line_find(unit, vaddr, &file, &leaf->line);
	if (has_line)
		leaf->file = dwarf_line_path(unit, file);
	out->count = place.function != NULL || has_line;
	if (place.function != NULL)
		add_frames(dies, unit, &place, out);
	return out->count > 0;
}
