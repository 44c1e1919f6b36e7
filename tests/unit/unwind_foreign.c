// Stacks of other machines, laid out by hand: return addresses that are signed (aarch64), frames of the kernel's signal delivery whose
// trampoline has no CFI, in the layouts of asm/sigcontext.h of each.
#include "unwind/unwind.h"

#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "tests/compile.h"

enum { BASE = 0x400000, STACK = 0x7ff000, STACK_BYTES = 32768 };

// Functions stand at BASE + 64 * number.
enum { START, CALLER, LEAF, HANDLER, TRAMPOLINE, BARE_HANDLER };
static uint64_t at(unsigned function, unsigned offset)
{
	return BASE + 64 * function + offset;
}

static struct unwind_image *image;

static struct unwind_map map_at(void *context, uint64_t addr)
{
	(void)context;
	if (addr < BASE || addr >= BASE + 4096)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = BASE, .end = BASE + 4096, .image = image };
}

static bool build(const char *assembler, const char *linker, const char *source)
{
	char path[4096];
	struct image *file;

	scratch_write("foreign.s", source);
	if (!shell("%s -o foreign.o foreign.s 2>err && %s -Ttext=%#x -e %#x -o foreign foreign.o 2>>err", assembler, linker, BASE, BASE))
		return false;
	snprintf(path, sizeof(path), "%s/foreign", scratch);
	if (!image_open_path(&file, path, NULL))
		return false;
	unwind_image_new(&image, file, true, NULL);
	image_release(file);
	return true;
}

struct wanted { uint64_t addr; uint8_t kind; };

static uint8_t stack_bytes[STACK_BYTES];

static bool read_word(void *context, uint64_t addr, unsigned bytes, uint64_t *out)
{
	(void)context;
	*out = 0;
	if (addr < STACK || addr + bytes > STACK + STACK_BYTES)
		return false;
	memcpy(out, stack_bytes + (addr - STACK), bytes);
	return true;
}

static void expect(const char *what, struct unwind_input *input, const struct wanted *wanted, size_t count)
{
	struct frame frames[32];
	struct unwind_stack stack = { .frames = frames, .capacity = 32 };
	struct unwinder *unwinder = unwinder_new();
	bool right;

	input->map = map_at;
	input->generation = 1;
	unwind_stack(unwinder, input, &stack);
	right = stack.count == count && stack.end == UNWIND_ROOT;
	for (size_t i = 0; right && i < count; i++)
		right = frames[i].addr == wanted[i].addr && frames[i].kind == wanted[i].kind;
	ok(right, "%s: %zu frames, %s", what, stack.count, unwind_end_name(stack.end));
	for (size_t i = 0; !right && i < stack.count; i++)
		diag("%#llx kind %u via %u", (unsigned long long)frames[i].addr, frames[i].kind, frames[i].via);
	unwinder_free(unwinder);
}

static void put(uint64_t addr, uint64_t value, size_t size)
{
	memcpy(stack_bytes + (addr - STACK), &value, size);
}

// ---------------------------------------------------------------- aarch64

static const char arm_source[] =
	".text\n"
	".balign 64\n.cfi_startproc\n.cfi_undefined x30\nnop\nbl caller\nnop\n.cfi_endproc\n"
	".balign 64\ncaller: .cfi_startproc\nhint #25\n.cfi_negate_ra_state\nstp x29, x30, [sp, #-32]!\n.cfi_def_cfa_offset 32\n.cfi_offset 29, -32\n"
	".cfi_offset 30, -24\nmov x29, sp\nbl leaf\nldp x29, x30, [sp], #32\nret\n.cfi_endproc\n"
	".balign 64\nleaf: .cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
	".balign 64\n.cfi_startproc\nstp x29, x30, [sp, #-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset 29, -16\n.cfi_offset 30, -8\nnop\nnop\n.cfi_endproc\n"
	".balign 64\nmov x8, #139\nsvc #0\n.balign 64\n"
	"stp x29, x30, [sp, #-48]!\nmov x29, sp\nnop\nnop\nldp x29, x30, [sp], #48\nret\n.balign 64\n";

// A handler of which its frame pointer alone tells; `more`: bytes of the signal frame beside struct rt_sigframe. Above it the kernel's pair.
static void bare_handler(const char *what, uint64_t more)
{
	uint64_t regs[33] = { 0 }, sp = STACK + 64, frame = sp + 48, context = frame + 128 + 176, pair = frame + 4688 + more, interrupted = pair + 64;
	struct unwind_input input = {
		.machine = EM_AARCH64, .regs = regs, .regs_mask = ((uint64_t)1 << 33) - 1, .stack = stack_bytes + 64, .stack_size = STACK_BYTES - 64,
	};
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp, pair, 8);
	put(sp + 8, at(TRAMPOLINE, 0), 8);
	put(context + 8 + 8 * 29, interrupted, 8);
	put(context + 8 + 8 * 30, at(CALLER, 16), 8);
	put(context + 8 + 8 * 31, interrupted, 8);
	put(context + 8 + 8 * 32, at(LEAF, 4), 8);
	put(pair, interrupted, 8);
	put(pair + 8, at(CALLER, 16), 8);
	put(interrupted + 8, at(START, 8), 8);
	regs[29] = regs[31] = sp;
	regs[30] = at(CALLER, 4);
	regs[32] = at(BARE_HANDLER, 12);
	const struct wanted wanted[] = {
		{ at(BARE_HANDLER, 12), FRAME_LEAF }, { at(TRAMPOLINE, 0), FRAME_INTERRUPTED }, { at(LEAF, 4), FRAME_INTERRUPTED }, { at(CALLER, 16), FRAME_RETURN },
		{ at(START, 8), FRAME_RETURN },
	};
	expect(what, &input, wanted, 5);
}

