// Names for the frames of a profile: each distinct (image, address) once.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/sort.h"
#include "load/hot.h"
#include "load/perf_map.h"
#include "load/symbols.h"
#include "profile/clones.h"

enum { ALIASES_MOST = 64, PROCESSORS_LIMIT = 4 };

enum { NAMED_SLOTS = 4096 };
struct named { const char *name, *linkage_name; uint64_t start; uint32_t dso, function; bool is_used; }; // texts of the symbolizer, or NULL
enum { LINED_SLOTS = 4096 };
struct lined { const struct symbol_result *result; uint32_t dso, first_line, line_count; }; // the lines of a result

static bool is_kernel_kind(uint8_t kind)
{
	return kind == DSO_KERNEL || kind == DSO_MODULE;
}

bool symbols_are_of_this_host(const struct loader *loader)
{
	struct utsname host;
	const struct reader_features *features = reader_features(loader->reader);
	if (uname(&host) != 0)
		return false;
	return (features->hostname == NULL || strcmp(features->hostname, host.nodename) == 0) &&
	       (features->os_release == NULL || strcmp(features->os_release, host.release) == 0) &&
	       (features->arch == NULL || strcmp(features->arch, host.machine) == 0);
}

// kallsyms is that of the running kernel since its last start. It is believed for a recording of this host when the kernel's text
// begins where the recording says (another start puts it elsewhere).
static bool kernel_is_running(struct symbols *symbols)
{
	struct loader *loader = symbols->loader;
	if (!symbols_are_of_this_host(loader))
		return false;
	const struct maps *maps = spaces_process(loader->spaces, -1)->maps;
	for (uint32_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];
		if (dso_get(spaces_dsos(loader->spaces), m->dso)->kind != DSO_KERNEL || m->pgoff < (uint64_t)1 << 63)
			continue;
		const struct symbol_result *text = symbolizer_lookup(symbols->symbolizer, symbols->kernel, m->pgoff);
		return text->missing != SYMBOL_FOUND || text->symbol_start == m->pgoff;
	}
	return true;
}

static uint32_t kernel_image(struct symbols *symbols)
{
	if (symbols->kernel != PROFILE_NONE || symbols->has_other_kernel)
		return symbols->kernel;
	struct symbol_image image = { .kind = SYMBOL_IMAGE_KERNEL, .path = "[kernel.kallsyms]", .map_fd = -1 };
	struct profile *profile = symbols->loader->profile;
	for (size_t i = 0; i < profile->dsos.count; i++) {
		if (profile->dsos.data[i].kind == DSO_KERNEL && profile->dsos.data[i].build_id.size > 0)
			image.build_id = profile->dsos.data[i].build_id;
	}
	symbols->kernel = symbolizer_image(symbols->symbolizer, &image);
	if (!kernel_is_running(symbols)) {
		// Names inside the recording still count; the host's are another kernel's.
		image.path = "[kernel of another host or another boot]";
		image.build_id = (struct build_id){ .size = 1 };
		symbols->kernel = symbolizer_image(symbols->symbolizer, &image);
		symbols->has_other_kernel = true;
	}
	return symbols->kernel;
}

static bool is_named_by(const struct profile_dso *row, const char *path, const struct name_image *names)
{
	if (is_kernel_kind(row->kind) || is_kernel_kind(names->kind))
		return is_kernel_kind(row->kind) && is_kernel_kind(names->kind);
	if (names->kind != row->kind || names->path == NULL || strcmp(names->path, path) != 0)
		return false;
	if (row->kind == DSO_ANON)
		return names->pid == row->pid && (names->since_ns == NAMES_ANY_PROGRAM || names->since_ns == row->since_ns);
	return names->build_id.size == 0 || row->build_id.size == 0 || build_id_equal(&names->build_id, &row->build_id);
}

static int compare_name(const void *key, const void *entry)
{
	const uint64_t *addr = key;
	const struct name_addr *name = entry;
	return *addr < name->image_addr ? -1 : *addr > name->image_addr;
}

