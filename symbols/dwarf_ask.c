// Functions and what is inlined into them, for addresses that are known beforehand: one pass over a unit's DIEs, which passes over whatever
// has none of the addresses and keeps only what has one.
#include <stdlib.h>

#include "base/search.h"
#include "symbols/dwarf_internal.h"

// VISITS_LIMIT: ranges that may hold an address, of all functions that overlap and of all that are inlined into each other.
enum { REREAD_LIMIT = 16, BUCKETS_LIMIT = 1 << 14, FEW = 8, VISITS_LIMIT = 1024 };

struct claim { // the function that has an address, by the range that says so
	uint64_t lo, hi;
	uint32_t function; // SPAN_NONE: none
};

struct asking {
	struct dwarf_functions *out;
	struct claim *outer, *nested; // of each answer
	uint32_t *buckets;            // where answers begin whose addresses, from the first one's on, begin with these bits; and their end
	size_t bucket_count;
	unsigned shift;
	size_t first, last;           // answers of the function whose children are read
	uint64_t visits;              // of answers, for a range
};

// The first answer whose address is not before `addr`.
static size_t first_at(const struct asking *a, uint64_t addr)
{
	const struct dwarf_answer *answers = a->out->answers.data;
	if (addr <= answers[0].addr)
		return 0;
	uint64_t bucket = (addr - answers[0].addr) >> a->shift;
	if (bucket >= a->bucket_count)
		return a->out->answers.count;
	return first_not(a->buckets[bucket], a->buckets[bucket + 1], i, answers[i].addr < addr);
}

static void make_buckets(struct asking *a)
{
	const struct dwarf_answer *answers = a->out->answers.data;
	size_t count = a->out->answers.count, next = 0;
	uint64_t span = answers[count - 1].addr - answers[0].addr;
	while (span >> a->shift >= BUCKETS_LIMIT || span >> a->shift > 8 * (uint64_t)count)
		a->shift++;
	a->bucket_count = (size_t)(span >> a->shift) + 1;
	a->buckets = mem_resize(NULL, a->bucket_count + 1, sizeof(*a->buckets));
	for (size_t bucket = 0; bucket <= a->bucket_count; bucket++) {
		a->buckets[bucket] = (uint32_t)next;
		while (next < count && (answers[next].addr - answers[0].addr) >> a->shift == bucket)
			next++;
	}
}

static bool is_over(struct asking *a)
{
	return a->visits / VISITS_LIMIT > a->out->answers.count;
}

// The range that begins last holds, of two that begin together the shorter, of two equal ones the later: as in span.h.
static bool holds(uint64_t lo, uint64_t hi, uint64_t other_lo, uint64_t other_hi)
{
	return lo > other_lo || (lo == other_lo && hi <= other_hi);
}

static bool claim_function(struct dwarf_walk *w, bool is_nested)
{
	struct asking *a = w->context;
	struct dwarf_functions *out = a->out;
	struct claim *claims = is_nested ? a->nested : a->outer;
	uint32_t function = (uint32_t)out->met.count;
	const struct dwarf_range_list *ranges = &w->extent.ranges;
	size_t first = out->answers.count, last = 0;
	for (size_t n = 0; n < ranges->count; n++) {
		uint64_t lo = ranges->data[n].lo, hi = ranges->data[n].hi;
		for (size_t i = first_at(a, lo); i < out->answers.count && out->answers.data[i].addr < hi && !is_over(a); i++) {
			struct claim *claim = &claims[i];
			a->visits++;
			if (claim->function != SPAN_NONE && !holds(lo, hi, claim->lo, claim->hi))
				continue;
			*claim = (struct claim){ .lo = lo, .hi = hi, .function = function };
			if (!is_nested)
				out->answers.data[i].inlined = SPAN_NONE;
			first = i < first ? i : first;
			last = i > last ? i : last;
		}
	}
	if (first == out->answers.count)
		return false;
	vec_push(&out->met, (struct dwarf_function){ .die = (uint32_t)(w->pass.die - w->unit->offset), .start = ranges->data[0].lo });
	if (is_nested || !w->pass.entry->has_children)
		return !is_nested;
	a->first = first;
	a->last = last;
	dwarf_walk_inlined(w, &out->met_inlined);
	return true;
}

