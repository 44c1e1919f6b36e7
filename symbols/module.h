// One image as the providers see it: what ran, the file that holds it, and the file that holds its debug information.
#ifndef PERFSAMPLE_SYMBOLS_MODULE_H
#define PERFSAMPLE_SYMBOLS_MODULE_H

#include "symbols/debuginfod.h"
#include "symbols/symbolizer.h"

struct symbol_limits; // symbols/limits.h
struct symbol_module {
	struct symbol_image wanted; // path is the module's own copy, map_fd a duplicate, image a reference
	const struct symbolizer_options *options;
	struct symbol_limits *limits; // the symbolizer's, or NULL
	bool is_open;
	bool asks_servers;          // options->debuginfod may be asked
	struct image *image;        // what ran; NULL: not found, `missing` says why
	struct image *debug;        // separate debug file, or NULL
	uint64_t debug_bias;        // link-time address in `image` minus that in `debug` (prelinked files differ)
	enum symbol_missing missing; // why an address without a name has none
};

// Opens the image and its debug file, once; safe to call again.
void symbol_module_open(struct symbol_module *module);
// From a debuginfod server, where the image is worth asking one: a file of this build ID; a reference, or NULL.
struct image *symbol_module_fetch(const struct symbol_module *module, const struct build_id *id, enum debuginfod_kind kind);
// What is wrong with one of its files as far as they were read; NULL: nothing found, or nobody wants to know (options->damages).
const char *symbol_module_damage(const struct symbol_module *module);
void symbol_module_release(struct symbol_module *module);

#endif
