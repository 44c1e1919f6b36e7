#include "cmd/record_names.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "symbols/root_name.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/sort.h"
#include "cmd/record_jit.h"
#include "symbols/damage.h"

static int by_place(const void *a, const void *b)
{
	const struct sampled_addr *x = a, *y = b;
	if (x->dso != y->dso)
		return x->dso < y->dso ? -1 : 1;
	return x->image_addr < y->image_addr ? -1 : x->image_addr > y->image_addr;
}

static bool symbol_kind(enum dso_kind kind, enum symbol_image_kind *out)
{
	switch (kind) {
	case DSO_FILE: *out = SYMBOL_IMAGE_FILE; return true;
	case DSO_VDSO: *out = SYMBOL_IMAGE_VDSO; return true;
	case DSO_KERNEL:
	case DSO_MODULE: *out = SYMBOL_IMAGE_KERNEL; return true;
	case DSO_ANON: *out = SYMBOL_IMAGE_JIT; return true;
	default: return false;
	}
}

// `addrs`: `count` sampled ones from there on, of this image first. false: no image of that kind.
static bool add_image(struct symbolizer *symbolizer, const struct sampled_code *code, const struct sampled_addr *addrs, size_t count, uint32_t *id)
{
	VEC(uint64_t) own = { 0 };
	enum symbol_image_kind kind;
	if (!symbol_kind(code->dso->kind, &kind) || (kind == SYMBOL_IMAGE_JIT && code->map_fd < 0))
		return false;
	struct symbol_image image = {
		.kind = kind, .path = kind == SYMBOL_IMAGE_KERNEL ? "[kernel.kallsyms]" : code->dso->path, .build_id = code->dso->build_id,
		.image = code->image, .map_fd = code->map_fd,
	};
	if (kind == SYMBOL_IMAGE_KERNEL)
		image.build_id.size = 0; // one kallsyms for the kernel and its modules
	for (size_t i = 0; kind == SYMBOL_IMAGE_JIT && i < count && addrs[i].dso == addrs[0].dso; i++)
		vec_push(&own, addrs[i].image_addr);
	image.addrs = own.data;
	image.addr_count = own.count;
	*id = symbolizer_image(symbolizer, &image);
	vec_release(&own);
	return true;
}

// What there is to say of a function beside its name: of one that an address follows in, once.
static void add_function(struct name_image *image, const struct symbol_result *result)
{
	const struct symbol_bounds *bounds = result->bounds;
	const struct symbol_local *local = result->local;
	struct name_function f;
	if (bounds != NULL)
		f = (struct name_function){ .start = bounds->start, .size = bounds->end - bounds->start, .vaddr = bounds->vaddr };
	else if (local != NULL)
		f = (struct name_function){ .start = result->symbol_start, .vaddr = local->vaddr, .unit = local->unit, .source = local->source };
	else
		return;
	if (image->functions.count == 0 || image->functions.data[image->functions.count - 1].start != f.start)
		vec_push(&image->functions, f);
}

