// Stacks that were described rather than recorded (a snapshot's folder, a core file): mappings with their images, memory, registers; unwound and
// named.
#ifndef PERFSAMPLE_CMD_DEBUG_SCENE_H
#define PERFSAMPLE_CMD_DEBUG_SCENE_H

#include "base/vec.h"
#include "symbols/symbolizer.h"
#include "unwind/unwind.h"

struct scene_map {
	uint64_t start, end, pgoff;
	uint64_t file_start; // where in its file the image begins; without an image, the mapping's own offset
	char *name;
	struct unwind_map at; // its image is the scene's
};

// What a range of code made at run time has been described by to debuggers.
struct scene_jit {
	uint64_t start, end;
	struct unwind_image *image; // the scene's; its addresses are those of the code
};

struct scene_more { bool is_tried; struct image *mini, *debug; }; // what an image has in .gnu_debugdata, and its debug file

// The bytes from an address on, as far as they stand in one piece. false: not there.
typedef bool scene_memory_fn(void *context, uint64_t addr, struct bytes *out);

struct scene {
	uint16_t machine;
	VEC(struct scene_map) maps; // where several hold an address, the first counts
	VEC(struct scene_jit) jit; // asked where a mapping has no image
	VEC(struct unwind_image *) images;
	VEC(struct image *) files; // of `images`, by index
	VEC(struct scene_more) more; // likewise, of those that were asked for
	struct symbolizer *symbolizer;
	struct unwinder *unwinder;
	scene_memory_fn *memory;
	void *memory_context;
	struct frame *frames; // UNWIND_MAX_FRAMES
};

void scene_init(struct scene *scene, bool demangle);
void scene_release(struct scene *scene);
// Adds a mapping that has no image: `missing` says what the walk makes of it.
struct scene_map *scene_add(struct scene *scene, uint64_t start, uint64_t end, uint64_t pgoff, const char *name, enum unwind_end missing);
// Gives a mapping its image (a reference is kept); the same file given twice has one table of rules.
void scene_set_image(struct scene *scene, struct scene_map *map, struct image *image, uint64_t bias);
struct image *scene_file(const struct scene *scene, const struct scene_map *map); // of a mapping that has an image
const struct scene_map *scene_find(const struct scene *scene, uint64_t addr); // NULL: nothing is mapped there

// The code that its program has told debuggers of (GDB's JIT interface): each piece is an image in memory, in a list that begins at
// `__jit_debug_descriptor` of one of the scene's images.
void scene_find_jit(struct scene *scene);

struct scene_registers {
	const uint64_t *values; // one per set bit
	uint64_t mask;
};
// Unwinds; `stack` are the bytes from sp on. The result's frames live until the next call.
struct unwind_stack scene_unwind(struct scene *scene, struct scene_registers registers, struct bytes stack);
// The name of what stands at an address (not a return address: reduced already); NULL: none. `*offset` counts from the symbol's start.
const struct symbol_result *scene_symbol(struct scene *scene, uint64_t addr, uint64_t *offset);

// The same, as a table of the image (or of what is in its .gnu_debugdata) has it: of a function's names the one that stands first. NULL: in none; lives as
// long as the scene. Not demangled.
const char *scene_first_name(struct scene *scene, uint64_t addr, uint64_t *offset, bool *is_thumb);
// The same, but of several names the one that elfutils chooses (image_symbol_at), from the debug file where there is one.
const char *scene_global_name(struct scene *scene, uint64_t addr);

#endif
