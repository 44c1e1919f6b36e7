// Split DWARF (7.3.2): the skeleton in the linked file names the .dwo file that holds its DIEs.
#include "symbols/dwarf_internal.h"

static struct dwarf_unit *find_unit(struct dwarf *split, uint64_t dwo_id)
{
	dwarf_walk_units(split, UINT64_MAX);
	for (size_t i = 0; i < split->slots.count; i++) {
		struct dwarf_unit *unit = dwarf_unit_at(split, split->slots.data[i].offset);
		// Before version 5 the id is an attribute of the root.
		if (unit != NULL && unit->skeleton == NULL && dwarf_unit_root(unit) && unit->dwo_id == dwo_id)
			return unit;
	}
	return NULL;
}

struct dwarf_unit *dwarf_unit_split(struct dwarf_unit *skeleton)
{
	struct dwarf *dwarf = skeleton->dwarf;
	if (skeleton->is_split_tried)
		return skeleton->split;
	skeleton->is_split_tried = true;
	bool is_package = false;
	struct image *image = dwarf->files.split == NULL ? NULL :
		dwarf->files.split(dwarf->files.context, skeleton->comp_dir, skeleton->dwo_name, &is_package);
	if (image == NULL)
		return NULL;
	struct dwarf_files none = { 0 };
	struct dwarf *split = dwarf_new(image, &none, dwarf->with_lines);
	image_release(image);
	if (split == NULL)
		return NULL;
	vec_push(&dwarf->splits, split);
	skeleton->split = find_unit(split, skeleton->dwo_id);
	if (skeleton->split != NULL)
		skeleton->split->skeleton = skeleton;
	return skeleton->split;
}
