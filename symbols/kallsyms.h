// The text of /proc/kallsyms as a symbol table.
#ifndef PERFSAMPLE_SYMBOLS_KALLSYMS_H
#define PERFSAMPLE_SYMBOLS_KALLSYMS_H

#include "symbols/symbol_table.h"

// Adds a symbol for each line "ADDRESS TYPE NAME[\t[MODULE]]"; lines of any other form are skipped. Functions (types t T w W) get names;
// what else has an address only ends the function before it. `text` is borrowed. Returns how many functions had an address other than
// zero: with kptr_restrict none has. Finish the table afterwards.
size_t kallsyms_parse(struct symbol_table *table, const char *text, size_t size);
// The module of a symbol found in such a table, without its brackets; NULL: the kernel itself.
const char *kallsyms_module(const struct symbol_table *table, const struct table_symbol *symbol, size_t *length);

// Without an index, for a text known to be as the kernel printed it. The kernel proper comes first, in the order of addresses (the kernel
// bisects its table itself, kernel/kallsyms.c), then modules, which are marked "[…]".
// How many bytes of the text are the kernel proper.
size_t kallsyms_core_size(const char *text, size_t size);
// The lines that decide what is at `addr`: all of the highest address not above it, and those of the next; bisected from such a kernel proper.
// They hold no line when `addr` is before the first or after the last.
void kallsyms_window(const char *text, size_t size, uint64_t addr, const char **window, size_t *window_size);

#endif
