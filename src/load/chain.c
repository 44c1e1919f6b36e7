#include <string.h>

#include "load/loader.h"

enum { DEFAULT_MAX_STACK = 127 }; // /proc/sys/kernel/perf_event_max_stack where an attr says 0

static bool is_context(uint64_t ip)
{
	return ip >= (uint64_t)PERF_CONTEXT_MAX;
}

static void push(struct chain *chain, uint64_t addr, uint8_t kind, uint8_t via, bool is_kernel)
{
	if (chain->count >= CHAIN_MOST)
		return;
	chain->frames[chain->count++] = (struct chain_frame){ .addr = addr, .kind = kind, .via = via, .is_kernel = is_kernel };
	chain->kernel_count += is_kernel;
}

// The kernel's list: PERF_CONTEXT_* markers, and addresses leaf first behind each. The first address of a part is where that
// part was left (the leaf, or the system call's return to user space), every other a return address. A marker for the user part within
// it stands for frames left out (of a stack of more than 8,000).
static void split_callchain(struct chain *chain, const struct record *record)
{
	const struct record_sample *sample = &record->sample;
	bool in_kernel = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	bool is_first = true, is_guest = false, had_user = false, is_gap = false;
	for (uint64_t i = 0; i < sample->callchain_count; i++) {
		uint64_t ip = sample->callchain[i];
		if (!is_context(ip)) {
			if (is_gap && !is_guest)
				push(chain, 0, CHAIN_GAP, VIA_NONE, false);
			is_gap = false;
			if (!is_guest)
				push(chain, ip, is_first ? FRAME_LEAF : FRAME_RETURN, in_kernel ? VIA_KERNEL : is_first ? VIA_NONE : VIA_FP, in_kernel);
			is_first = false;
			continue;
		}
		if (ip == CONTEXT_USER_DEFERRED) // then a cookie, which is no address
			i++;
		is_guest = ip == (uint64_t)PERF_CONTEXT_GUEST || ip == (uint64_t)PERF_CONTEXT_GUEST_KERNEL || ip == (uint64_t)PERF_CONTEXT_GUEST_USER;
		in_kernel = ip == (uint64_t)PERF_CONTEXT_KERNEL || ip == (uint64_t)PERF_CONTEXT_HV;
		is_first = in_kernel || !had_user;
		is_gap = ip == (uint64_t)PERF_CONTEXT_USER && chain->count > chain->kernel_count;
		had_user |= ip == (uint64_t)PERF_CONTEXT_USER;
	}
}

// --call-graph lbr: the branch stack holds the calls that have not returned, the newest first.
static void add_lbr(struct chain *chain, const struct record *record)
{
	const struct record_sample *sample = &record->sample;
	bool is_user = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	if (chain->count == chain->kernel_count)
		push(chain, is_user ? sample->ip : sample->branches[0].to, FRAME_LEAF, VIA_NONE, false);
	chain->count = chain->kernel_count + 1; // frame pointers give way
	if (is_user) // where the event is precise, the call chain's first address lies a few instructions behind
		chain->frames[chain->kernel_count].addr = sample->ip;
	for (uint64_t i = 0; i < sample->branch_count; i++) {
		// The call itself; one byte on it is looked up like a return address.
		push(chain, sample->branches[i].from + 1, FRAME_RETURN, VIA_BRANCHES, false);
	}
}

static void apply_note(struct chain *chain, const struct record_sample *sample, struct profile_sample *out, bool *has_note)
{
	static const struct note no_note;
	struct note note = no_note;
	uint8_t kinds[8192];
	struct chain_frame *frames = chain->frames + chain->kernel_count;
	size_t covered, raw_size, all = chain->count - chain->kernel_count, user = 0; // the note is of the frames alone, not of a gap among them
	for (size_t i = 0; i < all; i++)
		user += frames[i].kind != CHAIN_GAP;
	*has_note = sample->raw != NULL && note_decode(sample->raw, sample->raw_size, &note, kinds,
	                                               user < sizeof(kinds) ? user : sizeof(kinds), &covered, &raw_size);
	if (!*has_note)
		return;
	for (size_t i = 0, n = 0; i < all && n < covered && n < user && n < sizeof(kinds); i++) {
		if (frames[i].kind == CHAIN_GAP)
			continue;
		frames[i].kind = kinds[n] >> 4;
		frames[i].via = kinds[n++] & 15;
	}
	out->end = (uint8_t)note.end;
	out->splice = (uint8_t)note.splice;
}