static int by_function(const void *a, const void *b)
{
	const struct name_function *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

// Ascending by start, each once.
static void sort_functions(struct name_image *image)
{
	size_t kept = 0;
	if (image->functions.count > 0)
		sort_stable(image->functions.data, image->functions.count, sizeof(image->functions.data[0]), by_function);
	for (size_t i = 0; i < image->functions.count; i++)
		if (kept == 0 || by_function(&image->functions.data[kept - 1], &image->functions.data[i]) != 0)
			image->functions.data[kept++] = image->functions.data[i];
	image->functions.count = kept;
}

static void add_addr(struct name_image *image, uint64_t image_addr, const struct symbol_result *result)
{
	if (result->linkage_name == NULL && (result->count == 0 || result->frames[0].name == NULL))
		return; // unresolved: the reader may know more
	struct name_addr addr = {
		.image_addr = image_addr, .symbol_start = result->symbol_start, .linkage_name = result->linkage_name,
		.first_frame = (uint32_t)image->frames.count, .frame_count = (uint32_t)result->count,
	};
	for (size_t i = 0; i < result->count; i++)
		vec_push(&image->frames, (struct name_frame){ .name = result->frames[i].name, .file = result->frames[i].file, .line = result->frames[i].line,
		                                              .is_inlined = result->frames[i].is_inlined });
	vec_push(&image->addrs, addr);
}

// ---------------------------------------------------------------- functions whose code is one

struct asked { struct symbol_query query; size_t image; }; // a sampled address, and the index of its image among the names

static int by_start(const void *a, const void *b)
{
	const struct name_alias *x = a, *y = b;
	if (x->symbol_start != y->symbol_start)
		return x->symbol_start < y->symbol_start ? -1 : 1;
	return strcmp(x->linkage_name, y->linkage_name);
}

// Into `keys` go those of all functions that share code with another and were sampled.
static void add_aliases(struct name_image *image, struct symbolizer *symbolizer, const struct symbol_result *result, struct hash_map *keys)
{
	for (size_t i = 0; i < result->alias_count; i++) {
		vec_push(&image->aliases, (struct name_alias){ .symbol_start = result->symbol_start, .linkage_name = result->aliases[i].linkage_name });
		hash_map_put(keys, (uintptr_t)result->aliases[i].key, 1, NULL);
	}
	if (result->alias_count > 0)
		hash_map_put(keys, (uintptr_t)symbolizer_key(symbolizer, result->linkage_name), 1, NULL);
}

static void sort_aliases(struct name_image *image)
{
	size_t kept = 0;
	if (image->aliases.count > 0)
		sort_stable(image->aliases.data, image->aliases.count, sizeof(image->aliases.data[0]), by_start);
	for (size_t i = 0; i < image->aliases.count; i++)
		if (kept == 0 || by_start(&image->aliases.data[kept - 1], &image->aliases.data[i]) != 0)
			image->aliases.data[kept++] = image->aliases.data[i];
	image->aliases.count = kept;
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// What calls of such functions call. An address is looked up whether it is a return address or not: as none, it has no call site.
static void add_calls(struct names *names, struct symbolizer *symbolizer, const struct asked *asked, size_t count, const struct hash_map *keys,
                      double until_s)
{
	for (size_t i = 0; i < count; i++) {
		if (until_s > 0 && i % 64 == 0 && now_s() > until_s)
			return;
		const struct symbol_alias *callee = symbolizer_callee(symbolizer, asked[i].query.image, asked[i].query.image_addr);
		if (callee != NULL && hash_map_get(keys, (uintptr_t)callee->key) != NULL)
			vec_push(&names->images.data[asked[i].image].calls,
			         (struct name_call){ .image_addr = asked[i].query.image_addr, .callee = callee->linkage_name });
	}
}

// ---------------------------------------------------------------- all of it

struct asked_image { uint32_t image; size_t addrs; };

static int most_addrs(const void *a, const void *b)
{
	const struct asked_image *x = a, *y = b;
	return x->addrs < y->addrs ? 1 : x->addrs > y->addrs ? -1 : 0;
}

// How often an address was sampled is not counted while recording: images with one in a hundred of the distinct ones are worth asking for.
static void ask_servers(struct symbolizer *symbolizer, const struct symbol_query *known, size_t count)
{
	VEC(struct asked_image) images = { 0 };
	for (size_t i = 0, next; i < count; i = next) { // in the order of images
		for (next = i + 1; next < count && known[next].image == known[i].image; next++)
			;
		if ((next - i) * 100 >= count)
			vec_push(&images, (struct asked_image){ known[i].image, next - i });
	}
	if (images.count > 0)
		sort_stable(images.data, images.count, sizeof(images.data[0]), most_addrs);
	for (size_t i = 0; i < images.count; i++)
		symbolizer_image_ask(symbolizer, images.data[i].image);
	vec_release(&images);
}

static void tell_left_out(struct names *names, const struct symbolizer *symbolizer)
{
	struct buf left_out = { 0 };
	if (symbolizer_left_out(symbolizer, &left_out)) {
		log_warn("names: %s", buf_text(&left_out));
		names_meta(names, "names.left_out", "%s", buf_text(&left_out));
	}
	buf_release(&left_out);
}

// Generated code, a program of a process at a time.
static void add_codes(struct names *names, struct symbolizer *symbolizer, const struct session *session, const struct sampled_addr *addrs, size_t count)
{
	uint64_t offset = 0;
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && addrs[next].dso == addrs[i].dso; next++)
			;
		struct sampled_code code = session_code(session, addrs[i].dso);
		if (code.jitdump_fd >= 0)
			record_jit(names, symbolizer, &code, addrs + i, next - i);
		if (code.function_count > 0)
			record_jit_functions(names, &code, addrs + i, next - i, &offset);
	}
}

