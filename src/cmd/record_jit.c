#include "cmd/record_jit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/search.h"
#include "base/sort.h"
#include "elf/guard.h"
#include "record/jit_objects.h"
#include "symbols/jitdump.h"

enum { PLACES_MOST = 4 << 20 };

struct places { VEC(uint64_t) offsets; }; // in the dump

static size_t first_not_below(const struct sampled_addr *addrs, size_t count, uint64_t addr)
{
	return first_not(0, count, i, addrs[i].image_addr < addr);
}

// Which code of the dump was sampled. An address is looked for in all code that ever stood there: the reader, who has the samples' times, chooses.
static void match(struct names *names, struct places *places, const struct jitdump *dump, const struct sampled_code *code,
                  const struct sampled_addr *addrs, size_t count)
{
	for (size_t i = 0; i < dump->codes.count; i++) {
		const struct jitdump_code *c = &dump->codes.data[i];
		size_t at = first_not_below(addrs, count, c->addr);
		if (at == count || addrs[at].image_addr - c->addr >= c->size)
			continue;
		vec_push(&names->codes, (struct name_code){ .path = code->jitdump_path, .time_ns = c->time_ns, .addr = c->addr, .size = c->size,
		                                            .offset = c->offset, .pid = code->dso->pid });
		for (; at < count && addrs[at].image_addr - c->addr < c->size && places->offsets.count < PLACES_MOST; at++)
			vec_push(&places->offsets, c->offset + (addrs[at].image_addr - c->addr));
	}
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void add_names(struct names *names, struct symbolizer *symbolizer, const struct sampled_code *code, struct places *places)
{
	struct symbol_image wanted = { .kind = SYMBOL_IMAGE_JITDUMP, .path = code->jitdump_path, .map_fd = code->jitdump_fd };
	uint32_t id = symbolizer_image(symbolizer, &wanted);
	struct name_image *image = vec_add(&names->images);
	image->path = code->jitdump_path;
	image->kind = DSO_FILE;
	sort_stable(places->offsets.data, places->offsets.count, sizeof(*places->offsets.data), by_value);
	for (size_t i = 0; i < places->offsets.count; i++) {
		uint64_t offset = places->offsets.data[i];
		if (i > 0 && offset == places->offsets.data[i - 1])
			continue;
		const struct symbol_result *result = symbolizer_lookup(symbolizer, id, offset);
		if (result->frames[0].name == NULL)
			continue;
		vec_push(&image->addrs, (struct name_addr){ .image_addr = offset, .symbol_start = result->symbol_start, .linkage_name = result->linkage_name,
		                                            .first_frame = (uint32_t)image->frames.count, .frame_count = (uint32_t)result->count });
		for (size_t f = 0; f < result->count; f++)
			vec_push(&image->frames, (struct name_frame){ .name = result->frames[f].name, .file = result->frames[f].file,
			                                              .line = result->frames[f].line, .is_inlined = result->frames[f].is_inlined });
	}
}

void record_jit(struct names *names, struct symbolizer *symbolizer, const struct sampled_code *code, const struct sampled_addr *addrs, size_t count)
{
	struct jitdump dump = { 0 };
	struct places places = { 0 };
	struct stat st;
	if (code->jitdump_fd < 0 || fstat(code->jitdump_fd, &st) != 0 || st.st_size <= 0 || st.st_size > JITDUMP_BYTES_MOST)
		return;
	const void *bytes = guard_map(code->jitdump_fd, (size_t)st.st_size);
	if (bytes == NULL)
		return;
	(void)jitdump_parse(&dump, bytes, (size_t)st.st_size, NULL); // what came before a fault counts
	match(names, &places, &dump, code, addrs, count);
	if (places.offsets.count > 0)
		add_names(names, symbolizer, code, &places);
	vec_release(&places.offsets);
	jitdump_release(&dump);
	guard_unmap(bytes, (size_t)st.st_size);
}

// ---------------------------------------------------------------- of which a process told debuggers

static void add_function(struct name_image *image, struct names *names, const struct jit_function *f, uint64_t offset, const struct sampled_addr *addrs, size_t count)
{
	char *name = symbol_demangle(f->name);
	const char *shown = name != NULL ? arena_string(&names->arena, name, strlen(name)) : f->name;
	for (size_t i = 0; i < count; i++) {
		vec_push(&image->addrs, (struct name_addr){ .image_addr = offset + (addrs[i].image_addr - f->addr), .symbol_start = offset, .linkage_name = f->name,
		                                            .first_frame = (uint32_t)image->frames.count, .frame_count = 1 });
		vec_push(&image->frames, (struct name_frame){ .name = shown });
	}
	free(name);
}

void record_jit_functions(struct names *names, const struct sampled_code *code, const struct sampled_addr *addrs, size_t count, uint64_t *offset)
{
	struct name_image *image = NULL;
	char *text = mem_printf("//jit-%u.dump", code->dso->pid);
	const char *path = arena_string(&names->arena, text, strlen(text));
	free(text);
	for (size_t i = 0; i < code->function_count; i++) {
		const struct jit_function *f = &code->functions[i];
		size_t at = first_not_below(addrs, count, f->addr), end = first_not_below(addrs, count, f->addr + f->size);
		if (at == end || f->until_ns <= f->from_ns)
			continue;
		if (image == NULL) {
			image = vec_add(&names->images);
			image->path = path;
			image->kind = DSO_FILE;
		}
		const struct name_code load = { .path = path, .time_ns = f->from_ns, .addr = f->addr, .size = f->size, .offset = *offset, .pid = code->dso->pid };
		vec_push(&names->codes, load);
		add_function(image, names, f, *offset, addrs + at, end - at);
		*offset += f->size;
		if (f->until_ns == UINT64_MAX)
			continue;
		vec_push(&names->codes, load);
		names->codes.data[names->codes.count - 1].time_ns = f->until_ns; // of what comes then nothing is known
		names->codes.data[names->codes.count - 1].offset = *offset;
		*offset += f->size;
	}
}
