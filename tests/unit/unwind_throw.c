// Functions that throw, about to go on in the frame that handles the exception (unwind/eh_return.h): while its registers are being put where those of their own
// caller were, when they are, and when sp is moved. As libgcc's _Unwind_Resume leaves its stack at each of these.
#include "unwind/rule_table.h"

#include <elf.h>

#include "tests/assembled.h"
#include "tests/compile.h"

// Functions of 64 bytes: outer calls main, that middle, that thrower, that installer. The landing pad has an FDE of its own, as in .text.unlikely, and nothing
// before it.
static const char source[] =
	".text\n.globl _start\n"
	".balign 64, 0xcc\n_start: .cfi_startproc\n.cfi_undefined rip\ncall outer\nnop\n.cfi_endproc\n"
	".balign 64, 0xcc\nouter: .cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register rbp\ncall main\nnop\n"
	".cfi_endproc\n"
	".balign 64, 0xcc\nmain: .cfi_startproc\nsub $24, %rsp\n.cfi_def_cfa_offset 32\ncall middle\nnop\n.cfi_endproc\n"
	".balign 64, 0xcc\nmiddle: .cfi_startproc\nsub $40, %rsp\n.cfi_def_cfa_offset 48\ncall thrower\nnop\n.cfi_endproc\n"
	".balign 64, 0xcc\nthrower: .cfi_startproc\npush %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp, -16\nmov %rsp, %rbp\n.cfi_def_cfa_register rbp\n"
	"push %rdx\npush %rax\n.cfi_offset rdx, -24\n.cfi_offset rax, -32\nsub $0x200, %rsp\ncall installer\nmov 0(%rbp), %rbp\n.cfi_def_cfa rcx, 8\n.cfi_restore rbp\n"
	"mov %rcx, %rsp\n.cfi_def_cfa rsp, 8\npop %rcx\n.cfi_def_cfa_offset 0\n.cfi_register rip, rcx\njmp *%rcx\n.cfi_endproc\n"
	".balign 64, 0xcc\nlanding: .cfi_startproc\n.cfi_def_cfa_offset 32\nnop\n.cfi_endproc\n"
	".balign 64, 0xcc\ninstaller: .cfi_startproc\nsub $24, %rsp\n.cfi_def_cfa_offset 32\nnop\n.cfi_endproc\n"
	".balign 64, 0xcc\n";

enum { TO_OUTER = 5, TO_MAIN = 64 + 9, TO_MIDDLE = 128 + 9, TO_THROWER = 192 + 9, BODY = 256 + 18, SWITCHING = 256 + 22, LANDED = 256 + 26 };
enum { LANDING = 320, INSTALLING = 384 + 4, SIZE = 448 };

// Words of the stack, from thrower's sp on (installer's frame is below); of each context the return address's register, the frame pointer's, sp's, cfa and ra.
enum { INSTALLER_WORDS = 4, INSTALLER_RA = -1, SP_PLACE = -3 };
enum { OWN_RA = 17, OWN_CFA = 19, OWN_GOES_ON, OTHER_FP = 28, OTHER_SP, OTHER_RA = 38, OTHER_CFA = 40, OTHER_GOES_ON };
enum { THROWER_FP = 66, THROWER_RA = 67, MIDDLE_SP = 68, MIDDLE_FP = 70, MIDDLE_RA = 73, MAIN_SP = 74, MAIN_RA = 77, OUTER_FP = 78, OUTER_RA = 79, WORDS = 82 };
enum { SP = 0x7000, NOBODYS_FP = 0x10 };
#define AT(word) (SP + 8 * (uint64_t)(int64_t)(word))

static struct unwind_map map_code(void *context, uint64_t addr)
{
	struct unwind_image *image = context;
	uint64_t start = image->image->entry;

	if (addr < start || addr >= start + SIZE)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = start, .end = start + SIZE, .image = image };
}

enum { FRAMES = 16, STEPS = 5 };

// A handler was found: both contexts are there, nothing was put anywhere yet.
static void fill(uint64_t *stack, uint64_t start)
{
	memset(stack - INSTALLER_WORDS, 0, (INSTALLER_WORDS + WORDS) * sizeof(*stack));
	stack[INSTALLER_RA] = start + BODY;
	stack[OWN_RA] = AT(THROWER_RA);
	stack[OWN_CFA] = AT(MIDDLE_SP);
	stack[OWN_GOES_ON] = start + TO_THROWER;
	stack[OTHER_FP] = AT(MIDDLE_FP);
	stack[OTHER_RA] = AT(MIDDLE_RA);
	stack[OTHER_CFA] = AT(MAIN_SP);
	stack[OTHER_GOES_ON] = start + LANDING;
	stack[THROWER_FP] = NOBODYS_FP; // middle has some use of its own for the register
	stack[THROWER_RA] = start + TO_THROWER;
	stack[MIDDLE_FP] = AT(OUTER_FP);
	stack[MIDDLE_RA] = start + TO_MIDDLE;
	stack[MAIN_RA] = start + TO_MAIN;
	stack[OUTER_RA] = start + TO_OUTER;
}

