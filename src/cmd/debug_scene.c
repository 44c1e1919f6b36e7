#include "cmd/debug_scene.h"

#include <elf.h>
#include <stdlib.h>

#include "symbols/debug_file.h"
#include "unwind/arch.h"

void scene_init(struct scene *scene, bool demangle)
{
	const struct symbolizer_options options = { .demangle = demangle, .use_host_files = true, .no_cache = true };

	*scene = (struct scene){ .symbolizer = symbolizer_new(&options), .unwinder = unwinder_new() };
	scene->frames = mem_alloc(UNWIND_MAX_FRAMES * sizeof(*scene->frames));
}

void scene_release(struct scene *scene)
{
	for (size_t i = 0; i < scene->maps.count; i++)
		free(scene->maps.data[i].name);
	for (size_t i = 0; i < scene->images.count; i++) {
		unwind_image_free(scene->images.data[i]);
		image_release(scene->files.data[i]);
	}
	vec_release(&scene->maps);
	vec_release(&scene->jit);
	for (size_t i = 0; i < scene->more.count; i++) {
		image_release(scene->more.data[i].mini);
		image_release(scene->more.data[i].debug);
	}
	vec_release(&scene->more);
	vec_release(&scene->images);
	vec_release(&scene->files);
	symbolizer_free(scene->symbolizer);
	unwinder_free(scene->unwinder);
	free(scene->frames);
}

struct scene_map *scene_add(struct scene *scene, uint64_t start, uint64_t end, uint64_t pgoff, const char *name, enum unwind_end missing)
{
	struct scene_map *map = vec_add(&scene->maps);

	*map = (struct scene_map){ .start = start, .end = end, .pgoff = pgoff, .name = mem_string(name) };
	map->file_start = pgoff;
	map->at = (struct unwind_map){ .start = start, .end = end, .missing = missing };
	return map;
}

static struct unwind_image *cfi_of(struct scene *scene, struct image *image)
{
	struct unwind_image *made;

	for (size_t i = 0; i < scene->files.count; i++)
		if (scene->files.data[i] == image)
			return scene->images.data[i];
	unwind_image_new(&made, image, false, NULL);
	const struct symbolizer_options where = { .use_host_files = true };
	struct image *debug = debug_file_find_cfi(&where, image, false);
	if (debug != NULL)
		unwind_image_add_debug(made, debug);
	image_release(debug);
	vec_push(&scene->files, image_retain(image));
	vec_push(&scene->images, made);
	return made;
}

void scene_set_image(struct scene *scene, struct scene_map *map, struct image *image, uint64_t bias)
{
	map->at.image = cfi_of(scene, image);
	map->at.bias = bias;
}

struct image *scene_file(const struct scene *scene, const struct scene_map *map)
{
	size_t i = 0;

	while (scene->images.data[i] != map->at.image)
		i++;
	return scene->files.data[i];
}

const struct scene_map *scene_find(const struct scene *scene, uint64_t addr)
{
	for (size_t i = 0; i < scene->maps.count; i++)
		if (addr >= scene->maps.data[i].start && addr < scene->maps.data[i].end)
			return &scene->maps.data[i];
	return NULL;
}

static const struct scene_jit *find_jit(const struct scene *scene, uint64_t addr)
{
	for (size_t i = 0; i < scene->jit.count; i++)
		if (addr >= scene->jit.data[i].start && addr < scene->jit.data[i].end)
			return &scene->jit.data[i];
	return NULL;
}

static struct unwind_map map_at(void *context, uint64_t addr)
{
	const struct scene_map *map = scene_find(context, addr);
	const struct scene_jit *jit = map != NULL && map->at.image == NULL ? find_jit(context, addr) : NULL;

