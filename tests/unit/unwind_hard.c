// Code that compilers do not write: CFA in odd registers, return addresses in registers, functions without CFI, code made at run time, a
// signal trampoline of one's own.
#include "unwind/unwind.h"

#include "tests/tap.h"

#if defined(__x86_64__)
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/live_stack.h"

void cfa_in_rbx(void (*callee)(void));
void cfa_in_rax(void);
void cfa_by_rax(void);
extern const char changed_rax_start[], changed_rax_end[];
void ra_in_r11(void);
void with_expressions(void (*callee)(void));
void no_cfi_leaf(void);
void no_cfi_frame(void (*callee)(void));
void own_restorer(void);
extern const char no_cfi_leaf_start[], no_cfi_leaf_end[], no_cfi_frame_start[], no_cfi_frame_end[];

__asm__(
	".text\n"
	"cfa_in_rbx:\n" // the caller's frame is found from a register that rules do not follow
	"	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbx, -16\n"
	"	mov %rsp, %rbx\n"
	"	.cfi_def_cfa %rbx, 16\n"
	"	sub $0x120, %rsp\n"
	"	call *%rdi\n"
	"	mov %rbx, %rsp\n"
	"	.cfi_def_cfa %rsp, 16\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	.cfi_restore %rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"cfa_in_rax:\n" // libcrypto's AES: what it calls leaves rax alone, as nothing obliges it to
	"	.cfi_startproc\n"
	"	mov %rsp, %rax\n"
	"	.cfi_def_cfa_register %rax\n"
	"	push %rbx\n"
	"	.cfi_offset %rbx, -16\n"
	"	sub $0x80, %rsp\n"
	"	and $-128, %rsp\n"
	"	call 1f\n"
	"	nop\n"
	"	call 1f\n"
	"	mov -8(%rax), %rbx\n"
	"	.cfi_restore %rbx\n"
	"	mov %rax, %rsp\n"
	"	.cfi_def_cfa_register %rsp\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"1:	.cfi_startproc\n"
	"	push %rbx\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbx, -16\n"
	"	xor %ebx, %ebx\n"
	"	call 2f\n"
	"	pop %rbx\n"
	"	.cfi_def_cfa_offset 8\n"
	"	.cfi_restore %rbx\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"2:	.cfi_startproc\n"
	"	nop\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"cfa_by_rax:\n" // an expression over a register that what is called does change: where it is called, the CFI is not true
	"	.cfi_startproc\n"
	"	mov %rsp, %rax\n"
	"	.cfi_escape 0x0f, 2, 0x70, 8\n" // DW_CFA_def_cfa_expression: DW_OP_breg0 8
	"	call 3f\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"3:	.cfi_startproc\n"
	"	nop\n"
	"	lea -64(%rsp), %rax\n"
	"changed_rax_start:\n"
	"	nop\n"
	"	lea 64(%rsp), %rax\n"
	"	nop\n"
	"	ret\n"
	"changed_rax_end:\n"
	"	.cfi_endproc\n"
	"	.globl changed_rax_start, changed_rax_end\n"
	"ra_in_r11:\n" // as vfork does it
	"	.cfi_startproc\n"
	"	pop %r11\n"
	"	.cfi_def_cfa_offset 0\n"
	"	.cfi_register %rip, %r11\n"
	"	nop\n"
	"	nop\n"
	"	push %r11\n"
	"	.cfi_def_cfa_offset 8\n"
	"	.cfi_offset %rip, -8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"with_expressions:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	lea 16(%rsp), %rax\n"
	"	sub $0x28, %rsp\n"
	"	.cfi_def_cfa_offset 56\n"
	"	mov %rax, 8(%rsp)\n"
	"	.cfi_escape 0x0f, 3, 0x77, 8, 0x06\n"      // CFA = *(rsp + 8)
	"	.cfi_escape 0x10, 6, 2, 0x77, 0x28\n"      // rbp at rsp + 40
	"	.cfi_escape 0x16, 16, 6, 0x77, 0x30, 0x06, 0x31, 0x31, 0x1e\n" // rip = *(rsp + 48), then 1 * 1 on top …
	"	.cfi_escape 0x16, 16, 5, 0x77, 0x30, 0x06, 0x23, 0x00\n"       // … corrected: *(rsp + 48) + 0
	"	xor %ebp, %ebp\n"
	"	call *%rdi\n"
	"	mov 0x28(%rsp), %rbp\n"
	"	add $0x30, %rsp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	.cfi_restore %rbp\n"
	"	.cfi_offset %rip, -8\n" // libgcc takes a restore of it for "unsaved"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.globl no_cfi_leaf_start, no_cfi_leaf_end, no_cfi_frame_start, no_cfi_frame_end\n"
	"	.skip 16, 0x90\n"
	"no_cfi_leaf_start:\n"
	"no_cfi_leaf:\n"
	"	nop\n"
	"	push %rax\n"
	"	nop\n"
	"	push $5\n"
	"	nop\n"
	"	add $16, %rsp\n"
	"	ret\n"
	"no_cfi_leaf_end:\n"
	"	.skip 16, 0x90\n"
	"no_cfi_frame_start:\n"
	"no_cfi_frame:\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $0x60, %rsp\n"
	"	call *%rdi\n"
	"	leave\n"
	"	ret\n"
	"no_cfi_frame_end:\n"
	"	.skip 16, 0x90\n"
	"	.cfi_startproc\n" // a neighbour right before the trampoline, as in musl
	"	ret\n"
	"	.cfi_endproc\n"
	"own_restorer:\n"
	"	mov $15, %rax\n"
	"	syscall\n"
	"	.skip 16, 0x90\n");

