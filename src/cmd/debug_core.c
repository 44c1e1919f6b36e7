// The threads of a core file, unwound and printed as eu-stack prints them.
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/regular.h"
#include "cli/terminal.h"
#include "cmd/debug.h"
#include "cmd/debug_scene.h"
#include "elf/core.h"
#include "unwind/arch.h"

enum { MAX_VDSO_BYTES = 1 << 20, PAGE_BYTES = 4096, HEADER_BYTES = 1024 };

static bool memory_at(void *context, uint64_t addr, struct bytes *out)
{
	return core_memory(context, addr, out);
}

static void add_segments(struct scene *scene, struct image *image, uint64_t bias)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		if ((s->flags & PF_X) == 0 || s->mem_size == 0 || s->vaddr + bias + s->mem_size <= s->vaddr + bias)
			continue;
		struct scene_map *map = scene_add(scene, s->vaddr + bias, s->vaddr + bias + s->mem_size, s->offset, image->path, UNWIND_NO_IMAGE);
		scene_set_image(scene, map, image, bias);
	}
}

// That of the file that has the entry point; without NT_FILE, of whatever stands where this program's first page would.
static struct build_id program_build_id(const struct core *core, const struct image *program, uint64_t bias)
{
	const struct core_file *own = NULL;

	for (size_t i = 0; i < core->files.count && own == NULL; i++)
		if (core->entry >= core->files.data[i].start && core->entry < core->files.data[i].end)
			own = &core->files.data[i];
	for (size_t i = 0; own != NULL && i < core->files.count; i++)
		if (core->files.data[i].pgoff == 0 && strcmp(core->files.data[i].path, own->path) == 0)
			return core_build_id(core, core->files.data[i].start);
	for (size_t i = 0; i < program->segment_count; i++)
		if (program->segments[i].offset == 0)
			return core_build_id(core, program->segments[i].vaddr + bias);
	return (struct build_id){ 0 };
}

// Where the program was loaded is told by its entry point, at run time and in its file.
static bool add_program(struct scene *scene, const struct core *core, struct image *program, struct err *err)
{
	uint64_t bias = 0;

	if (program->machine != core->image->machine || program->is_64 != core->image->is_64)
		return err_set(err, STATUS_INPUT, "%s: offset 18: machine %u, expected %u, that of %s", program->path, program->machine,
		               core->image->machine, core->image->path);
	if (program->type == ET_DYN) {
		if (core->entry == 0)
			return err_set(err, STATUS_INPUT, "%s: no AT_ENTRY in an NT_AUXV, which %s (position-independent) needs", core->image->path, program->path);
		bias = core->entry - program->entry;
	}
	struct build_id id = program_build_id(core, program, bias);
	if (id.size > 0 && program->build_id.size > 0 && !build_id_equal(&id, &program->build_id))
		return err_set(err, STATUS_INPUT, "%s is not the program of %s (another build ID)", program->path, core->image->path);
	if ((bias & (PAGE_BYTES - 1)) != 0)
		return err_set(err, STATUS_INPUT, "%s is not the program of %s (its entry point is at %#llx, not at a page and %#llx)", program->path,
		               core->image->path, (unsigned long long)core->entry, (unsigned long long)program->entry);
	add_segments(scene, program, bias);
	return true;
}

// Whether the image is the one that stood there, as far as the core holds its beginning: by build ID, else by its headers' bytes.
static bool is_image_at(const struct core *core, uint64_t start, const struct image *image)
{
	struct build_id id = core_build_id(core, start);
	struct bytes page;

	if (id.size > 0 || image->build_id.size > 0)
		return id.size == 0 ? !core_memory(core, start, &page) : build_id_equal(&image->build_id, &id);
	if (!core_memory(core, start, &page))
		return true;
	size_t size = bytes_left(&page) < image->size ? bytes_left(&page) : image->size;
	return memcmp(page.at, image->data, size < HEADER_BYTES ? size : HEADER_BYTES) == 0;
}

static bool has_magic(const struct core *core, uint64_t start)
{
	struct bytes page;

	return core_memory(core, start, &page) && bytes_left(&page) >= SELFMAG && memcmp(page.at, ELFMAG, SELFMAG) == 0;
}

