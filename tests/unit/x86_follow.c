// What instructions that are still to come say of a frame (unwind/code_rule.h), beside the truth: functions of every kind run an instruction at a time, and at each
// one the rule is asked, with the registers and the stack as they are. Who called is known, by watching calls and returns.
#include "unwind/code_rule.h"

#include "tests/tap.h"

#if defined(__x86_64__)
#include <signal.h>
#include <ucontext.h>

#include "unwind/x86_decode.h"

extern const uint8_t fixtures[], fixtures_end[];
#define EACH_FIXTURE(X) \
	X(bare) X(bare_leaf) X(pops) X(pops_bare) X(dynamic) X(aligned) X(aligned_saved) X(in_register) X(tail) X(tail_memory) X(tail_register) X(tail_maybe) \
	X(pushes) X(pushes_bare) X(table) X(table_wide) X(general) X(counter) X(stops) X(traps) X(vector) X(moved) X(late) X(nested) X(far) X(leaves_early) \
	X(late_pops) X(jumps_back) X(either) X(calls_unknown)
#define DECLARE(name) extern void fixture_##name(long);
EACH_FIXTURE(DECLARE)

#define FUNCTION(name) ".balign 64, 0xcc\nfixture_" #name ": .globl fixture_" #name "\n"
__asm__(
	".text\n.balign 64, 0xcc\nfixtures:\n.skip 64, 0xcc\n"
	FUNCTION(bare) "push %rbx\npush %rcx\nsub $24, %rsp\nmov %rdi, 8(%rsp)\ncall plain\nadd $24, %rsp\npop %rcx\npop %rbx\nret\n"
	FUNCTION(bare_leaf) "mov %rdi, %rax\nmov $3, %ecx\n1: dec %ecx\njnz 1b\ntest %rax, %rax\njz 2f\nret\n2: push %rax\nnop\npop %rcx\nret\n"
	FUNCTION(pops) "push %rbp\nmov %rsp, %rbp\npush $1\npush $2\ncall pops_two\npush $1\npush $2\ncall pops_many\nleave\nret\n"
	FUNCTION(pops_bare) "push $1\npush $2\ncall pops_two\nnop\nret\n"
	FUNCTION(dynamic) "push %rbp\nmov %rsp, %rbp\nmov $64, %eax\nsub %rax, %rsp\nand $-32, %rsp\nmovq $1, (%rsp)\ncall *plain_at(%rip)\nmov %rbp, %rsp\npop %rbp\nret\n"
	FUNCTION(aligned) "mov %rsp, %r10\nsub $8, %rsp\nand $-16, %rsp\nmov %r10, (%rsp)\ncall *plain_at(%rip)\nmov (%rsp), %rsp\nret\n"
	FUNCTION(aligned_saved) "mov %rsp, %rax\npush %rbx\npush %rbp\nsub $64, %rsp\nand $-64, %rsp\nmov %rax, 56(%rsp)\nmov $7, %ebp\nnop\n"
	"mov 56(%rsp), %rsi\nmov -8(%rsi), %rbx\nmov -16(%rsi), %rbp\nlea (%rsi), %rsp\nret\n"
	FUNCTION(in_register) "mov $0, %edx\npop %rcx\nlea (%rsp,%rdx,8), %rsp\npush %rcx\nnop\npop %rax\nxchg %rax, %r11\nnop\npush %r11\nret\n"
	FUNCTION(tail) "push %rbx\nnop\npop %rbx\njmp framed\n"
	FUNCTION(tail_memory) "push %rbx\nnop\npop %rbx\njmp *plain_at(%rip)\n"
	FUNCTION(tail_register) "push %rbx\nmov plain_at(%rip), %rax\npop %rbx\njmp *%rax\n"
	FUNCTION(tail_maybe) "test %rdi, %rdi\njz framed\npush %rbx\nnop\npop %rbx\nret\n"
	FUNCTION(pushes) "push %rbp\nmov %rsp, %rbp\nmov $4, %ecx\n1: push %rcx\ndec %ecx\njnz 1b\nmov %rbp, %rsp\npop %rbp\nret\n"
	FUNCTION(pushes_bare) "mov $4, %ecx\n1: push %rcx\ndec %ecx\njnz 1b\nlea 32(%rsp), %rsp\nret\n"
	FUNCTION(table) "push %rbx\nlea offsets(%rip), %rdx\nxor %edi, %edi\nmovslq (%rdx,%rdi,4), %rax\nadd %rdx, %rax\njmp *%rax\n1: nop\npop %rbx\nret\n"
	".pushsection .rodata\n.balign 8\noffsets: .long 1b-offsets\n.popsection\n"
	FUNCTION(table_wide) "push %rbx\nlea targets(%rip), %rdx\nxor %edi, %edi\njmp *(%rdx,%rdi,8)\n1: nop\npop %rbx\nret\n"
	".pushsection .data.rel.ro, \"aw\"\n.balign 8\ntargets: .quad 1b\nplain_at: .quad plain\n.popsection\n"
	FUNCTION(general) "push %rbp\nmov %rdi, %rbp\nimul $3, %rbp\npush %rbp\npop %rax\npop %rbp\nret\n"
	FUNCTION(counter) "call 1f\n1: pop %rax\nnop\nret\n"
	FUNCTION(stops) "mov %rsp, stopped(%rip)\ntest %rdi, %rdi\njnz 1f\nret\n1: push $1\npush $2\ncall stop\n.balign 16, 0x90\n"
	"behind: push %rbx\nnop\npop %rbx\nret\n.pushsection .bss\n.balign 8\nstopped: .quad 0\n.popsection\n"
	FUNCTION(traps) "push %rbx\ntest %rdi, %rdi\njz 1f\npop %rbx\nret\n1: ud2\n"
	FUNCTION(vector) "sub $40, %rsp\nmovups %xmm0, (%rsp)\nmovups (%rsp), %xmm0\nadd $40, %rsp\nret\n"
	FUNCTION(moved) "sub $24, %rsp\nmov %rbp, 8(%rsp)\nxor %ebp, %ebp\nmov 8(%rsp), %rbp\nadd $24, %rsp\nret\n"
	FUNCTION(late) "call plain\npush %rbp\nmov %rsp, %rbp\nsub $16, %rsp\ncall *plain_at(%rip)\nleave\nret\n"
	FUNCTION(nested) "push %rax\ncall deeper\npop %rcx\nret\n"
	FUNCTION(far) "push %rbp\nmov %rsp, %rbp\n.rept 30\ntest %rdi, %rdi\njz 8f\nmov %rdi, -8(%rbp)\ncall plain\n.endr\n8: leave\nret\n"
	FUNCTION(leaves_early) "test %rdi, %rdi\njz 1f\npush %rbp\nmov %rsp, %rbp\nnop\npop %rbp\n1: ret\n"
	FUNCTION(late_pops) "push $1\npush $2\ncall pops_two\npush %rbp\nmov %rsp, %rbp\nnop\nleave\nret\n"
	FUNCTION(jumps_back) "nop\npop %rcx\nnop\njmp *%rcx\n"
	FUNCTION(either) "push %rbx\ntest %rdi, %rdi\njnz 1f\nadd $16, %rsp\nret\n1: pop %rbx\nret\n" // the way that is never taken would return elsewhere
	FUNCTION(calls_unknown) "push %rbx\ncall *plain_at(%rip)\npop %rbx\nret\n"
	".balign 64, 0xcc\nplain: lea 1(%rdi), %rax\ntest %rax, %rax\njz 1f\nnop\n1: ret\n"
	".balign 64, 0xcc\ndeeper: push %rbx\ncall plain\npop %rbx\nret\n"
	".balign 64, 0xcc\nframed: push %rbp\nmov %rsp, %rbp\nnop\npop %rbp\nret\n"
	".balign 64, 0xcc\npops_two: nop\nret $16\n"
	".balign 64, 0xcc\npops_many: mov $2, %edx\npop %r10\nlea (%rsp,%rdx,8), %rsp\npush %r10\nret\n"
	".balign 64, 0xcc\nfixtures_end:\n.skip 16, 0xcc\n"
	"stop: mov stopped(%rip), %rsp\nret\n");