static void test_aarch64(void)
{
	if (!have("aarch64-linux-gnu-as") || !build("aarch64-linux-gnu-as", "aarch64-linux-gnu-ld", arm_source)) {
		skip("no aarch64-linux-gnu-as and -ld", "aarch64");
		return;
	}
	uint64_t regs[33] = { 0 }, sp = STACK + 64;
	struct unwind_input input = {
		.machine = EM_AARCH64, .regs = regs, .regs_mask = ((uint64_t)1 << 33) - 1, .stack = stack_bytes + 64, .stack_size = STACK_BYTES - 64,
	};
	const uint64_t signature = (uint64_t)0x00ab << 48; // PAC of a 48-bit user address (Arm ARM, D8.8): bits 54 to 48
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp, 0, 8);
	put(sp + 8, at(START, 8) | signature, 8);
	regs[29] = regs[31] = sp;
	regs[30] = at(CALLER, 16);
	regs[32] = at(LEAF, 4);
	const struct wanted plain[] = { { at(LEAF, 4), FRAME_LEAF }, { at(CALLER, 16), FRAME_RETURN }, { at(START, 8), FRAME_RETURN } };
	expect("aarch64: a leaf without a frame, a signed return address", &input, plain, 3);
	regs[30] |= signature;
	expect("aarch64: a signed link register", &input, plain, 3);

	// The handler's frame, then struct rt_sigframe: siginfo 128 bytes, ucontext with its mcontext at 176.
	uint64_t frame = sp + 16, context = frame + 128 + 176;
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp + 8, at(TRAMPOLINE, 0), 8);
	uint64_t interrupted = frame + 1024;
	put(context + 8 + 8 * 29, interrupted, 8);
	put(context + 8 + 8 * 30, at(CALLER, 16), 8);
	put(context + 8 + 8 * 31, interrupted, 8);
	put(context + 8 + 8 * 32, at(LEAF, 0), 8);
	put(interrupted + 8, at(START, 8) | signature, 8);
	regs[29] = regs[31] = sp;
	regs[30] = 0;
	regs[32] = at(HANDLER, 8);
	const struct wanted signal[] = {
		{ at(HANDLER, 8), FRAME_LEAF }, { at(TRAMPOLINE, 0), FRAME_INTERRUPTED }, { at(LEAF, 0), FRAME_INTERRUPTED }, { at(CALLER, 16), FRAME_RETURN },
		{ at(START, 8), FRAME_RETURN },
	};
	expect("aarch64: a signal frame without CFI, a leaf interrupted before it does anything", &input, signal, 5);
	input.stack += 16;
	input.stack_size -= 16;
	regs[31] = frame;
	regs[32] = at(TRAMPOLINE, 8);
	const struct wanted inside[] = {
		{ at(TRAMPOLINE, 8), FRAME_LEAF }, { at(LEAF, 0), FRAME_INTERRUPTED }, { at(CALLER, 16), FRAME_RETURN }, { at(START, 8), FRAME_RETURN },
	};
	expect("aarch64: a sample in the trampoline's system call", &input, inside, 4);

	// A handler on a stack of its own, above the one that it interrupted: as in a core file, memory is read where it is.
	uint64_t low = STACK + 64;
	sp = STACK + 2048;
	frame = sp + 16;
	context = frame + 128 + 176;
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp + 8, at(TRAMPOLINE, 0), 8);
	put(context + 8 + 8 * 29, low, 8);
	put(context + 8 + 8 * 30, at(CALLER, 16), 8);
	put(context + 8 + 8 * 31, low, 8);
	put(context + 8 + 8 * 32, at(LEAF, 0), 8);
	put(low + 8, at(START, 8) | signature, 8);
	input.stack = stack_bytes + 2048;
	input.stack_size = STACK_BYTES - 2048;
	input.read = read_word;
	regs[29] = regs[31] = sp;
	regs[32] = at(HANDLER, 8);
	expect("aarch64: a handler on a stack above what it interrupted", &input, signal, 5);
	bare_handler("aarch64: a handler without CFI", 0);
	bare_handler("aarch64: a handler without CFI, scalable vectors in the signal frame", 2192);
	unwind_image_free(image);
}

// ---------------------------------------------------------------- i386