void chain_from_sample(struct chain *chain, const struct record *record, const struct perf_event_attr *attr, struct profile_sample *out)
{
	const struct record_sample *sample = &record->sample;
	uint16_t mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	chain->count = chain->kernel_count = 0;
	split_callchain(chain, record);
	bool is_lbr = (attr->branch_sample_type & PERF_SAMPLE_BRANCH_CALL_STACK) != 0 && sample->branch_count > 0;
	if (is_lbr)
		add_lbr(chain, record);
	bool guest = mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
	if (chain->count == 0 && (attr->sample_type & PERF_SAMPLE_IP) != 0 && !guest)
		push(chain, sample->ip, FRAME_LEAF, VIA_NONE, mode == PERF_RECORD_MISC_KERNEL);
	out->is_kernel = chain->count > 0 ? chain->frames[0].is_kernel : mode == PERF_RECORD_MISC_KERNEL;
	bool has_note;
	apply_note(chain, sample, out, &has_note);
	if (has_note)
		return;
	size_t most = attr->sample_max_stack != 0 ? attr->sample_max_stack : DEFAULT_MAX_STACK;
	if ((attr->sample_type & PERF_SAMPLE_CALLCHAIN) == 0 || chain->count == chain->kernel_count)
		out->end = UNWIND_NOT_USER;
	else if (chain->count >= most && !is_lbr)
		out->end = UNWIND_DEPTH_LIMIT;
	else
		out->end = END_BY_NAME;
}

// ---------------------------------------------------------------- into the profile

// One that no mapping tells of; made when it is first needed.
static uint32_t own_dso(struct loader *loader, uint32_t *dso, const char *path, const char *short_name, uint8_t kind)
{
	if (*dso == PROFILE_NONE) {
		struct profile_dso row = { .path = intern_string(&loader->profile->names, path),
		                           .short_name = intern_string(&loader->profile->names, short_name), .kind = kind };
		*dso = profile_add_dso(loader->profile, &row);
		while (loader->dso_of.count <= *dso)
			vec_push(&loader->dso_of, DSO_NONE);
	}
	return *dso;
}

// The trampoline that a return probe has put over a return address: by its mapping's name, or, as no record tells of that, by the place where the kernel puts it.
static bool is_probe_return(const struct loader *loader, const struct chain_frame *from, const struct maps *maps)
{
	enum { PAGE_LEAST = 4096 };
	if (from->is_kernel || from->kind != FRAME_RETURN || from->addr % PAGE_LEAST != 0)
		return false;
	const struct mapping *mapping = maps != NULL ? maps_find(maps, from->addr) : NULL;
	if (mapping != NULL)
		return strcmp(dso_get(spaces_dsos(loader->spaces), mapping->dso)->path, "[uprobes]") == 0;
	return unwind_is_probe_return(loader_machine(loader, PERF_SAMPLE_REGS_ABI_64), from->addr);
}

static uint32_t make_frame(struct loader *loader, const struct maps *maps, const struct chain_frame *from)
{
	if (from->kind == CHAIN_GAP) {
		uint32_t dso = own_dso(loader, &loader->gap_dso, PROFILE_GAP_NAME, PROFILE_GAP_NAME, DSO_SPECIAL); // which is named by itself
		return profile_add_frame(loader->profile, &(struct profile_frame){ .dso = dso, .kind = FRAME_LEAF, .via = VIA_NONE });
	}
	struct profile_frame frame = { .addr = from->addr, .dso = PROFILE_NONE, .kind = from->kind, .via = from->via,
	                               .is_kernel = from->is_kernel };
	uint64_t lookup = from->kind == FRAME_RETURN && from->addr > 0 ? from->addr - 1 : from->addr;
	const struct mapping *mapping = maps != NULL ? maps_find(maps, lookup) : NULL;
	frame.image_addr = lookup;
	if (is_probe_return(loader, from, maps)) {
		frame.dso = own_dso(loader, &loader->probe_dso, PROFILE_PROBE_NAME, PROFILE_PROBE_NAME, DSO_SPECIAL);
		return profile_add_frame(loader->profile, &frame);
	}
	if (mapping != NULL) {
		const struct dso *dso = dso_get(spaces_dsos(loader->spaces), mapping->dso);
		frame.dso = loader_dso(loader, mapping->dso);
		if (!from->is_kernel && (dso->kind == DSO_FILE || dso->kind == DSO_VDSO))
			frame.image_addr = lookup - mapping->start + mapping->pgoff;
	} else if (from->is_kernel) {
		frame.dso = own_dso(loader, &loader->kernel_dso, "[kernel.kallsyms]", "[kernel]", DSO_KERNEL);
	}
	return profile_add_frame(loader->profile, &frame);
}

