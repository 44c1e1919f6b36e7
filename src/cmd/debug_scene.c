#include "cmd/debug_scene.h"

#include <stdlib.h>

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
	map->at = (struct unwind_map){ .start = start, .end = end, .missing = missing };
	return map;
}

void scene_set_image(struct scene *scene, struct scene_map *map, struct image *image, uint64_t bias)
{
	size_t i = 0;

	while (i < scene->files.count && scene->files.data[i] != image)
		i++;
	if (i == scene->files.count) {
		struct unwind_image *made;
		unwind_image_new(&made, image, false, NULL);
		vec_push(&scene->files, image_retain(image));
		vec_push(&scene->images, made);
	}
	map->at.image = scene->images.data[i];
	map->at.bias = bias;
}

const struct scene_map *scene_find(const struct scene *scene, uint64_t addr)
{
	for (size_t i = 0; i < scene->maps.count; i++)
		if (addr >= scene->maps.data[i].start && addr < scene->maps.data[i].end)
			return &scene->maps.data[i];
	return NULL;
}

static struct unwind_map map_at(void *context, uint64_t addr)
{
	const struct scene_map *map = scene_find(context, addr);

	return map != NULL ? map->at : (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

struct unwind_stack scene_unwind(struct scene *scene, struct scene_registers registers, struct bytes stack)
{
	struct unwind_stack out = { .frames = scene->frames, .capacity = UNWIND_MAX_FRAMES };
	const struct unwind_input input = {
		.machine = scene->machine, .regs = registers.values, .regs_mask = registers.mask, .stack = stack.at, .stack_size = bytes_left(&stack),
		.generation = 1, .map = map_at, .map_context = scene, .read = scene->read, .read_context = scene->read_context,
	};

	unwind_stack(scene->unwinder, &input, &out);
	return out;
}

const struct symbol_result *scene_symbol(struct scene *scene, uint64_t addr, uint64_t *offset)
{
	const struct scene_map *map = scene_find(scene, addr);
	uint64_t file_offset;
	size_t i = 0;

	*offset = 0;
	if (map == NULL || map->at.image == NULL)
		return NULL;
	while (scene->images.data[i] != map->at.image)
		i++;
	struct image *image = scene->files.data[i];
	if (!image_vaddr_to_offset(image, addr - map->at.bias, &file_offset))
		return NULL;
	const struct symbol_image description = { .kind = SYMBOL_IMAGE_FILE, .path = image->path, .build_id = image->build_id, .image = image, .map_fd = -1 };
	const struct symbol_result *result = symbolizer_lookup(scene->symbolizer, symbolizer_image(scene->symbolizer, &description), file_offset);
	if (result->missing != SYMBOL_FOUND)
		return NULL;
	*offset = file_offset - result->symbol_start;
	return result;
}
