// Names of the vdso, whose image is given (it was read from the process) or is this kernel's own.
#include "symbols/elf_symbols.h"
#include "symbols/module.h"

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_VDSO;
}

static bool open_vdso(struct symbol_module *module, void **state)
{
	if (module->image == NULL)
		return false;
	module->missing = elf_symbols_open(module, (struct elf_symbols **)state) ? SYMBOL_NOT_COVERED : SYMBOL_NO_SYMBOLS;
	return true;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_hit *out)
{
	return elf_symbols_lookup(module, state, vaddr, out);
}

static bool bounds(struct symbol_module *module, void *state, uint64_t vaddr, struct extent *out)
{
	return elf_symbols_bounds(module, state, vaddr, out);
}

static void release(void *state)
{
	elf_symbols_release(state);
}

const struct symbol_provider symbol_provider_vdso = {
	.name = "vdso", .order = 10, .serves = serves, .open = open_vdso, .lookup = lookup, .bounds = bounds, .release = release,
};
