// The function symbols of an image and its debug file in one table, and the names of PLT entries.
#ifndef PERFSAMPLE_SYMBOLS_ELF_SYMBOLS_H
#define PERFSAMPLE_SYMBOLS_ELF_SYMBOLS_H

#include "base/buf.h"
#include "base/hash.h"
#include "symbols/provider.h"
#include "symbols/symbol_table.h"

struct plt; // symbols/plt.c

struct elf_symbols {
	struct symbol_table table;
	struct buf storage[TABLE_SPACES]; // string tables that had to be decompressed
	struct image *mini;               // what .gnu_debugdata holds, or NULL
	struct plt *plt;                  // made when the first address between symbols is asked for
};

// Reads .symtab of the debug file, else of the image, else of the image inside .gnu_debugdata (a mini debug file: functions that .dynsym
// does not have), and .dynsym of the image. false: none has a function.
bool elf_symbols_open(const struct symbol_module *module, struct elf_symbols **out);
bool elf_symbols_lookup(const struct symbol_module *module, struct elf_symbols *symbols, uint64_t vaddr, struct symbol_hit *out);
// Steps through the names beside `hit` that may be other functions' (symbols/alias.h); `*at` begins at 0. false: no more.
bool elf_symbols_alias(struct elf_symbols *symbols, const struct symbol_hit *hit, size_t *at, struct symbol_hit *out);
void elf_symbols_release(struct elf_symbols *symbols);

// `foo@plt` for an address in a .plt* section, by the GOT slot that the entry jumps through and the relocation that fills it.
struct plt *plt_new(const struct image *image);
bool plt_lookup(struct plt *plt, struct symbol_table *table, uint64_t vaddr, struct symbol_hit *out);
void plt_free(struct plt *plt);
bool plt_has(const struct image *image, uint64_t vaddr); // whether that is in such a section

#endif
