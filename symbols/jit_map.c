#include "symbols/jit_map.h"

#include "base/search.h"
#include "symbols/text_file.h"

enum { ENTRIES_LIMIT = 8 * 1024 * 1024 };
#define NO_ENTRY UINT32_MAX

static bool parse_line(const char *p, const char *end, const char *text, struct jit_entry *out, bool *is_odd)
{
	uint64_t size;
	*is_odd = p < end; // an empty line says nothing wrong
	if (!text_hex(&p, end, &out->start) || p == end || *p++ != ' ')
		return false;
	if (!text_hex(&p, end, &size) || p == end || *p++ != ' ')
		return false;
	*is_odd = false;
	const char *nul = memchr(p, '\0', (size_t)(end - p));
	if (nul != NULL)
		end = nul;
	while (end > p && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	out->end = out->start + size;
	out->name = (uint32_t)(p - text);
	out->length = (uint32_t)(end - p);
	return end > p && out->end > out->start;
}

// ---- flattening: a sweep over the starts with a heap of what is open, latest entry on top
struct heap {
	VEC(uint32_t) entries;
};

static void heap_push(struct heap *heap, uint32_t entry)
{
	vec_push(&heap->entries, entry);
	uint32_t *h = heap->entries.data;
	for (size_t i = heap->entries.count - 1; i > 0 && h[(i - 1) / 2] < h[i]; i = (i - 1) / 2) {
		uint32_t t = h[i];
		h[i] = h[(i - 1) / 2];
		h[(i - 1) / 2] = t;
	}
}

static void heap_pop(struct heap *heap)
{
	uint32_t *h = heap->entries.data;
	size_t count = --heap->entries.count, i = 0;
	h[0] = h[count];
	for (;;) {
		size_t child = 2 * i + 1;
		if (child >= count)
			return;
		if (child + 1 < count && h[child + 1] > h[child])
			child++;
		if (h[i] >= h[child])
			return;
		uint32_t t = h[i];
		h[i] = h[child];
		h[child] = t;
		i = child;
	}
}

static void add_span(struct jit_map *map, uint64_t start, uint32_t entry)
{
	struct jit_span *last = map->spans.count > 0 ? &map->spans.data[map->spans.count - 1] : NULL;
	if (last != NULL && last->start == start)
		last->entry = entry;
	else if (last == NULL || last->entry != entry)
		vec_push(&map->spans, (struct jit_span){ .start = start, .entry = entry });
}

// Up to `until`, whatever is on top holds until it ends; then what was below it and still goes on.
static void advance(struct jit_map *map, struct heap *heap, uint64_t until)
{
	while (heap->entries.count > 0 && map->entries.data[heap->entries.data[0]].end <= until) {
		uint64_t end = map->entries.data[heap->entries.data[0]].end;
		while (heap->entries.count > 0 && map->entries.data[heap->entries.data[0]].end <= end)
			heap_pop(heap);
		add_span(map, end, heap->entries.count > 0 ? heap->entries.data[0] : NO_ENTRY);
	}
}

struct start_order {
	uint64_t start;
	uint32_t entry;
};

static int compare_starts(const void *a, const void *b)
{
	const struct start_order *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->entry < y->entry ? -1 : x->entry > y->entry;
}

static void flatten(struct jit_map *map)
{
	size_t count = map->entries.count;
	struct heap heap = { 0 };
	if (count == 0)
		return;
	struct start_order *order = mem_resize(NULL, count, sizeof(*order));
	for (size_t i = 0; i < count; i++)
		order[i] = (struct start_order){ .start = map->entries.data[i].start, .entry = (uint32_t)i };
	qsort(order, count, sizeof(*order), compare_starts);
	for (size_t i = 0; i < count; i++) {
		advance(map, &heap, order[i].start);
		heap_push(&heap, order[i].entry);
		add_span(map, order[i].start, heap.entries.data[0]);
	}
	advance(map, &heap, UINT64_MAX);
	free(order);
	vec_release(&heap.entries);
}

void jit_map_parse(struct jit_map *map, const char *text, size_t size)
{
	const char *at = text, *end = text + (size < UINT32_MAX ? size : UINT32_MAX);
	map->text = text;
	while (at < end && map->entries.count < ENTRIES_LIMIT) {
		const char *line_end = memchr(at, '\n', (size_t)(end - at));
		if (line_end == NULL)
			line_end = end;
		struct jit_entry entry;
		bool is_odd, is_last = line_end == end;
		if (parse_line(at, line_end, text, &entry, &is_odd))
			vec_push(&map->entries, entry);
		else
			map->skipped++;
		if ((is_odd || is_last) && !map->has_odd && !map->is_cut)
			map->odd_at = (size_t)(at - text);
		map->is_cut |= is_last;
		map->has_odd |= is_odd && !is_last;
		at = line_end + (line_end < end);
	}
	flatten(map);
}

const struct jit_entry *jit_map_find(const struct jit_map *map, uint64_t addr)
{
	const size_t next = first_not(0, map->spans.count, i, map->spans.data[i].start <= addr);
	if (next == 0 || map->spans.data[next - 1].entry == NO_ENTRY)
		return NULL;
	return &map->entries.data[map->spans.data[next - 1].entry];
}

void jit_map_release(struct jit_map *map)
{
	vec_release(&map->entries);
	vec_release(&map->spans);
}
