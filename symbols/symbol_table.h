// Symbols sorted once and, where they overlap, flattened into spans that do not; found by binary search.
//
// Names are not copied: a symbol holds an offset into one of the table's name spaces (a string table, a text read whole).
#ifndef PERFSAMPLE_SYMBOLS_SYMBOL_TABLE_H
#define PERFSAMPLE_SYMBOLS_SYMBOL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/vec.h"
#include "symbols/span.h"

enum {
	TABLE_SIZED = 1,  // `end` is what the producer said; otherwise `end` is a limit, and the next symbol ends it too: how far it really reaches, who asks must know
	TABLE_WEAK = 2,
	TABLE_GLOBAL = 4,
	TABLE_LABEL = 8,  // no function by its type (STT_NOTYPE): counts only where no function is
	TABLE_HIDES = 16, // no function: ends what stands before it and has no name itself (kernel data between code)
	TABLE_FUNCTION = 32, // an ordinary function by its type: no STT_GNU_IFUNC, no object
	TABLE_ALIASED = 64,  // set by symbol_table_finish: `aliases` holds others of this address
	TABLE_TIED = 128,    // likewise: which of them is shown is settled when it is first found
};

struct table_symbol {
	uint64_t start, end;
	uint32_t name;  // offset into the name space
	uint8_t flags;
	uint8_t space;  // which name space; where two hold a symbol of one address, the lower wins
	uint16_t unit;  // the producer's number of the source file that it is local to; 0: unknown
};

#define TABLE_SPACES 4

struct symbol_table { // a zeroed struct is an empty table
	VEC(struct table_symbol) symbols;
	bool overlaps;
	struct span_table spans;           // values are indices of symbols; empty unless they overlap
	bool keeps_aliases;
	VEC(struct table_symbol) aliases;  // with keeps_aliases: ordinary functions that were not chosen, by address
	struct bytes names[TABLE_SPACES]; // name spaces, borrowed
	char name_end;                    // what ends a name beside NUL: '\0' for string tables, '\n' in a text (tabs end it then, too)
};

// The name's bytes, bounded by its space; "" with length 0 when the offset is out of bounds.
const char *symbol_table_name(const struct symbol_table *table, const struct table_symbol *symbol, size_t *length);
// Of two symbols at one address, whether the first is the one to show: non-zero size, then not weak, then global, then fewest
// leading underscores, then the longer name, then what is not a system call alias (SyS_, compat_SyS_), as perf chooses.
bool symbol_table_prefers(const struct symbol_table *table, const struct table_symbol *a, const struct table_symbol *b);
// Sorts, chooses among aliases, builds the spans. Call once, after the last symbol. One without a size that stands beside one with a size, or inside one, reaches as
// far as that: it is TABLE_SIZED then.
void symbol_table_finish(struct symbol_table *table);
// NULL: no symbol covers the address. Not to be asked by several threads at a time.
const struct table_symbol *symbol_table_find(struct symbol_table *table, uint64_t addr);
// Whether a symbol, without `labels` a function, begins at one of the addresses from `from` to `to`.
bool symbol_table_begins(const struct symbol_table *table, uint64_t from, uint64_t to, bool labels);
// The `index`th of the functions beside `symbol`, of the same name space and of the same size as that (what has no size begins there by chance);
// NULL: no more.
const struct table_symbol *symbol_table_alias(const struct symbol_table *table, const struct table_symbol *symbol, size_t index);
void symbol_table_release(struct symbol_table *table);

#endif
