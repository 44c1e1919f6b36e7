// Functions whose code is one, as load named their frames, into a recording's names: an address has the name that a rule chose, the others as
// aliases, and what each call calls.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/sort.h"
#include "cmd/inject_names.h"

struct folded {
	struct names *names;
	const struct profile *profile;
	const uint32_t *images;  // by profile dso: index among the names; PROFILE_NONE: none
	struct hash_map several; // (image address, dso) that frames of different functions have
};

static const struct profile_function *function_of(const struct profile *p, const struct profile_frame *frame)
{
	return &p->functions.data[p->chains.data[frame->first_line + frame->line_count - 1].function];
}

static bool is_named(const struct profile *p, const struct profile_frame *frame)
{
	return frame->line_count > 0 && frame->dso != PROFILE_NONE && function_of(p, frame)->is_known && function_of(p, frame)->linkage_name != 0;
}

static void add_alias(struct folded *f, const struct profile_frame *frame, const char *name)
{
	if (f->images[frame->dso] != PROFILE_NONE)
		vec_push(&f->names->images.data[f->images[frame->dso]].aliases, (struct name_alias){ frame->symbol_start, name });
}

// Frames that load made beside an address's first are of its aliases.
static void add_variants(struct folded *f)
{
	const struct profile *p = f->profile;
	struct hash_map first = { 0 };
	for (uint32_t i = 0; i < p->frames.count; i++) {
		const struct profile_frame *frame = &p->frames.data[i];
		if (!is_named(p, frame))
			continue;
		uint64_t place = hash_pair(frame->image_addr, frame->dso);
		const struct profile_frame *before = &p->frames.data[*hash_map_put(&first, place, i, NULL)];
		if (before->dso != frame->dso || before->image_addr != frame->image_addr || function_of(p, before) == function_of(p, frame))
			continue;
		hash_map_put(&f->several, place, 1, NULL);
		add_alias(f, frame, profile_text(p, function_of(p, frame)->linkage_name));
	}
	hash_map_release(&first);
}

// Where callers did not tell: what the rule's choice stands for, one name a line.
static void add_untold(struct folded *f)
{
	const struct profile *p = f->profile;
	for (uint32_t i = 0; i < p->frames.count; i++) {
		const struct profile_frame *frame = &p->frames.data[i];
		if (!is_named(p, frame) || function_of(p, frame)->aliases == 0)
			continue;
		for (const char *at = profile_text(p, function_of(p, frame)->aliases); *at != '\0';) {
			size_t length = strcspn(at, "\n");
			add_alias(f, frame, arena_string(&f->names->arena, at, length));
			at += length + (at[length] == '\n');
		}
	}
}

static void add_calls(struct folded *f)
{
	const struct profile *p = f->profile;
	for (size_t i = 0; i < p->nodes.count; i++) {
		const struct profile_node *node = &p->nodes.data[i];
		const struct profile_frame *frame = &p->frames.data[node->frame];
		if (node->parent == PROFILE_NONE || !is_named(p, frame) || function_of(p, frame)->aliases != 0 ||
		    hash_map_get(&f->several, hash_pair(frame->image_addr, frame->dso)) == NULL)
			continue;
		const struct profile_frame *caller = &p->frames.data[p->nodes.data[node->parent].frame];
		if (caller->kind == FRAME_RETURN && caller->dso != PROFILE_NONE && f->images[caller->dso] != PROFILE_NONE)
			vec_push(&f->names->images.data[f->images[caller->dso]].calls,
			         (struct name_call){ caller->image_addr, profile_text(p, function_of(p, frame)->linkage_name) });
	}
}

static int by_start(const void *a, const void *b)
{
	const struct name_alias *x = a, *y = b;
	if (x->symbol_start != y->symbol_start)
		return x->symbol_start < y->symbol_start ? -1 : 1;
	return strcmp(x->linkage_name, y->linkage_name);
}

static int by_addr(const void *a, const void *b)
{
	const struct name_call *x = a, *y = b;
	return (x->image_addr > y->image_addr) - (x->image_addr < y->image_addr);
}

static void put_in_order(struct name_image *image)
{
	size_t kept = 0;
	if (image->aliases.count > 0)
		sort_stable(image->aliases.data, image->aliases.count, sizeof(image->aliases.data[0]), by_start);
	for (size_t i = 0; i < image->aliases.count; i++)
		if (kept == 0 || by_start(&image->aliases.data[kept - 1], &image->aliases.data[i]) != 0)
			image->aliases.data[kept++] = image->aliases.data[i];
	image->aliases.count = kept;
	kept = 0;
	if (image->calls.count > 0)
		sort_stable(image->calls.data, image->calls.count, sizeof(image->calls.data[0]), by_addr);
	for (size_t i = 0; i < image->calls.count; i++)
		if (kept == 0 || image->calls.data[kept - 1].image_addr != image->calls.data[i].image_addr)
			image->calls.data[kept++] = image->calls.data[i];
	image->calls.count = kept;
}

void inject_folded(struct names *names, const struct profile *profile, const uint32_t *images)
{
	struct folded f = { .names = names, .profile = profile, .images = images };
	add_variants(&f);
	add_untold(&f);
	if (f.several.count > 0)
		add_calls(&f);
	for (size_t i = 0; i < names->images.count; i++)
		put_in_order(&names->images.data[i]);
	hash_map_release(&f.several);
}