// Whether the recording brings no name for some sampled address of generated code.
static bool lacks_names(struct symbols *symbols, uint32_t dso)
{
	const struct profile *profile = symbols->loader->profile;
	const struct names *names = reader_features(symbols->loader->reader)->names;
	const char *path = profile_text(profile, profile->dsos.data[dso].path);
	const struct name_image *image = NULL;
	for (size_t i = 0; i < names->images.count && image == NULL; i++)
		if (is_named_by(&profile->dsos.data[dso], path, &names->images.data[i]))
			image = &names->images.data[i];
	for (size_t i = 0; i < profile->frames.count; i++) {
		const struct profile_frame *frame = &profile->frames.data[i];
		if (frame->dso == dso && (image == NULL || image->addrs.count == 0 ||
		                          bsearch(&frame->image_addr, image->addrs.data, image->addrs.count, sizeof(*image->addrs.data), compare_name) == NULL))
			return true;
	}
	return false;
}

struct addrs { VEC(uint64_t) all; };

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void collect_addrs(const struct profile *profile, uint32_t dso, struct addrs *out)
{
	for (size_t i = 0; i < profile->frames.count; i++)
		if (profile->frames.data[i].dso == dso)
			vec_push(&out->all, profile->frames.data[i].image_addr);
	if (out->all.count > 0)
		sort_stable(out->all.data, out->all.count, sizeof(*out->all.data), by_value);
}

static uint32_t image_for(struct symbols *symbols, uint32_t dso)
{
	struct loader *loader = symbols->loader;
	const struct profile_dso *row = &loader->profile->dsos.data[dso];
	struct symbol_image image = { .kind = SYMBOL_IMAGE_FILE, .path = profile_text(loader->profile, row->path), .build_id = row->build_id,
	                              .map_fd = -1 };
	char map_path[4096] = "";
	const struct names *names = reader_features(loader->reader)->names;
	bool has_names = names != NULL && names->images.count > 0;
	switch (row->kind) {
	case DSO_KERNEL:
	case DSO_MODULE:
		return kernel_image(symbols);
	case DSO_SPECIAL: // eBPF programs, which kallsyms may know; [vsyscall], [uprobes]
		return image.path[0] == '[' ? PROFILE_NONE : kernel_image(symbols);
	case DSO_VDSO:
		image.kind = SYMBOL_IMAGE_VDSO;
		if (loader->dso_of.data[dso] != DSO_NONE) {
			const struct dso *of = dso_get(spaces_dsos(loader->spaces), loader->dso_of.data[dso]);
			image.image = images_get(&loader->images, loader->dso_of.data[dso], of, loader_dso_machine(loader, of));
		}
		break;
	case DSO_ANON:
		image.kind = SYMBOL_IMAGE_JIT;
		// Recordings of ours bring the names of JIT code with them, unless they have none at all (raw stacks); the map of a later process with that
		// number would be wrong.
		if (!has_names)
			image.map_fd = perf_map_open(loader, row, map_path, sizeof(map_path));
		image.map_path = image.map_fd >= 0 ? map_path : NULL;
		if (has_names && lacks_names(symbols, dso))
			image.map_fd = perf_map_open_late(loader, row);
		image.path = mem_printf("%s of %u since %llu", image.path, row->pid, (unsigned long long)row->since_ns);
		break;
	default:
		if (jitdump_is_path(image.path)) {
			image.kind = SYMBOL_IMAGE_JITDUMP;
			int fd = jit_fd(&loader->jit, image.path);
			image.map_fd = fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
			break;
		}
		if (loader->dso_of.data[dso] != DSO_NONE && loader->dso_of.data[dso] < loader->images.slots.count) {
			const struct image_slot *slot = &loader->images.slots.data[loader->dso_of.data[dso]];
			image.image = slot->image;
			image.debug = slot->debug;
			image.is_debug_known = slot->image != NULL;
		}
		break;
	}
	struct addrs addrs = { 0 };
	if (image.kind == SYMBOL_IMAGE_JIT && image.map_fd >= 0)
		collect_addrs(loader->profile, dso, &addrs);
	image.addrs = addrs.all.data;
	image.addr_count = addrs.all.count;
	uint32_t id = symbolizer_image(symbols->symbolizer, &image);
	vec_release(&addrs.all);
	if (row->kind == DSO_ANON)
		free((char *)image.path);
	if (image.map_fd >= 0)
		close(image.map_fd);
	return id;
}

// ---------------------------------------------------------------- names inside

static int compare_start(const void *key, const void *entry)
{
	const uint64_t *start = key;
	const struct name_alias *alias = entry;
	return *start < alias->symbol_start ? -1 : *start > alias->symbol_start;
}