static bool claim_inlined(struct dwarf_walk *w, uint32_t index)
{
	struct asking *a = w->context;
	struct dwarf_answer *answers = a->out->answers.data;
	uint32_t function = a->outer[a->first].function;
	bool is_met = false;
	for (size_t n = 0; n < w->extent.ranges.count; n++) {
		uint64_t lo = w->extent.ranges.data[n].lo, hi = w->extent.ranges.data[n].hi;
		if (hi <= answers[a->first].addr || lo > answers[a->last].addr)
			continue;
		size_t i = a->first;
		if (a->last - a->first >= FEW && lo > answers[i].addr)
			i = first_at(a, lo);
		for (; i <= a->last && answers[i].addr < hi && !is_over(a); i++) {
			struct dwarf_answer *answer = &answers[i];
			a->visits++;
			if (answer->addr < lo || a->outer[i].function != function)
				continue;
			is_met = true;
			if (answer->inlined != SPAN_NONE && !holds(lo, hi, answer->lo, answer->hi))
				continue;
			answer->lo = lo;
			answer->hi = hi;
			answer->inlined = index;
		}
	}
	return is_met;
}

// Addresses that no outer function has: those of nested ones, whose children are read here.
static void answer_nested(struct dwarf_walk *w, struct asking *a)
{
	struct dwarf_functions *out = a->out;
	uint64_t bytes_read = 0;
	size_t to;
	w->wants_nested = false;
	for (size_t from = 0; from < out->answers.count; from = to) {
		uint32_t function = a->outer[from].function != SPAN_NONE ? SPAN_NONE : a->nested[from].function;
		for (to = from + 1; to < out->answers.count && a->outer[to].function == SPAN_NONE && a->nested[to].function == function;)
			to++;
		if (function == SPAN_NONE)
			continue;
		// Functions may stand inside each other, but not to make work without end: from here on by tables.
		if (bytes_read / REREAD_LIMIT > w->unit->end - w->unit->offset) {
			out->answers.count = from;
			break;
		}
		memcpy(&a->outer[from], &a->nested[from], (to - from) * sizeof(*a->outer));
		a->first = from;
		a->last = to - 1;
		bytes_read += dwarf_walk_inlined_at(w, out->met.data[function].die, &out->met_inlined);
	}
}

static void ask(struct dwarf_unit *unit, struct asking *a)
{
	struct dwarf_functions *out = a->out;
	size_t count = out->answers.count;
	// Where what is inside functions is passed anyway, nested ones are met there; else they are looked for when an address has no other.
	struct dwarf_walk w = { .unit = unit, .wants_outer = true, .wants_nested = !unit->abbrevs->has_siblings, .function = claim_function,
	                        .inlined = claim_inlined, .context = a };
	dwarf_walk_functions(&w);
	bool is_missing = false;
	for (size_t i = 0; i < count; i++)
		is_missing |= a->outer[i].function == SPAN_NONE;
	if (is_missing && !w.wants_nested) {
		w.wants_outer = false;
		w.wants_nested = true;
		dwarf_walk_functions(&w);
	}
	if (is_missing)
		answer_nested(&w, a);
	for (size_t i = 0; i < out->answers.count; i++)
		out->answers.data[i].function = a->outer[i].function;
	if (is_over(a)) // then by tables
		vec_clear(&out->answers);
	dwarf_walk_release(&w);
}

void dwarf_functions_ask(struct dwarf_unit *unit, const uint64_t *vaddrs, size_t count)
{
	if (unit->functions == NULL)
		unit->functions = NEW(struct dwarf_functions);
	struct dwarf_functions *out = unit->functions;
	struct asking a = { .out = out };
	if (out->answers.count > 0 || count == 0 || !dwarf_unit_root(unit))
		return;
	vec_reserve(&out->answers, count);
	for (size_t i = 0; i < count; i++)
		vec_push(&out->answers, (struct dwarf_answer){ .addr = vaddrs[i], .function = SPAN_NONE, .inlined = SPAN_NONE });
	make_buckets(&a);
	a.outer = mem_resize(NULL, 2 * count, sizeof(*a.outer));
	a.nested = a.outer + count;
	for (size_t i = 0; i < 2 * count; i++)
		a.outer[i] = (struct claim){ .function = SPAN_NONE };
	ask(unit, &a);
	free(a.outer);
	free(a.buckets);
}

const struct dwarf_answer *dwarf_functions_answer(struct dwarf_unit *unit, uint64_t vaddr)
{
	struct dwarf_functions *functions = unit->functions;
	if (functions == NULL)
		return NULL;
	if (functions->next_answer < functions->answers.count && functions->answers.data[functions->next_answer].addr == vaddr)
		return &functions->answers.data[functions->next_answer++];
	const size_t at = first_not(0, functions->answers.count, i, functions->answers.data[i].addr < vaddr);
	if (at >= functions->answers.count || functions->answers.data[at].addr != vaddr)
		return NULL;
	functions->next_answer = at + 1;
	return &functions->answers.data[at];
}
