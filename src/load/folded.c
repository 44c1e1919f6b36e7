// Functions whose code a compiler or a linker found identical and kept once (gcc -fipa-icf, ld --icf) have one address and several names.
// Which of them a frame is in, its caller's call site knows.
#include <string.h>

#include "base/buf.h"
#include "load/symbols.h"

struct telling {
	struct symbols *symbols;
	struct hash_map variants; // (frame, alias) -> frame that has the alias's name
};

void folded_note(struct symbols *symbols, uint32_t frame, const struct symbol_result *result)
{
	while (symbols->folded.count < symbols->loader->profile->frames.count)
		vec_push(&symbols->folded, NULL);
	symbols->folded.data[frame] = result;
}

// Which of its names the frame of a node goes by; -1: its caller does not tell.
static int find_name(struct telling *t, const struct profile_node *node)
{
	const struct profile *profile = t->symbols->loader->profile;
	if (node->parent == PROFILE_NONE)
		return -1;
	// A call site in code that was folded itself is that of the one function whose debug information was kept.
	uint32_t id = profile->nodes.data[node->parent].frame;
	if (id >= t->symbols->folded.count || t->symbols->folded.data[id] != NULL)
		return -1;
	const struct profile_frame *caller = &profile->frames.data[id];
	if (caller->kind != FRAME_RETURN || caller->is_kernel || caller->dso == PROFILE_NONE || t->symbols->images[caller->dso] == PROFILE_NONE)
		return -1;
	const struct symbol_alias *callee = symbolizer_callee(t->symbols->symbolizer, t->symbols->images[caller->dso], caller->image_addr);
	return symbol_alias_find(t->symbols->symbolizer, t->symbols->folded.data[node->frame], callee);
}

// The same frame, with the name of an alias for the function that has the code; what is inlined into it stays.
static uint32_t make_variant(struct telling *t, uint32_t id, uint32_t index)
{
	struct profile *profile = t->symbols->loader->profile;
	const struct symbol_alias *alias = &t->symbols->folded.data[id]->aliases[index];
	struct profile_frame frame = profile->frames.data[id];
	uint32_t first = (uint32_t)profile->chains.count;
	for (uint32_t i = 0; i < frame.line_count; i++) {
		struct profile_line line = profile->chains.data[frame.first_line + i];
		if (i + 1 == frame.line_count) {
			struct profile_function function = { .name = intern_string(&profile->names, alias->name), .dso = frame.dso, .is_known = true,
			                                     .linkage_name = intern_string(&profile->names, alias->linkage_name) };
			line.function = profile_add_function(profile, &function);
		}
		vec_push(&profile->chains, line);
	}
	frame.first_line = first;
	vec_push(&profile->frames, frame); // beside the one that profile_add_frame knows
	return (uint32_t)profile->frames.count - 1;
}

static uint32_t variant_of(struct telling *t, uint32_t frame, uint32_t index)
{
	bool is_new;
	uint64_t key = (uint64_t)frame << 32 | index;
	(void)hash_map_put(&t->variants, key, 0, &is_new);
	if (is_new) {
		uint32_t made = make_variant(t, frame, index);
		*hash_map_put(&t->variants, key, made, NULL) = made;
	}
	return *hash_map_get(&t->variants, key);
}

static void set_aliases(struct telling *t, uint32_t frame)
{
	struct profile *profile = t->symbols->loader->profile;
	const struct profile_frame *row = &profile->frames.data[frame];
	struct profile_function *function = &profile->functions.data[profile->chains.data[row->first_line + row->line_count - 1].function];
	if (function->aliases != 0)
		return;
	struct buf text = { 0 };
	const struct symbol_result *result = t->symbols->folded.data[frame];
	for (size_t i = 0; i < result->alias_count; i++)
		buf_printf(&text, "%s%s", i > 0 ? "\n" : "", result->aliases[i].name);
	function->aliases = intern_string(&profile->names, buf_text(&text));
	buf_release(&text);
}

void folded_tell(struct symbols *symbols)
{
	struct telling t = { .symbols = symbols };
	struct profile *profile = symbols->loader->profile;
	size_t frames = symbols->folded.count;
	for (size_t i = 0; frames > 0 && i < profile->nodes.count; i++) {
		struct profile_node *node = &profile->nodes.data[i];
		if (node->frame >= frames || symbols->folded.data[node->frame] == NULL)
			continue;
		int name = find_name(&t, node);
		if (name > 0)
			node->frame = variant_of(&t, node->frame, (uint32_t)name - 1);
		else if (name < 0)
			set_aliases(&t, node->frame);
	}
	hash_map_release(&t.variants);
}
