// What the code itself tells where there is no CFI (code_rule.h), by image or piece of code and pc: a rule is worked out once.
#include <stdlib.h>

#include "base/mem.h"
#include "unwind/walk.h"

enum { CODE_BITS = 10, CODE_SETS = 1 << CODE_BITS, CODE_WAYS = 2, ENTERED_BITS = 8, ENTERED_MOST = 6 };

struct code_entry {
	uint64_t owner; // the image's serial number, or the id of the code; 0: empty
	uint64_t place; // code_place_of
	struct code_rule rule;
};

// From where a function may begin to pc, an address of the image's file.
struct entered {
	uint64_t pc;
	uint32_t serial; // of the image; 0: empty
	uint8_t count;
	struct code_entered what[ENTERED_MOST];
};

struct code_cache {
	struct entered entered[1 << ENTERED_BITS];
	struct code_entry sets[CODE_SETS][CODE_WAYS]; // from the one that came last
	struct code_follower *follower;
};

struct code_cache *code_cache_new(void)
{
	struct code_cache *cache = NEW(struct code_cache);

	cache->follower = code_follower_new();
	return cache;
}

void code_cache_free(struct code_cache *cache)
{
	if (cache == NULL)
		return;
	code_follower_free(cache->follower);
	free(cache);
}

void code_cache_forget(struct code_cache *cache)
{
	memset(cache->sets, 0, sizeof(cache->sets));
	memset(cache->entered, 0, sizeof(cache->entered));
}

// ---------------------------------------------------------------- where code comes from
static bool begins_in_image(void *context, uint64_t vaddr)
{
	return rule_table_begins(context, vaddr);
}

static bool image_source(const struct unwind_map *map, uint64_t vaddr, struct code_source *out)
{
	const struct image *image = map->image->image;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *segment = &image->segments[i];
		if (vaddr - segment->vaddr >= segment->file_size || !image_at_vaddr(image, segment->vaddr, segment->file_size, &out->code))
			continue;
		out->addr = segment->vaddr;
		out->begins = begins_in_image;
		out->context = map->image;
		return true;
	}
	return false;
}

// Code that is in no image leads to code that is in one: to a function of it.
static bool is_in_image(void *context, uint64_t addr)
{
	return walk_map(context, addr)->image != NULL;
}

static bool other_source(struct walk *walk, const struct unwind_code *code, uint64_t pc, struct code_source *out)
{
	if (code->id == 0 || code->bytes == NULL || pc < code->start || pc >= code->end)
		return false;
	*out = (struct code_source){
		.code = bytes_of(code->bytes, code->end - code->start), .addr = code->start, .is_elsewhere = is_in_image, .context = walk, .is_generated = true,
	};
	return true;
}

// ---------------------------------------------------------------- the rules
// Of a function with unwind information it is known that it pops nothing, and of one that was followed if it does.
static enum code_when when_of(const struct cursor *at)
{
	if (at->kind != FRAME_RETURN)
		return CODE_AT;
	return (at->via == VIA_CODE && at->is_sp_left) || !frame_via_is_guessed(at->via) ? CODE_BEHIND : CODE_BEHIND_ANY;
}

static uint64_t place_in(uint64_t offset, enum code_when when, bool is_image)
{
	return offset << 3 | (uint64_t)when << 1 | is_image;
}

static struct code_entry *find_set(struct code_cache *cache, uint64_t owner, uint64_t place)
{
	return cache->sets[(owner * 0x9e3779b97f4a7c15u + place) * 0xbf58476d1ce4e5b9u >> (64 - CODE_BITS)];
}

static const struct code_rule *find(const struct code_entry *set, uint64_t owner, uint64_t place)
{
	for (size_t i = 0; i < CODE_WAYS; i++)
		if (set[i].owner == owner && set[i].place == place)
			return &set[i].rule;
	return NULL;
}

static const struct code_rule *work_out(struct walk *walk, struct code_entry *set, const struct code_source *source, uint64_t pc, struct code_entry made)
{
	walk->arch->follow(walk->unwinder->code->follower, source, pc, (enum code_when)(made.place >> 1 & 3), &made.rule);
	set[1] = set[0];
	set[0] = made;
	return &set[0].rule;
}

static const struct code_rule *rule_of(struct walk *walk, const struct unwind_map *map, const struct cursor *at)
{
	enum code_when when = when_of(at);
	bool is_return = when != CODE_AT;
	struct code_source source = { 0 };

	if (map->image != NULL) {
		uint64_t vaddr = at->pc - map->bias, place = place_in(vaddr, when, true);
		struct code_entry *set = find_set(walk->unwinder->code, map->image->serial, place);
		const struct code_rule *known = find(set, map->image->serial, place);
		if (known != NULL || map->image->arch != walk->arch || !image_source(map, vaddr - is_return, &source))
			return known;
		return work_out(walk, set, &source, vaddr, (struct code_entry){ .owner = map->image->serial, .place = place });
	}
	// Compilers at run time have frames with a frame pointer, all of them or none: what was called by such a one has called from such a one.
	bool is_framed = is_return && (at->via == VIA_FP || (at->via == VIA_CODE && !at->is_above_bare));
	if (walk->input->code == NULL || is_framed)
		return NULL;
	struct unwind_code code = walk->input->code(walk->input->code_context, at->pc - is_return);
	if (!other_source(walk, &code, at->pc - is_return, &source))
		return NULL;
	uint64_t place = place_in(at->pc - code.start, when, false);
	struct code_entry *set = find_set(walk->unwinder->code, code.id, place);
	const struct code_rule *known = find(set, code.id, place);
	return known != NULL ? known : work_out(walk, set, &source, at->pc, (struct code_entry){ .owner = code.id, .place = place });
}