static bool open_mapped(struct image **out, const struct core_file *file, struct err *err)
{
	int fd = regular_open(file->path, 0);

	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "%s", file->path);
	bool good = image_open_fd_at(out, fd, file->pgoff, file->path, err);
	close(fd);
	return good;
}

// Whether the address is one of an image that is known: gold lets two segments begin in a file's first page, which is mapped twice then.
static bool is_in_image(const struct scene *scene, uint64_t addr)
{
	for (size_t i = 0; i < scene->maps.count; i++) {
		const struct scene_map *map = &scene->maps.data[i];
		const struct image *image = map->at.image != NULL ? scene_file(scene, map) : NULL;
		for (size_t s = 0; image != NULL && s < image->segment_count; s++) {
			uint64_t page = image->segments[s].vaddr & ~(uint64_t)(PAGE_BYTES - 1);
			if (addr - map->at.bias >= page && addr - map->at.bias - page < image->segments[s].mem_size + PAGE_BYTES)
				return true;
		}
	}
	return false;
}

// A file that was mapped from an image's first page on, if it is still there and the same.
static void add_library(struct scene *scene, const struct core *core, const struct core_file *file)
{
	struct image *image = NULL;
	struct err err = { 0 };
	uint64_t bias;

	if (scene_find(scene, file->start) != NULL || is_in_image(scene, file->start))
		return;
	if (!open_mapped(&image, file, &err) || image == NULL) {
		if (has_magic(core, file->start)) // else it may be any file that was mapped
			log_warn("%s", err.text);
	} else if (image->file_start == file->pgoff && !is_image_at(core, file->start, image)) {
		log_warn("%s is not the file that was mapped (%s)", file->path, image->build_id.size > 0 ? "another build ID" : "other headers");
	} else if (image->file_start == file->pgoff && image_bias(image, file->start, file->end, 0, &bias)) {
		add_segments(scene, image, bias);
	}
	image_release(image);
}

static struct image *find_file(struct scene *scene, const char *path)
{
	for (size_t i = 0; path != NULL && i < scene->files.count; i++)
		if (strcmp(scene->files.data[i]->path, path) == 0 && scene->files.data[i]->file_start == 0)
			return scene->files.data[i];
	return NULL;
}

// A part of a known file's code that was mapped once more elsewhere: V8 does that with its builtins, to have them near the code that it makes.
static void add_again(struct scene *scene, struct image *program, const struct core_file *file, bool is_program)
{
	struct image *image = is_program ? program : find_file(scene, file->path);
	uint64_t bias, vaddr, offset;

	if (image == NULL || file->pgoff == 0 || scene_find(scene, file->start) != NULL || !image_bias(image, file->start, file->end, file->pgoff, &bias))
		return;
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct image_segment *s = &image->segments[i];
		vaddr = file->start - bias;
		if ((s->flags & PF_X) == 0 || vaddr < s->vaddr || vaddr - s->vaddr >= s->mem_size || !image_vaddr_to_offset(image, vaddr, &offset))
			continue;
		scene_set_image(scene, scene_add(scene, file->start, file->end, file->pgoff, image->path, UNWIND_NO_IMAGE), image, bias);
	}
}

// An image that no file is known of stands in memory alone: the vdso, told of by the kernel or (no NT_AUXV, a snapshot's) by its first bytes.
static void add_in_memory(struct scene *scene, const struct core *core, uint64_t start)
{
	struct bytes bytes;
	struct image *image;
	uint64_t bias;

	if (scene_find(scene, start) != NULL || !has_magic(core, start) || !core_memory(core, start, &bytes))
		return;
	size_t size = bytes_left(&bytes) < MAX_VDSO_BYTES ? bytes_left(&bytes) : MAX_VDSO_BYTES;
	if (!image_open_bytes(&image, bytes.at, size, true, "[vdso]", NULL))
		return;
	if (image_bias(image, start, start + size, 0, &bias))
		add_segments(scene, image, bias);
	image_release(image);
}

// The file that has the entry point; NULL: not told.
static const char *program_path(const struct core *core)
{
	for (size_t i = 0; i < core->files.count; i++)
		if (core->entry >= core->files.data[i].start && core->entry < core->files.data[i].end)
			return core->files.data[i].path;
	return NULL;
}

