// Any bytes as a core file: no crash, every byte that is handed out inside the file, every thread's stack unwound over what is there.
#include "elf/core.h"
#include "tests/fuzz/replay.h"
#include "unwind/arch.h"
#include "unwind/unwind.h"

static bool read_word(void *context, uint64_t addr, unsigned bytes, uint64_t *out)
{
	const struct core *core = context;
	struct bytes at;

	if (!core_memory(core, addr, &at))
		return false;
	if (at.at < core->image->data || at.end > core->image->data + core->image->size || bytes_left(&at) == 0)
		abort();
	*out = bytes == 8 ? bytes_u64(&at) : bytes_u32(&at);
	return !at.bad;
}

static struct unwind_map map_at(void *context, uint64_t addr)
{
	(void)context;
	return (struct unwind_map){ .start = addr & ~(uint64_t)4095, .end = (addr & ~(uint64_t)4095) + 4096, .missing = UNWIND_NO_CFI };
}

static void unwind_thread(const struct core *core, const struct core_thread *thread, struct unwinder *unwinder)
{
	static struct frame frames[256];
	struct unwind_stack out = { .frames = frames, .capacity = 256, .end = UNWIND_END_COUNT };
	struct unwind_regs numbers;
	struct bytes stack;

	if (!unwind_regs_for(core->image->machine, &numbers) || (thread->regs_mask & numbers.mask) != numbers.mask)
		abort();
	uint64_t sp = thread->regs[__builtin_popcountll(thread->regs_mask & (((uint64_t)1 << numbers.sp) - 1))];
	core_memory(core, sp, &stack);
	const struct unwind_input input = {
		.machine = core->image->machine, .regs = thread->regs, .regs_mask = thread->regs_mask, .stack = stack.at, .stack_size = bytes_left(&stack),
		.map = map_at, .read = read_word, .read_context = (void *)(uintptr_t)core,
	};
	unwind_stack(unwinder, &input, &out);
	if (out.count > 256 || out.end >= UNWIND_END_COUNT)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct image *image;
	struct core *core;
	struct err err = { 0 };

	if (!image_open_bytes(&image, data, size, false, "fuzz", &err))
		return 0;
	if (core_open(&core, image, &err)) {
		struct unwinder *unwinder = unwinder_new();
		for (size_t i = 0; i < core->threads.count && i < 16; i++)
			unwind_thread(core, &core->threads.data[i], unwinder);
		for (size_t i = 0; i < core->files.count && i < 64; i++)
			if (core->files.data[i].start >= core->files.data[i].end || strlen(core->files.data[i].path) > size ||
			    core_build_id(core, core->files.data[i].start).size > 32)
				abort();
		unwinder_free(unwinder);
		core_close(core);
	} else if (err.status != STATUS_INPUT || err.text[0] == '\0') {
		abort();
	}
	image_release(image);
	return 0;
}
