#include "profile/profile.h"

#include <string.h>

void profile_init(struct profile *profile)
{
	memset(profile, 0, sizeof(*profile));
	intern_init(&profile->names);
}

void profile_release(struct profile *profile)
{
	intern_release(&profile->names);
	vec_release(&profile->dsos);
	vec_release(&profile->functions);
	vec_release(&profile->chains);
	vec_release(&profile->frames);
	vec_release(&profile->nodes);
	samples_release(&profile->samples);
	vec_release(&profile->events);
	vec_release(&profile->readings);
	vec_release(&profile->losses);
	vec_release(&profile->throttles);
	vec_release(&profile->restarts);
	vec_release(&profile->meta.argv);
	vec_release(&profile->meta.target_ids);
	vec_release(&profile->meta.decisions);
	vec_release(&profile->meta.bearing);
	vec_release(&profile->meta.careful);
	vec_release(&profile->meta.caveats);
	hash_map_release(&profile->function_index);
	hash_map_release(&profile->frame_index);
	hash_map_release(&profile->node_index);
	hash_map_release(&profile->dso_index);
	memset(profile, 0, sizeof(*profile));
}

const char *profile_text(const struct profile *profile, uint32_t intern_id)
{
	return intern_text(&profile->names, intern_id);
}

// The maps are keyed by a hash; rows that share one stand under the keys that follow.
static uint64_t next_key(uint64_t key)
{
	return hash_u64(key + 1);
}

static bool same_dso(const struct profile_dso *a, const struct profile_dso *b)
{
	return a->path == b->path && a->kind == b->kind && a->pid == b->pid && a->since_ns == b->since_ns && a->build_id.size == b->build_id.size &&
	       memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.size) == 0;
}

uint32_t profile_add_dso(struct profile *profile, const struct profile_dso *dso)
{
	uint64_t key = hash_pair((uint64_t)dso->path << 32 | dso->pid, (uint64_t)dso->kind ^ dso->since_ns ^ hash_bytes(dso->build_id.bytes, dso->build_id.size));
	for (;; key = next_key(key)) {
		bool is_new;
		uint32_t id = *hash_map_put(&profile->dso_index, key, (uint32_t)profile->dsos.count, &is_new);
		if (is_new)
			vec_push(&profile->dsos, *dso);
		if (is_new || same_dso(&profile->dsos.data[id], dso))
			return id;
	}
}

uint32_t profile_add_function(struct profile *profile, const struct profile_function *function)
{
	uint64_t key = hash_pair((uint64_t)function->name << 32 | function->linkage_name, ((uint64_t)function->dso << 1 | function->is_known) ^ function->start * 0x9e3779b97f4a7c15u);
	for (;; key = next_key(key)) {
		bool is_new;
		uint32_t id = *hash_map_put(&profile->function_index, key, (uint32_t)profile->functions.count, &is_new);
		if (is_new)
			vec_push(&profile->functions, *function);
		const struct profile_function *row = &profile->functions.data[id];
		if (row->name == function->name && row->linkage_name == function->linkage_name && row->dso == function->dso &&
		    row->is_known == function->is_known && row->start == function->start)
			return id;
	}
}

bool profile_function_is_called(const struct profile *profile, const struct profile_function *function, const char *text)
{
	const uint32_t names[] = { function->name, function->plain_name, function->linkage_name };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if ((i == 0 || names[i] != 0) && strcmp(profile_text(profile, names[i]), text) == 0)
			return true;
	return false;
}

bool profile_function_is_by_address(const struct profile *profile, const struct profile_function *function)
{
	return function->is_nameless || (function->told_by != 0 && strncmp(profile_text(profile, function->told_by), "0x", 2) == 0);
}