static volatile uint64_t sink;

// A callee that has the registers in use which the frames above it need.
static __attribute__((noinline)) void busy(void)
{
	uint64_t a = sink, b = a + 1, c = a + 2, d = a + 3;
	for (int i = 0; i < 3; i++) {
		__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) :: "rbx", "r12");
		sink += a + b + c + d;
	}
}

static void exercise_rbx(void)
{
	start_stepping();
	cfa_in_rbx(busy);
	stop_stepping();
}

static void exercise_rax(void)
{
	start_stepping();
	cfa_in_rax();
	stop_stepping();
}

static void exercise_r11(void)
{
	start_stepping();
	for (int i = 0; i < 5; i++)
		ra_in_r11();
	stop_stepping();
}

static void exercise_expressions(void)
{
	start_stepping();
	with_expressions(busy);
	stop_stepping();
}

// ---------------------------------------------------------------- without CFI: no oracle, but the chain is known

static unsigned inside, wrong, by[VIA_COUNT];
static uint64_t range_start, range_end;
static size_t wanted_count; // frames of a stack with one frame in the range

static void on_guess(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)number, (void)info;
	if (!stepping) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
		return;
	}
	uint64_t pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	snap(&snapshot, uc, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	size_t at = 0;
	while (at < stack.count && (frames[at].addr < range_start || frames[at].addr > range_end))
		at++;
	if (at == stack.count)
		return;
	inside++;
	if (stack.end != UNWIND_ROOT || stack.count - at != wanted_count) {
		if (wrong++ < 3) {
			diag("at %#llx, frame %zu in the range, %zu wanted from there", (unsigned long long)pc, at, wanted_count);
			print_stack();
		}
	} else {
		by[frames[at + 1].via]++;
	}
}

