#include "cmd/record_names.h"

#include <stdlib.h>

#include "cmd/record_jit.h"

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

// NULL-like: no image of that kind.
static bool add_image(struct symbolizer *symbolizer, const struct sampled_code *code, uint32_t *id)
{
	enum symbol_image_kind kind;
	if (!symbol_kind(code->dso->kind, &kind) || (kind == SYMBOL_IMAGE_JIT && code->map_fd < 0))
		return false;
	struct symbol_image image = {
		.kind = kind, .path = kind == SYMBOL_IMAGE_KERNEL ? "[kernel.kallsyms]" : code->dso->path, .build_id = code->dso->build_id,
		.image = code->image, .map_fd = code->map_fd,
	};
	if (kind == SYMBOL_IMAGE_KERNEL)
		image.build_id.size = 0; // one kallsyms for the kernel and its modules
	*id = symbolizer_image(symbolizer, &image);
	return true;
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

struct symbolizer *record_names(struct names *names, const struct session *session, const struct record_names_options *how)
{
	struct symbolizer_options options = { .demangle = true, .inlines = true, .lines = true, .use_host_files = true,
	                                      .no_cache = how->no_cache, .more_debug_dirs = how->debug_dirs };
	struct symbolizer *symbolizer = symbolizer_new(&options);
	const struct sampled *sampled = session_sampled(session);
	size_t count = sampled->addrs.count;
	struct sampled_addr *addrs = mem_copy(sampled->addrs.data, count * sizeof(*addrs));
	qsort(addrs, count, sizeof(*addrs), by_place);

	VEC(struct symbol_query) queries = { 0 };
	uint32_t dso = DSO_NONE, image = 0;
	bool has = false;
	for (size_t i = 0; i < count; i++) {
		if (addrs[i].dso != dso) {
			struct sampled_code code = session_code(session, addrs[i].dso);
			has = add_image(symbolizer, &code, &image);
			dso = addrs[i].dso;
		}
		vec_push(&queries, (struct symbol_query){ .image = has ? image : UINT32_MAX, .image_addr = addrs[i].image_addr });
	}
	VEC(struct symbol_query) known = { 0 };
	for (size_t i = 0; i < count; i++)
		if (queries.data[i].image != UINT32_MAX)
			vec_push(&known, queries.data[i]);
	symbolizer_resolve(symbolizer, known.data, known.count, how->time_limit_s);
	vec_release(&known);

	struct name_image *to = NULL;
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
		}
		add_addr(to, addrs[i].image_addr, symbolizer_lookup(symbolizer, queries.data[i].image, addrs[i].image_addr));
	}
	for (size_t i = 0, next; i < count; i = next) { // anonymous code, a process at a time
		for (next = i + 1; next < count && addrs[next].dso == addrs[i].dso; next++)
			;
		struct sampled_code code = session_code(session, addrs[i].dso);
		if (code.jitdump_fd >= 0)
			record_jit(names, symbolizer, &code, addrs + i, next - i);
	}
	vec_release(&queries);
	free(addrs);
	return symbolizer;
}