static const char x86_source[] =
	".text\n"
	".balign 64\n.cfi_startproc\n.cfi_undefined eip\nnop\ncall caller\nnop\n.cfi_endproc\n"
	".balign 64\ncaller: .cfi_startproc\npush %ebp\n.cfi_def_cfa_offset 8\n.cfi_offset ebp, -8\nmov %esp, %ebp\n.cfi_def_cfa_register ebp\ncall leaf\n"
	"leave\nret\n.cfi_endproc\n"
	".balign 64\nleaf: .cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
	".balign 64\n.cfi_startproc\nnop\nnop\nret\n.cfi_endproc\n"
	".balign 64\nmov $173, %eax\nint $0x80\n.balign 64\n";

static void test_i386(void)
{
	if (!shell("test $(uname -m) = x86_64") || !build("as --32", "ld -m elf_i386", x86_source)) {
		skip("no assembler for it", "i386");
		return;
	}
	uint64_t sp = STACK + 64, words[3]; // bp, sp, ip: perf registers 6, 7, 8
	struct unwind_input input = {
		.machine = EM_386, .regs = words, .regs_mask = 7 << 6, .stack = stack_bytes + 64, .stack_size = STACK_BYTES - 64,
	};
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp, at(CALLER, 8), 4);
	put(sp + 4, 0, 4);
	put(sp + 8, at(START, 6), 4);
	words[0] = sp + 4;
	words[1] = sp;
	words[2] = at(LEAF, 1);
	const struct wanted plain[] = { { at(LEAF, 1), FRAME_LEAF }, { at(CALLER, 8), FRAME_RETURN }, { at(START, 6), FRAME_RETURN } };
	expect("i386: four-byte words", &input, plain, 3);

	// struct rt_sigframe: return address, signal number, two pointers, siginfo 128 bytes, ucontext with its mcontext at 20.
	uint64_t frame = sp + 4, context = frame + 12 + 128 + 20, interrupted = frame + 512;
	memset(stack_bytes, 0, sizeof(stack_bytes));
	put(sp, at(TRAMPOLINE, 0), 4);
	put(context + 24, interrupted + 4, 4); // ebp
	put(context + 28, interrupted, 4);     // esp
	put(context + 56, at(LEAF, 0), 4);     // eip
	put(interrupted, at(CALLER, 8), 4);
	put(interrupted + 8, at(START, 6), 4);
	words[0] = 0;
	words[1] = sp;
	words[2] = at(HANDLER, 1);
	const struct wanted signal[] = {
		{ at(HANDLER, 1), FRAME_LEAF }, { at(TRAMPOLINE, 0), FRAME_INTERRUPTED }, { at(LEAF, 0), FRAME_INTERRUPTED }, { at(CALLER, 8), FRAME_RETURN },
		{ at(START, 6), FRAME_RETURN },
	};
	expect("i386: a signal frame without CFI, a leaf interrupted before it does anything", &input, signal, 5);
	unwind_image_free(image);
}

// ---------------------------------------------------------------- 32-bit ARM

// An image of code alone; with `kind` PT_ARM_EXIDX there is unwind information, which is not read.
static void arm(const char *what, uint32_t kind, enum unwind_end wanted)
{
	struct { Elf32_Ehdr e; Elf32_Phdr load, other; uint32_t code[64]; } file = {
		.e = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_DYN, .e_machine = EM_ARM, .e_version = EV_CURRENT,
		       .e_phoff = sizeof(Elf32_Ehdr), .e_ehsize = sizeof(Elf32_Ehdr), .e_phentsize = sizeof(Elf32_Phdr), .e_phnum = 2 },
		.load = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = sizeof(file), .p_memsz = sizeof(file), .p_align = 4096 },
		.other = { .p_type = kind, .p_flags = PF_R, .p_offset = offsetof(__typeof__(file), code), .p_vaddr = offsetof(__typeof__(file), code), .p_filesz = 16, .p_memsz = 16 },
	};
	uint64_t regs[16] = { [11] = STACK + 64, [13] = STACK, [14] = BASE + 256, [15] = BASE + 200 };
	struct unwind_input input = {
		.machine = EM_ARM, .regs = regs, .regs_mask = 0xffff, .stack = stack_bytes, .stack_size = STACK_BYTES, .generation = 1, .map = map_at,
	};
	struct frame frames[8];
	struct unwind_stack stack = { .frames = frames, .capacity = 8 };
	struct unwinder *unwinder = unwinder_new();
	struct image *made;
	if (ok(image_open_bytes(&made, &file, sizeof(file), false, "arm", NULL), "an image")) {
		unwind_image_new(&image, made, false, NULL);
		image_release(made);
		unwind_stack(unwinder, &input, &stack);
		is_str(unwind_end_name(stack.end), unwind_end_name(wanted), "%s", what);
		is_u64(stack.count, 1, "the leaf, and no guess");
		unwind_image_free(image);
	}
	unwinder_free(unwinder);
}

int main(void)
{
	scratch_make();
	arm("arm: no unwind information at all", PT_NULL, UNWIND_NO_CFI);
	arm("arm: .ARM.exidx alone, which is not read", PT_ARM_EXIDX, UNWIND_UNSUPPORTED);
	test_aarch64();
	test_i386();
	return tap_done();
}