static void guess(void (*exercise)(void), const void *start, const void *end)
{
	struct sigaction action = { .sa_sigaction = on_guess, .sa_flags = SA_SIGINFO };
	ucontext_t here;

	getcontext(&here);
	snap(&snapshot, &here, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	wanted_count = stack.count + 2; // the exercise's frame, and the one in the range
	range_start = (uint64_t)start;
	range_end = (uint64_t)end - 1;
	inside = wrong = 0;
	memset(by, 0, sizeof(by));
	sigaction(SIGTRAP, &action, NULL);
	exercise();
	signal(SIGTRAP, SIG_DFL);
}

static void exercise_leaf(void)
{
	start_stepping();
	no_cfi_leaf();
	stop_stepping();
}

static void exercise_frame(void)
{
	start_stepping();
	no_cfi_frame(busy);
	stop_stepping();
}

// A wrong caller would be found as readily as the right one: so none is, and the reason is said.
static void on_change(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	(void)number, (void)info;
	if (!stepping) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
		return;
	}
	snap(&snapshot, uc, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	if (frames[0].addr < (uint64_t)changed_rax_start || frames[0].addr >= (uint64_t)changed_rax_end)
		return;
	inside++;
	wrong += stack.count != 2 || stack.end != UNWIND_UNSUPPORTED;
}

static void test_changed_register(void)
{
	struct sigaction action = { .sa_sigaction = on_change, .sa_flags = SA_SIGINFO };
	inside = wrong = 0;
	sigaction(SIGTRAP, &action, NULL);
	start_stepping();
	cfa_by_rax();
	stop_stepping();
	signal(SIGTRAP, SIG_DFL);
	ok(inside == 4 && wrong == 0, "an expression over a register that what was called may have changed is no caller: %u steps, %u wrong", inside, wrong);
}

static uint8_t *jit;

static void exercise_jit(void)
{
	start_stepping();
	((void (*)(void (*)(void)))(uintptr_t)jit)(busy);
	stop_stepping();
}

static void test_guesses(void)
{
	guess(exercise_leaf, no_cfi_leaf_start, no_cfi_leaf_end);
	ok(inside >= 6 && wrong == 0 && by[VIA_CODE] == inside, "a leaf without CFI, pushes included: %u steps, %u by its instructions, %u wrong",
	   inside, by[VIA_CODE], wrong);
	guess(exercise_frame, no_cfi_frame_start, no_cfi_frame_end);
	ok(inside > 20 && wrong == 0 && by[VIA_CODE] == inside, "a function without CFI, but with a frame pointer: %u steps, %u by its instructions, %u wrong",
	   inside, by[VIA_CODE], wrong);

	static const uint8_t code[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0xff, 0xd7, 0xc9, 0xc3 };
	jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (jit == MAP_FAILED) {
		skip("no writable code here", "code made at run time");
		return;
	}
	memcpy(jit, code, sizeof(code));
	free_maps(&maps);
	load_maps(&maps);
	unwinder_free(unwinder);
	unwinder = unwinder_new();
	guess(exercise_jit, jit, jit + sizeof(code));
	ok(inside > 20 && by[VIA_FP] + by[VIA_LEAF_RULE] == inside - wrong && wrong <= 3,
	   "code made at run time: %u steps, %u by frame pointer, %u in its first and last instructions off by a frame", inside, by[VIA_FP], wrong);
	munmap(jit, 4096);
}

// ---------------------------------------------------------------- a signal trampoline without CFI

struct kernel_sigaction { // asm/signal.h
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	unsigned long mask;
};

static void on_usr1(int number)
{
	ucontext_t here;
	(void)number;
	getcontext(&here);
	snap(&snapshot, &here, MAX_STACK);
}

static void test_restorer(void)
{
	struct kernel_sigaction action = { .handler = on_usr1, .flags = 0x04000000, .restorer = own_restorer };

	syscall(SYS_rt_sigaction, SIGUSR1, &action, NULL, 8);
	raise(SIGUSR1);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	size_t at = 0;
	while (at < stack.count && frames[at].kind != FRAME_INTERRUPTED)
		at++;
	if (!ok(stack.end == UNWIND_ROOT && at + 1 < stack.count && frames[at].addr == (uint64_t)own_restorer && frames[at + 1].via == VIA_SIGNAL &&
	        frames[at + 1].kind == FRAME_INTERRUPTED,
	        "through a trampoline that has no CFI: %zu frames", stack.count))
		print_stack();
}

int main(void)
{
	live_start();
	test_steps("CFA in rbx", exercise_rbx);
	test_steps("CFA in rax, which what is called leaves alone", exercise_rax);
	test_steps("return address in r11", exercise_r11);
	test_steps("expressions", exercise_expressions);
	test_changed_register();
	test_guesses(); // before the trampoline's address is in some register, from where a push brings it onto the stack
	test_restorer();
	live_stop();
	return tap_done();
}

#else
int main(void)
{
	skip("not x86-64", "live stacks");
	return tap_done();
}
#endif
