// A provider of names: symbols/provider/NAME.c defines `const struct symbol_provider symbol_provider_NAME`. Asked in the order of `order`
// until one knows the symbol; then one of those that expand adds inline frames and lines to it (see symbolizer.c).
#ifndef PERFSAMPLE_SYMBOLS_PROVIDER_H
#define PERFSAMPLE_SYMBOLS_PROVIDER_H

#include "elf/extents.h"
#include "symbols/symbolizer.h"

struct symbol_module; // symbols/module.h: one image with its debug file, as the providers see it

struct symbol_hit { // a symbol that covers an address; the name lives as long as the module and has no NUL behind it
	const char *name;
	size_t length;
	uint64_t start;          // same kind of address as asked for
	uint64_t size;           // all addresses of so many from `start` on have this very symbol; 0: not known
	const char *module;      // kernel module the symbol is in, not ended by NUL either; NULL: none
	size_t module_length;
	bool is_stub;            // a PLT entry: no source behind it
	bool has_aliases;        // `alias` may tell of others at its start
	bool is_local;           // `local` may tell of the source file that it is local to
};

struct symbol_source { // one frame of an inline chain; strings live as long as the module
	const char *linkage_name; // mangled where the language mangles; NULL: none
	const char *name;         // as the source spells it, qualified where known; NULL: none
	const char *file;
	uint32_t line;
};
enum { SYMBOL_CHAIN_LIMIT = 64 }; // inlined into each other

struct symbol_chain { // innermost first; the last is the function that has the code
	struct symbol_source frames[SYMBOL_CHAIN_LIMIT];
	size_t count;
	uint64_t start; // of the last frame's function; 0: unknown
	bool is_named;  // set by who asks: the last frame's name is known and need not be found
};

struct symbol_provider {
	const char *name;
	int order;
	bool (*serves)(const struct symbol_module *module);
	// Prepares on first use (an index); `*state` is freed by `release`. false: nothing here; why, in module->missing.
	bool (*open)(struct symbol_module *module, void **state);
	// The symbol at `addr` (link-time address for files and the vdso, else run-time address); false: not known. May be NULL.
	bool (*lookup)(struct symbol_module *module, void *state, uint64_t addr, struct symbol_hit *out);
	// The inline chain there; false: none known. May be NULL.
	bool (*expand)(struct symbol_module *module, void *state, uint64_t addr, struct symbol_chain *out);
	// Gets ready to expand these addresses, by up to `jobs` threads, until `deadline_s` (CLOCK_MONOTONIC; 0: none). May be NULL.
	void (*prepare)(struct symbol_module *module, void *state, const uint64_t *addrs, size_t count, unsigned jobs, double deadline_s);
	// Of an address that none has a symbol for: the function that has it, where its bounds are known (link-time addresses). May be NULL.
	bool (*bounds)(struct symbol_module *module, void *state, uint64_t addr, struct extent *out);
	// Other functions' names beside the symbol that lookup found; `*at` begins at 0. false: no more. May be NULL.
	bool (*alias)(struct symbol_module *module, void *state, const struct symbol_hit *hit, size_t *at, struct symbol_hit *out);
	// What is known of the source file that the symbol that lookup found is local to; its text lives as long as the module. false: nothing tells it from another of its
	// name. May be NULL.
	bool (*local)(struct symbol_module *module, void *state, const struct symbol_hit *hit, struct symbol_local *out);
	// What the call that returns to `addr` + 1 calls; false: not known. May be NULL.
	bool (*callee)(struct symbol_module *module, void *state, uint64_t addr, struct symbol_source *out);
	void (*release)(void *state);
};
extern const struct symbol_provider *const symbol_providers[]; // NULL-terminated, generated

#endif
