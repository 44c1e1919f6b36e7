// A provider of names: symbols/provider/NAME.c defines `const struct symbol_provider symbol_provider_NAME`. Asked in the order of `order`
// until one knows; a later one may add lines and inline frames to what an earlier one named (see symbolizer.c).
#ifndef PERFSAMPLE_SYMBOLS_PROVIDER_H
#define PERFSAMPLE_SYMBOLS_PROVIDER_H

#include "symbols/symbolizer.h"

struct symbol_module; // symbols/module.h: one image with its debug file, as the providers see it

struct symbol_provider {
	const char *name;
	int order;
	bool (*serves)(const struct symbol_module *module);
	// Prepares on first use (an index); state hangs on the module, freed by `release`. false: nothing here, reason in module->missing.
	bool (*open)(struct symbol_module *module, void **state);
	// Fills what it knows; false: does not know this address.
	bool (*lookup)(struct symbol_module *module, void *state, uint64_t image_addr, struct symbol_result *out);
	void (*release)(void *state);
};
extern const struct symbol_provider *const symbol_providers[]; // NULL-terminated, generated

#endif