static size_t find_aliases(const struct name_image *names, uint64_t symbol_start, struct symbol_alias *out)
{
	size_t count = 0;
	const struct name_alias *end = names->aliases.data + names->aliases.count;
	const struct name_alias *at = bsearch(&symbol_start, names->aliases.data, names->aliases.count, sizeof(*at), compare_start);
	while (at != NULL && at > names->aliases.data && at[-1].symbol_start == symbol_start)
		at--;
	for (; at != NULL && at < end && at->symbol_start == symbol_start && count < ALIASES_MOST; at++)
		out[count++] = (struct symbol_alias){ .linkage_name = at->linkage_name };
	return count;
}

static int compare_addr(const void *key, const void *entry)
{
	const uint64_t *addr = key;
	const struct name_call *call = entry;
	return *addr < call->image_addr ? -1 : *addr > call->image_addr;
}

static const char *find_callee(const struct name_image *names, uint64_t image_addr)
{
	const struct name_call *call = bsearch(&image_addr, names->calls.data, names->calls.count, sizeof(*call), compare_addr);
	return call != NULL ? call->callee : NULL;
}

static int compare_function(const void *key, const void *entry)
{
	const uint64_t *start = key;
	const struct name_function *f = entry;
	return *start < f->start ? -1 : *start > f->start;
}

// Into `known`, whose `local` is `local` then.
static void preset_source(const struct name_image *names, struct symbol_result *known, struct symbol_local *local)
{
	const struct name_function *f = names->functions.count == 0 ? NULL
		: bsearch(&known->symbol_start, names->functions.data, names->functions.count, sizeof(*f), compare_function);
	if (f == NULL || f->size > 0)
		return;
	*local = (struct symbol_local){ .vaddr = f->vaddr, .unit = f->unit, .source = f->source };
	known->local = local;
}

static void preset_bounds(struct symbols *symbols, uint32_t image, const struct name_image *names)
{
	for (size_t i = 0; i < names->functions.count; i++) {
		const struct name_function *f = &names->functions.data[i];
		if (f->size > 0)
			symbolizer_preset_bounds(symbols->symbolizer, image, &(struct symbol_bounds){ .start = f->start, .end = f->start + f->size, .vaddr = f->vaddr });
	}
}

static void preset_image(struct symbols *symbols, uint32_t image, const struct name_image *names)
{
	preset_bounds(symbols, image, names);
	struct symbol_frame *frames = mem_zero(names->frames.count + 1, sizeof(*frames));
	for (size_t i = 0; i < names->frames.count; i++) {
		const struct name_frame *from = &names->frames.data[i];
		frames[i] = (struct symbol_frame){ .name = from->name, .file = from->file, .line = from->line, .is_inlined = from->is_inlined };
	}
	bool inlines = symbols->loader->options->inlines;
	for (size_t i = 0; i < names->addrs.count; i++) {
		const struct name_addr *addr = &names->addrs.data[i];
		// Without inlines: the function that has the code, which stands last.
		size_t first = inlines || addr->frame_count == 0 ? addr->first_frame : addr->first_frame + addr->frame_count - 1;
		size_t count = addr->first_frame + addr->frame_count - first;
		if (count == 0 || frames[first + count - 1].name == NULL)
			continue; // had no name then; perhaps there is one here
		struct symbol_result known = { .frames = &frames[first], .count = count, .symbol_start = addr->symbol_start,
		                               .linkage_name = addr->linkage_name };
		struct symbol_alias aliases[ALIASES_MOST], callee;
		struct symbol_local local;
		preset_source(names, &known, &local);
		known.aliases = aliases;
		known.alias_count = names->aliases.count > 0 ? find_aliases(names, addr->symbol_start, aliases) : 0;
		known.is_callee_known = symbols->has_folded_names; // the recorder asked every call site that may matter
		callee.linkage_name = names->calls.count > 0 ? find_callee(names, addr->image_addr) : NULL;
		known.callee = callee.linkage_name != NULL ? &callee : NULL;
		symbolizer_preset(symbols->symbolizer, image, addr->image_addr, &known);
	}
	free(frames);
}

// Images of the names by path, to be found by the profile's.
struct names_by_path { struct hash_map first; uint32_t *next; };

static uint64_t path_key(uint8_t kind, const char *path)
{
	return is_kernel_kind(kind) || path == NULL ? 0 : hash_bytes(path, strlen(path));
}