struct check {
	const char *what;
	struct { int word; uint64_t value; bool is_code; } changes[7];
	uint64_t pc, cx, sp; // INSTALLING: installer was called
	uint64_t expected[STEPS]; // return addresses; 0: the root
	uint8_t via, kind;        // of the first
};

#define BEGUN { OTHER_SP, AT(SP_PLACE), false }, { SP_PLACE, AT(MAIN_SP), false }
static const struct check checks[] = {
	{ "a handler is looked for: who called is told by the row", .changes = { { OTHER_GOES_ON, TO_MIDDLE, true }, { MIDDLE_FP, NOBODYS_FP, false } },
	  .pc = INSTALLING, .expected = { TO_THROWER, TO_MIDDLE, TO_MAIN }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "nothing is put anywhere yet", .changes = { BEGUN }, .pc = INSTALLING, .expected = { TO_THROWER, TO_MIDDLE, TO_MAIN }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "the frame pointer is", .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false } }, .pc = INSTALLING, .expected = { TO_MIDDLE, TO_MAIN, TO_OUTER },
	  .via = VIA_LANDING, .kind = FRAME_RETURN },
	{ "it is, and the landing pad stands where the call returned to", .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false }, { OTHER_GOES_ON, TO_MIDDLE, true } },
	  .pc = INSTALLING, .expected = { TO_MIDDLE, TO_MAIN, TO_OUTER }, .via = VIA_LANDING, .kind = FRAME_RETURN },
	{ "a handler was found, nothing is begun, and the frame pointer is the same in both frames", .changes = { { THROWER_FP, AT(OUTER_FP), false } },
	  .pc = INSTALLING, .expected = { TO_THROWER, TO_MIDDLE, TO_MAIN }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "a place for sp with another sp in it is of a throw long past",
	  .changes = { { OTHER_SP, AT(SP_PLACE), false }, { SP_PLACE, AT(MIDDLE_SP), false }, { THROWER_FP, AT(OUTER_FP), false } },
	  .pc = INSTALLING, .expected = { TO_THROWER, TO_MIDDLE, TO_MAIN }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "all registers are", .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false }, { THROWER_RA, TO_MIDDLE, true } }, .pc = INSTALLING,
	  .expected = { TO_MIDDLE, TO_MAIN, TO_OUTER }, .via = VIA_LANDING, .kind = FRAME_RETURN },
	{ "the function that put them has returned", .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false }, { THROWER_RA, TO_MIDDLE, true } }, .pc = BODY, .sp = SP,
	  .expected = { TO_MIDDLE, TO_MAIN, TO_OUTER }, .via = VIA_LANDING, .kind = FRAME_RETURN },
	{ "the landing pad's address is where sp will be",
	  .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false }, { THROWER_RA, TO_MIDDLE, true }, { MIDDLE_RA, LANDING, true } }, .pc = BODY, .sp = SP,
	  .expected = { TO_MIDDLE, TO_MAIN, TO_OUTER }, .via = VIA_LANDING, .kind = FRAME_RETURN },
	{ "no context of its caller's is on the stack: the row is believed",
	  .changes = { BEGUN, { THROWER_FP, AT(OUTER_FP), false }, { THROWER_RA, TO_MIDDLE, true }, { OWN_CFA, 0, false } }, .pc = BODY, .sp = SP,
	  .expected = { TO_MIDDLE }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "another context's return address is not the one that was put", .changes = { { THROWER_RA, TO_MIDDLE, true }, { MIDDLE_RA, TO_OUTER, true } },
	  .pc = BODY, .sp = SP, .expected = { TO_MIDDLE }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	// The own context is not made yet: one of a throw long past is there, and clang's functions have registers that are saved as a context's end would be.
	{ "registers saved for the caller are no context",
	  .changes = { { OTHER_CFA, 0, false }, { OWN_GOES_ON, TO_MIDDLE, true }, { THROWER_RA - 3, AT(MIDDLE_FP), false }, { THROWER_FP, AT(OUTER_FP), false },
	               { MIDDLE_FP, TO_MAIN, true } },
	  .pc = BODY, .sp = SP, .expected = { TO_THROWER }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "a context that returns to what is no code is none",
	  .changes = { BEGUN, { THROWER_RA, TO_MIDDLE, true }, { OTHER_GOES_ON, TO_MIDDLE, true }, { MIDDLE_RA, 0x27, false } }, .pc = BODY, .sp = SP, .expected = { TO_MIDDLE }, .via = VIA_EXPR, .kind = FRAME_RETURN },
	{ "sp is about to be moved: the landing pad, which nothing called", .changes = { { MIDDLE_RA, LANDING, true } }, .pc = SWITCHING, .cx = AT(MIDDLE_RA), .sp = SP,
	  .expected = { LANDING, TO_MAIN, TO_OUTER }, .via = VIA_EXPR, .kind = FRAME_INTERRUPTED },
	{ "the jump to it", .pc = LANDED, .cx = LANDING, .sp = AT(MAIN_SP), .expected = { LANDING, TO_MAIN, TO_OUTER }, .via = VIA_EXPR, .kind = FRAME_INTERRUPTED },
};

