#include "report/diff_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct item { const struct digest_row *row; size_t run; };

static int by_name(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->row->name, y->row->name);
	if (order == 0)
		order = strcmp(x->row->dso, y->row->dso);
	return order != 0 ? order : x->run < y->run ? -1 : x->run > y->run;
}

const struct digest_row *diff_match_row(const struct diff_match *match, int side, size_t run)
{
	return match->rows[side == 0 ? run : match->base_runs + run];
}

static bool has_side(const struct diff_matches *m, const struct diff_match *match, int side)
{
	for (size_t r = 0; r < (side == 0 ? m->base_runs : m->new_runs); r++)
		if (diff_match_row(match, side, r) != NULL)
			return true;
	return false;
}

static void take(struct diff_match *into, const struct diff_match *from, size_t runs)
{
	for (size_t r = 0; r < runs; r++)
		if (into->rows[r] == NULL)
			into->rows[r] = from->rows[r];
}

// Matches are sorted by name: neighbours with the same one, of which one is on the base's side alone and one on the new's.
static void join_renamed(struct diff_matches *m)
{
	size_t kept = 0;
	for (size_t i = 0; i < m->rows.count;) {
		size_t end = i + 1;
		while (end < m->rows.count && strcmp(m->rows.data[end].name, m->rows.data[i].name) == 0)
			end++;
		struct diff_match *first = &m->rows.data[i], *second = first + 1;
		bool pair = end == i + 2 && first->name[0] != '[' && has_side(m, first, 0) != has_side(m, first, 1)
			&& has_side(m, second, 0) != has_side(m, second, 1) && has_side(m, first, 0) != has_side(m, second, 0);
		if (pair) {
			take(first, second, m->base_runs + m->new_runs);
			if (!has_side(m, second, 0)) // the new file's name is the one to look for
				first->dso = second->dso;
		}
		for (; i < end; i++)
			if (!pair || &m->rows.data[i] != second)
				m->rows.data[kept++] = m->rows.data[i];
	}
	m->rows.count = kept;
}

void diff_match(struct diff_matches *m, const struct digest *const *base, size_t base_runs, const struct digest *const *new_, size_t new_runs)
{
	*m = (struct diff_matches){ .base = base, .new_ = new_, .base_runs = base_runs, .new_runs = new_runs };
	size_t runs = base_runs + new_runs;
	VEC(struct item) items = { 0 };
	for (size_t r = 0; r < runs; r++) {
		const struct digest *d = r < base_runs ? base[r] : new_[r - base_runs];
		for (size_t i = 0; i < d->rows.count; i++)
			vec_push(&items, (struct item){ &d->rows.data[i], r });
	}
	if (items.count > 0)
		qsort(items.data, items.count, sizeof(*items.data), by_name);
	for (size_t i = 0; i < items.count; i++) {
		const struct digest_row *row = items.data[i].row;
		struct diff_match *last = m->rows.count > 0 ? &m->rows.data[m->rows.count - 1] : NULL;
		if (last == NULL || strcmp(last->name, row->name) != 0 || strcmp(last->dso, row->dso) != 0) {
			last = vec_add(&m->rows);
			*last = (struct diff_match){ row->name, row->dso, arena_alloc(&m->arena, runs * sizeof(*last->rows)), base_runs };
		}
		last->rows[items.data[i].run] = row;
	}
	vec_release(&items);
	join_renamed(m);
}

void diff_matches_release(struct diff_matches *m)
{
	vec_release(&m->rows);
	arena_release(&m->arena);
}

static int find_inlined(const void *key, const void *element)
{
	return strcmp(key, ((const struct digest_inlined *)element)->name);
}

static const char *inlined_into(const struct digest *const *runs, size_t count, const char *name)
{
	for (size_t r = 0; r < count; r++) {
		const struct digest_inlined *found = runs[r]->inlined.count == 0 ? NULL
			: bsearch(name, runs[r]->inlined.data, runs[r]->inlined.count, sizeof(*runs[r]->inlined.data), find_inlined);
		if (found != NULL)
			return found->into;
	}
	return NULL;
}

const char *diff_match_note(const struct diff_matches *m, const struct diff_match *match, const double *k, struct arena *arena)
{
	if (k[0] > 0 && k[1] > 0)
		return NULL;
	bool gone = k[0] > 0;
	const char *into = gone ? inlined_into(m->new_, m->new_runs, match->name) : inlined_into(m->base, m->base_runs, match->name);
	if (into == NULL)
		return gone ? "gone" : "new";
	size_t size = strlen(into) + 40;
	char *text = arena_alloc(arena, size);
	snprintf(text, size, gone ? "gone (inlined into %s)" : "new (inlined into %s before)", into);
	return text;
}
