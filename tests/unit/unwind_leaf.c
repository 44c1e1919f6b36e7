// Code without CFI that has no frame of its own, or none yet, or none any more: who called it stands at sp, and the pair that the frame pointer
// points at is the caller's. And code that has one, with addresses of calls long past lying about. As V8's builtins and its code made at run time are.
#include "unwind/rule_table.h"

#include <elf.h>

#include "tests/assembled.h"
#include "tests/compile.h"

// Functions of 128 bytes each. The first calls the others, and has return addresses of every kind. Where instructions shall not tell, as tests/unit/x86_follow.c has
// them do, one stands in their way that nobody knows.
static const char source[] =
	".macro u\n.byte 0x0f, 0x0f, 0xc0, 0xa0\n.endm\n" // 3DNow!
	".text\n.globl first, _start\n"
	".balign 128, 0xcc\nfirst: nop\ncall *%rax\nnop\ncall leaf\nnop\ncall jumper\nnop\ncall other\nnop\ncall *%rdx\nnop\n"
	"call late\nnop\ncall popper\nnop\ncall bare\nnop\ncall resumer\nnop\n" // return addresses: 3, 9, 15, 21, 24, 30, 36, 42, 48
	".balign 128, 0xcc\nleaf: push %rbp\nmov %rsp, %rbp\nu\npop %rbp\nret\n"
	".balign 128, 0xcc\njumper: test $1, %cl\njmp *%rcx\n"
	".balign 128, 0xcc\nother: push %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nu\nleave\nret\n"
	".balign 128, 0xcc\nlate: test %rax, %rax\njz 1f\nu\nret\n.fill 12, 1, 0x90\n1: push %rbp\nmov %rsp, %rbp\nu\njmp 2f\n2: u\nleave\nret\n"
	".balign 128, 0xcc\n_start: .cfi_startproc\n.cfi_undefined rip\nmov %rsp, %rdi\nand $-16, %rsp\ncall *%rax\nhlt\n.cfi_endproc\n" // the entry: 9
	".balign 128, 0xcc\npopper: pop %rax\npush (%rbx)\nnop\npush %rax\nnop\npop %r10\nlea (%rsp,%rdi,8), %rsp\npush %r10\nret\n"
	".balign 128, 0xcc\nbare: nop\ncall *%rax\nnop\nret\n"
	".balign 128, 0xcc\nfar: push %rbp\nmov %rsp, %rbp\nsub $16, %rsp\n.balign 32, 0x90\n.fill 29, 1, 0x90\n.byte 0xeb, 1, 0xcc\n.fill 3936, 1, 0x90\nret\n"
	".balign 128, 0xcc\nresumer: .fill 150, 1, 0x90\njmp *%rcx\n"
	".balign 128, 0xcc\nsealed: u\ntest %rax, %rax\njz 1f\nu\nret\n.fill 12, 1, 0x90\n1: push %rbp\nmov %rsp, %rbp\nu\nleave\nret\n"
	".balign 128, 0xcc\n";

enum { INDIRECT = 3, TO_LEAF = 9, TO_JUMPER = 15, TO_OTHER = 21, INDIRECT_TOO = 24, TO_LATE = 30, TO_POPPER = 36, TO_BARE = 42, TO_RESUMER = 48 };
enum { LEAF = 128, OTHER = 384, LATE = 512, ENTRY = 640, POPPER = 768, BARE = 896, FAR = 1024, SEALED = 5376, SIZE = 5504 };
enum { JIT = 0x500000, SP = 0x7000 };

static struct unwind_map map_code(void *context, uint64_t addr)
{
	struct unwind_image *image = context;
	uint64_t start = image->image->entry - ENTRY;

	if (addr >= JIT && addr < JIT + SIZE)
		return (struct unwind_map){ .start = JIT, .end = JIT + SIZE, .missing = UNWIND_NO_CFI };
	if (addr < start || addr >= start + SIZE)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = start, .end = start + SIZE, .image = image };
}

enum { FRAMES = 80 };

// Unwinds a stack, whose registers are fp, sp and pc; how many frames there are.
static size_t walk(struct unwind_image *image, const uint64_t *regs, const uint64_t *stack, size_t size, struct frame *frames)
{
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)stack, .stack_size = size,
		.generation = 1, .map = map_code, .map_context = image,
	};

	unwind_stack(unwinder, &input, &out);
	unwinder_free(unwinder);
	return out.count;
}

