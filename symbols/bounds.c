#include "symbols/bounds.h"

#include <stdlib.h>

#include "base/search.h"
#include "base/sort.h"

static int by_start(const void *a, const void *b)
{
	const struct symbol_bounds *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

void bounds_add(struct bounds_table *table, const struct symbol_bounds *bounds)
{
	if (bounds->end <= bounds->start)
		return;
	vec_push(&table->rows, *bounds);
	table->is_sorted = false;
}

bool bounds_find(struct bounds_table *table, uint64_t image_addr, struct symbol_bounds *out)
{
	if (!table->is_sorted && table->rows.count > 1)
		sort_stable(table->rows.data, table->rows.count, sizeof(*table->rows.data), by_start);
	table->is_sorted = true;
	size_t next = first_not(0, table->rows.count, i, table->rows.data[i].start <= image_addr);
	if (next == 0 || image_addr >= table->rows.data[next - 1].end)
		return false;
	*out = table->rows.data[next - 1];
	return true;
}

void bounds_release(struct bounds_table *table)
{
	vec_release(&table->rows);
}