	if (jit != NULL)
		return (struct unwind_map){ .start = jit->start, .end = jit->end, .image = jit->image };
	return map != NULL ? map->at : (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

static bool read_word(void *context, uint64_t addr, unsigned bytes, uint64_t *out)
{
	const struct scene *scene = context;
	struct bytes at;

	if (!scene->memory(scene->memory_context, addr, &at))
		return false;
	*out = bytes == 8 ? bytes_u64(&at) : bytes_u32(&at);
	return !at.bad;
}

struct unwind_stack scene_unwind(struct scene *scene, struct scene_registers registers, struct bytes stack)
{
	// Without a byte at sp (a leaf that keeps all below it; a stack that was not saved) the walk still begins: what it wants is asked for word by word.
	static const uint8_t nothing[1];
	if (bytes_left(&stack) == 0)
		stack = bytes_of(nothing, sizeof(nothing));
	struct unwind_stack out = { .frames = scene->frames, .capacity = UNWIND_MAX_FRAMES };
	const struct unwind_input input = {
		.machine = scene->machine, .regs = registers.values, .regs_mask = registers.mask, .stack = stack.at, .stack_size = bytes_left(&stack),
		.generation = 1, .map = map_at, .map_context = scene, .read = read_word, .read_context = scene,
	};

	unwind_stack(scene->unwinder, &input, &out);
	return out;
}

static uint32_t symbolizer_id(struct scene *scene, size_t i)
{
	struct image *image = scene->files.data[i];
	const struct symbol_image description = { .kind = SYMBOL_IMAGE_FILE, .path = image->path, .build_id = image->build_id, .image = image, .map_fd = -1 };

	return symbolizer_image(scene->symbolizer, &description);
}

static const struct scene_more *more_of(struct scene *scene, size_t i)
{
	struct err err = { 0 };

	while (scene->more.count <= i)
		vec_push(&scene->more, (struct scene_more){ 0 });
	struct scene_more *more = &scene->more.data[i];
	if (!more->is_tried) {
		*more = (struct scene_more){ .is_tried = true, .mini = image_open_mini_debug(scene->files.data[i], &err) };
		symbolizer_image_open(scene->symbolizer, symbolizer_id(scene, i));
		const char *debug = symbolizer_image_status(scene->symbolizer, symbolizer_id(scene, i)).debug_file;
		if (debug != NULL && !image_open_path(&more->debug, debug, NULL))
			more->debug = NULL;
	}
	return more;
}

// The file's index and the address in it. false: no image there.
static bool locate(struct scene *scene, uint64_t addr, size_t *i, uint64_t *vaddr)
{
	struct unwind_map map = map_at(scene, addr);

	if (map.image == NULL)
		return false;
	for (*i = 0; scene->images.data[*i] != map.image; ++*i)
		;
	*vaddr = addr - map.bias;
	return true;
}

const struct symbol_result *scene_symbol(struct scene *scene, uint64_t addr, uint64_t *offset)
{
	uint64_t file_offset, vaddr;
	size_t i;

	*offset = 0;
	if (!locate(scene, addr, &i, &vaddr) || !image_vaddr_to_offset(scene->files.data[i], vaddr, &file_offset))
		return NULL;
	const struct symbol_result *result = symbolizer_lookup(scene->symbolizer, symbolizer_id(scene, i), file_offset);
	if (result->missing != SYMBOL_FOUND)
		return NULL;
	*offset = file_offset - result->symbol_start;
	return result;
}

const char *scene_first_name(struct scene *scene, uint64_t addr, uint64_t *offset, bool *is_thumb)
{
	uint64_t vaddr, start;
	size_t i;

	*offset = 0;
	*is_thumb = false;
	if (!locate(scene, addr, &i, &vaddr))
		return NULL;
	const char *name = image_function_at(scene->files.data[i], vaddr, &start);
	if (name == NULL && more_of(scene, i)->mini != NULL)
		name = image_function_at(more_of(scene, i)->mini, vaddr, &start);
	if (name == NULL)
		return NULL;
	*is_thumb = scene->machine == EM_ARM && (start & 1) != 0;
	*offset = vaddr - (start - *is_thumb);
	return name;
}

const char *scene_global_name(struct scene *scene, uint64_t addr)
{
	uint64_t vaddr, start, debug_bias = 0;
	const char *name = NULL;
	size_t i;

	if (!locate(scene, addr, &i, &vaddr))
		return NULL;
	const struct image *image = scene->files.data[i];
	const struct scene_more *more = more_of(scene, i);
	if (more->debug != NULL && more->debug->segment_count > 0 && image->segment_count > 0) // a file that was prelinked has moved away from it
		debug_bias = image->segments[0].vaddr - more->debug->segments[0].vaddr;
	if (more->debug != NULL)
		name = image_symbol_at(more->debug, vaddr - debug_bias, &start);
	if (name == NULL)
		name = image_symbol_at(image, vaddr, &start);
	if (name == NULL && more->mini != NULL)
		name = image_symbol_at(more->mini, vaddr, &start);
	return name;
}

// ---------------------------------------------------------------- code made at run time

enum { MAX_JIT_ENTRIES = 1 << 16, MAX_JIT_BYTES = 16 << 20 };

static bool word_at(struct scene *scene, uint64_t addr, uint64_t *out)
{
	return read_word(scene, addr, unwind_arch_for(scene->machine)->word_bytes, out);
}

static void add_jit_image(struct scene *scene, uint64_t addr, uint64_t size)
{
	struct bytes at;
	struct image *image;

	if (size > MAX_JIT_BYTES || !scene->memory(scene->memory_context, addr, &at) || size > bytes_left(&at) ||
	    !image_open_bytes(&image, at.at, (size_t)size, false, "[jit]", NULL))
		return;
	struct unwind_image *cfi = cfi_of(scene, image);
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if ((s->flags & PF_X) != 0)
			vec_push(&scene->jit, (struct scene_jit){ s->vaddr, s->vaddr + s->mem_size, cfi });
	}
	image_release(image);
}

// struct jit_code_entry: next, previous, the image's address, its size in 64 bits (which i386 aligns to 4 only).
static void walk_jit_entries(struct scene *scene, uint64_t entry)
{
	uint64_t word = unwind_arch_for(scene->machine)->word_bytes, addr, low, high = 0;

	for (unsigned i = 0; entry != 0 && i < MAX_JIT_ENTRIES; i++) {
		if (!word_at(scene, entry + 2 * word, &addr) || !word_at(scene, entry + 3 * word, &low) ||
		    (word == 4 && !word_at(scene, entry + 4 * word, &high)))
			return;
		add_jit_image(scene, addr, high << 32 | low);
		if (!word_at(scene, entry, &entry))
			return;
	}
}

static bool find_descriptor(struct scene *scene, size_t i, uint64_t *vaddr)
{
	static const char name[] = "__jit_debug_descriptor";

	if (image_find_symbol(scene->files.data[i], name, vaddr))
		return true;
	return more_of(scene, i)->mini != NULL && image_find_symbol(more_of(scene, i)->mini, name, vaddr);
}

// struct jit_descriptor: version and action of 32 bits each, the entry that the action is about, the first entry.
void scene_find_jit(struct scene *scene)
{
	const struct unwind_arch *arch = unwind_arch_for(scene->machine);
	size_t count = scene->images.count; // those made here are not asked

	for (size_t i = 0; i < count && arch != NULL; i++) {
		uint64_t vaddr, entry;
		size_t m = 0;
		while (m < scene->maps.count && scene->maps.data[m].at.image != scene->images.data[i])
			m++;
		if (m < scene->maps.count && find_descriptor(scene, i, &vaddr) &&
		    word_at(scene, vaddr + scene->maps.data[m].at.bias + 8 + arch->word_bytes, &entry))
			walk_jit_entries(scene, entry);
	}
}