// Nearly all frames fit into a key that tells them from all others: the row, which is memory to be waited for, need not be looked at. false: this one does not.
static bool whole_key(const struct profile_frame *frame, uint64_t addr, uint64_t *key)
{
	enum { ADDR_BITS = 40, DSO_BITS = 14, KIND_BITS = 4, VIA_BITS = 4 };
	if (addr >> ADDR_BITS != 0 || frame->dso >> DSO_BITS != 0 || frame->kind >> KIND_BITS != 0 || frame->via >> VIA_BITS != 0)
		return false;
	*key = (((addr << DSO_BITS | frame->dso) << KIND_BITS | frame->kind) << VIA_BITS | frame->via) << 1 | frame->is_kernel;
	return true;
}

uint32_t profile_add_frame(struct profile *profile, const struct profile_frame *frame)
{
	static const uint64_t IS_HASH = 1ull << 63; // which whole keys do not reach
	uint64_t addr = frame->dso != PROFILE_NONE ? frame->image_addr : frame->addr, key;
	bool is_whole = whole_key(frame, addr, &key);
	if (!is_whole)
		key = hash_pair(addr, (uint64_t)frame->dso << 32 | (uint64_t)frame->kind << 16 | (uint64_t)frame->via << 8 | frame->is_kernel) | IS_HASH;
	for (;; key = next_key(key) | IS_HASH) {
		bool is_new;
		uint32_t id = *hash_map_put(&profile->frame_index, key, (uint32_t)profile->frames.count, &is_new);
		if (is_new)
			vec_push(&profile->frames, *frame);
		if (is_whole)
			return id;
		const struct profile_frame *row = &profile->frames.data[id];
		if (row->dso == frame->dso && row->kind == frame->kind && row->via == frame->via && row->is_kernel == frame->is_kernel &&
		    (frame->dso != PROFILE_NONE ? row->image_addr == frame->image_addr : row->addr == frame->addr))
			return id;
	}
}

static uint32_t depth_below(const struct profile *profile, uint32_t parent)
{
	return parent != PROFILE_NONE ? profile->nodes.data[parent].depth + 1 : 0;
}

uint32_t profile_add_node(struct profile *profile, uint32_t parent, uint32_t frame)
{
	// Most nodes have one child, made right after them: that one is seen at once, and needs no place in the index.
	size_t next = (uint32_t)(parent + 1); // the first of all, for a root
	if (next < profile->nodes.count && profile->nodes.data[next].parent == parent && profile->nodes.data[next].frame == frame)
		return (uint32_t)next;
	if (next == profile->nodes.count) {
		vec_push(&profile->nodes, (struct profile_node){ .parent = parent, .frame = frame, .depth = depth_below(profile, parent) });
		return (uint32_t)next;
	}
	bool is_new;
	uint32_t id = *hash_map_put(&profile->node_index, (uint64_t)parent << 32 | frame, (uint32_t)profile->nodes.count, &is_new);
	if (is_new)
		vec_push(&profile->nodes, (struct profile_node){ .parent = parent, .frame = frame, .depth = depth_below(profile, parent) });
	return id;
}

size_t profile_stack(const struct profile *profile, uint32_t stack, bool inlines, struct stack_step *steps, size_t capacity)
{
	size_t count = 0;
	for (uint32_t node = stack; node != PROFILE_NONE; node = profile->nodes.data[node].parent) {
		const struct profile_frame *frame = &profile->frames.data[profile->nodes.data[node].frame];
		count += inlines && frame->line_count > 0 ? frame->line_count : 1;
	}
	// From the leaf, so from the last step down to the first.
	size_t at = count;
	for (uint32_t node = stack; node != PROFILE_NONE; node = profile->nodes.data[node].parent) {
		uint32_t frame = profile->nodes.data[node].frame;
		uint32_t first = profile->frames.data[frame].first_line, lines = profile->frames.data[frame].line_count;
		uint32_t from = inlines || lines == 0 ? 0 : lines - 1; // without inlines: the function that has the code, which is last
		for (uint32_t i = from; i < (lines > 0 ? lines : 1); i++) {
			if (--at < capacity)
				steps[at] = (struct stack_step){ .frame = frame, .line = first + i };
		}
	}
	return count;
}