// The stack from sp; the frame pointer points at word 4, whose pair's return address is `paired`. Answers the caller that is found, or its caller.
static struct frame caller(struct unwind_image *image, uint64_t pc, const uint64_t (*words)[3], uint64_t paired, unsigned depth)
{
	uint64_t stack[8] = { (*words)[0], (*words)[1], (*words)[2], 0, SP + 48, paired, 0, 0 }, regs[3] = { SP + 32, SP, pc };
	struct frame frames[FRAMES] = { 0 };

	(void)walk(image, regs, stack, sizeof(stack), frames);
	return frames[depth];
}

struct check {
	const char *what;
	uint64_t pc, words[3], paired; // below SIZE: counted from the image's first function
	bool at_sp;                    // where the caller is to be found
};

static const struct check checks[] = {
	{ "before the frame is set up, both called indirectly", LEAF, { INDIRECT }, INDIRECT_TOO, true },
	{ "the frame pointer just pushed", LEAF + 1, { SP + 32, INDIRECT }, INDIRECT_TOO, true },
	{ "called directly", LEAF, { TO_LEAF }, INDIRECT_TOO, true },
	{ "recursion: both called directly", LEAF, { TO_LEAF }, TO_LEAF, true },
	{ "code made at run time, called by code that jumps on", JIT + 64, { TO_JUMPER }, INDIRECT_TOO, true },
	{ "the same, where it jumps further down", JIT + 64, { TO_RESUMER }, INDIRECT_TOO, true },
	{ "code made at run time, called by such code", JIT + 64, { JIT + 16 }, JIT + 32, true },
	{ "its frame pointer just pushed", JIT + 65, { SP + 32, TO_JUMPER }, INDIRECT_TOO, true },
	{ "a frame that a direct call to this function made", LEAF + 4, { INDIRECT }, TO_LEAF, false },
	{ "a frame, and at sp what a call to another function left", LEAF + 4, { TO_OTHER }, INDIRECT_TOO, false },
	{ "a frame, and what a call left further up", LEAF + 4, { 1, 2, INDIRECT }, INDIRECT_TOO, false },
	{ "a frame of code made at run time, and what a call left further up", JIT + 64, { 1, 2, INDIRECT }, INDIRECT_TOO, false },
	{ "a function that has set up its frame, and in a slot not written yet what a call long past left", OTHER + 8, { INDIRECT }, INDIRECT_TOO, false },
	{ "a function that sets up a frame in its middle, before that", LATE + 5, { INDIRECT }, INDIRECT_TOO, true },
	{ "the same, though a call to what may be this function left the frame", LATE + 5, { INDIRECT }, TO_OTHER, true },
	{ "before that, where the beginning does not tell", SEALED + 9, { INDIRECT }, INDIRECT_TOO, true },
	{ "the same, though a call to what may be this function left the frame", SEALED + 9, { INDIRECT }, TO_OTHER, true },
	{ "right behind that", LATE + 26, { INDIRECT }, INDIRECT_TOO, false },
	{ "far behind a frame's beginning and a trap", FAR + 3000, { INDIRECT }, INDIRECT_TOO, false },
	{ "behind a jump, of which nothing is said", LATE + 32, { INDIRECT }, INDIRECT_TOO, true },
	{ "the same, where a direct call to it left the frame's return address", LATE + 32, { INDIRECT }, TO_LATE, false },
	{ "the same, and at sp that of a call to the function before it", LATE + 32, { TO_OTHER }, TO_LATE, false },
	{ "a frame whose words are data", LEAF + 4, { 1, 2, 3 }, INDIRECT_TOO, false },
};

static uint64_t address(const struct unwind_image *image, uint64_t at)
{
	return at > 2 && at < SIZE ? image->image->entry - ENTRY + at : at;
}

static void run(struct unwind_image *image, const struct check *check)
{
	const uint64_t words[3] = { address(image, check->words[0]), address(image, check->words[1]), address(image, check->words[2]) };
	uint64_t expected = check->at_sp ? words[words[0] == SP + 32] : address(image, check->paired);
	struct frame found = caller(image, address(image, check->pc), &words, address(image, check->paired), 1);

	// Where the function's beginning is near, what it did to the stack from there on says the same.
	bool is_via = check->at_sp ? found.via == VIA_LEAF_RULE || found.via == VIA_CODE : found.via == VIA_FP;
	if (!ok(found.addr == expected && is_via, "%s", check->what))
		diag("found %#llx via %u", (unsigned long long)found.addr, found.via);
}