static const struct fixture {
	const char *name;
	void (*run)(long);
} all[] = {
#define ENTRY(name) { #name, fixture_##name },
	EACH_FIXTURE(ENTRY)
};

// ---------------------------------------------------------------- the truth
static struct call { uint64_t ra, fp, sp; } calls[32]; // sp: the caller's, once the return address is popped
static size_t call_count;
static struct x86_decoded last; // that runs now
static volatile int stepping;

static struct tally { unsigned steps, told, returns, returns_told, wrong; } now;
static struct code_follower *follower;
static bool is_generated; // so that any callee is taken to pop nothing

static uint64_t word(uint64_t addr)
{
	uint64_t out;

	memcpy(&out, (const void *)(uintptr_t)addr, sizeof(out));
	return out;
}

static bool is_call(void)
{
	return last.kind == X86_CALL_AT || (last.kind == X86_CALL && last.value != 0);
}

static void note_calls(uint64_t pc, uint64_t sp, uint64_t fp)
{
	if (is_call() && call_count < sizeof(calls) / sizeof(*calls))
		calls[call_count++] = (struct call){ word(sp), fp, sp + 8 };
	if (last.kind == X86_JUMP_AT && call_count > 0 && calls[call_count - 1].ra == pc)
		call_count--;
	while (last.kind == X86_RET && call_count > 0 && calls[--call_count].ra != pc)
		;
	if (!x86_decode((const void *)(uintptr_t)pc, X86_BYTES_MOST, &last))
		last.kind = X86_OTHER;
}