// Call chains that end in this function, if it is one that stacks end in.
static uint64_t roots_of(const struct sampled_addr *addr, const struct symbol_result *result)
{
	const char *outermost = result->count > 0 ? result->frames[result->count - 1].name : NULL;
	return outermost != NULL && symbol_is_root(outermost) ? addr->roots : 0;
}

struct symbolizer *record_names(struct names *names, const struct session *session, const struct record_names_options *how, uint64_t *roots)
{
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = true, .use_host_files = true,
	                                      .no_cache = how->no_cache, .more_debug_dirs = how->debug_dirs, .debuginfod = how->debuginfod };
	struct damages damages;
	damages_init(&damages);
	options.damages = &damages; // looked at below; nothing is looked up after that
	struct symbolizer *symbolizer = symbolizer_new(&options);
	const struct sampled *sampled = session_sampled(session);
	size_t count = sampled->addrs.count;
	struct sampled_addr *addrs = mem_copy(sampled->addrs.data, count * sizeof(*addrs));
	sort_stable(addrs, count, sizeof(*addrs), by_place);

	VEC(struct symbol_query) queries = { 0 };
	uint32_t dso = DSO_NONE, image = 0;
	bool has = false;
	for (size_t i = 0; i < count; i++) {
		if (addrs[i].dso != dso) {
			struct sampled_code code = session_code(session, addrs[i].dso);
			has = add_image(symbolizer, &code, addrs + i, count - i, &image);
			dso = addrs[i].dso;
		}
		vec_push(&queries, (struct symbol_query){ .image = has ? image : UINT32_MAX, .image_addr = addrs[i].image_addr });
	}
	VEC(struct symbol_query) known = { 0 };
	for (size_t i = 0; i < count; i++)
		if (queries.data[i].image != UINT32_MAX)
			vec_push(&known, queries.data[i]);
	if (how->debuginfod != NULL)
		ask_servers(symbolizer, known.data, known.count);
	double until_s = how->time_limit_s > 0 ? now_s() + how->time_limit_s : 0;
	symbolizer_resolve(symbolizer, known.data, known.count, how->time_limit_s, NULL);
	vec_release(&known);

	struct name_image *to = NULL;
	VEC(struct asked) asked = { 0 };
	struct hash_map keys = { 0 };
	for (size_t i = 0; i < count; i++) {
		if (queries.data[i].image == UINT32_MAX)
			continue;
		if (i == 0 || to == NULL || addrs[i].dso != addrs[i - 1].dso) {
			struct sampled_code code = session_code(session, addrs[i].dso);
			to = vec_add(&names->images);
			to->path = code.dso->path;
			to->kind = (uint8_t)code.dso->kind;
			to->build_id = code.dso->build_id;
			to->pid = code.dso->kind == DSO_ANON ? code.dso->pid : 0;
			to->since_ns = code.dso->since_ns;
		}
		const struct symbol_result *result = symbolizer_lookup(symbolizer, queries.data[i].image, addrs[i].image_addr);
		add_addr(to, addrs[i].image_addr, result);
		add_function(to, result);
		*roots += roots_of(&addrs[i], result);
		add_aliases(to, symbolizer, result, &keys);
		vec_push(&asked, (struct asked){ .query = queries.data[i], .image = names->images.count - 1 });
	}
	add_codes(names, symbolizer, session, addrs, count);
	for (size_t i = 0; i < names->images.count; i++) {
		sort_aliases(&names->images.data[i]);
		sort_functions(&names->images.data[i]);
	}
	if (keys.count > 0)
		add_calls(names, symbolizer, asked.data, asked.count, &keys, until_s);
	tell_left_out(names, symbolizer);
	for (size_t i = 0; i < damages.all.count; i++)
		log_warn("damaged file: %s", damages.all.data[i].text);
	damages_release(&damages);
	hash_map_release(&keys);
	vec_release(&asked);
	vec_release(&queries);
	free(addrs);
	return symbolizer;
}