// Called by code made at run time that has no frame either, yet: its caller stands right above.
static void run_twice(struct unwind_image *image)
{
	const uint64_t both[3] = { JIT + 16, address(image, INDIRECT), 0 }, again[3] = { JIT + 16, JIT + 16, 0 };
	uint64_t paired = address(image, INDIRECT_TOO), pc = address(image, LEAF);
	struct frame found = caller(image, pc, &both, paired, 2);

	ok(found.addr == both[1] && found.via == VIA_LEAF_RULE, "called by what has no frame yet: the caller of that too");
	found = caller(image, pc, &again, paired, 2);
	ok(found.addr == paired && found.via == VIA_FP, "but not what stands there once more");
}

// What pops its return address has it in a register, until it is pushed and returned to: the instructions tell in which.
static uint64_t with_registers(struct unwind_image *image, uint64_t pc, uint64_t rax, uint64_t r10)
{
	const uint64_t stack[8] = { 1, 2, 3, 0, SP + 48, address(image, INDIRECT_TOO) }, regs[5] = { rax, SP + 32, SP, address(image, pc), r10 };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 18, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack),
		.generation = 1, .map = map_code, .map_context = image,
	};

	unwind_stack(unwinder, &input, &out);
	unwinder_free(unwinder);
	return frames[1].addr;
}

static void run_registers(struct unwind_image *image)
{
	enum { PUSHING = POPPER + 3, MOVING = POPPER + 8, LAST = POPPER + 12 };
	uint64_t here = address(image, TO_POPPER), indirect = address(image, INDIRECT), paired = address(image, INDIRECT_TOO);

	ok(with_registers(image, PUSHING, here, 0) == here, "a return address popped into a register, by a call to this function");
	ok(with_registers(image, PUSHING, indirect, here) == indirect, "by another one, and in another register one that a call long past left");
	ok(with_registers(image, PUSHING, 7, here) == paired, "where it should be there is none");
	ok(with_registers(image, LAST, 0, indirect) == indirect, "the register that is pushed and returned to");
	ok(with_registers(image, MOVING, 0, indirect) == indirect, "and before sp is moved for that");
	ok(with_registers(image, OTHER + 8, address(image, TO_OTHER), 0) == paired, "in a function that has its frame it is left from a call long past");
}

// A function with a frame was called by one that has none: its caller stands right above.
static void run_bare(struct unwind_image *image)
{
	uint64_t stack[12] = { [4] = SP + 72, [5] = address(image, BARE + 3), [6] = address(image, TO_BARE), [9] = SP + 88, [10] = address(image, INDIRECT_TOO) };
	const uint64_t regs[3] = { SP + 32, SP, address(image, OTHER + 8) };
	struct frame frames[FRAMES] = { 0 };

	(void)walk(image, regs, stack, sizeof(stack), frames);
	ok(frames[1].addr == stack[5] && frames[2].addr == stack[6] && frames[3].addr == stack[10], "a caller without a frame, called directly");
	stack[6] = address(image, INDIRECT);
	(void)walk(image, regs, stack, sizeof(stack), frames);
	ok(frames[1].addr == stack[5] && frames[2].addr == stack[10], "an indirect call's return address there says nothing");
}

// A frame of an interpreter whose lowest words look like the beginning of a new program's stack.
static void run_interpreted(struct unwind_image *image)
{
	const uint64_t stack[12] = { 0, 0, SP + 64, JIT + 32, 1, SP + 96, 0, 0x1234, 0, address(image, INDIRECT) };
	uint64_t regs[3] = { SP + 16, SP, JIT + 64 };
	struct frame frames[FRAMES] = { 0 };
	size_t count = walk(image, regs, stack, sizeof(stack), frames);

	ok(count >= 3 && frames[1].addr == JIT + 32 && frames[2].addr == address(image, INDIRECT), "an interpreter's frame is no new program's stack");
}