static void index_names(struct names_by_path *index, const struct names *names)
{
	index->next = mem_zero(names->images.count + 1, sizeof(*index->next));
	for (size_t i = names->images.count; i > 0; i--) { // so that each list is in the order of the names
		const struct name_image *image = &names->images.data[i - 1];
		bool is_new;
		uint32_t *first = hash_map_put(&index->first, path_key(image->kind, image->path), (uint32_t)i - 1, &is_new);
		index->next[i - 1] = is_new ? PROFILE_NONE : *first;
		*first = (uint32_t)i - 1;
	}
}

static void preset_names(struct symbols *symbols)
{
	const struct names *names = reader_features(symbols->loader->reader)->names;
	const struct profile *profile = symbols->loader->profile;
	struct names_by_path index = { 0 };
	bool kernel_done = false;
	if (names == NULL)
		return;
	for (size_t i = 0; i < names->images.count; i++)
		symbols->has_folded_names |= names->images.data[i].aliases.count > 0;
	index_names(&index, names);
	for (size_t dso = 0; dso < profile->dsos.count; dso++) {
		const struct profile_dso *row = &profile->dsos.data[dso];
		const char *path = profile_text(profile, row->path);
		uint32_t image = symbols->images[dso];
		if (image == PROFILE_NONE || (is_kernel_kind(row->kind) && kernel_done))
			continue;
		kernel_done |= is_kernel_kind(row->kind);
		const uint32_t *first = hash_map_get(&index.first, path_key(row->kind, path));
		for (uint32_t i = first != NULL ? *first : PROFILE_NONE; i != PROFILE_NONE; i = index.next[i]) {
			if (is_named_by(row, path, &names->images.data[i]))
				preset_image(symbols, image, &names->images.data[i]);
		}
	}
	hash_map_release(&index.first);
	free(index.next);
}

// ---------------------------------------------------------------- lines of a frame

// A name is met many times. The symbolizer keeps each text once, so where it stands says which it is.
static uint32_t intern_name(struct symbols *symbols, const char *name)
{
	size_t length = symbols->loader->options->no_clones ? clones_base_length(name, false) : strlen(name);
	return intern_bytes(&symbols->loader->profile->names, name, length);
}

static uint32_t function_of(struct symbols *symbols, const char *name, const struct symbol_result *result, uint32_t dso)
{
	struct profile *profile = symbols->loader->profile;
	const char *linkage_name = result != NULL ? result->linkage_name : NULL;
	const struct symbol_local *local = result != NULL ? result->local : NULL;
	uint64_t start = local != NULL ? result->symbol_start : 0;
	uint64_t hash = hash_pair((uint64_t)(uintptr_t)name ^ (uint64_t)dso << 48, (uint64_t)(uintptr_t)linkage_name ^ start << 20);
	struct named *slot = &symbols->named[hash % NAMED_SLOTS];
	if (!slot->is_used || slot->name != name || slot->linkage_name != linkage_name || slot->dso != dso || slot->start != start) {
		struct profile_function function = { .name = intern_name(symbols, name != NULL ? name : "[unknown]"),
		                                     .linkage_name = linkage_name != NULL ? intern_name(symbols, linkage_name) : 0,
		                                     .dso = dso, .is_known = name != NULL, .start = start };
		if (start != 0) {
			function.vaddr = local->vaddr;
			function.unit = local->unit;
			function.source = local->source != NULL ? intern_string(&profile->names, local->source) : 0;
		}
		*slot = (struct named){ .name = name, .linkage_name = linkage_name, .start = start, .dso = dso, .is_used = true,
		                        .function = profile_add_function(profile, &function) };
	}
	return slot->function;
}

// Of a function without a name whose bounds are known.
static uint32_t nameless_function(struct symbols *symbols, const struct symbol_bounds *bounds, uint32_t dso)
{
	struct profile *profile = symbols->loader->profile;
	char *name = mem_printf("%s+0x%llx", profile_text(profile, profile->dsos.data[dso].short_name), (unsigned long long)bounds->vaddr);
	struct profile_function function = { .name = intern_string(&profile->names, name), .dso = dso, .is_known = true, .is_nameless = true,
	                                     .start = bounds->start, .vaddr = bounds->vaddr, .size = bounds->end - bounds->start };
	free(name);
	return profile_add_function(profile, &function);
}

