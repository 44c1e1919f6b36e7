// The threads of a core file, unwound and printed as eu-stack prints them.
#include <elf.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/escape.h"
#include "base/log.h"
#include "cli/terminal.h"
#include "cmd/debug.h"
#include "cmd/debug_scene.h"
#include "elf/core.h"
#include "unwind/arch.h"

enum { MAX_VDSO_BYTES = 1 << 20, PAGE_BYTES = 4096 };

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

// A file that was mapped from its first page on, if it is still there and the same.
static void add_library(struct scene *scene, const struct core *core, const struct core_file *file)
{
	struct image *image = NULL;
	struct build_id id = core_build_id(core, file->start);
	struct err err = { 0 };
	uint64_t bias;

	if (id.size == 0 || scene_find(scene, file->start) != NULL)
		return;
	if (!image_open_path(&image, file->path, &err))
		log_warn("%s", err.text);
	else if (!build_id_equal(&image->build_id, &id))
		log_warn("%s is not the file that was mapped (another build ID)", file->path);
	else if (image_bias(image, file->start, file->end, file->pgoff, &bias))
		add_segments(scene, image, bias);
	image_release(image);
}

static void add_vdso(struct scene *scene, const struct core *core)
{
	struct bytes bytes;
	struct image *image;
	uint64_t bias;

	if (core->vdso == 0 || !core_memory(core, core->vdso, &bytes))
		return;
	size_t size = bytes_left(&bytes) < MAX_VDSO_BYTES ? bytes_left(&bytes) : MAX_VDSO_BYTES;
	if (!image_open_bytes(&image, bytes.at, size, true, "[vdso]", NULL))
		return;
	if (image_bias(image, core->vdso, core->vdso + size, 0, &bias))
		add_segments(scene, image, bias);
	image_release(image);
}

static void add_maps(struct scene *scene, const struct core *core)
{
	for (size_t i = 0; i < core->files.count; i++)
		if (core->files.data[i].pgoff == 0)
			add_library(scene, core, &core->files.data[i]);
	add_vdso(scene, core);
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
		const struct symbol_result *symbol = scene_symbol(scene, frame_lookup_addr(frame), &offset);
		buf_printf(out, "#%-2zu 0x%0*" PRIx64, i, core->image->is_64 ? 16 : 8, frame->addr);
		if (symbol != NULL) {
			buf_byte(out, ' ');
			escape_terminal(out, symbol->linkage_name, strlen(symbol->linkage_name));
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
		add_maps(&scene, core);
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