// What has no frame pointer and a return address into the entry function at sp: below a new program's stack that is its caller; anywhere else it was left by a call.
static void run_entry(struct unwind_image *image)
{
	uint64_t back = address(image, ENTRY + 9), regs[3] = { 1, SP, address(image, OTHER + 8) };
	uint64_t stack[24] = { back, 0, 1, SP + 160, 0, SP + 168 };
	struct frame frames[FRAMES] = { 0 };
	size_t count = walk(image, regs, stack, sizeof(stack), frames);
	ok(count == 2 && frames[1].addr == back && frames[1].via == VIA_LEAF_RULE, "called by the entry function, below a new program's stack");
	stack[2] = 77;
	ok(walk(image, regs, stack, sizeof(stack), frames) == 1, "an address in the entry function that a call long past left is no caller");
	regs[0] = SP + 32;
	stack[0] = 5;
	stack[4] = SP + 48;
	stack[5] = back;
	ok(walk(image, regs, stack, sizeof(stack), frames) == 1, "nor where the frame pointer points");
}

// Code made at run time whose frames all stand at multiples of 16, or, from the second on, not; in the innermost, at sp, what a call long past left.
static struct frame in_aligned_frames(struct unwind_image *image, unsigned words_at_sp, bool are_alike, bool is_pushed)
{
	uint64_t stack[64] = { [0] = is_pushed ? SP + 8 * words_at_sp : JIT + 16, [1] = is_pushed ? JIT + 16 : 0 }, regs[3] = { SP + 8 * words_at_sp, SP, JIT + 64 };
	struct frame frames[FRAMES] = { 0 };
	unsigned at = words_at_sp;

	for (unsigned i = 0; i < 9; i++) {
		unsigned next = at + (i == 0 && !are_alike ? 5 : 4);
		stack[at] = SP + 8 * next;
		stack[at + 1] = JIT + 32 + i;
		at = next;
	}
	(void)walk(image, regs, stack, sizeof(stack), frames);
	return frames[1];
}

static void run_aligned(struct unwind_image *image)
{
	ok(in_aligned_frames(image, 2, true, false).addr == JIT + 32, "frames at multiples of 16: it has its own");
	ok(in_aligned_frames(image, 3, true, false).addr == JIT + 16, "frames as far from sp as they are without one: it has none yet");
	ok(in_aligned_frames(image, 4, true, true).addr == JIT + 32, "and what was called last had pushed its frame pointer");
	ok(in_aligned_frames(image, 4, false, true).addr == JIT + 16, "which frames anywhere push themselves");
	ok(in_aligned_frames(image, 2, false, false).addr == JIT + 16, "frames anywhere: that says nothing");
}

// Code made at run time whose bytes somebody has.
static struct unwind_code given;

static struct unwind_code give(void *context, uint64_t addr)
{
	(void)context;
	return addr >= given.start && addr < given.end ? given : (struct unwind_code){ 0 };
}

static struct frame with_bytes(struct unwinder *unwinder, struct unwind_image *image, const uint8_t *bytes, size_t size, uint64_t id)
{
	const uint64_t stack[8] = { JIT + 300, address(image, INDIRECT), JIT + 310, 0, SP + 48, address(image, INDIRECT_TOO) }, regs[3] = { SP + 32, SP, JIT + 65 };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack),
		.generation = 1, .map = map_code, .map_context = image, .code = give,
	};

	given = (struct unwind_code){ .bytes = bytes, .start = JIT + 64, .end = JIT + 64 + size, .id = id };
	unwind_stack(unwinder, &input, &out);
	return frames[1];
}