static void test(struct unwind_image *image, const struct check *check)
{
	uint64_t words[INSTALLER_WORDS + WORDS], *stack = words + INSTALLER_WORDS, start = image->image->entry, cx = check->cx == LANDING ? start + LANDING : check->cx;
	bool is_installing = check->pc == INSTALLING;
	uint64_t sp = is_installing ? AT(-INSTALLER_WORDS) : check->sp;
	uint64_t fp = is_installing || check->pc == BODY ? AT(THROWER_FP) : AT(OUTER_FP), regs[4] = { cx, fp, sp, start + check->pc };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	size_t skipped = (size_t)(sp - AT(-INSTALLER_WORDS)) / 8, first = is_installing ? 2 : 1, count = 0, right = 0;

	fill(stack, start);
	for (size_t i = 0; i < sizeof(check->changes) / sizeof(check->changes[0]); i++)
		if (check->changes[i].word != 0)
			stack[check->changes[i].word] = check->changes[i].value + (check->changes[i].is_code ? start : 0);
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 8, .stack = (const uint8_t *)(words + skipped),
		.stack_size = sizeof(words) - 8 * skipped, .generation = 1, .map = map_code, .map_context = image,
	};
	unwind_stack(unwinder, &input, &out);
	while (count < STEPS && check->expected[count] != 0) {
		right += frames[count + first].addr == start + check->expected[count];
		count++;
	}
	bool at_root = count < 3 || check->expected[2] != TO_OUTER || (out.end == UNWIND_ROOT && out.count == 3 + first);
	ok(right == count && at_root && frames[first].via == check->via && frames[first].kind == check->kind, "%s: %zu of %zu frames right, by %s", check->what, right, count,
	   frame_via_name(frames[first].via));
	unwinder_free(unwinder);
}

// ---------------------------------------------------------------- AArch64
static const char source_arm[] =
	".text\n.globl _start\n"
	".balign 64\n_start: .cfi_startproc\n.cfi_undefined x30\nbl main\nnop\n.cfi_endproc\n"
	".balign 64\nmain: .cfi_startproc\nstp x29, x30, [sp, #-32]!\n.cfi_def_cfa_offset 32\n.cfi_offset x29, -32\n.cfi_offset x30, -24\nbl middle\nnop\n.cfi_endproc\n"
	".balign 64\nmiddle: .cfi_startproc\nstp x29, x30, [sp, #-48]!\n.cfi_def_cfa_offset 48\n.cfi_offset x29, -48\n.cfi_offset x30, -40\nbl thrower\nnop\n.cfi_endproc\n"
	".balign 64\nthrower: .cfi_startproc\nsub sp, sp, #2048\n.cfi_def_cfa_offset 2048\n.cfi_offset x29, -2048\n.cfi_offset x30, -2040\n.cfi_offset x0, -2032\n"
	".cfi_offset x1, -2024\nnop\nbl installer\nnop\n.cfi_endproc\n"
	".balign 64\ninstaller: .cfi_startproc\nstp x29, x30, [sp, #-32]!\n.cfi_def_cfa_offset 32\n.cfi_offset x29, -32\n.cfi_offset x30, -24\nnop\n.cfi_endproc\n"
	".balign 64\n";

