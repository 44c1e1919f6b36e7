// The function symbols of an image and its debug file in one table, and the names of PLT entries.
#ifndef PERFSAMPLE_SYMBOLS_ELF_SYMBOLS_H
#define PERFSAMPLE_SYMBOLS_ELF_SYMBOLS_H

#include "base/buf.h"
#include "base/hash.h"
#include "elf/extents.h"
#include "symbols/provider.h"
#include "symbols/symbol_table.h"

struct plt; // symbols/plt.c

struct elf_symbols {
	struct symbol_table table;
	VEC(uint32_t) units;              // source files by number, as offsets into the first name space; the first is none, and has none
	bool is_complete;                 // the file's own .symtab, with local symbols of its code: between two symbols is no third
	struct buf storage[TABLE_SPACES]; // string tables that had to be decompressed
	struct extents *extents;          // of the module's image; NULL: not asked for yet, or of a relocatable one, whose addresses are not known before linking
	struct image *mini;               // what .gnu_debugdata holds, or NULL
	struct plt *plt;                  // made when the first address between symbols is asked for
};

// Reads .symtab of the debug file, else of the image, else of the image inside .gnu_debugdata (a mini debug file: functions that .dynsym
// does not have), and .dynsym of the image. false: none has a function.
bool elf_symbols_open(const struct symbol_module *module, struct elf_symbols **out);
// The one rule for how far a symbol reaches: as far as its size, and where it has none or an impossible one, not beyond the next symbol, its section, and the function
// (FDE) that it is in. Where no function is known there, as in assembly, it reaches up to those in a complete table; in the table of a stripped file, which tells
// nothing of what is hidden behind it, not beyond its first byte, nor does a label there (STT_NOTYPE) name the function that it is in.
bool elf_symbols_lookup(const struct symbol_module *module, struct elf_symbols *symbols, uint64_t vaddr, struct symbol_hit *out);
// The function that has an address to which no symbol reaches, by its FDE; not where a symbol begins in it: it is another's code then, or several functions'.
bool elf_symbols_bounds(const struct symbol_module *module, struct elf_symbols *symbols, uint64_t vaddr, struct extent *out);
// What is known of the source file that a function is local to; false: nothing that tells it from another of its name.
bool elf_symbols_local(struct elf_symbols *symbols, const struct symbol_hit *hit, struct symbol_local *out);
// Steps through the names beside `hit` that may be other functions' (symbols/alias.h); `*at` begins at 0. false: no more.
bool elf_symbols_alias(struct elf_symbols *symbols, const struct symbol_hit *hit, size_t *at, struct symbol_hit *out);
void elf_symbols_release(struct elf_symbols *symbols);

// `foo@plt` for an address in a .plt* section, by the GOT slot that the entry jumps through and the relocation that fills it.
struct plt *plt_new(const struct image *image);
bool plt_lookup(struct plt *plt, struct symbol_table *table, uint64_t vaddr, struct symbol_hit *out);
void plt_free(struct plt *plt);
// Whether that is in such a section; the answer is the same for the addresses before `*until` (NULL: not wanted).
bool plt_has(const struct image *image, uint64_t vaddr, uint64_t *until);

#endif
