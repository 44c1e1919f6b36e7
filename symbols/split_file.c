#include "symbols/split_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/damage.h"
#include "symbols/dwarf_internal.h"

// Takes the path over. What stands where DWARF should be was some.
static struct image *open_at(char *path, const struct image *concerns, struct damages *damages)
{
	struct image *image;
	struct err err = { 0 };
	if (image_open_path(&image, path, &err))
		damages_note_image(damages, image, concerns->path);
	else
		damages_note_unopened(damages, path, concerns->path, true, &err);
	free(path);
	return image;
}

static const char *below(const char *name)
{
	while (name[0] == '/')
		name++;
	return name;
}

struct image *split_file_find(const struct symbolizer_options *options, const struct image *image, const char *comp_dir, const char *name)
{
	const char *symfs = options->symfs != NULL ? options->symfs : "";
	bool is_alone = name[0] == '/' || comp_dir == NULL;
	struct image *found = open_at(is_alone ? mem_printf("%s%s", symfs, name) : mem_printf("%s%s/%s", symfs, comp_dir, name), image, options->damages);
	const char *slash = strrchr(image->path, '/'), *base = strrchr(name, '/');
	int folder = slash != NULL ? (int)(slash - image->path) + 1 : 0;
	if (found == NULL)
		found = open_at(mem_printf("%.*s%s", folder, image->path, below(name)), image, options->damages);
	if (found == NULL && base != NULL)
		found = open_at(mem_printf("%.*s%s", folder, image->path, base + 1), image, options->damages);
	return found;
}

struct image *split_file_package(const struct symbolizer_options *options, const struct image *image, const struct image *debug)
{
	struct image *found = open_at(mem_printf("%s.dwp", image->path), image, options->damages);
	return found == NULL && debug != NULL ? open_at(mem_printf("%s.dwp", debug->path), image, options->damages) : found;
}

bool split_files_each(const struct symbolizer_options *options, struct image *image, struct image *debug, split_file_visit *visit, void *context,
                      size_t *lost)
{
	struct dwarf_files none = { 0 };
	struct dwarf *dwarf = debug != NULL ? dwarf_new(debug, &none, false) : NULL;
	bool good = true;
	if (dwarf == NULL)
		dwarf = dwarf_new(image, &none, false);
	*lost = 0;
	if (dwarf == NULL)
		return true;
	struct image *package = split_file_package(options, image, debug);
	if (package != NULL)
		good = visit(context, NULL, package);
	else
		dwarf_walk_units(dwarf, UINT64_MAX);
	for (size_t i = 0; good && i < dwarf->slots.count; i++) {
		struct dwarf_unit *unit = dwarf_unit_at(dwarf, dwarf->slots.data[i].offset);
		if (unit == NULL || !dwarf_unit_root(unit) || unit->dwo_name == NULL || unit->dwo_name[0] == '\0')
			continue;
		struct image *file = split_file_find(options, image, unit->comp_dir, unit->dwo_name);
		*lost += file == NULL;
		good = file == NULL || visit(context, below(unit->dwo_name), file);
		image_release(file);
	}
	image_release(package);
	dwarf_free(dwarf);
	return good;
}