// `result`: of the function that has the code; NULL: one that is inlined there.
static void add_line(struct symbols *symbols, const struct symbol_frame *from, uint32_t dso, const struct symbol_result *result)
{
	struct profile *profile = symbols->loader->profile;
	bool is_nameless = result != NULL && from->name == NULL && result->bounds != NULL && dso != PROFILE_NONE;
	struct profile_line line = { .function = is_nameless ? nameless_function(symbols, result->bounds, dso) :
	                                         function_of(symbols, from != NULL ? from->name : NULL, result, dso) };
	if (from != NULL && from->file != NULL) {
		line.file = intern_string(&profile->names, from->file);
		line.line = from->line;
	}
	line.is_inlined = from != NULL && from->is_inlined;
	vec_push(&profile->chains, line);
}

static void name_frame(struct symbols *symbols, uint32_t id)
{
	struct profile *profile = symbols->loader->profile;
	struct profile_frame *frame = &profile->frames.data[id];
	const struct symbol_result *result = symbols->results[id];
	struct lined *lined = &symbols->lined[hash_u64((uintptr_t)result ^ (uint64_t)frame->dso << 48) % LINED_SLOTS];
	if (result != NULL) {
		frame->symbol_start = result->symbol_start;
		if (result->alias_count > 0)
			folded_note(symbols, id, result);
		if (lined->result == result && lined->dso == frame->dso) {
			frame->first_line = lined->first_line;
			frame->line_count = lined->line_count;
			return;
		}
	}
	frame->first_line = (uint32_t)profile->chains.count;
	for (size_t i = 0; result != NULL && i < result->count; i++) {
		bool has_code = i + 1 == result->count; // the symbol is not that of what was inlined
		add_line(symbols, &result->frames[i], frame->dso, has_code ? result : NULL);
	}
	const struct profile_dso *dso = frame->dso != PROFILE_NONE ? &profile->dsos.data[frame->dso] : NULL;
	if (frame->first_line == profile->chains.count) {
		// What has a name for itself: an eBPF program.
		struct symbol_frame self = { .name = dso != NULL && dso->kind == DSO_SPECIAL ? profile_text(profile, dso->path) : NULL };
		add_line(symbols, &self, frame->dso, NULL);
	}
	frame->line_count = (uint32_t)profile->chains.count - frame->first_line;
	*lined = (struct lined){ result, frame->dso, frame->first_line, frame->line_count };
}

// What the images were resolved with goes into the profile.
static void keep_status(struct symbols *symbols)
{
	struct profile *profile = symbols->loader->profile;
	for (size_t i = 0; symbols->symbolizer != NULL && i < profile->dsos.count; i++) {
		if (symbols->images[i] == PROFILE_NONE)
			continue;
		struct symbol_image_status status = symbolizer_image_status(symbols->symbolizer, symbols->images[i]);
		struct profile_dso *row = &profile->dsos.data[i];
		row->missing = (uint8_t)status.missing;
		row->damage = status.damage != NULL ? intern_string(&profile->names, status.damage) : 0;
		row->file = status.file != NULL ? intern_string(&profile->names, status.file) : 0;
		row->debug_file = status.debug_file != NULL ? intern_string(&profile->names, status.debug_file) : 0;
	}
}

// An image for each dso that frames lie in, in the frames' order.
static void ask_images(struct symbols *symbols)
{
	struct profile *profile = symbols->loader->profile;
	uint8_t *is_asked = mem_zero(profile->dsos.count + 1, 1);
	for (size_t i = 0; i < profile->frames.count; i++) {
		uint32_t dso = profile->frames.data[i].dso;
		if (dso == PROFILE_NONE || is_asked[dso])
			continue;
		is_asked[dso] = 1;
		symbols->images[dso] = image_for(symbols, dso);
	}
	free(is_asked);
}

// Whether all sampled addresses of an image have what debug information tells, from inside the recording.
static bool is_told(struct symbols *symbols, uint32_t dso)
{
	const struct profile *profile = symbols->loader->profile;
	for (size_t i = 0; i < profile->frames.count; i++) {
		const struct profile_frame *frame = &profile->frames.data[i];
		if (frame->dso == dso && !symbolizer_knows_source(symbols->symbolizer, symbols->images[dso], frame->image_addr))
			return false;
	}
	return true;
}

