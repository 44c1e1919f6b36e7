// Names, files, lines and inlined functions of Go programs, from the function table that their runtime has for its own tracebacks: stripping leaves it.
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "elf/go_table.h"
#include "symbols/module.h"
#include "symbols/provider.h"

static bool serves(const struct symbol_module *module)
{
	return module->wanted.kind == SYMBOL_IMAGE_FILE;
}

static bool open_go(struct symbol_module *module, void **state)
{
	struct go_table table;

	if (module->image == NULL || !go_table_open(&table, module->image))
		return false;
	struct go_table *kept = NEW(struct go_table);
	*kept = table;
	go_table_open_inlines(kept, module->image);
	*state = kept;
	if (module->missing == SYMBOL_NO_SYMBOLS)
		module->missing = SYMBOL_NOT_COVERED;
	return true;
}

static bool lookup(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_hit *out)
{
	struct go_function function;

	(void)module;
	const char *name = go_table_find(state, vaddr, &function) ? go_table_name(state, &function) : NULL;
	if (name == NULL)
		return false;
	*out = (struct symbol_hit){ .name = name, .length = strlen(name), .start = function.start, .size = function.end - function.start };
	return true;
}

static bool expand(struct symbol_module *module, void *state, uint64_t vaddr, struct symbol_chain *out)
{
	struct go_function function;

	(void)module;
	if (!go_table_find(state, vaddr, &function))
		return false;
	struct go_frame frames[SYMBOL_CHAIN_LIMIT];
	out->count = go_table_chain(state, &function, vaddr, frames, SYMBOL_CHAIN_LIMIT);
	for (size_t i = 0; i < out->count; i++)
		out->frames[i] = (struct symbol_source){ .name = frames[i].name, .file = frames[i].line.file, .line = frames[i].line.line };
	out->start = function.start;
	return true;
}

static void release(void *state)
{
	free(state);
}

// Behind symbol tables and DWARF, which say more where they are.
const struct symbol_provider symbol_provider_go = {
	.name = "go", .order = 30, .serves = serves, .open = open_go, .lookup = lookup, .expand = expand, .release = release,
};
