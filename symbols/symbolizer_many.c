// Many addresses at once: sorted, so that each compile unit is read once, and by several threads.
#include <stdlib.h>
#include <time.h>

#include "base/sort.h"
#include "symbols/symbolizer_internal.h"

enum { CLOCK_EVERY = 32 };

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool can_prepare(struct symbolizer *s, struct entry *entry)
{
	for (size_t p = 0; p < s->provider_count; p++)
		if (s->providers[p]->prepare != NULL && symbolizer_state(s, entry, p) != NULL)
			return true;
	return false;
}

// Of one image's addresses, sorted: those not known yet are made ready by the providers.
static void prepare(struct symbolizer *s, struct entry *entry, const struct sort_item *asked, size_t count, double deadline_s)
{
	VEC(uint64_t) addrs = { 0 };
	bool is_worth_it = false;
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = asked[i].key;
		if ((i > 0 && addr == asked[i - 1].key) || hash_map_get(&entry->by_addr, addr) != NULL)
			continue;
		symbol_module_open(&entry->module);
		if (!is_worth_it && !can_prepare(s, entry))
			break;
		is_worth_it = true;
		if (entry->module.image == NULL || image_offset_to_vaddr(entry->module.image, addr, &addr))
			vec_push(&addrs, addr);
	}
	for (size_t p = 0; p < s->provider_count && addrs.count > 0; p++) {
		void *state = s->providers[p]->prepare != NULL ? symbolizer_state(s, entry, p) : NULL;
		if (state != NULL)
			s->providers[p]->prepare(&entry->module, state, addrs.data, addrs.count, s->options.jobs, deadline_s);
	}
	vec_release(&addrs);
}

// The queries' addresses and places, image by image, each image's sorted; `ends[i]` is where those of image i end.
static struct sort_item *sort_queries(const struct symbolizer *s, const struct symbol_query *queries, size_t count, size_t **ends)
{
	size_t images = s->images.count, *at = mem_zero(images + 1, sizeof(*at));
	struct sort_item *sorted = mem_resize(NULL, count, sizeof(*sorted));
	for (size_t i = 0; i < count; i++)
		at[queries[i].image + 1]++;
	for (size_t i = 0; i < images; i++)
		at[i + 1] += at[i];
	for (size_t i = 0; i < count; i++)
		sorted[at[queries[i].image]++] = (struct sort_item){ queries[i].image_addr, (uint32_t)i };
	for (size_t i = 0, from = 0; i < images; from = at[i++])
		sort_items(&sorted[from], at[i] - from);
	*ends = at;
	return sorted;
}

// One image's addresses, sorted, looked up. Where results are handed out, those that many addresses share are not noted at each: they are found again as easily.
static void resolve_image(struct symbolizer *s, uint32_t image, const struct sort_item *asked, size_t count, double deadline_s,
                          const struct symbol_result **results)
{
	struct entry *entry = s->images.data[image];
	struct symbol_result *result = NULL;
	bool notes_all = results == NULL || entry->by_addr.count > 0;
	if (notes_all)
		hash_map_reserve(&entry->by_addr, count);
	for (size_t i = 0; i < count; i++) {
		if (deadline_s > 0 && !s->symbols_only && i % CLOCK_EVERY == 0)
			s->symbols_only = now_s() > deadline_s;
		if (i == 0 || asked[i].key != asked[i - 1].key) {
			result = notes_all ? symbolizer_looked_up(s, entry, asked[i].key) : symbolizer_resolve_one(s, entry, asked[i].key);
			if (!notes_all && (s->symbols_only || (result != s->last.plain && result != entry->unknown && result != entry->bounded)))
				symbolizer_note(entry, asked[i].key, result);
		}
		if (results != NULL)
			results[asked[i].value] = result;
	}
}

void symbolizer_resolve(struct symbolizer *s, const struct symbol_query *queries, size_t count, double time_limit_s,
                        const struct symbol_result **results)
{
	if (count == 0)
		return;
	double deadline_s = time_limit_s > 0 ? now_s() + time_limit_s : 0;
	size_t *ends, from = 0;
	struct sort_item *sorted = sort_queries(s, queries, count, &ends);
	bool before = s->symbols_only;
	for (size_t image = 0; image < s->images.count && symbolizer_wants_chains(s); from = ends[image++]) // leaves time to make chains of what was read
		prepare(s, s->images.data[image], &sorted[from], ends[image] - from, deadline_s > 0 ? deadline_s - time_limit_s / 4 : 0);
	from = 0;
	for (size_t image = 0; image < s->images.count; from = ends[image++])
		resolve_image(s, (uint32_t)image, &sorted[from], ends[image] - from, deadline_s, results);
	s->symbols_only = before;
	free(sorted);
	free(ends);
}
