// What Go's linker tells the runtime of an image (moduledata), beside the function table: where the text starts, and what inline trees count from.
#ifndef PERFSAMPLE_ELF_GO_MODULE_H
#define PERFSAMPLE_ELF_GO_MODULE_H

#include "elf/go_table.h"

// The pointer at an address of a 64-bit image, as the dynamic linker leaves it: position-independent programs may have 0 there in the file. 0: none.
uint64_t go_pointer_at(const struct image *image, uint64_t vaddr);
struct go_module {
	uint64_t text, inlines;
};
// Of the image's table, whose names begin at `names`; Go 1.18 on. It is where a pointer to the table and one to its names stand together. false: not found.
bool go_module_find(const struct image *image, const struct go_table *table, uint64_t names, struct go_module *out);

#endif
