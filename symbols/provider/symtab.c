// Names from .symtab and .dynsym of a file and its debug file.
#include "symbols/elf_symbols.h"
#include "symbols/module.h"

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_FILE;
}

static bool open_symtab(struct symbol_module *module, void **state)
{
	if (module->image == NULL)
		return false;
	if (!elf_symbols_open(module, (struct elf_symbols **)state)) {
		module->missing = symbol_module_damage(module) != NULL ? SYMBOL_BAD_FILE : SYMBOL_NO_SYMBOLS;
		return true; // PLT entries have names all the same
	}
	module->missing = SYMBOL_NOT_COVERED;
	return true;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_hit *out)
{
	return elf_symbols_lookup(module, state, vaddr, out);
}

static bool alias(struct symbol_module *module, void *state, const struct symbol_hit *hit, size_t *at, struct symbol_hit *out)
{
	(void)module;
	return elf_symbols_alias(state, hit, at, out);
}

static bool bounds(struct symbol_module *module, void *state, uint64_t vaddr, struct extent *out)
{
	return elf_symbols_bounds(module, state, vaddr, out);
}

static bool local(struct symbol_module *module, void *state, const struct symbol_hit *hit, struct symbol_local *out)
{
	(void)module;
	return elf_symbols_local(state, hit, out);
}

static void release(void *state)
{
	elf_symbols_release(state);
}

const struct symbol_provider symbol_provider_symtab = {
	.name = "symtab", .order = 10, .serves = serves, .open = open_symtab, .lookup = lookup, .bounds = bounds, .alias = alias, .local = local, .release = release,
};
