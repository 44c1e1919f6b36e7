#include "symbols/symbol_table.h"

#include "base/search.h"

const char *symbol_table_name(const struct symbol_table *table, const struct table_symbol *symbol, size_t *length)
{
	const struct bytes *space = &table->names[symbol->space];
	size_t size = (size_t)(space->end - space->start);
	*length = 0;
	if (symbol->name >= size)
		return "";
	const char *name = (const char *)space->start + symbol->name;
	size_t left = size - symbol->name;
	if (table->name_end == '\0') {
		const char *end = memchr(name, '\0', left);
		*length = end != NULL ? (size_t)(end - name) : left;
	} else {
		while (*length < left && name[*length] != table->name_end && name[*length] != '\t' && name[*length] != '\0')
			(*length)++;
	}
	return name;
}

static size_t underscores(const char *name, size_t length)
{
	size_t n = 0;
	while (n < length && name[n] == '_')
		n++;
	return n;
}

static bool is_syscall_alias(const char *name, size_t length)
{
	return (length >= 3 && memcmp(name, "SyS", 3) == 0) || (length >= 10 && memcmp(name, "compat_SyS", 10) == 0);
}

bool symbol_table_prefers(const struct symbol_table *table, const struct table_symbol *a, const struct table_symbol *b)
{
	if ((a->flags ^ b->flags) & TABLE_HIDES)
		return (b->flags & TABLE_HIDES) != 0;
	if ((a->flags ^ b->flags) & TABLE_LABEL)
		return (b->flags & TABLE_LABEL) != 0;
	if (a->space != b->space)
		return a->space < b->space;
	if ((a->flags ^ b->flags) & TABLE_SIZED)
		return (a->flags & TABLE_SIZED) != 0;
	if ((a->flags ^ b->flags) & TABLE_WEAK)
		return (b->flags & TABLE_WEAK) != 0;
	if ((a->flags ^ b->flags) & TABLE_GLOBAL)
		return (a->flags & TABLE_GLOBAL) != 0;
	size_t la, lb;
	const char *na = symbol_table_name(table, a, &la), *nb = symbol_table_name(table, b, &lb);
	size_t ua = underscores(na, la), ub = underscores(nb, lb);
	if (ua != ub)
		return ua < ub;
	if (la != lb)
		return la > lb;
	return !is_syscall_alias(na, la);
}

// A stable radix sort by start, 11 bits a pass; digits that all symbols share are skipped. Stability keeps the file's order
// among aliases, so that the choice does not depend on the sort.
static void sort_symbols(struct symbol_table *table)
{
	size_t count = table->symbols.count;
	uint64_t differs = 0;
	bool sorted = true;
	for (size_t i = 1; i < count; i++) {
		differs |= table->symbols.data[i].start ^ table->symbols.data[0].start;
		sorted &= table->symbols.data[i].start >= table->symbols.data[i - 1].start;
	}
	if (sorted)
		return;
	struct table_symbol *from = table->symbols.data, *to = mem_resize(NULL, count, sizeof(*to));
	for (unsigned shift = 0; shift < 64; shift += 11) {
		if ((differs >> shift & 0x7ff) == 0)
			continue;
		uint32_t place[0x800] = { 0 };
		for (size_t i = 0; i < count; i++)
			place[from[i].start >> shift & 0x7ff]++;
		uint32_t sum = 0;
		for (size_t d = 0; d < 0x800; d++) {
			uint32_t n = place[d];
			place[d] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++)
			to[place[from[i].start >> shift & 0x7ff]++] = from[i];
		struct table_symbol *t = from;
		from = to;
		to = t;
	}
	if (from != table->symbols.data)
		table->symbols.capacity = count;
	table->symbols.data = from;
	free(to);
}

