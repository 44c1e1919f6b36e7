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

static struct dwarf *open_split(struct dwarf *dwarf, const char *comp_dir, const char *name)
{
	struct image *image = dwarf->files.split != NULL ? dwarf->files.split(dwarf->files.context, comp_dir, name) : NULL;
	if (image == NULL)
		return NULL;
	struct dwarf_files none = { .damages = dwarf->files.damages };
	struct dwarf *split = dwarf_new(image, &none, dwarf->with_lines);
	image_release(image);
	if (split != NULL)
		vec_push(&dwarf->splits, split);
	return split;
}

// One package has the split units of a whole program.
static struct dwarf *package_of(struct dwarf *dwarf)
{
	if (!dwarf->is_package_tried) {
		dwarf->is_package_tried = true;
		dwarf->from_package = open_split(dwarf, NULL, NULL);
	}
	return dwarf->from_package;
}

struct dwarf_unit *dwarf_unit_split(struct dwarf_unit *skeleton)
{
	struct dwarf *dwarf = skeleton->dwarf;
	if (skeleton->is_split_tried)
		return skeleton->split;
	skeleton->is_split_tried = true;
	struct dwarf *package = package_of(dwarf);
	if (package != NULL)
		skeleton->split = dwarf_package_unit(package, skeleton->dwo_id);
	if (skeleton->split == NULL) {
		struct dwarf *split = open_split(dwarf, skeleton->comp_dir, skeleton->dwo_name);
		skeleton->split = split != NULL ? find_unit(split, skeleton->dwo_id) : NULL;
	}
	if (skeleton->split != NULL)
		skeleton->split->skeleton = skeleton;
	return skeleton->split;
}
