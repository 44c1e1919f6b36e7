// Code of JIT compilers in raw recordings: what nobody can look up later is asked for while the process lives.
#include "record/drain.h"
#include "record/jit_pages.h"

enum { INNERMOST_BYTES = 1024 };

static bool is_jit(const struct drain *drain, const struct mapping *mapping)
{
	return dso_get(spaces_dsos(drain->spaces), mapping->dso)->kind == DSO_ANON;
}

// Mappings with none of others' code between them are one range.
static const struct jit_ranges *ranges_of(struct drain *drain, const struct maps *maps)
{
	struct jit_ranges *ranges = &drain->jit_ranges[maps->generation % JIT_RANGE_MAPS];
	if (ranges->generation == maps->generation)
		return ranges;
	*ranges = (struct jit_ranges){ .generation = maps->generation };
	bool goes_on = false;
	for (uint32_t i = 0; i < maps->count; i++) {
		const struct mapping *mapping = &maps->items[i];
		if (!is_jit(drain, mapping)) {
			goes_on = false;
			continue;
		}
		if (!goes_on && ranges->count == JIT_RANGES)
			break;
		ranges->count += !goes_on;
		if (!goes_on)
			ranges->ranges[ranges->count - 1].start = mapping->start;
		ranges->ranges[ranges->count - 1].end = mapping->end;
		goes_on = true;
	}
	return ranges;
}

static void want_return(struct drain *drain, const struct record *record, const struct maps *maps, uint64_t word)
{
	const struct mapping *mapping = maps_find(maps, word - 1);
	if (mapping != NULL && is_jit(drain, mapping))
		jit_pages_want_return(drain->pages, record->id.pid, word, mapping->start, record->id.time_ns);
}

// Return addresses are among the words of the stack. The innermost are looked at each time; callers further out stay for a while.
static void want_returns(struct drain *drain, const struct record *record, const struct maps *maps)
{
	const struct jit_ranges *ranges = ranges_of(drain, maps);
	uint64_t bytes = record->sample.stack.bytes != NULL ? record->sample.stack.dyn_size : 0, word;
	if (ranges->count == 0 || record->sample.user.abi != PERF_SAMPLE_REGS_ABI_64)
		return;
	if (bytes > INNERMOST_BYTES && !jit_pages_want_stack(drain->pages, record->id.pid, record->id.time_ns))
		bytes = INNERMOST_BYTES;
	for (uint64_t at = 0; at + sizeof(word) <= bytes; at += sizeof(word)) {
		memcpy(&word, record->sample.stack.bytes + at, sizeof(word));
		for (uint32_t i = 0; i < ranges->count; i++)
			if (word - 1 - ranges->ranges[i].start < ranges->ranges[i].end - ranges->ranges[i].start)
				want_return(drain, record, maps, word);
	}
}

void drain_want_code(struct drain *drain, const struct record *record, const struct maps *maps)
{
	uint64_t pc;
	const struct mapping *mapping = drain_register(drain, record, false, &pc) ? maps_find(maps, pc) : NULL;
	if (mapping != NULL && is_jit(drain, mapping)) {
		// What was there before the recording is looked into when it is first sampled.
		(void)images_want(drain->images, spaces_dsos(drain->spaces), mapping, record->id.pid, 0);
		jit_pages_want(drain->pages, record->id.pid, pc, mapping->start, mapping->end, record->id.time_ns);
	}
	want_returns(drain, record, maps);
}
