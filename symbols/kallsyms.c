#include "symbols/kallsyms.h"

#include "symbols/text_file.h"

enum { LINES_LIMIT = 16 * 1024 * 1024 };
// The last symbol has no next one to end it.
#define LAST_SYMBOL_BYTES 0x10000u

size_t kallsyms_parse(struct symbol_table *table, const char *text, size_t size)
{
	const char *at = text, *end = text + size;
	size_t functions = 0, last = 0;
	table->names[0] = bytes_of(text, size < UINT32_MAX ? size : UINT32_MAX);
	table->name_end = '\n';
	vec_reserve(&table->symbols, size / 40 < LINES_LIMIT ? size / 40 : LINES_LIMIT);
	while (at < end && table->symbols.count < LINES_LIMIT) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (line_end == NULL)
			line_end = end;
		uint64_t addr;
		const char *p = at;
		at = line_end + (line_end < end);
		if (!text_hex(&p, line_end, &addr) || line_end - p < 4 || p[0] != ' ' || p[2] != ' ' || addr == 0)
			continue;
		char type = p[1];
		bool is_function = (type | 32) == 't' || (type | 32) == 'w';
		// Absolute symbols are per-CPU offsets or constants; ARM's mapping symbols mark data inside functions.
		if ((type | 32) == 'a' || p[3] == '$' || (size_t)(p + 3 - text) > UINT32_MAX)
			continue;
		struct table_symbol s = { .start = addr, .end = UINT64_MAX, .name = (uint32_t)(p + 3 - text) };
		s.flags = (type >= 'A' && type <= 'Z' ? TABLE_GLOBAL : 0) | ((type | 32) == 'w' ? TABLE_WEAK : 0) | (is_function ? 0 : TABLE_HIDES);
		functions += is_function;
		vec_push(&table->symbols, s);
		if (addr >= table->symbols.data[last].start)
			last = table->symbols.count - 1;
	}
	// Sorting is stable and the order of equals is the file's: the highest address is the only one without a successor.
	if (table->symbols.count > 0) {
		uint64_t top = table->symbols.data[last].start;
		uint64_t limit = top > UINT64_MAX - LAST_SYMBOL_BYTES ? UINT64_MAX : top + LAST_SYMBOL_BYTES;
		for (size_t i = 0; i < table->symbols.count; i++)
			if (table->symbols.data[i].start == top)
				table->symbols.data[i].end = limit;
	}
	return functions;
}

const char *kallsyms_module(const struct symbol_table *table, const struct table_symbol *symbol, size_t *length)
{
	const char *end = (const char *)table->names[0].end, *p = symbol_table_name(table, symbol, length);
	p += *length;
	*length = 0;
	while (p < end && (*p == '\t' || *p == ' '))
		p++;
	if (p >= end || *p != '[')
		return NULL;
	const char *name = ++p;
	while (p < end && *p != ']' && *p != '\n')
		p++;
	*length = (size_t)(p - name);
	return *length > 0 ? name : NULL;
}

// ---------------------------------------------------------------- bisecting the text

static const char *line_start(const char *text, const char *at)
{
	const char *newline = at > text ? memrchr(text, '\n', (size_t)(at - text)) : NULL;
	return newline != NULL ? newline + 1 : text;
}

static const char *next_line(const char *at, const char *end)
{
	const char *newline = memchr(at, '\n', (size_t)(end - at));
	return newline != NULL ? newline + 1 : end;
}

size_t kallsyms_core_size(const char *text, size_t size)
{
	const char *lo = text, *hi = text + size; // the first line that ends in ']' starts in [lo, hi]
	while (lo < hi) {
		const char *line = line_start(lo, lo + (hi - lo) / 2), *end = next_line(line, text + size);
		const char *last = end - (end > line && end[-1] == '\n');
		if (last > line && last[-1] == ']')
			hi = line;
		else
			lo = end < hi ? end : hi;
	}
	return (size_t)(lo - text);
}

static uint64_t line_address(const char *line, const char *end)
{
	uint64_t addr;
	return text_hex(&line, end, &addr) ? addr : 0;
}

// The first line of an address above `addr`.
static const char *bisect(const char *text, const char *end, uint64_t addr)
{
	const char *lo = text, *hi = end;
	while (lo < hi) {
		const char *line = line_start(lo, lo + (hi - lo) / 2), *next = next_line(line, end);
		if (line_address(line, end) > addr)
			hi = line;
		else
			lo = next < hi ? next : hi;
	}
	return lo;
}

void kallsyms_window(const char *text, size_t size, uint64_t addr, const char **window, size_t *window_size)
{
	const char *end = text + size, *above = bisect(text, end, addr);
	*window = text;
	*window_size = 0;
	if (above == text || above == end)
		return;
	// Lines of one address are few: they are stepped over.
	const char *from = line_start(text, above - 1), *to = above;
	uint64_t here = line_address(from, end), next = line_address(above, end);
	for (const char *before; from > text && line_address(before = line_start(text, from - 1), end) == here; from = before)
		;
	while (to < end && line_address(to, end) == next)
		to = next_line(to, end);
	*window = from;
	*window_size = (size_t)(to - from);
}