static void add_maps(struct scene *scene, const struct core *core, struct image *program)
{
	const char *own = program_path(core);

	for (size_t i = 0; i < core->files.count; i++)
		if (core->files.data[i].pgoff == 0 || has_magic(core, core->files.data[i].start))
			add_library(scene, core, &core->files.data[i]);
	add_in_memory(scene, core, core->vdso);
	for (size_t i = 0; i < core->image->segment_count; i++)
		if ((core->image->segments[i].flags & PF_X) != 0)
			add_in_memory(scene, core, core->image->segments[i].vaddr);
	for (size_t i = 0; i < core->files.count; i++)
		add_again(scene, program, &core->files.data[i], own != NULL && strcmp(own, core->files.data[i].path) == 0);
	// Whatever else can be executed: files that are not to be had, and code made at run time.
	for (size_t i = 0; i < core->image->segment_count; i++) {
		const struct image_segment *s = &core->image->segments[i];
		if ((s->flags & PF_X) == 0)
			continue;
		bool is_file = !core->has_files;
		for (size_t f = 0; f < core->files.count && !is_file; f++)
			is_file = s->vaddr >= core->files.data[f].start && s->vaddr < core->files.data[f].end;
		scene_add(scene, s->vaddr, s->vaddr + s->mem_size, 0, "", is_file ? UNWIND_NO_IMAGE : UNWIND_NO_CFI);
	}
}

static void put_thread(struct scene *scene, const struct core *core, const struct core_thread *thread, struct buf *out)
{
	struct unwind_regs numbers = { 0 };
	struct bytes stack;

	unwind_regs_for(scene->machine, &numbers);
	uint64_t sp = thread->regs[__builtin_popcountll(thread->regs_mask & (((uint64_t)1 << numbers.sp) - 1))];
	core_memory(core, sp, &stack);
	struct unwind_stack frames = scene_unwind(scene, (struct scene_registers){ thread->regs, thread->regs_mask }, stack);
	buf_printf(out, "TID %" PRIu32 ":\n", thread->tid);
	for (size_t i = 0; i < frames.count; i++) {
		const struct frame *frame = &frames.frames[i];
		uint64_t offset;
		const char *name = scene_global_name(scene, frame_lookup_addr(frame));
		const struct symbol_result *symbol = name == NULL ? scene_symbol(scene, frame_lookup_addr(frame), &offset) : NULL;
		name = symbol != NULL ? symbol->linkage_name : name;
		buf_printf(out, "#%-2zu 0x%0*" PRIx64, i, core->image->is_64 ? 16 : 8, frame->addr);
		if (name != NULL) {
			buf_byte(out, ' ');
			escape_terminal(out, name, strlen(name));
		}
		buf_byte(out, '\n');
	}
	if (!unwind_end_is_root(frames.end))
		log_warn("thread %" PRIu32 ": the stack ends: %s", thread->tid, unwind_end_name(frames.end));
}

int debug_core(const char *core_path, const char *program_path)
{
	struct scene scene;
	struct image *core_image = NULL, *program = NULL;
	struct core *core = NULL;
	struct buf out = { 0 };
	struct err err = { 0 };

	scene_init(&scene, false);
	bool good = image_open_path(&core_image, core_path, &err) && core_open(&core, core_image, &err) &&
	            image_open_path(&program, program_path, &err) && add_program(&scene, core, program, &err);
	if (good) {
		scene.machine = core_image->machine;
		scene.memory = memory_at;
		scene.memory_context = core;
		add_maps(&scene, core, program);
		scene_find_jit(&scene);
		buf_printf(&out, "PID %" PRIu32 " - core\n", core->pid);
		for (size_t i = 0; i < core->threads.count; i++)
			put_thread(&scene, core, &core->threads.data[i], &out);
		good = output_write(buf_text(&out), out.size, &err);
	}
	if (!good)
		log_error("%s", err.text);
	scene_release(&scene);
	core_close(core);
	image_release(core_image);
	image_release(program);
	buf_release(&out);
	return good ? STATUS_OK : (int)err.status;
}