// ---------------------------------------------------------------- what is said
static uint64_t value_of(const struct code_place *place, const uint64_t *regs, bool *is_by_others)
{
	uint64_t value = regs[place->reg];

	*is_by_others = *is_by_others || (place->reg != X86_RSP && place->reg != X86_RBP);
	value = (place->is_indirect ? word(value + (uint64_t)place->inner) : value) + (uint64_t)place->offset;
	return place->kind == PLACE_AT ? word(value) : value;
}

static struct code_rule rule_at(uint64_t pc, enum code_when when)
{
	const struct code_source source = { .code = bytes_of(fixtures, (size_t)(fixtures_end - fixtures)), .addr = (uint64_t)(uintptr_t)fixtures, .is_generated = is_generated };
	struct code_rule rule;

	x86_follow(follower, &source, pc, when, &rule);
	return rule;
}

static void check(uint64_t pc, bool is_return, const uint64_t *regs, const struct call *truth)
{
	struct code_rule rule = rule_at(pc, is_return ? CODE_BEHIND_ANY : CODE_AT);
	bool is_by_others = false;

	if (!rule.is_known)
		return;
	uint64_t ra = value_of(&rule.ra, regs, &is_by_others), fp = value_of(&rule.fp, regs, &is_by_others), sp = truth->sp;
	if (rule.ra.kind == PLACE_AT) {
		struct code_place slot = rule.ra;
		slot.kind = PLACE_VALUE;
		sp = value_of(&slot, regs, &is_by_others) + 8;
	}
	if (is_return && is_by_others)
		return;
	*(is_return ? &now.returns_told : &now.told) += 1;
	if (ra == truth->ra && fp == truth->fp && sp >= truth->sp) // above it, where what else is popped was popped
		return;
	if (now.wrong++ < 3)
		diag("%s fixtures+%#llx: return address %#llx, is %#llx; fp %#llx, is %#llx; sp %#llx, is %#llx", is_return ? "returning to" : "at",
		     (unsigned long long)(pc - (uint64_t)(uintptr_t)fixtures), (unsigned long long)ra, (unsigned long long)truth->ra, (unsigned long long)fp,
		     (unsigned long long)truth->fp, (unsigned long long)sp, (unsigned long long)truth->sp);
}

static bool is_inside(uint64_t pc)
{
	return pc > (uint64_t)(uintptr_t)fixtures && pc < (uint64_t)(uintptr_t)fixtures_end;
}

