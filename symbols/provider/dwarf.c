// Inline chains, files and lines from the DWARF of a file or of its debug file.
#include <elf.h>
#include <stdlib.h>

#include "base/mem.h"
#include "symbols/debug_file.h"
#include "symbols/dwarf.h"
#include "symbols/elf_symbols.h"
#include "symbols/module.h"
#include "symbols/section_cache.h"
#include "symbols/split_file.h"

struct source {
	struct dwarf *dwarf;
	uint64_t bias; // link-time address asked for, minus that in the file with the DWARF
};

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_FILE || module->wanted.kind == SYMBOL_IMAGE_VDSO;
}

static struct image *find_alt(void *context)
{
	const struct symbol_module *module = context;
	struct build_id id;
	if (!module->options->use_host_files)
		return NULL;
	struct image *alt = debug_file_find_alt(module->options, module->debug != NULL ? module->debug : module->image, &id);
	return alt != NULL ? alt : symbol_module_fetch(module, &id, DEBUGINFOD_DEBUG_FILE);
}

static struct image *find_split(void *context, const char *comp_dir, const char *name)
{
	const struct symbol_module *module = context;
	if (!module->options->use_host_files)
		return NULL;
	return name == NULL ? split_file_package(module->options, module->image, module->debug) : split_file_find(module->options, module->image, comp_dir, name);
}

static struct dwarf *open_image(const struct symbol_module *module, struct image *image, const struct dwarf_files *files, bool with_lines)
{
	struct image *clear = module->options->use_host_files && !module->options->no_cache ? section_cache_open(image) : NULL;
	struct dwarf *dwarf = dwarf_new(clear != NULL ? clear : image, files, with_lines);
	image_release(clear);
	return dwarf;
}

static bool open_dwarf(struct symbol_module *module, void **state)
{
	struct dwarf_files files = { .alt = find_alt, .split = find_split, .context = module, .damages = module->options->damages };
	bool with_lines = module->options->lines && !module->options->no_lines;
	struct dwarf *dwarf = NULL;
	uint64_t bias = 0;
	if (module->image == NULL || module->image->type == ET_REL) // a relocatable's addresses are not known before linking
		return false;
	if (module->debug != NULL) {
		dwarf = open_image(module, module->debug, &files, with_lines);
		bias = module->debug_bias;
	}
	if (dwarf == NULL) {
		dwarf = open_image(module, module->image, &files, with_lines);
		bias = 0;
	}
	if (dwarf == NULL)
		return false;
	struct source *source = NEW(struct source);
	source->dwarf = dwarf;
	source->bias = bias;
	*state = source;
	return true;
}

static bool expand(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_chain *out)
{
	(void)module;
	struct source *source = state;
	if (!dwarf_chain(source->dwarf, vaddr - source->bias, out))
		return false;
	if (out->start != 0)
		out->start += source->bias;
	return true;
}

static void prepare(struct symbol_module *module, void *state, const uint64_t *addrs, size_t count, unsigned jobs, double deadline_s)
{
	const struct source *source = state;
	uint64_t *vaddrs = mem_resize(NULL, count, sizeof(*vaddrs));
	size_t wanted = 0;
	uint64_t from = 0, until = 0;
	bool is_stub = false;
	// The linker's stubs are in no unit, and every unit would have to be looked at to find that.
	for (size_t i = 0; i < count; i++) {
		if (addrs[i] < from || addrs[i] >= until)
			is_stub = plt_has(module->image, from = addrs[i], &until);
		if (!is_stub)
			vaddrs[wanted++] = addrs[i] - source->bias;
	}
	dwarf_prepare(source->dwarf, vaddrs, wanted, jobs, deadline_s);
	free(vaddrs);
}

static bool callee(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_source *out)
{
	(void)module;
	struct source *source = state;
	return dwarf_callee(source->dwarf, vaddr - source->bias, out);
}

static void release(void *state)
{
	struct source *source = state;
	dwarf_free(source->dwarf);
	free(source);
}

const struct symbol_provider symbol_provider_dwarf = {
	.name = "dwarf", .order = 20, .serves = serves, .open = open_dwarf, .expand = expand, .prepare = prepare, .callee = callee,
	.release = release,
};
