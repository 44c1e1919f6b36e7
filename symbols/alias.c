#include "symbols/alias.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/symbolizer.h"

bool symbol_is_mangled(const char *name, size_t length)
{
	return length > 2 && name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

bool symbol_is_reserved(const char *name, size_t length)
{
	return length > 1 && name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z')) && !symbol_is_mangled(name, length);
}

// Up to a version or a clone's suffix; names may begin with a dot.
static size_t base_length(const char *name, size_t length)
{
	for (size_t i = 1; i < length; i++)
		if (name[i] == '@' || name[i] == '.')
			return i;
	return length;
}

void symbol_key(const char *linkage_name, size_t length, struct buf *out)
{
	length = base_length(linkage_name, length);
	if (symbol_is_mangled(linkage_name, length)) {
		char *base = mem_printf("%.*s", (int)length, linkage_name), *name = symbol_demangle(base);
		buf_string(out, name != NULL ? name : base);
		free(name);
		free(base);
		return;
	}
	size_t from = 0;
	while (from < length && linkage_name[from] == '_')
		from++;
	const char *name = linkage_name + from;
	length -= from;
	const char *large = memmem(name, length, "64", 2);
	size_t before = large != NULL && large > name ? (size_t)(large - name) : length;
	buf_add(out, name, before);
	if (before < length)
		buf_add(out, name + before + 2, length - before - 2);
}
