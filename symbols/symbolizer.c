#include "symbols/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "symbols/alias.h"
#include "symbols/symbolizer_internal.h"

enum { ALIASES_LIMIT = 64 };

const char *symbol_missing_text(enum symbol_missing missing)
{
	switch (missing) {
	case SYMBOL_FOUND: return "found";
	case SYMBOL_NO_FILE: return "no file with this path or build ID here";
	case SYMBOL_WRONG_BUILD_ID: return "the file here is not the one that ran: its build ID differs";
	case SYMBOL_NO_SYMBOLS: return "stripped, and no debug file found";
	case SYMBOL_NOT_COVERED: return "between symbols";
	case SYMBOL_NO_KALLSYMS: return "the kernel hides its addresses: kernel.kptr_restrict (sysctl -w kernel.kptr_restrict=0; root sees them unless it is 2)";
	case SYMBOL_NO_MAP: return "code made at run time, and no /tmp/perf-PID.map names it";
	case SYMBOL_BAD_FILE: return "the file here cannot be read";
	}
	return "unknown";
}

// ---------------------------------------------------------------- options and images

static const char *const *copy_list(struct arena *arena, const char *const *list)
{
	size_t n = 0;
	if (list == NULL)
		return NULL;
	while (list[n] != NULL)
		n++;
	const char **copy = arena_alloc(arena, (n + 1) * sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = arena_string(arena, list[i], strlen(list[i]));
	return copy;
}

static void copy_options(struct symbolizer *s, const struct symbolizer_options *options)
{
	s->options = *options;
	if (options->symfs != NULL)
		s->options.symfs = arena_string(&s->arena, options->symfs, strlen(options->symfs));
	if (options->kallsyms_path != NULL)
		s->options.kallsyms_path = arena_string(&s->arena, options->kallsyms_path, strlen(options->kallsyms_path));
	s->options.debug_dirs = copy_list(&s->arena, options->debug_dirs);
	s->options.more_debug_dirs = copy_list(&s->arena, options->more_debug_dirs);
}

struct symbolizer *symbolizer_new(const struct symbolizer_options *options)
{
	struct symbolizer *s = NEW(struct symbolizer);
	copy_options(s, options);
	intern_init(&s->names);
	for (const struct symbol_provider *const *p = symbol_providers; *p != NULL && s->provider_count < PROVIDERS_LIMIT; p++) {
		size_t at = s->provider_count++;
		for (; at > 0 && s->providers[at - 1]->order > (*p)->order; at--)
			s->providers[at] = s->providers[at - 1];
		s->providers[at] = *p;
	}
	return s;
}

void symbolizer_free(struct symbolizer *s)
{
	if (s == NULL)
		return;
	for (size_t i = 0; i < s->images.count; i++) {
		struct entry *entry = s->images.data[i];
		for (size_t p = 0; p < s->provider_count; p++)
			if (entry->providers[p].is_good)
				s->providers[p]->release(entry->providers[p].state);
		symbol_module_release(&entry->module);
		hash_map_release(&entry->by_addr);
		vec_release(&entry->results);
		bounds_release(&entry->bounds);
		free(entry);
	}
	vec_release(&s->images);
	vec_release(&s->demangled);
	hash_map_release(&s->image_ids);
	intern_release(&s->names);
	arena_release(&s->arena);
	free(s);
}

static bool same_file(int a, int b)
{
	struct stat x, y;
	if (a < 0 || b < 0)
		return a < 0 && b < 0;
	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static bool same_image(const struct symbol_image *a, const struct symbol_image *b)
{
	return a->kind == b->kind && a->image == b->image && strcmp(a->path, b->path) == 0 && a->build_id.size == b->build_id.size &&
		memcmp(a->build_id.bytes, b->build_id.bytes, a->build_id.size) == 0 && same_file(a->map_fd, b->map_fd);
}

uint32_t symbolizer_image(struct symbolizer *s, const struct symbol_image *image)
{
	struct symbol_image wanted = *image;
	if (wanted.path == NULL)
		wanted.path = "";
	if (wanted.kind != SYMBOL_IMAGE_JIT && wanted.kind != SYMBOL_IMAGE_JITDUMP)
		wanted.map_fd = -1;
	uint64_t key = hash_pair(hash_bytes(wanted.path, strlen(wanted.path)), hash_bytes(wanted.build_id.bytes, wanted.build_id.size));
	for (;; key++) { // the next key where another image has this one
		bool is_new;
		uint32_t *id = hash_map_put(&s->image_ids, key, (uint32_t)s->images.count, &is_new);
		if (is_new)
			break;
		if (same_image(&s->images.data[*id]->module.wanted, &wanted))
			return *id;
	}
	struct entry *entry = NEW(struct entry);
	entry->module.wanted = wanted;
	entry->module.wanted.path = mem_string(wanted.path);
	entry->module.wanted.map_path = wanted.map_path != NULL ? mem_string(wanted.map_path) : NULL;
	if (wanted.image != NULL)
		image_retain(wanted.image);
	if (wanted.debug != NULL)
		image_retain(wanted.debug);
	if (wanted.map_fd >= 0)
		entry->module.wanted.map_fd = fcntl(wanted.map_fd, F_DUPFD_CLOEXEC, 0);
	if (wanted.addrs != NULL)
		entry->module.wanted.addrs = mem_copy(wanted.addrs, wanted.addr_count * sizeof(*wanted.addrs));
	entry->module.options = &s->options;
	entry->module.limits = &s->limits;
	vec_push(&s->images, entry);
	return (uint32_t)s->images.count - 1;
}

// ---------------------------------------------------------------- names

static const char *kept(struct symbolizer *s, const char *text, size_t length)
{
	return intern_text(&s->names, intern_bytes(&s->names, text, length));
}

// What is shown for a linkage name, demangled once for each.
static const char *shown(struct symbolizer *s, const char *linkage, size_t length)
{
	uint32_t id = intern_bytes(&s->names, linkage, length);
	const char *text = intern_text(&s->names, id);
	if (!s->options.demangle || text[0] != '_')
		return text;
	while (s->demangled.count <= id)
		vec_push(&s->demangled, NULL);
	if (s->demangled.data[id] == NULL) {
		char *name = symbol_demangle(text);
		s->demangled.data[id] = name != NULL ? arena_string(&s->arena, name, strlen(name)) : text;
		free(name);
	}
	return s->demangled.data[id];
}

static struct recent *recent_of(struct recent *table, const char *from)
{
	return &table[hash_u64((uintptr_t)from) % RECENT];
}

static const char *source_name(struct symbolizer *s, const struct symbol_source *source)
{
	if (source->linkage_name == NULL)
		return source->name != NULL ? kept(s, source->name, strlen(source->name)) : NULL;
	struct recent *recent = recent_of(s->linkages, source->linkage_name);
	if (recent->from != source->linkage_name)
		*recent = (struct recent){ source->linkage_name, shown(s, source->linkage_name, strlen(source->linkage_name)) };
	return recent->to;
}

static const char *source_file(struct symbolizer *s, const struct symbol_source *source)
{
	if (source->file == NULL || s->options.no_lines)
		return NULL;
	struct recent *recent = recent_of(s->files, source->file);
	if (recent->from != source->file)
		*recent = (struct recent){ source->file, kept(s, source->file, strlen(source->file)) };
	return recent->to;
}

// ---------------------------------------------------------------- several functions at one address

static const char *key_of(struct symbolizer *s, const char *linkage, size_t length)
{
	struct buf key = { 0 };
	symbol_key(linkage, length, &key);
	const char *text = kept(s, key.size > 0 ? (const char *)key.data : "", key.size);
	buf_release(&key);
	return text;
}

const char *symbolizer_key(struct symbolizer *s, const char *linkage_name)
{
	return key_of(s, linkage_name, strlen(linkage_name));
}

static struct symbol_alias named(struct symbolizer *s, const char *linkage, size_t length)
{
	return (struct symbol_alias){ .linkage_name = kept(s, linkage, length), .name = shown(s, linkage, length), .key = key_of(s, linkage, length) };
}

static const struct symbol_alias *copy_aliases(struct symbolizer *s, const struct symbol_alias *aliases, size_t count)
{
	struct symbol_alias *copy = count > 0 ? arena_alloc(&s->arena, count * sizeof(*copy)) : NULL;
	for (size_t i = 0; i < count; i++)
		copy[i] = named(s, aliases[i].linkage_name, strlen(aliases[i].linkage_name));
	return copy;
}

// The names beside a symbol that are other functions', into `s->last`.
static void find_aliases(struct symbolizer *s, struct entry *entry, size_t p, const struct symbol_hit *hit)
{
	struct symbol_alias found[ALIASES_LIMIT];
	struct symbol_hit other;
	size_t count = 0, at = 0;
	const char *own = key_of(s, hit->name, hit->length);
	while (count < ALIASES_LIMIT && s->providers[p]->alias(&entry->module, entry->providers[p].state, hit, &at, &other)) {
		const char *key = key_of(s, other.name, other.length); // most are names of the very function, as a constructor has two
		bool is_other = key != own;
		for (size_t i = 0; i < count && is_other; i++)
			is_other = key != found[i].key;
		if (is_other)
			found[count++] = named(s, other.name, other.length);
	}
	s->last.aliases = copy_aliases(s, found, count);
	s->last.alias_count = count;
}

static const struct symbol_local *copy_local(struct symbolizer *s, const struct symbol_local *local)
{
	struct symbol_local *copy = local != NULL ? arena_alloc(&s->arena, sizeof(*copy)) : NULL;
	if (copy == NULL)
		return NULL;
	*copy = *local;
	copy->source = local->source != NULL ? kept(s, local->source, strlen(local->source)) : NULL;
	return copy;
}

static void find_local(struct symbolizer *s, struct entry *entry, size_t p, const struct symbol_hit *hit)
{
	struct symbol_local local;
	if (s->providers[p]->local(&entry->module, entry->providers[p].state, hit, &local))
		s->last.local = copy_local(s, &local);
}

// What is needed of a hit by every result it goes into.
static void remember(struct symbolizer *s, struct entry *entry, size_t p, const struct symbol_hit *hit)
{
	if (hit->name == s->last.name && hit->length == s->last.length && hit->start == s->last.start && entry == s->last.entry)
		return;
	s->last.name = hit->name;
	s->last.length = hit->length;
	s->last.start = hit->start;
	s->last.size = hit->size;
	s->last.entry = entry;
	s->last.linkage = kept(s, hit->name, hit->length);
	s->last.shown = s->options.demangle && hit->length > 0 && hit->name[0] == '_' ? shown(s, hit->name, hit->length) : s->last.linkage;
	s->last.aliases = NULL;
	s->last.alias_count = 0;
	s->last.local = NULL;
	if (hit->is_local && s->providers[p]->local != NULL)
		find_local(s, entry, p, hit);
	s->last.plain = NULL;
	if (hit->has_aliases && s->providers[p]->alias != NULL)
		find_aliases(s, entry, p, hit);
}

bool symbolizer_left_out(const struct symbolizer *s, struct buf *out)
{
	return symbol_limits_tell(&s->limits, out);
}

int symbol_alias_find(struct symbolizer *s, const struct symbol_result *result, const struct symbol_alias *callee)
{
	if (callee == NULL || result->linkage_name == NULL)
		return -1;
	for (size_t i = 0; i < result->alias_count; i++)
		if (result->aliases[i].key == callee->key)
			return (int)i + 1;
	return symbolizer_key(s, result->linkage_name) == callee->key ? 0 : -1;
}

// ---------------------------------------------------------------- resolving

void *symbolizer_state(struct symbolizer *s, struct entry *entry, size_t p)
{
	struct opened *opened = &entry->providers[p];
	if (!opened->is_tried) {
		opened->is_tried = true;
		opened->is_good = s->providers[p]->serves(&entry->module) && s->providers[p]->open(&entry->module, &opened->state);
	}
	return opened->is_good ? opened->state : NULL;
}

static bool find_symbol(struct symbolizer *s, struct entry *entry, uint64_t addr, struct symbol_hit *hit)
{
	for (size_t p = 0; p < s->provider_count; p++) {
		if (s->providers[p]->lookup == NULL)
			continue;
		void *state = symbolizer_state(s, entry, p);
		if (state != NULL && s->providers[p]->lookup(&entry->module, state, addr, hit) &&
		    symbol_limits_take(&s->limits, &s->arena, &s->names, &hit->name, &hit->length)) {
			remember(s, entry, p, hit);
			return true;
		}
	}
	return false;
}

bool symbolizer_wants_chains(const struct symbolizer *s)
{
	return !s->symbols_only && (s->options.inlines || s->options.lines);
}

// Whether debug information may tell something of any of its addresses.
static bool may_have_chains(struct symbolizer *s, struct entry *entry)
{
	for (size_t p = 0; p < s->provider_count && symbolizer_wants_chains(s); p++)
		if (s->providers[p]->expand != NULL && symbolizer_state(s, entry, p) != NULL)
			return true;
	return false;
}

static bool find_chain(struct symbolizer *s, struct entry *entry, uint64_t addr, struct symbol_chain *chain)
{
	if (!symbolizer_wants_chains(s))
		return false;
	for (size_t p = 0; p < s->provider_count; p++) {
		if (s->providers[p]->expand == NULL)
			continue;
		void *state = symbolizer_state(s, entry, p);
		if (state != NULL && s->providers[p]->expand(&entry->module, state, addr, chain) && chain->count > 0)
			return true;
	}
	return false;
}

static uint64_t image_address(const struct entry *entry, uint64_t addr)
{
	uint64_t offset;
	if (entry->module.image == NULL)
		return addr;
	return image_vaddr_to_offset(entry->module.image, addr, &offset) ? offset : 0;
}

// Of an address without a name: the function that has it.
static bool find_bounds(struct symbolizer *s, struct entry *entry, uint64_t image_addr, uint64_t addr, struct symbol_bounds *out)
{
	struct extent extent;
	if (bounds_find(&entry->bounds, image_addr, out))
		return true;
	for (size_t p = 0; p < s->provider_count; p++) {
		void *state = s->providers[p]->bounds != NULL ? symbolizer_state(s, entry, p) : NULL;
		if (state == NULL || !s->providers[p]->bounds(&entry->module, state, addr, &extent))
			continue;
		uint64_t start = image_address(entry, extent.start);
		*out = (struct symbol_bounds){ .start = start, .end = start + (extent.end - extent.start), .vaddr = extent.start };
		return true;
	}
	return false;
}

// The frames of a result: the chain's, but the function that has the code keeps its symbol's name (aliases, .cold and .part).
static void compose(struct symbolizer *s, struct symbol_result *result, const struct symbol_hit *hit, const struct symbol_chain *chain)
{
	size_t from = !s->options.inlines && chain->count > 0 ? chain->count - 1 : 0;
	result->count = chain->count > 0 ? chain->count - from : 1;
	struct symbol_frame *frames = arena_alloc(&s->arena, result->count * sizeof(*frames));
	for (size_t i = 0; from + i < chain->count; i++) {
		const struct symbol_source *source = &chain->frames[from + i];
		bool is_named = i + 1 == result->count && hit->name != NULL;
		frames[i].name = is_named ? s->last.shown : source_name(s, source);
		frames[i].is_inlined = i + 1 < result->count;
		if (frames[i].name == NULL && frames[i].is_inlined)
			frames[i].name = "[inlined]";
		frames[i].file = source_file(s, source);
		frames[i].line = frames[i].file != NULL ? source->line : 0;
	}
	if (from > 0 && !s->options.no_lines) { // without inlines: the line where the code comes from, as line tables say
		const struct symbol_source *leaf = &chain->frames[0];
		frames[0].file = source_file(s, leaf);
		frames[0].line = leaf->line;
	}
	if (hit->name != NULL) {
		frames[result->count - 1].name = s->last.shown;
		result->linkage_name = s->last.linkage;
		result->aliases = s->last.aliases;
		result->alias_count = s->last.alias_count;
		result->local = s->last.local;
	}
	result->frames = frames;
	result->has_source = chain->count > 0;
}

struct symbol_result *symbolizer_resolve_one(struct symbolizer *s, struct entry *entry, uint64_t image_addr)
{
	struct symbol_hit hit = { 0 };
	struct symbol_chain chain;
	chain.count = 0;
	uint64_t addr = image_addr;
	symbol_module_open(&entry->module);
	bool has_addr = entry->module.image == NULL || image_offset_to_vaddr(entry->module.image, image_addr, &addr);
	if (has_addr && s->last.plain != NULL && s->last.entry == entry && addr - s->last.start < s->last.size && !may_have_chains(s, entry))
		return s->last.plain;
	bool found = has_addr && find_symbol(s, entry, addr, &hit);
	chain.is_named = hit.name != NULL;
	if (has_addr && !hit.is_stub && find_chain(s, entry, addr, &chain) && !found) {
		const struct symbol_source *last = &chain.frames[chain.count - 1];
		hit.start = chain.start;
		hit.name = last->linkage_name != NULL ? last->linkage_name : last->name;
		hit.length = hit.name != NULL ? strlen(hit.name) : 0;
		found = hit.name != NULL;
		if (found)
			remember(s, entry, 0, &hit);
	}
	bool is_plain = found && chain.count == 0; // then all addresses of the symbol have the same result
	if (is_plain && s->last.plain != NULL)
		return s->last.plain;
	struct symbol_bounds bounds = { 0 };
	bool is_bare = has_addr && !found && chain.count == 0, is_bounded = has_addr && !found && find_bounds(s, entry, image_addr, addr, &bounds);
	if (is_bare && is_bounded && entry->bounded != NULL && entry->bounded->bounds->start == bounds.start && entry->bounded->missing == entry->module.missing)
		return entry->bounded;
	bool is_unknown = is_bare && !is_bounded;
	if (is_unknown && entry->unknown != NULL && entry->unknown->missing == entry->module.missing)
		return entry->unknown;
	struct symbol_result *result = arena_alloc(&s->arena, sizeof(*result));
	if (is_plain)
		s->last.plain = result;
	if (is_unknown)
		entry->unknown = result;
	if (is_bare && is_bounded)
		entry->bounded = result;
	compose(s, result, &hit, &chain);
	if (found) {
		result->symbol_start = image_address(entry, hit.start);
		result->module = hit.module != NULL ? kept(s, hit.module, hit.module_length) : NULL;
	} else {
		result->missing = has_addr ? entry->module.missing : SYMBOL_NOT_COVERED;
		result->symbol_start = bounds.start;
		if (is_bounded) {
			struct symbol_bounds *copy = arena_alloc(&s->arena, sizeof(*copy));
			*copy = bounds;
			result->bounds = copy;
		}
	}
	return result;
}

// Of an address that none is noted of.
void symbolizer_note(struct entry *entry, uint64_t image_addr, struct symbol_result *result)
{
	(void)hash_map_put(&entry->by_addr, image_addr, (uint32_t)entry->results.count, NULL);
	vec_push(&entry->results, result);
}

struct symbol_result *symbolizer_looked_up(struct symbolizer *s, struct entry *entry, uint64_t image_addr)
{
	bool is_new;
	uint32_t index = *hash_map_put(&entry->by_addr, image_addr, (uint32_t)entry->results.count, &is_new);
	if (is_new)
		vec_push(&entry->results, symbolizer_resolve_one(s, entry, image_addr));
	return entry->results.data[index];
}

const struct symbol_result *symbolizer_lookup(struct symbolizer *s, uint32_t image, uint64_t image_addr)
{
	return symbolizer_looked_up(s, s->images.data[image], image_addr);
}

void symbolizer_preset(struct symbolizer *s, uint32_t image, uint64_t image_addr, const struct symbol_result *known)
{
	struct entry *entry = s->images.data[image];
	struct symbol_result *result = arena_alloc(&s->arena, sizeof(*result));
	struct symbol_frame *frames = arena_alloc(&s->arena, known->count * sizeof(*frames));
	*result = *known;
	for (size_t i = 0; i < known->count; i++) {
		frames[i] = known->frames[i];
		frames[i].name = frames[i].name != NULL ? kept(s, frames[i].name, strlen(frames[i].name)) : NULL;
		frames[i].file = frames[i].file != NULL ? kept(s, frames[i].file, strlen(frames[i].file)) : NULL;
	}
	result->frames = frames;
	result->linkage_name = known->linkage_name != NULL ? kept(s, known->linkage_name, strlen(known->linkage_name)) : NULL;
	result->local = copy_local(s, known->local);
	result->bounds = NULL; // by symbolizer_preset_bounds
	result->module = known->module != NULL ? kept(s, known->module, strlen(known->module)) : NULL;
	result->aliases = copy_aliases(s, known->aliases, known->alias_count);
	result->callee = copy_aliases(s, known->callee, known->callee != NULL);
	bool is_new;
	uint32_t *index = hash_map_put(&entry->by_addr, image_addr, (uint32_t)entry->results.count, &is_new);
	if (is_new)
		vec_push(&entry->results, result);
	else
		entry->results.data[*index] = result;
}

void symbolizer_preset_bounds(struct symbolizer *s, uint32_t image, const struct symbol_bounds *bounds)
{
	bounds_add(&s->images.data[image]->bounds, bounds);
}

bool symbolizer_knows_source(struct symbolizer *s, uint32_t image, uint64_t image_addr)
{
	const struct entry *entry = s->images.data[image];
	const uint32_t *index = hash_map_get(&entry->by_addr, image_addr);
	return index != NULL && entry->results.data[*index]->frames[0].file != NULL;
}

void symbolizer_forget_sourceless(struct symbolizer *s, uint32_t image, uint64_t image_addr)
{
	if (!symbolizer_knows_source(s, image, image_addr))
		hash_map_remove(&((struct entry *)s->images.data[image])->by_addr, image_addr);
}

// Asked even when no chains are wanted: names must not depend on whether inlines are shown.
static const struct symbol_alias *find_callee(struct symbolizer *s, struct entry *entry, uint64_t image_addr)
{
	struct symbol_source source = { 0 };
	uint64_t addr = image_addr;
	if (entry->module.image == NULL || !image_offset_to_vaddr(entry->module.image, image_addr, &addr))
		return NULL;
	for (size_t p = 0; p < s->provider_count; p++) {
		if (s->providers[p]->callee == NULL)
			continue;
		void *state = symbolizer_state(s, entry, p);
		if (state == NULL || !s->providers[p]->callee(&entry->module, state, addr, &source))
			continue;
		const char *name = source.linkage_name != NULL ? source.linkage_name : source.name;
		struct symbol_alias *callee = arena_alloc(&s->arena, sizeof(*callee));
		*callee = named(s, name, strlen(name));
		return callee;
	}
	return NULL;
}

const struct symbol_alias *symbolizer_callee(struct symbolizer *s, uint32_t image, uint64_t image_addr)
{
	struct entry *entry = s->images.data[image];
	(void)symbolizer_lookup(s, image, image_addr);
	struct symbol_result **place = &entry->results.data[*hash_map_get(&entry->by_addr, image_addr)], *result = *place;
	if (!result->is_callee_known) {
		symbol_module_open(&entry->module); // a preset result has opened nothing
		*place = arena_alloc(&s->arena, sizeof(*result)); // other addresses may share the one that is there
		**place = *result;
		result = *place;
		result->callee = find_callee(s, entry, image_addr);
		result->is_callee_known = true;
	}
	return result->callee;
}

void symbolizer_image_open(struct symbolizer *s, uint32_t image)
{
	symbol_module_open(&s->images.data[image]->module);
}

void symbolizer_image_ask(struct symbolizer *s, uint32_t image)
{
	s->images.data[image]->module.asks_servers = s->options.debuginfod != NULL;
	symbolizer_image_open(s, image);
}

struct symbol_image_status symbolizer_image_status(struct symbolizer *s, uint32_t image)
{
	const struct symbol_module *module = &s->images.data[image]->module;
	struct symbol_image_status status = { .build_id = module->wanted.build_id, .missing = module->missing };
	if (module->image != NULL) {
		status.file = module->image->path;
		if (status.build_id.size == 0)
			status.build_id = module->image->build_id;
	}
	if (module->debug != NULL)
		status.debug_file = module->debug->path;
	status.damage = symbol_module_damage(module);
	if (status.missing == SYMBOL_NOT_COVERED) // symbols are there
		status.missing = SYMBOL_FOUND;
	return status;
}