static void run_bytes(struct unwind_image *image)
{
	static const uint8_t pushed[] = { 0x50, 0x90, 0x58, 0xc3 }, twice[] = { 0x50, 0x90, 0x58, 0x58, 0xc3 }, enters[] = { 0x90, 0x55, 0xc9, 0xc3 };
	static const uint8_t calls[] = { 0x50, 0xff, 0xd0, 0x58, 0xc3 }, pops[] = { 0x50, 0xff, 0xd0, 0x58, 0xc2, 16, 0 };
	const uint64_t above = address(image, INDIRECT);
	struct unwinder *unwinder = unwinder_new();
	struct frame found = with_bytes(unwinder, image, pushed, sizeof(pushed), 0);

	ok(found.addr == JIT + 300 && found.via == VIA_LEAF_RULE, "code made at run time whose bytes nobody has: the word at sp");
	found = with_bytes(unwinder, image, pushed, sizeof(pushed), 7);
	ok(found.addr == above && found.via == VIA_CODE, "by its bytes the one above what it pushed");
	found = with_bytes(unwinder, image, twice, sizeof(twice), 8);
	ok(found.addr == JIT + 310 && found.via == VIA_CODE, "other bytes at the same place have another number");
	found = with_bytes(unwinder, image, twice, sizeof(twice), 7);
	ok(found.addr == above, "the rule of the first is kept by theirs");
	found = with_bytes(unwinder, image, enters, 2, 9);
	ok(found.addr == JIT + 300 && found.via == VIA_LEAF_RULE, "bytes that end before the function does tell nothing");
	found = with_bytes(unwinder, image, enters, sizeof(enters), 10);
	ok(found.addr == address(image, INDIRECT_TOO) && found.via == VIA_CODE, "with the rest: by the frame pointer's pair");
	found = with_bytes(unwinder, image, calls, sizeof(calls), 11);
	ok(found.addr == above && found.via == VIA_CODE, "it returns with sp where it was: so does what it calls");
	found = with_bytes(unwinder, image, pops, sizeof(pops), 12);
	ok(found.addr == JIT + 300 && found.via == VIA_LEAF_RULE, "where it pops arguments, so may what it calls");
	unwinder_free(unwinder);
}

// Bytes of the code made at run time: an indirect call ends at 32 and a direct one at 48, none at 16; and of 4,096 on there are none.
static struct unwind_code jit_code(void *context, uint64_t addr)
{
	static const uint8_t bytes[4096] = { [30] = 0xff, 0xd0, [43] = 0xe8, 1, 2, 3, 4 };

	(void)context;
	return addr - JIT < sizeof(bytes) ? (struct unwind_code){ bytes, JIT, JIT + sizeof(bytes), 1 } : (struct unwind_code){ 0 };
}

// Whether the word at sp is believed before the pair's return address, in code made at run time.
static bool at_sp(struct unwind_image *image, uint64_t word, uint64_t paired)
{
	const uint64_t stack[8] = { address(image, word), 0, 0, 0, SP + 48, address(image, paired), 0, 0 }, regs[3] = { SP + 32, SP, JIT + 640 };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack),
		.generation = 1, .map = map_code, .map_context = image, .code = jit_code,
	};

	unwind_stack(unwinder, &input, &out);
	unwinder_free(unwinder);
	if (out.count < 2 || frames[1].addr != (frames[1].via == VIA_LEAF_RULE ? stack[0] : stack[5]))
		ok(false, "no caller of the two");
	return frames[1].via == VIA_LEAF_RULE;
}

static void run_generated(struct unwind_image *image)
{
	ok(at_sp(image, JIT + 32, INDIRECT), "behind a call in code made at run time");
	ok(at_sp(image, JIT + 48, JIT + 32), "behind a direct one");
	ok(!at_sp(image, JIT + 16, JIT + 32), "not behind a call, where the pair's is");
	ok(!at_sp(image, JIT + 16, INDIRECT), "nor where that is in a file");
	ok(!at_sp(image, TO_OTHER, JIT + 32), "a call to another function, where the pair's is behind a call in code made at run time");
	ok(at_sp(image, TO_OTHER, JIT + 16), "where neither is likely, the word at sp");
	ok(at_sp(image, JIT + 16, JIT + 4100), "nor is it, where the pair's is in code that nobody has");
	ok(at_sp(image, JIT + 16, JIT + 18), "an interpreter pushes addresses behind no call: such a one is better than none");
}

int main(void)
{
	scratch_make();
	struct unwind_image *made = assembled("", "leaf", source, "code without CFI");
	if (made != NULL)
		for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
			run(made, &checks[i]);
	if (made != NULL) {
		run_twice(made);
		run_registers(made);
		run_bare(made);
	}
	if (made != NULL)
		run_interpreted(made);
	if (made != NULL)
		run_aligned(made);
	if (made != NULL)
		run_generated(made);
	if (made != NULL)
		run_entry(made);
	if (made != NULL)
		run_bytes(made);
	unwind_image_free(made);
	return tap_done();
}
