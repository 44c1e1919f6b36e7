#include "symbols/module.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbols/damage.h"
#include "symbols/debug_file.h"

static bool is_wanted(const struct symbol_module *module, const struct image *image)
{
	return module->wanted.build_id.size == 0 || build_id_equal(&module->wanted.build_id, &image->build_id);
}

static bool take_if_wanted(struct symbol_module *module, struct image *image)
{
	if (image == NULL)
		return false;
	if (is_wanted(module, image)) {
		module->image = image;
		damages_note_image(module->options->damages, image, NULL);
		return true;
	}
	// A file too damaged to tell its build ID may well be the one that ran.
	bool is_damaged = image->build_id.size == 0 && image->damage != NULL;
	if (is_damaged)
		damages_note_image(module->options->damages, image, NULL);
	module->missing = is_damaged ? SYMBOL_BAD_FILE : SYMBOL_WRONG_BUILD_ID;
	image_release(image);
	return false;
}

struct image *symbol_module_fetch(const struct symbol_module *module, const struct build_id *id, enum debuginfod_kind kind)
{
	return module->asks_servers && module->options->use_host_files ? debuginfod_find(module->options->debuginfod, id, kind) : NULL;
}

static void open_file(struct symbol_module *module)
{
	const char *symfs = module->options->symfs != NULL ? module->options->symfs : "";
	char *path = mem_printf("%s%s", symfs, module->wanted.path);
	struct image *image = NULL;
	if (image_is_there(path)) {
		struct err err = { 0 };
		module->missing = SYMBOL_BAD_FILE;
		if (!image_open_path(&image, path, &err))
			damages_note_unopened(module->options->damages, path, module->wanted.path, module->wanted.build_id.size > 0, &err);
	}
	free(path);
	if (take_if_wanted(module, image))
		return;
	if (module->wanted.build_id.size > 0)
		module->image = debug_file_find_executable(module->options, &module->wanted.build_id);
	if (module->image == NULL)
		module->image = symbol_module_fetch(module, &module->wanted.build_id, DEBUGINFOD_EXECUTABLE);
}

// It has no file. The running kernel's, if it is not the one, is a wrong one.
static void open_vdso(struct symbol_module *module)
{
	if (module->wanted.build_id.size == 0)
		return;
	module->image = debug_file_find_vdso(module->options, &module->wanted.build_id);
	if (module->image == NULL)
		module->missing = SYMBOL_WRONG_BUILD_ID;
}

static bool has_debug_info(const struct image *image)
{
	const struct image_section *info = image_find_section(image, ".debug_info");
	if (info == NULL)
		info = image_find_section(image, ".zdebug_info");
	return info != NULL && info->type != 8; // SHT_NOBITS
}

static void open_debug(struct symbol_module *module)
{
	bool is_wrong = false;
	if (!module->options->use_host_files || has_debug_info(module->image))
		return;
	if (!module->wanted.is_debug_known)
		module->debug = debug_file_find(module->options, module->image, &is_wrong);
	else if (module->wanted.debug != NULL)
		module->debug = image_retain(module->wanted.debug);
	if (module->debug == NULL)
		module->debug = symbol_module_fetch(module, &module->image->build_id, DEBUGINFOD_DEBUG_FILE);
	// Debug files keep the program headers; a file prelinked since has other addresses than its debug file.
	if (module->debug != NULL && module->debug->segment_count > 0 && module->image->segment_count > 0)
		module->debug_bias = module->image->segments[0].vaddr - module->debug->segments[0].vaddr;
}

void symbol_module_open(struct symbol_module *module)
{
	if (module->is_open)
		return;
	module->is_open = true;
	if (module->wanted.kind != SYMBOL_IMAGE_FILE && module->wanted.kind != SYMBOL_IMAGE_VDSO)
		return; // their providers look for themselves
	module->missing = SYMBOL_NO_FILE;
	if (module->wanted.image != NULL)
		take_if_wanted(module, image_retain(module->wanted.image));
	else if (!module->options->use_host_files)
		return;
	else if (module->wanted.kind == SYMBOL_IMAGE_VDSO)
		open_vdso(module);
	else
		open_file(module);
	if (module->image != NULL) {
		module->missing = SYMBOL_NO_SYMBOLS;
		open_debug(module);
	}
}

const char *symbol_module_damage(const struct symbol_module *module)
{
	struct damages *damages = module->options->damages;
	const char *text = module->image != NULL ? damages_find(damages, module->image->path) : NULL;
	if (text == NULL && module->debug != NULL)
		text = damages_find(damages, module->debug->path);
	if (text == NULL)
		text = damages_find(damages, module->wanted.map_path != NULL ? module->wanted.map_path : module->wanted.path);
	return text;
}

void symbol_module_release(struct symbol_module *module)
{
	image_release(module->image);
	image_release(module->debug);
	image_release(module->wanted.image);
	image_release(module->wanted.debug);
	free((char *)module->wanted.path);
	free((char *)module->wanted.map_path);
	free((uint64_t *)(uintptr_t)module->wanted.addrs);
	if (module->wanted.map_fd >= 0)
		close(module->wanted.map_fd);
}