// One symbol for each address.
static void choose_aliases(struct symbol_table *table)
{
	size_t kept = 0;
	for (size_t i = 0; i < table->symbols.count; i++) {
		struct table_symbol *s = &table->symbols.data[i];
		struct table_symbol *chosen = kept > 0 ? &table->symbols.data[kept - 1] : NULL;
		if (chosen != NULL && chosen->start == s->start) {
			struct table_symbol other = *s;
			if (!symbol_table_prefers(table, chosen, s)) {
				other = *chosen;
				*chosen = *s;
				chosen->flags |= other.flags & TABLE_ALIASED;
			}
			if (table->keeps_aliases && other.space == chosen->space && (other.flags & TABLE_FUNCTION)) {
				other.flags &= (uint8_t)~TABLE_ALIASED;
				chosen->flags |= TABLE_ALIASED;
				vec_push(&table->aliases, other);
			}
		} else {
			table->symbols.data[kept++] = *s;
		}
	}
	table->symbols.count = kept;
}

// Drops labels inside sized functions (targets of jumps in assembly), ends unsized symbols where the next one starts.
static void bound_symbols(struct symbol_table *table)
{
	uint64_t covered = 0; // by sized functions so far
	size_t kept = 0;
	for (size_t i = 0; i < table->symbols.count; i++) {
		struct table_symbol s = table->symbols.data[i];
		if ((s.flags & TABLE_LABEL) && s.start < covered)
			continue;
		if ((s.flags & TABLE_SIZED) && !(s.flags & TABLE_LABEL) && s.end > covered)
			covered = s.end;
		table->symbols.data[kept++] = s;
	}
	table->symbols.count = kept;
	for (size_t i = 0; i + 1 < kept; i++) {
		struct table_symbol *s = &table->symbols.data[i];
		if (!(s->flags & TABLE_SIZED) && s->end > s[1].start)
			s->end = s[1].start;
	}
}

void symbol_table_finish(struct symbol_table *table)
{
	sort_symbols(table);
	choose_aliases(table);
	bound_symbols(table);
	for (size_t i = 1; i < table->symbols.count && !table->overlaps; i++)
		table->overlaps = table->symbols.data[i - 1].end > table->symbols.data[i].start;
	if (!table->overlaps) // as in most tables; the flattening would take a third of the time of reading one
		return;
	vec_reserve(&table->spans.ranges, table->symbols.count);
	for (size_t i = 0; i < table->symbols.count; i++)
		span_add(&table->spans, table->symbols.data[i].start, table->symbols.data[i].end, (uint32_t)i);
	span_finish(&table->spans);
}

// Of symbols that do not overlap, the one that holds the address.
static uint32_t last_from(const struct symbol_table *table, uint64_t addr)
{
	size_t next = first_not(0, table->symbols.count, i, table->symbols.data[i].start <= addr);
	return next > 0 && addr < table->symbols.data[next - 1].end ? (uint32_t)(next - 1) : SPAN_NONE;
}

const struct table_symbol *symbol_table_find(const struct symbol_table *table, uint64_t addr)
{
	uint32_t index = table->overlaps ? span_find(&table->spans, addr) : last_from(table, addr);
	if (index == SPAN_NONE)
		return NULL;
	const struct table_symbol *symbol = &table->symbols.data[index];
	return symbol->flags & TABLE_HIDES ? NULL : symbol;
}

const struct table_symbol *symbol_table_alias(const struct symbol_table *table, const struct table_symbol *symbol, size_t index)
{
	if (!(symbol->flags & TABLE_ALIASED) || !(symbol->flags & TABLE_FUNCTION) || !(symbol->flags & TABLE_SIZED))
		return NULL;
	size_t lo = 0, hi = table->aliases.count;
	while (lo < hi) {
		size_t middle = lo + (hi - lo) / 2;
		if (table->aliases.data[middle].start < symbol->start)
			lo = middle + 1;
		else
			hi = middle;
	}
	for (; lo < table->aliases.count && table->aliases.data[lo].start == symbol->start; lo++) {
		const struct table_symbol *alias = &table->aliases.data[lo];
		if ((alias->flags & TABLE_SIZED) && alias->end == symbol->end && alias->space == symbol->space && index-- == 0)
			return alias;
	}
	return NULL;
}

void symbol_table_release(struct symbol_table *table)
{
	vec_release(&table->aliases);
	vec_release(&table->symbols);
	span_release(&table->spans);
}
