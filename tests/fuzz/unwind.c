// An image, registers and a stack, all from the fuzzer: u16 size of the image, the image, 33 registers of 8 bytes (short: zeros), the
// stack. Unwound as each machine that we know. Whatever comes out must be within bounds and have a reason.
#include "tests/fuzz/replay.h"
#include "unwind/arch.h"
#include "unwind/walk.h"

enum { BIAS = 0x10000 };

static struct unwind_map map_at(void *context, uint64_t addr)
{
	struct unwind_image *image = context;

	if (addr >= 0x80000000 && addr < 0x80001000)
		return (struct unwind_map){ .start = 0x80000000, .end = 0x80001000, .missing = UNWIND_NO_CFI }; // generated code
	if (image == NULL || addr >= 0x80000000)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .end = 0x80000000, .bias = BIAS, .image = image };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct frame frames[512];
	struct bytes in = bytes_of(data, size);
	struct bytes elf = bytes_of(data, 0);
	uint64_t regs[33] = { 0 };
	struct image *image = NULL;
	struct unwind_image *cfi = NULL;

	size_t image_size = bytes_u16(&in);
	if (image_size <= bytes_left(&in))
		elf = bytes_sub(&in, image_size);
	if (image_open_bytes(&image, elf.at, bytes_left(&elf), false, "fuzz", NULL))
		unwind_image_new(&cfi, image, false, NULL);
	for (int i = 0; i < 33 && bytes_left(&in) >= 8; i++)
		regs[i] = bytes_u64(&in);
	for (size_t machine = 0; unwind_archs[machine] != NULL; machine++) {
		struct unwinder *unwinder = unwinder_new();
		struct unwind_stack out = { .frames = frames, .capacity = 512 };
		struct unwind_input input = {
			.machine = unwind_archs[machine]->machine, .regs = regs, .regs_mask = unwind_archs[machine]->perf_mask, .stack = in.at,
			.stack_size = bytes_left(&in), .map = map_at, .map_context = cfi,
		};
		struct unwind_stack before = { 0 };
		for (int round = 0; round < 4; round++) { // the second one from the cache, the last one by the short cut (near.h)
			if (round == 2)
				near_space_of(&unwinder->near, 0)->steps = UINT32_MAX; // worth it from now on
			out.end = UNWIND_END_COUNT;
			unwind_stack(unwinder, &input, &out);
			if (out.count > 512 || out.end >= UNWIND_END_COUNT || out.end == UNWIND_DEFERRED)
				abort();
			if (round > 0 && (out.count != before.count || out.end != before.end || out.gap != before.gap || out.last_cfa != before.last_cfa))
				abort();
			before = out;
		}
		struct unwind_input together[3] = { input, input, input };
		struct unwind_stack outs[3];
		together[1].stack_size /= 2;
		together[2].generation = 1;
		for (int i = 0; i < 3; i++)
			outs[i] = (struct unwind_stack){ .frames = frames + i * 170, .capacity = 170 };
		unwind_stacks(unwinder, together, outs, 3);
		for (int i = 0; i < 3; i++)
			if (outs[i].count > 170 || outs[i].end >= UNWIND_END_COUNT)
				abort();
		if (outs[0].count != outs[2].count || outs[0].end != outs[2].end) // but for their generation they are the same
			abort();
		unwinder_free(unwinder);
	}
	unwind_image_free(cfi);
	image_release(image);
	return 0;
}