static void on_step(int number, siginfo_t *info, void *context)
{
	static const int order[] = { REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
	ucontext_t *uc = context;
	uint64_t regs[X86_REGISTERS], pc = (uint64_t)uc->uc_mcontext.gregs[REG_RIP];
	bool was_call = is_call();

	(void)number, (void)info;
	if (!stepping) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
		return;
	}
	for (size_t i = 0; i < X86_REGISTERS; i++)
		regs[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
	note_calls(pc, regs[X86_RSP], regs[X86_RBP]);
	if (call_count > 0 && is_inside(pc)) {
		now.steps++;
		check(pc, false, regs, &calls[call_count - 1]);
	}
	// The caller's frame, as who unwinds has it: sp and fp alone.
	if (was_call && call_count >= 2 && is_inside(calls[call_count - 1].ra)) {
		now.returns++;
		regs[X86_RSP] = calls[call_count - 1].sp;
		check(calls[call_count - 1].ra, true, regs, &calls[call_count - 2]);
	}
}

static __attribute__((noinline)) void exercise(void (*run)(long))
{
	stepping = 1;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	run(5);
	stepping = 0;
}

// What of the steps must be told; the others can't be: behind a call of what pops, in a loop that moves sp, between a switch and its jump, where no end is in sight.

// What is told of how many steps, and of how many returns into the functions. The others can't be told: behind and before a call of what pops, in a loop that moves
// sp, where two ways differ, before the jump of a switch or through a register that was loaded before, where nothing returns, what may have been pushed over.
static const struct tally wanted[] = {
	{ 14, 14, 1, 1, 0 }, // bare
	{ 11, 11, 0, 0, 0 }, // bare_leaf
	{ 17, 17, 2, 2, 0 }, // pops
	{ 7, 4, 1, 0, 0 }, // pops_bare
	{ 15, 15, 1, 1, 0 }, // dynamic
	{ 12, 10, 1, 0, 0 }, // aligned
	{ 13, 10, 0, 0, 0 }, // aligned_saved
	{ 10, 10, 0, 0, 0 }, // in_register
	{ 9, 9, 0, 0, 0 }, // tail
	{ 9, 9, 0, 0, 0 }, // tail_memory
	{ 9, 7, 0, 0, 0 }, // tail_register
	{ 6, 6, 0, 0, 0 }, // tail_maybe
	{ 18, 16, 0, 0, 0 }, // pushes
	{ 15, 2, 0, 0, 0 }, // pushes_bare
	{ 9, 3, 0, 0, 0 }, // table
	{ 7, 3, 0, 0, 0 }, // table_wide
	{ 7, 7, 0, 0, 0 }, // general
	{ 4, 4, 0, 0, 0 }, // counter
	{ 6, 3, 1, 0, 0 }, // stops
	{ 5, 5, 0, 0, 0 }, // traps
	{ 5, 5, 0, 0, 0 }, // vector
	{ 6, 6, 0, 0, 0 }, // moved
	{ 17, 17, 2, 2, 0 }, // late
	{ 13, 13, 2, 2, 0 }, // nested
	{ 274, 274, 30, 30, 0 }, // far
	{ 7, 7, 0, 0, 0 }, // leaves_early
	{ 10, 7, 1, 0, 0 }, // late_pops
	{ 4, 0, 0, 0, 0 }, // jumps_back
	{ 5, 2, 0, 0, 0 }, // either
	{ 9, 7, 1, 0, 0 }, // calls_unknown
};
_Static_assert(sizeof(wanted) / sizeof(*wanted) == sizeof(all) / sizeof(*all), "each has its figures");

int main(void)
{
	const struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	follower = code_follower_new();
	sigaction(SIGTRAP, &action, NULL);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		now = (struct tally){ 0 };
		call_count = 0;
		last.kind = X86_OTHER;
		is_generated = strcmp(all[i].name, "stops") == 0;
		exercise(all[i].run);
		const struct tally *to = &wanted[i];
		ok(now.wrong == 0 && now.steps == to->steps && now.told == to->told && now.returns == to->returns && now.returns_told == to->returns_told,
		   "%s: of %u instructions %u told, of %u returns %u, %u wrong", all[i].name, now.steps, now.told, now.returns, now.returns_told, now.wrong);
	}
	code_follower_free(follower);
	return tap_done();
}
#else
int main(void)
{
	skip("not x86-64", "instructions that are still to come");
	return tap_done();
}
#endif