static struct cached_frame *slot_of(struct loader *loader, const struct maps *maps, const struct chain_frame *from)
{
	uint32_t generation = maps != NULL ? maps->generation : 0;
	uint64_t hash = hash_pair(from->addr, (uint64_t)generation << 8 | (uint64_t)from->kind << 4 | from->via);
	return &loader->frame_cache[hash % FRAME_CACHE_SLOTS];
}

static uint32_t frame_of(struct loader *loader, struct cached_frame *slot, const struct maps *maps, const struct chain_frame *from)
{
	uint32_t generation = maps != NULL ? maps->generation : 0;
	if (!slot->is_used || slot->addr != from->addr || slot->generation != generation || slot->kind != from->kind ||
	    slot->via != from->via || slot->is_kernel != from->is_kernel) {
		*slot = (struct cached_frame){ .addr = from->addr, .generation = generation, .kind = from->kind, .via = from->via,
		                               .is_kernel = from->is_kernel, .is_used = true };
		slot->frame = make_frame(loader, maps, from);
	}
	return slot->frame;
}

static void note_return(struct loader *loader, uint32_t frame)
{
	while (loader->by_return.count <= frame)
		vec_push(&loader->by_return, 0);
	loader->by_return.data[frame] = 1;
}

static bool same_frame(const struct chain_frame *a, const struct chain_frame *b)
{
	return a->addr == b->addr && a->kind == b->kind && a->via == b->via && a->is_kernel == b->is_kernel;
}

uint32_t chain_intern(struct loader *loader, int32_t tid, const struct chain *chain, const struct maps *maps, const struct maps *kernel,
                      bool is_foreign)
{
	struct recent_stack *recent = &loader->recent[(uint32_t)tid % RECENT_STACKS];
	uint32_t generation = maps != NULL ? maps->generation : 0, kernel_generation = kernel != NULL ? kernel->generation : 0;
	if (recent->tid != tid || recent->generation != generation || recent->kernel_generation != kernel_generation ||
	    recent->is_foreign != is_foreign) {
		recent->tid = tid;
		recent->generation = generation;
		recent->kernel_generation = kernel_generation;
		recent->is_foreign = is_foreign;
		recent->frames.count = recent->nodes.count = 0;
	}
	size_t same = 0;
	while (same < recent->frames.count && same < chain->count &&
	       same_frame(&recent->frames.data[same], &chain->frames[chain->count - 1 - same]))
		same++;
	recent->frames.count = recent->nodes.count = same;
	uint32_t node = same > 0 ? recent->nodes.data[same - 1] : PROFILE_NONE;
	// Slots are asked for some frames before they are looked at: each is a wait for memory else.
	enum { ASKED = 16 };
	struct cached_frame *slots[ASKED];
	for (size_t i = chain->count - same, asked = i; i > 0; i--) {
		for (; asked > 0 && asked + ASKED > i; asked--) {
			const struct chain_frame *ahead = &chain->frames[asked - 1];
			slots[asked % ASKED] = slot_of(loader, ahead->is_kernel ? kernel : maps, ahead);
			__builtin_prefetch(slots[asked % ASKED], 1);
		}
		const struct chain_frame *from = &chain->frames[i - 1];
		uint32_t frame = frame_of(loader, slots[i % ASKED], from->is_kernel ? kernel : maps, from);
		if (is_foreign && !from->is_kernel && from->kind == FRAME_RETURN)
			note_return(loader, frame);
		node = profile_add_node(loader->profile, node, frame);
		vec_push(&recent->frames, *from);
		vec_push(&recent->nodes, node);
	}
	return node;
}
