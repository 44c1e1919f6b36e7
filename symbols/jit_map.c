#include "symbols/jit_map.h"

#include <string.h>

#include "base/search.h"
#include "base/sort.h"
#include "symbols/limits.h"
#include "symbols/text_file.h"

enum { NUMBERS_BYTES = 64, NAME_MOST = SYMBOL_NAME_BYTES_MOST + 1, LINE_MOST = NUMBERS_BYTES + NAME_MOST };
// What an entry takes, its spans and its place in the order of starts included.
enum { ENTRY_BYTES = sizeof(struct jit_entry) + 2 * sizeof(struct jit_span) + 16 };
#define NO_ENTRY UINT32_MAX

static bool parse_line(const char *p, const char *end, const char **name, struct jit_entry *out, bool *is_odd)
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
	*name = p;
	out->length = (uint32_t)(end - p < NAME_MOST ? end - p : NAME_MOST);
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
	sort_stable(order, count, sizeof(*order), compare_starts);
	for (size_t i = 0; i < count; i++) {
		advance(map, &heap, order[i].start);
		heap_push(&heap, order[i].entry);
		add_span(map, order[i].start, heap.entries.data[0]);
	}
	advance(map, &heap, UINT64_MAX);
	free(order);
	vec_release(&heap.entries);
}

// ---------------------------------------------------------------- lines
static bool is_wanted(const struct jit_map *map, const struct jit_entry *entry)
{
	if (map->wanted == NULL)
		return true;
	const size_t next = first_not(0, map->wanted_count, i, map->wanted[i] < entry->start);
	return next < map->wanted_count && map->wanted[next] < entry->end;
}

static bool has_room(struct jit_map *map, uint64_t bytes)
{
	if ((map->bytes_most != 0 && map->bytes + bytes > map->bytes_most) || map->names.size + NAME_MOST > UINT32_MAX || map->entries.count >= NO_ENTRY - 1)
		return false;
	return map->bytes_of_all == NULL || *map->bytes_of_all + bytes <= map->bytes_of_all_most;
}

static void take_line(struct jit_map *map, const char *line, const char *end, bool is_last)
{
	struct jit_entry entry;
	const char *name;
	bool is_odd, is_good = parse_line(line, end, &name, &entry, &is_odd);
	if ((is_odd || is_last) && !map->has_odd && !map->is_cut)
		map->odd_at = map->line_at;
	map->is_cut |= is_last;
	map->has_odd |= is_odd && !is_last;
	map->good += is_good;
	map->skipped += !is_good;
	if (!is_good || !is_wanted(map, &entry))
		return;
	const uint64_t bytes = ENTRY_BYTES + entry.length;
	if (!has_room(map, bytes)) {
		map->left_out++;
		return;
	}
	map->bytes += bytes;
	if (map->bytes_of_all != NULL)
		*map->bytes_of_all += bytes;
	entry.name = (uint32_t)map->names.size;
	buf_add(&map->names, name, entry.length);
	vec_push(&map->entries, entry);
}

// Of a line that goes on: what of it counts.
static void keep_part(struct jit_map *map, const char *text, size_t size)
{
	size_t room = LINE_MOST - map->line.size;
	buf_add(&map->line, text, size < room ? size : room);
	map->in_line = true;
}

void jit_map_add(struct jit_map *map, const char *text, size_t size)
{
	for (const char *at = text, *end = text + size; at < end;) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)), *line_end = newline != NULL ? newline : end;
		if (!map->in_line)
			map->line_at = map->at;
		map->at += (uint64_t)(line_end - at) + (newline != NULL);
		if (newline == NULL || map->in_line)
			keep_part(map, at, (size_t)(line_end - at));
		if (newline != NULL && map->in_line)
			take_line(map, map->line.data, map->line.data + map->line.size, false);
		else if (newline != NULL)
			take_line(map, at, line_end, false);
		if (newline != NULL) {
			buf_clear(&map->line);
			map->in_line = false;
		}
		at = line_end + (newline != NULL);
	}
}

void jit_map_end(struct jit_map *map)
{
	if (map->in_line)
		take_line(map, map->line.data, map->line.data + map->line.size, true);
	buf_release(&map->line);
	map->in_line = false;
	map->text = map->names.data;
	flatten(map);
}

void jit_map_parse(struct jit_map *map, const char *text, size_t size)
{
	jit_map_add(map, text, size);
	jit_map_end(map);
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
	if (map->bytes_of_all != NULL)
		*map->bytes_of_all -= map->bytes;
	buf_release(&map->names);
	buf_release(&map->line);
	vec_release(&map->entries);
	vec_release(&map->spans);
}
