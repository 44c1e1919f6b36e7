// Where stacks begin with code that was started, not called, in a libc's own assembly: clone's child, which goes on behind the system call without CFI, and
// makecontext's __start_context, whose CFI says nothing of that.
#include "unwind/rule_table.h"

#include <elf.h>

#include "tests/assembled.h"
#include "tests/compile.h"

// Functions of 128 bytes.
static const char source[] =
	".text\n.globl _start\n"
	".balign 128, 0xcc\n_start: nop\ncall *%rax\nnop\n" // a return address: 3
	".balign 128, 0xcc\nother: push %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nnop\nleave\nret\n"
	".balign 128, 0xcc\nclone: mov $56, %eax\nsyscall\ntest %rax, %rax\njl 1f\nje 1f\nret\n1: xor %ebp, %ebp\npop %rax\ncall *%rax\n"
	".balign 128, 0xcc\nstarts: .cfi_startproc\nmov %rbx, %rsp\ncall other\nnop\n.cfi_endproc\n"
	".balign 128, 0xcc\npushes: .cfi_startproc\npush %rbx\n.cfi_def_cfa_offset 16\npop %rbx\n.cfi_def_cfa_offset 8\ncall other\nnop\n.cfi_endproc\n"
	".balign 128, 0xcc\n";

enum { CALLED = 3, OTHER = 128, CLONED = 256 + 7, JUMPING = CLONED + 3, STARTS = 384, TO_STARTS = STARTS + 8, TO_PUSHES = 512 + 7, SIZE = 640, FRAMES = 16 };
enum { ANY_END = UNWIND_END_COUNT, SP = 0x7000, ENOSYS_ = -38, NOWHERE = 0x1234 };

static struct unwind_map map_code(void *context, uint64_t addr)
{
	struct unwind_image *image = context;
	uint64_t start = image->image->entry;

	if (addr < start || addr >= start + SIZE)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = start, .end = start + SIZE, .image = image };
}

struct check {
	const char *what;
	uint64_t pc, ax, words[2], callers[2]; // words below SIZE and callers: code; a caller of 0: the stack ends there
	enum unwind_end end;
};

static const struct check checks[] = {
	{ "behind clone's system call, in the child", CLONED, 0, { CALLED }, { 0 }, UNWIND_ROOT_GUESSED },
	{ "a few instructions on", JUMPING, 0, { CALLED }, { 0 }, UNWIND_ROOT_GUESSED },
	{ "in the parent: who called it", CLONED, 4711, { CALLED, NOWHERE }, { CALLED }, (enum unwind_end)ANY_END },
	{ "in the parent, before the system call is over", CLONED, (uint64_t)ENOSYS_, { CALLED, NOWHERE }, { CALLED }, (enum unwind_end)ANY_END },
	{ "before the system call a register that is 0 says nothing", CLONED - 7, 0, { CALLED, NOWHERE }, { CALLED }, (enum unwind_end)ANY_END },
	{ "a function that made a call, never moved sp and has no return address", OTHER, 1, { TO_STARTS, NOWHERE }, { TO_STARTS }, UNWIND_ROOT_GUESSED },
	{ "with one, its caller", OTHER, 1, { TO_STARTS, CALLED }, { TO_STARTS, CALLED }, (enum unwind_end)ANY_END },
	{ "one that did move sp has lost its return address", OTHER, 1, { TO_PUSHES, NOWHERE }, { TO_PUSHES, NOWHERE }, UNWIND_NO_MAPPING },
};

static void test(struct unwind_image *image, const struct check *check)
{
	uint64_t start = image->image->entry, stack[8] = { 0 }, regs[4] = { check->ax, 0x10, SP, start + check->pc };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	size_t count = 1, right = 1;

	for (size_t i = 0; i < 2; i++)
		stack[i] = check->words[i] + (check->words[i] > 0 && check->words[i] < SIZE ? start : 0);
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 0 | 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)stack, .stack_size = sizeof(stack),
		.generation = 1, .map = map_code, .map_context = image,
	};
	unwind_stack(unwinder, &input, &out);
	for (size_t i = 0; i < 2 && check->callers[i] != 0; i++, count++)
		right += frames[count].addr == check->callers[i] + (check->callers[i] < SIZE ? start : 0);
	ok(right == count && ((int)check->end == ANY_END || (out.end == check->end && out.count == count)), "%s: %zu of %zu frames right, %zu there, %s",
	   check->what, right, count, out.count, unwind_end_name(out.end));
	unwinder_free(unwinder);
}

int main(void)
{
	scratch_make();
	struct unwind_image *made = assembled("", "begin", source, "code that was started");
	for (size_t i = 0; made != NULL && i < sizeof(checks) / sizeof(checks[0]); i++)
		test(made, &checks[i]);
	unwind_image_free(made);
	return tap_done();
}