// Servers are asked for the files of images that matter. Names from inside the recording that came without lines give way to better ones.
static void ask_servers(struct symbols *symbols)
{
	const struct profile *profile = symbols->loader->profile;
	struct hot_dsos hot = { 0 };
	hot_dsos(&hot, profile);
	for (size_t i = 0; i < hot.rows.count; i++) {
		uint32_t dso = hot.rows.data[i].dso, image = symbols->images[dso];
		if (profile->dsos.data[dso].kind != DSO_FILE || image == PROFILE_NONE || is_told(symbols, dso))
			continue;
		symbolizer_image_ask(symbols->symbolizer, image);
		if (symbolizer_image_status(symbols->symbolizer, image).debug_file == NULL)
			continue;
		for (size_t f = 0; f < profile->frames.count; f++)
			if (profile->frames.data[f].dso == dso)
				symbolizer_forget_sourceless(symbols->symbolizer, image, profile->frames.data[f].image_addr);
	}
	vec_release(&hot.rows);
}

static void resolve(struct symbols *symbols)
{
	struct profile *profile = symbols->loader->profile;
	size_t count = 0, frames = profile->frames.count;
	struct symbol_query *queries = mem_resize(NULL, frames, sizeof(*queries));
	const struct symbol_result **results = mem_resize(NULL, frames, sizeof(*results));
	for (size_t i = 0; i < frames; i++) {
		const struct profile_frame *frame = &profile->frames.data[i];
		if (frame->dso != PROFILE_NONE && symbols->images[frame->dso] != PROFILE_NONE)
			queries[count++] = (struct symbol_query){ symbols->images[frame->dso], frame->image_addr };
	}
	symbolizer_resolve(symbols->symbolizer, queries, count, symbols->loader->options->symbol_time_s, results);
	for (size_t i = frames; i-- > 0;) { // of all frames
		const struct profile_frame *frame = &profile->frames.data[i];
		if (frame->dso != PROFILE_NONE && symbols->images[frame->dso] != PROFILE_NONE)
			symbols->results[i] = results[--count];
	}
	free(queries);
	free(results);
}

unsigned load_jobs(const struct load_options *options)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	if (options->jobs > 0)
		return options->jobs;
	return processors < 1 ? 1 : processors > PROCESSORS_LIMIT ? PROCESSORS_LIMIT : (unsigned)processors;
}

void load_symbols(struct loader *loader)
{
	struct profile *profile = loader->profile;
	struct symbolizer_options how = loader->images.where;
	how.jobs = load_jobs(loader->options);
	struct symbols symbols = { .loader = loader, .kernel = PROFILE_NONE, .named = mem_zero(NAMED_SLOTS, sizeof(*symbols.named)) };
	symbols.results = mem_zero(profile->frames.count, sizeof(*symbols.results));
	symbols.lined = mem_zero(LINED_SLOTS, sizeof(*symbols.lined));
	symbols.images = mem_zero(profile->dsos.count + 1, sizeof(*symbols.images));
	for (size_t i = 0; i < profile->dsos.count; i++)
		symbols.images[i] = PROFILE_NONE;
	if (loader->options->symbols) {
		symbols.symbolizer = symbolizer_new(&how);
		ask_images(&symbols);
		preset_names(&symbols);
		if (how.debuginfod != NULL)
			ask_servers(&symbols);
		resolve(&symbols);
	}
	for (size_t i = 0; i < profile->frames.count; i++)
		name_frame(&symbols, (uint32_t)i);
	struct buf left_out = { 0 };
	const struct names *names = reader_features(loader->reader)->names;
	const char *by_recorder = names != NULL ? names_meta_get(names, "names.left_out") : NULL;
	if (by_recorder != NULL)
		loader_caveat(loader, "names, when it was recorded: %s", by_recorder);
	if (symbols.symbolizer != NULL && symbolizer_left_out(symbols.symbolizer, &left_out))
		loader_caveat(loader, "names: %s", buf_text(&left_out));
	buf_release(&left_out);
	folded_tell(&symbols);
	namesakes_tell(&symbols);
	keep_status(&symbols);
	vec_release(&symbols.folded);
	free(symbols.results);
	free(symbols.lined);
	free(symbols.images);
	free(symbols.named);
	symbolizer_free(symbols.symbolizer);
}
