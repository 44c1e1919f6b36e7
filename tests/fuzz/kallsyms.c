// Any bytes as /proc/kallsyms: no crash, names within the text, symbols in order, and what is found at an address holds it.
#include "symbols/kallsyms.h"
#include "tests/fuzz/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbol_table table = { 0 };
	kallsyms_parse(&table, (const char *)data, size);
	symbol_table_finish(&table);
	for (size_t i = 0; i < table.symbols.count; i++) {
		const struct table_symbol *found = symbol_table_find(&table, table.symbols.data[i].start);
		if (i > 0 && table.symbols.data[i].start <= table.symbols.data[i - 1].start)
			abort();
		if (found == NULL)
			continue;
		size_t length, module_length;
		const char *name = symbol_table_name(&table, found, &length);
		const char *module = kallsyms_module(&table, found, &module_length);
		if (table.symbols.data[i].start < found->start || table.symbols.data[i].start >= found->end)
			abort();
		if (length > 0 && ((const uint8_t *)name < data || (const uint8_t *)name + length > data + size))
			abort();
		if (module != NULL && ((const uint8_t *)module < data || (const uint8_t *)module + module_length > data + size))
			abort();
	}
	symbol_table_release(&table);
	return 0;
}
