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

// Of two symbols of one address the one to show into `chosen`, the other into `other`.
static void choose(const struct symbol_table *table, struct table_symbol *chosen, struct table_symbol *other)
{
	if (symbol_table_prefers(table, chosen, other))
		return;
	struct table_symbol less = *chosen;
	*chosen = *other;
	chosen->flags |= less.flags & TABLE_ALIASED;
	*other = less;
}

// What has no size begins where the other does, so it is that code.
static void take_size(struct table_symbol *symbol, const struct table_symbol *other)
{
	if ((symbol->flags & (TABLE_SIZED | TABLE_HIDES)) || !(other->flags & TABLE_SIZED))
		return;
	symbol->end = other->end;
	symbol->flags |= TABLE_SIZED;
}

// Functions that differ in nothing but their names: which to show is asked for the few that are looked up, as the names are memory to be waited for.
static bool is_tie(const struct symbol_table *table, const struct table_symbol *a, const struct table_symbol *b)
{
	return table->keeps_aliases && a->flags == b->flags && (a->flags & TABLE_FUNCTION) && a->space == b->space && a->end == b->end;
}

// One symbol for each address.
static void choose_aliases(struct symbol_table *table)
{
	size_t kept = 0;
	for (size_t i = 0, next; i < table->symbols.count; i = next) {
		struct table_symbol *from = &table->symbols.data[i], chosen = *from;
		bool is_tied = true;
		for (next = i + 1; next < table->symbols.count && table->symbols.data[next].start == from->start; next++)
			is_tied &= is_tie(table, from, &table->symbols.data[next]);
		is_tied &= next > i + 1;
		if (is_tied)
			chosen.flags |= TABLE_ALIASED | TABLE_TIED;
		for (size_t k = i + 1; k < next; k++) {
			struct table_symbol other = table->symbols.data[k];
			if (!is_tied)
				choose(table, &chosen, &other);
			take_size(&chosen, &other);
			if (table->keeps_aliases && other.space == chosen.space && (other.flags & TABLE_FUNCTION)) {
				other.flags &= (uint8_t)~TABLE_ALIASED;
				chosen.flags |= TABLE_ALIASED;
				vec_push(&table->aliases, other);
			}
		}
		table->symbols.data[kept++] = chosen;
	}
	table->symbols.count = kept;
}

// The first of the aliases that start at the address or later.
static size_t aliases_from(const struct symbol_table *table, uint64_t start)
{
	return first_not(0, table->aliases.count, i, table->aliases.data[i].start < start);
}

static void settle_tie(struct symbol_table *table, struct table_symbol *symbol)
{
	uint64_t end = symbol->end; // of all of them; without a size, where the next symbol starts
	symbol->flags &= (uint8_t)~TABLE_TIED;
	for (size_t i = aliases_from(table, symbol->start); i < table->aliases.count && table->aliases.data[i].start == symbol->start; i++) {
		struct table_symbol *alias = &table->aliases.data[i];
		choose(table, symbol, alias);
		alias->flags &= (uint8_t)~TABLE_ALIASED;
	}
	symbol->end = end;
}

// Drops labels inside sized functions (targets of jumps in assembly), ends unsized symbols where the next one starts, and where a function ends that they
// start inside of.
static void bound_symbols(struct symbol_table *table)
{
	uint64_t covered = 0; // by sized functions so far
	bool is_open = false; // the one before ends where the next one starts
	size_t kept = 0;
	for (size_t i = 0; i < table->symbols.count; i++) {
		struct table_symbol s = table->symbols.data[i];
		if ((s.flags & TABLE_LABEL) && s.start < covered)
			continue;
		if (is_open && table->symbols.data[kept - 1].end > s.start)
			table->symbols.data[kept - 1].end = s.start;
		is_open = !(s.flags & TABLE_SIZED);
		if (is_open && !(s.flags & TABLE_HIDES) && s.start < covered) {
			s.end = s.end < covered ? s.end : covered;
			s.flags |= TABLE_SIZED;
		}
		if ((s.flags & TABLE_SIZED) && !(s.flags & TABLE_LABEL) && s.end > covered)
			covered = s.end;
		table->symbols.data[kept++] = s;
	}
	table->symbols.count = kept;
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

const struct table_symbol *symbol_table_find(struct symbol_table *table, uint64_t addr)
{
	uint32_t index = table->overlaps ? span_find(&table->spans, addr) : last_from(table, addr);
	if (index == SPAN_NONE)
		return NULL;
	struct table_symbol *symbol = &table->symbols.data[index];
	if (symbol->flags & TABLE_TIED)
		settle_tie(table, symbol);
	return symbol->flags & TABLE_HIDES ? NULL : symbol;
}

const struct table_symbol *symbol_table_alias(const struct symbol_table *table, const struct table_symbol *symbol, size_t index)
{
	if (!(symbol->flags & TABLE_ALIASED) || !(symbol->flags & TABLE_FUNCTION) || !(symbol->flags & TABLE_SIZED))
		return NULL;
	for (size_t i = aliases_from(table, symbol->start); i < table->aliases.count && table->aliases.data[i].start == symbol->start; i++) {
		const struct table_symbol *alias = &table->aliases.data[i];
		if ((alias->flags & TABLE_SIZED) && alias->end == symbol->end && alias->space == symbol->space && index-- == 0)
			return alias;
	}
	return NULL;
}

bool symbol_table_begins(const struct symbol_table *table, uint64_t from, uint64_t to, bool labels)
{
	enum { LABELS_LOOKED_AT = 64 }; // behind more of them there may be a function
	size_t next = first_not(0, table->symbols.count, i, table->symbols.data[i].start <= to);
	for (size_t i = next; i-- > 0 && table->symbols.data[i].start >= from;)
		if (labels || !(table->symbols.data[i].flags & TABLE_LABEL) || next - i > LABELS_LOOKED_AT)
			return true;
	return false;
}

void symbol_table_release(struct symbol_table *table)
{
	vec_release(&table->aliases);
	vec_release(&table->symbols);
	span_release(&table->spans);
}