// ---------------------------------------------------------------- what they say
static bool register_at(const struct walk *walk, const struct cursor *at, uint8_t number, uint64_t *out)
{
	uint8_t reg = walk->arch->insn_to_perf[number];

	*out = at->sp;
	if (reg == walk->arch->perf_sp)
		return at->sp_is_exact;
	*out = at->fp;
	return reg == walk->arch->perf_fp || (at->kind == FRAME_LEAF && walk_sampled_register(walk->input, reg, out));
}

static bool address_of(const struct walk *walk, const struct cursor *at, const struct code_place *place, uint64_t *out)
{
	if (!register_at(walk, at, place->reg, out) || (place->is_indirect && !stack_word(&walk->view, *out + (uint64_t)(int64_t)place->inner, out)))
		return false;
	*out += (uint64_t)(int64_t)place->offset;
	return true;
}

static bool value_of(const struct walk *walk, const struct cursor *at, const struct code_place *place, uint64_t *out)
{
	if (place->kind == PLACE_NOWHERE || !address_of(walk, at, place, out))
		return false;
	return place->kind == PLACE_VALUE || stack_word(&walk->view, *out, out);
}

static bool by_rule(struct walk *walk, const struct code_rule *rule, const struct cursor *at, struct cursor *caller)
{
	*caller = *at;
	if ( !value_of(walk, at, &rule->ra, &caller->pc) || !value_of(walk, at, &rule->fp, &caller->fp))
		return false;
	if (rule->ra.kind == PLACE_AT) {
		caller->sp_is_exact = address_of(walk, at, &rule->ra, &caller->sp);
		caller->sp += walk->arch->word_bytes;
	} else {
		// Where the return address is pushed again it may be below ours, above what its caller had pushed and the function yet pops.
		caller->sp_is_exact = value_of(walk, at, &rule->sp, &caller->sp) && caller->sp >= at->sp;
		caller->sp = caller->sp_is_exact ? caller->sp : at->sp;
	}
	caller->is_above_bare = rule->ra.kind != PLACE_AT || walk->arch->insn_to_perf[rule->ra.reg] != walk->arch->perf_fp;
	caller->is_sp_left = rule->leaves_sp;
	return caller->sp >= at->sp && (caller->sp > at->sp || at->kind != FRAME_RETURN);
}

bool walk_by_code(struct walk *walk, const struct unwind_map *map, const struct cursor *at, struct cursor *caller)
{
	const struct code_rule *rule = walk->arch->follow != NULL ? rule_of(walk, map, at) : NULL;

	*caller = *at;
	return rule != NULL && rule->is_known && by_rule(walk, rule, at, caller);
}

bool walk_by_unsure_code(struct walk *walk, const struct unwind_map *map, const struct cursor *at, struct cursor *caller)
{
	const struct code_rule *rule = walk->arch->follow != NULL && map->image != NULL ? rule_of(walk, map, at) : NULL;

	return rule != NULL && rule->is_unsure && by_rule(walk, rule, at, caller);
}

// ---------------------------------------------------------------- from the beginning
static const struct entered *entered_of(struct walk *walk, const struct unwind_map *map, uint64_t pc)
{
	struct entered *entered = &walk->unwinder->code->entered[(((uint64_t)map->image->serial << 40) + pc) * 0xbf58476d1ce4e5b9u >> (64 - ENTERED_BITS)];
	struct code_source source = { 0 };

	if (entered->serial == map->image->serial && entered->pc == pc)
		return entered;
	entered->serial = map->image->serial;
	entered->pc = pc;
	entered->count = image_source(map, pc - 1, &source) ? (uint8_t)walk->arch->enter(&source, pc, entered->what, ENTERED_MOST) : 0;
	return entered;
}

bool walk_by_beginning(struct walk *walk, const struct unwind_map *map, const struct cursor *at, size_t way, struct cursor *caller, bool *is_told)
{
	if (walk->arch->enter == NULL || map->image == NULL || map->image->arch != walk->arch || !at->sp_is_exact)
		return false;
	const struct entered *entered = entered_of(walk, map, at->pc - map->bias);
	if (way >= entered->count)
		return false;
	const struct code_entered *what = &entered->what[way];
	*caller = (struct cursor){ .sp = at->sp + (uint64_t)what->depth, .fp = at->fp, .kind = FRAME_RETURN, .via = VIA_CODE, .sp_is_exact = true, .is_above_bare = true };
	*is_told = stack_word(&walk->view, caller->sp, &caller->pc) && (!what->is_saved || stack_word(&walk->view, at->sp + (uint64_t)what->saved, &caller->fp));
	caller->sp += walk->arch->word_bytes;
	caller->lr = caller->pc;
	return true;
}
