#include "report/diff_match.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/intern.h"
#include "base/sort.h"

struct item { const struct digest_row *row; const char *name; size_t run; }; // name: by which it is matched

static int by_name(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	if (order == 0)
		order = strcmp(x->row->dso, y->row->dso);
	if (order == 0 && x->run != y->run)
		order = x->run < y->run ? -1 : 1;
	return order != 0 ? order : strcmp(x->row->name, y->row->name);
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

// ---------------------------------------------------------------- by which name

struct naming {
	struct arena *arena;
	struct intern texts;
	struct hash_map builds; // file -> the build that its addresses are of; UINT32_MAX: several
	struct hash_map told;   // (name, file, source) -> what a function is shown as that is told apart by its source somewhere
};

static uint64_t told_key(struct naming *n, const char *name, const char *dso, const char *source)
{
	uint64_t file = hash_pair(intern_string(&n->texts, name), intern_string(&n->texts, dso));
	return hash_pair(file, intern_string(&n->texts, source));
}

static void note_row(struct naming *n, const struct digest_row *row)
{
	if (row->build != NULL) {
		bool is_new;
		uint32_t build = intern_string(&n->texts, row->build);
		uint32_t *known = hash_map_put(&n->builds, intern_string(&n->texts, row->dso), build, &is_new);
		if ((!is_new && *known != build) || row->build[0] == '\0') // of an unknown build: of another one, perhaps
			*known = UINT32_MAX;
	} else if (row->plain != NULL && row->source != NULL) {
		hash_map_put(&n->told, told_key(n, row->plain, row->dso, row->source), intern_string(&n->texts, row->name), NULL);
	}
}

static const char *name_of(struct naming *n, const struct digest_row *row)
{
	if (row->build != NULL && *hash_map_get(&n->builds, intern_string(&n->texts, row->dso)) == UINT32_MAX)
		return row->plain != NULL ? row->plain : "[unknown]";
	const uint32_t *told = row->plain == NULL && row->source != NULL ? hash_map_get(&n->told, told_key(n, row->name, row->dso, row->source)) : NULL;
	if (told == NULL)
		return row->name;
	const char *name = intern_text(&n->texts, *told);
	return arena_string(n->arena, name, strlen(name));
}

// Several rows of one recording that are matched by one name are one.
static const struct digest_row *joined(struct arena *arena, const struct digest_row *row, const struct digest_row *other)
{
	struct digest_row *sum = arena_alloc(arena, sizeof(*sum));
	*sum = *row;
	digest_join(sum, other);
	return sum;
}

void diff_match(struct diff_matches *m, const struct digest *const *base, size_t base_runs, const struct digest *const *new_, size_t new_runs)
{
	*m = (struct diff_matches){ .base = base, .new_ = new_, .base_runs = base_runs, .new_runs = new_runs };
	size_t runs = base_runs + new_runs;
	VEC(struct item) items = { 0 };
	struct naming naming = { .arena = &m->arena };
	intern_init(&naming.texts);
	for (size_t r = 0; r < runs; r++) {
		const struct digest *d = r < base_runs ? base[r] : new_[r - base_runs];
		for (size_t i = 0; i < d->rows.count; i++) {
			vec_push(&items, (struct item){ &d->rows.data[i], NULL, r });
			note_row(&naming, &d->rows.data[i]);
		}
	}
	for (size_t i = 0; i < items.count; i++)
		items.data[i].name = name_of(&naming, items.data[i].row);
	hash_map_release(&naming.builds);
	hash_map_release(&naming.told);
	intern_release(&naming.texts);
	if (items.count > 0)
		sort_stable(items.data, items.count, sizeof(*items.data), by_name);
	for (size_t i = 0; i < items.count; i++) {
		const struct digest_row *row = items.data[i].row;
		struct diff_match *last = m->rows.count > 0 ? &m->rows.data[m->rows.count - 1] : NULL;
		const char *name = items.data[i].name;
		if (last == NULL || strcmp(last->name, name) != 0 || strcmp(last->dso, row->dso) != 0) {
			last = vec_add(&m->rows);
			*last = (struct diff_match){ name, row->dso, arena_alloc(&m->arena, runs * sizeof(*last->rows)), base_runs };
		}
		const struct digest_row **place = &last->rows[items.data[i].run];
		*place = *place == NULL ? row : joined(&m->arena, *place, row);
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
