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

#endif