enum { ARM_TO_MAIN = 4, ARM_TO_MIDDLE = 64 + 8, ARM_TO_THROWER = 128 + 8, ARM_BODY = 192 + 12, ARM_INSTALLING = 256 + 4, ARM_LANDING = 64 + 8 + 4 };
// Contexts at words 10 and 130; thrower's saved registers at its frame's low end.
enum { ARM_OWN = 10, ARM_OTHER = 130, COLUMN_FP = 29, COLUMN_RA = 30, COLUMN_SP = 31, COLUMN_CFA = 98, ARM_FP = 0, ARM_RA, ARM_MIDDLE_SP = 256, ARM_MAIN_SP = 262, ARM_WORDS = 268 };

static void test_arm(struct unwind_image *image, const char *what, uint64_t fp, uint64_t ra, const uint64_t expected[3], uint8_t via)
{
	uint64_t words[INSTALLER_WORDS + ARM_WORDS] = { 0 }, *stack = words + INSTALLER_WORDS, start = image->image->entry;
	uint64_t regs[3] = { AT(-INSTALLER_WORDS), AT(-INSTALLER_WORDS), start + ARM_INSTALLING };
	struct frame frames[FRAMES] = { 0 };
	struct unwind_stack out = { .frames = frames, .capacity = FRAMES };
	struct unwinder *unwinder = unwinder_new();
	size_t right = 0, count = 0;

	stack[-INSTALLER_WORDS] = AT(ARM_FP);
	stack[-INSTALLER_WORDS + 1] = start + ARM_BODY;
	stack[INSTALLER_RA] = AT(ARM_MAIN_SP);
	stack[ARM_FP] = fp;
	stack[ARM_RA] = start + ra;
	stack[ARM_OWN + COLUMN_RA] = AT(ARM_RA);
	stack[ARM_OWN + COLUMN_CFA] = AT(ARM_MIDDLE_SP);
	stack[ARM_OWN + COLUMN_CFA + 1] = start + ARM_TO_THROWER;
	stack[ARM_OTHER + COLUMN_FP] = AT(ARM_MIDDLE_SP);
	stack[ARM_OTHER + COLUMN_RA] = AT(ARM_MIDDLE_SP + 1);
	stack[ARM_OTHER + COLUMN_SP] = AT(INSTALLER_RA);
	stack[ARM_OTHER + COLUMN_CFA] = AT(ARM_MAIN_SP);
	stack[ARM_OTHER + COLUMN_CFA + 1] = start + ARM_LANDING;
	stack[ARM_MIDDLE_SP] = AT(ARM_MAIN_SP);
	stack[ARM_MIDDLE_SP + 1] = (start + ARM_TO_MIDDLE) | (uint64_t)0x5a << 56; // signed
	stack[ARM_MAIN_SP + 1] = start + ARM_TO_MAIN;
	const struct unwind_input input = {
		.machine = EM_AARCH64, .regs = regs, .regs_mask = (uint64_t)1 << 29 | (uint64_t)1 << 31 | (uint64_t)1 << 32, .stack = (const uint8_t *)words,
		.stack_size = sizeof(words), .generation = 1, .map = map_code, .map_context = image,
	};
	unwind_stack(unwinder, &input, &out);
	for (; count < 3 && expected[count] != 0; count++)
		right += frames[count + 2].addr == start + expected[count];
	ok(right == count && out.count == count + 2 && out.end == UNWIND_ROOT && frames[2].via == via, "AArch64, %s: %zu of %zu frames right, by %s", what, right, count,
	   frame_via_name(frames[2].via));
	unwinder_free(unwinder);
}

static void run_arm(void)
{
	const uint64_t called[3] = { ARM_TO_THROWER, ARM_TO_MIDDLE, ARM_TO_MAIN }, handles[3] = { ARM_TO_MIDDLE, ARM_TO_MAIN };
	struct unwind_image *made = assembled("aarch64-linux-gnu-", "arm", source_arm, "AArch64's functions that throw");
	if (made == NULL)
		return;
	test_arm(made, "nothing is put anywhere yet", NOBODYS_FP, ARM_TO_THROWER, called, VIA_EXPR);
	test_arm(made, "the frame pointer is", AT(ARM_MAIN_SP), ARM_TO_THROWER, handles, VIA_LANDING);
	test_arm(made, "all registers are", AT(ARM_MAIN_SP), ARM_TO_MIDDLE, handles, VIA_LANDING);
	test_arm(made, "the landing pad's address is in the own slot", AT(ARM_MAIN_SP), ARM_LANDING, handles, VIA_LANDING);
	unwind_image_free(made);
}

int main(void)
{
	scratch_make();
	struct unwind_image *made = assembled("", "throw", source, "functions that throw");
	for (size_t i = 0; made != NULL && i < sizeof(checks) / sizeof(checks[0]); i++)
		test(made, &checks[i]);
	unwind_image_free(made);
	run_arm();
	return tap_done();
}
