// Who called a function by running its code on (cmd/debug_forward.h), beside programs that are run an instruction at a time: after each one, who called whom
// is known, and what is told of the caller, its caller and so on must be that; and, once the function has returned, so must be the registers.
#include "cmd/debug_forward.h"

#include <elf.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "symbols/elf_symbols.h"
#include "symbols/module.h"
#include "tests/compile.h"
#include "unwind/arch.h"

enum { RBX = 3, RBP = 6, RSP = 7, COPY_BYTES = 4096, FRAMES = 256, STEPS = 60000 };

// ---------------------------------------------------------------- programs
// Each keeps its frames by the rules of V8's code: nobody hands back registers but the frame pointer, and arguments are popped by who is called. %r13 leads to
// numbers that a sample does not have.
static const char shapes[] =
	".text\n"
	".macro function name\n.balign 64, 0xcc\n.globl \\name\n.type \\name, @function\n\\name:\n.endm\n"
	".macro done name\n.size \\name, .-\\name\n.endm\n"
	"function _start\nxor %ebp, %ebp\nlea numbers(%rip), %r13\nmovq $24, 64(%r13)\n1: call drive\ndecq 64(%r13)\njg 1b\ncall last\nhlt\ndone _start\n"
	// Everything in turn, with other numbers each time.
	"function drive\npush %rbp\nmov %rsp, %rbp\nsub $32, %rsp\n"
	"mov 64(%r13), %rax\nand $3, %eax\nmov %rax, (%r13)\n" // formal arguments
	"lea pop_formal(%rip), %rcx\nmov %rcx, 8(%r13)\n"
	"call framed\nlea -32(%rbp), %rsp\n"
	"push $5\npush $6\ncall pops_two\nlea -32(%rbp), %rsp\n"
	"push $5\npush $6\npush $7\nmov $3, %edi\ncall pops_counted\nlea -32(%rbp), %rsp\n"
	"push $5\nmov $1, %eax\ncall adapt\nlea -32(%rbp), %rsp\n"
	"push $5\npush $6\npush $7\nmov $3, %eax\ncall adapt\nlea -32(%rbp), %rsp\n"
	"call push_all\nlea -32(%rbp), %rsp\n"
	"push $5\nmov $1, %eax\ncall varargs\nlea -32(%rbp), %rsp\n"
	"call frameless\nlea -32(%rbp), %rsp\n"
	"mov 64(%r13), %rdi\nand $7, %edi\ncall chooses\nlea -32(%rbp), %rsp\n"
	"mov 64(%r13), %rdi\nand $7, %edi\ncall chooses_near\nlea -32(%rbp), %rsp\n"
	"call interprets\nlea -32(%rbp), %rsp\n"
	"call threaded\nlea -32(%rbp), %rsp\n"
	"call where\nlea -32(%rbp), %rsp\n"
	"call aligned\nlea -32(%rbp), %rsp\n"
	"call grows\nlea -32(%rbp), %rsp\n"
	"mov 64(%r13), %rdi\ncall either_way\nlea -32(%rbp), %rsp\n"
	"mov 64(%r13), %rdi\ncall checks\nlea -32(%rbp), %rsp\n"
	"call stores\nlea -32(%rbp), %rsp\n"
	"call differ\ncall set_one\ncall spreads\nlea -32(%rbp), %rsp\ncall uncertain\nlea -32(%rbp), %rsp\ncall rewrites\ncall moves\ncall counts\ncall carries\ncall half\n"
	"call covered\ncall blank\ncall untold\nlea -32(%rbp), %rsp\ncall hands_on\ncall joins\n"
	"call tail\nleave\nret\ndone drive\n"
	"function leaf\nmov 16(%r13), %rax\ntest $1, %al\nje 1f\nadd $3, %rax\nret\n1: sub $1, %rax\ncmp $9, %rax\njb 2f\nnop\n2: ret\ndone leaf\n"
	"function framed\npush %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nmovq $0, -8(%rbp)\n1: call leaf\nincq -8(%rbp)\ncmpq $3, -8(%rbp)\njl 1b\nleave\nret\ndone framed\n"
	"function pops_two\nmov 8(%rsp), %rax\nadd 16(%rsp), %rax\nret $16\ndone pops_two\n"
	"function pops_counted\npush %rbp\nmov %rsp, %rbp\npush %rdi\ncall leaf\nmov -8(%rbp), %rcx\nleave\npop %r10\nlea (%rsp,%rcx,8), %rsp\npush %r10\nret\ndone pops_counted\n"
	// As many arguments more as the function that is called has formal ones: all that is there is moved down.
	"function adapt\nmov %rax, %rdi\nmov (%r13), %rbx\nsub %rax, %rbx\njle 3f\nmov %rsp, %r8\nlea (,%rbx,8), %r10\nsub %r10, %rsp\nlea 1(%rax), %r9\nxor %r11d, %r11d\n"
	"1: mov (%r8,%r11,8), %r10\nmov %r10, (%rsp,%r11,8)\ninc %r11\ncmp %r9, %r11\njl 1b\nlea (%rsp,%r9,8), %r8\nmov 24(%r13), %r10\n"
	"2: dec %rbx\nmov %r10, (%r8,%rbx,8)\njg 2b\nmov (%r13), %rdi\n3: mov 8(%r13), %rcx\njmp *%rcx\ndone adapt\n"
	"function pop_formal\npush %rbp\nmov %rsp, %rbp\npush %rdi\ncall leaf\npop %rcx\nleave\npop %r10\nlea (%rsp,%rcx,8), %rsp\npush %r10\nret\ndone pop_formal\n"
	"function push_all\npop %rax\nmov (%r13), %rcx\nmov %rcx, %rdi\n1: dec %rcx\njl 2f\npush 16(%r13,%rcx,8)\njmp 1b\n2: push %rax\nmov 8(%r13), %rcx\njmp *%rcx\ndone push_all\n"
	// The same with holes among the arguments.
	"function varargs\nmov (%r13), %rcx\nmov %rsp, %r8\nlea (,%rcx,8), %r10\nsub %r10, %rsp\nmov (%r8), %r10\nmov %r10, (%rsp)\nmov 8(%r8), %r10\nmov %r10, 8(%rsp)\n"
	"lea 16(%rsp), %r8\nxor %r9d, %r9d\n1: cmp %rcx, %r9\nje 3f\nmov 16(%r13,%r9,8), %r10\ncmp 24(%r13), %r10\njne 2f\nmov 32(%r13), %r10\n2: mov %r10, (%r8,%r9,8)\ninc %r9\njmp 1b\n"
	"3: lea (%rax,%rcx), %rdi\nmov 8(%r13), %rcx\njmp *%rcx\ndone varargs\n"
	"function frameless\npush %rbx\npush %rdi\ncall leaf\npop %rdi\npop %rbx\ntest $1, %al\nje 1f\nret\n1: push $4\ncall pops_one\nret\ndone frameless\n"
	"function pops_one\npop %r10\npop %rcx\npush %r10\nret\ndone pops_one\n"
	// The return address of a call long past stands at sp, in a frame.
	"function chooses\npush %rbp\nmov %rsp, %rbp\nlea leaf(%rip), %rcx\ncall *%rcx\nleaf_returns: sub $8, %rsp\njmp *choices(,%rdi,8)\n"
	"choice_a: add $8, %rsp\nleave\nret\nchoice_b: call leaf\nchoice_c: leave\nret\ndone chooses\n"
	"function chooses_near\npush %rbp\nmov %rsp, %rbp\nlea leaf(%rip), %rcx\ncall *%rcx\nsub $8, %rsp\nlea near_choices(%rip), %rdx\nmovslq (%rdx,%rdi,4), %rdi\nadd %rdi, %rdx\njmp *%rdx\n"
	"near_a: add $8, %rsp\nleave\nret\nnear_b: call leaf\nleave\nret\ndone chooses_near\n"
	// An interpreter whose parts go on to one another, in a frame of its own.
	"function interprets\npush %rbp\nmov %rsp, %rbp\nlea leaf(%rip), %rcx\ncall *%rcx\nsub $8, %rsp\nlea program(%rip), %rsi\nlea handlers(%rip), %r15\nmovzbl (%rsi), %eax\njmp *(%r15,%rax,8)\n"
	"op_a: inc %rsi\nmovzbl (%rsi), %eax\njmp *(%r15,%rax,8)\nop_b: inc %rsi\nnop\nmovzbl (%rsi), %eax\nmov (%r15,%rax,8), %rcx\njmp *%rcx\nop_end: leave\nret\ndone interprets\n"
	"function threaded\npush %rbp\nmov %rsp, %rbp\nlea leaf(%rip), %rcx\ncall *%rcx\nsub $8, %rsp\nlea threads(%rip), %rsi\nmov (%rsi), %rax\nadd $8, %rsi\njmp *%rax\n"
	"thread_a: mov (%rsi), %rax\nadd $8, %rsi\njmp *%rax\nthread_end: leave\nret\ndone threaded\n"
	"function where\ncall 1f\n1: pop %rax\npush %rax\nadd $8, %rsp\nret\ndone where\n"
	"function aligned\nlea 8(%rsp), %r10\nand $-64, %rsp\npush -8(%r10)\npush %rbp\nmov %rsp, %rbp\npush %r10\nmov (%r13), %rax\nneg %rax\nlea -64(%rsp,%rax,8), %rsp\ncall leaf\nmov -8(%rbp), %r10\nleave\n"
	"lea -8(%r10), %rsp\nret\ndone aligned\n"
	"function grows\npush %rbp\nmov %rsp, %rbp\nmov (%r13), %rcx\n1: test %rcx, %rcx\nje 2f\npush %rcx\ndec %rcx\njmp 1b\n2: mov -8(%rbp), %rdx\ncall leaf\nmov %rbp, %rsp\npop %rbp\nret\ndone grows\n"
	"function either_way\ntest $1, %dil\nje 1f\npush %rbp\nmov %rsp, %rbp\npush %rdi\ncall leaf\npop %rdi\npop %rbp\nret\n1: push %rdi\ncall leaf\nadd $8, %rsp\nret\ndone either_way\n"
	// What does not return stands at the end, and another function behind it.
	"function checks\npush %rbp\nmov %rsp, %rbp\npush $1\ncmp $1000, %rdi\nja 1f\npop %rax\npop %rbp\nret\n1: sub $16, %rsp\nmov $2, %edi\ncall fatal\ndone checks\n"
	".globl behind\n.type behind, @function\nbehind: add $16, %rsp\npop %rax\npop %rbp\nret\ndone behind\n"
	"function stores\npush %rbp\nmov %rsp, %rbp\nsub $24, %rsp\nlea -24(%rbp), %rdx\nmov (%r13), %rcx\nand $1, %ecx\nmov %rbp, (%rdx,%rcx,8)\nmov -24(%rbp), %rbx\nmovups -16(%rbp), %xmm0\nmovups %xmm0, -24(%rbp)\nmov -24(%rbp), %r12\nxor %eax, %eax\nsete %al\n"
	"cmove %rsp, %rdx\nxchg %rdx, -8(%rbp)\nmovb $7, -8(%rbp)\nleave\nret\ndone stores\n"
	// Ways that are never gone say another caller; another register.
	"function differ\nmov 56(%r13), %rax\ntest %rax, %rax\nje 1f\nlea leaf_returns(%rip), %rcx\npush %rcx\nret\n1: nop\nret\ndone differ\n"
	"function set_one\nmov 56(%r13), %rax\ntest %rax, %rax\nje 1f\nmov $1, %ebx\nret\n1: mov $2, %ebx\nret\ndone set_one\n"
	// A switch where nothing tells where the return address is; what a call could have left stands at sp.
	"function spreads\nmov %rsp, %rbx\nmov (%r13), %rax\nshl $3, %rax\nsub %rax, %rsp\nlea leaf_returns(%rip), %rcx\npush %rcx\nmov 64(%r13), %rdi\nand $1, %edi\njmp *spread(,%rdi,8)\n"
	"spread_a: mov %rbx, %rsp\nret\nspread_b: mov %rbx, %rsp\nnop\nret\ndone spreads\n"
	"function uncertain\nlea leaf_returns(%rip), %rax\npush %rax\nmov 72(%r13), %rcx\ncall *%rcx\nret\ndone uncertain\n"
	// What is pushed by a sp that nobody knows; a vector; a move on a condition; flags, the carry, a half of a register; an array.
	"function rewrites\npush %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nmovq $1, -16(%rbp)\nmov 80(%r13), %rcx\ncall *%rcx\nadd $16, %rsp\npush $7\npush $8\nmov -16(%rbp), %rbx\nleave\nret\ndone rewrites\n"
	"function moves\nmov $1, %ebx\nmov $2, %ecx\ncmpq $0, 56(%r13)\ncmove %rcx, %rbx\nret\ndone moves\n"
	"function counts\nmov 16(%r13), %rcx\nxor %eax, %eax\npopcnt %rcx, %rcx\nje 1f\nmov $1, %ebx\nret\n1: mov $2, %ebx\nret\ndone counts\n"
	"function carries\nmov $3, %eax\ncmp $5, %eax\ninc %eax\njc 1f\nmov $1, %ebx\nret\n1: mov $2, %ebx\nret\ndone carries\n"
	"function half\nmov $0x1234, %ebx\nmov $5, %bl\nmov $6, %bh\nret\ndone half\n"
	"function covered\nmov $1, %ebx\ncmpq $0, 56(%r13)\nje 1f\nmov $2, %ebx\n1: cmpq $0, 64(%r13)\nje 2f\nnop\n2: nop\nret\ndone covered\n"
	"function blank\npush %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nmovq $1, -8(%rbp)\nmov 16(%r13), %rax\nmov %rax, -8(%rbp)\nmov -8(%rbp), %rbx\nleave\nret\ndone blank\n"
	"function untold\nmov 56(%r13), %rax\ntest %rax, %rax\nje 1f\nmov $1, %ebx\nret\n1: jmp *untold_ways(,%rax,8)\nuntold_way: mov $2, %ebx\nret\ndone untold\n"
	"function hands_on\nmov $3, %ebx\nmov 88(%r13), %rcx\njmp *%rcx\ndone hands_on\nfunction sets\nmov $4, %ebx\nret\ndone sets\n"
	"function joins\npush %rbp\nmov %rsp, %rbp\nsub $16, %rsp\nmovq $1, -8(%rbp)\ncmpq $0, 56(%r13)\nje 1f\nmovq $2, -8(%rbp)\n1: cmpq $0, 64(%r13)\nje 2f\nnop\n2: mov -8(%rbp), %rbx\nleave\nret\ndone joins\n"
	"function tail\nmov 16(%r13), %rax\ntest $2, %al\nje leaf\nmov (%r13), %rcx\njmp framed\ndone tail\n"
	"function last\nmov $100000, %edi\ncall checks\nhlt\ndone last\n"
	"function fatal\npush %rbp\nmov %rsp, %rbp\nmov $60, %eax\nxor %edi, %edi\nsyscall\ndone fatal\n"
	".balign 64, 0xcc\n.fill 64, 1, 0xcc\n"
	".data\n.balign 8\nnumbers: .quad 2, 0, 7, 9, 11, 9, 13, 0, 0, pops_one, leaf, sets\nspread: .quad spread_a, spread_b\nuntold_ways: .quad untold_way\nchoices: .quad choice_a, choice_b, choice_c, choice_a, choice_b, choice_c, choice_a, choice_b\n"
	"handlers: .quad op_a, op_b, op_end\nprogram: .byte 0, 1, 0, 1, 1, 2\n.balign 8\nthreads: .quad thread_a, thread_a, thread_end\n"
	"near_choices: .long near_a - near_choices, near_b - near_choices, near_a - near_choices, near_b - near_choices, near_a - near_choices, near_b - near_choices, near_a - near_choices, near_b - near_choices\n";

// The same by the rules of C, where what is called pops nothing.
static const char conforming[] =
	".text\n"
	".macro function name\n.balign 64, 0xcc\n.globl \\name\n.type \\name, @function\n\\name:\n.endm\n"
	".macro done name\n.size \\name, .-\\name\n.endm\n"
	"function _start\nxor %ebp, %ebp\nmov $5, %r15d\n1: call all\ndec %r15d\njg 1b\nmov $2000, %edi\ncall ends\nhlt\ndone _start\n"
	"function all\npush %rbx\nlea plain(%rip), %rcx\ncall *%rcx\nplain_returns: mov $2, %edi\ncall ends\nmov $2, %edi\ncall ends_too\ncall below\npop %rbx\nret\ndone all\n"
	"function plain\nnop\nret\ndone plain\n"
	// The call does not return, and another function stands behind it.
	"function ends\nlea plain_returns(%rip), %rcx\npush %rcx\ncmp $1000, %rdi\nja 1f\nadd $8, %rsp\nret\n1: call ends_too\ndone ends\n"
	".type next, @function\nnext: nop\nret\n.size next, .-next\n"
	"function ends_too\nlea plain_returns(%rip), %rcx\npush %rcx\ncmp $1000, %rdi\nja 1f\nadd $8, %rsp\nret\n1: call fatal\ndone ends_too\n"
	".type next_framed, @function\nnext_framed: push %rbp\nmov %rsp, %rbp\nleave\nret\n.size next_framed, .-next_framed\n"
	"function below\npush %rdi\nadd $8, %rsp\ncall plain\nsub $8, %rsp\ncmpq $2, (%rsp)\nje 1f\nadd $8, %rsp\nret\n1: lea plain_returns(%rip), %rcx\npush %rcx\nret\ndone below\n"
	"function fatal\nmov $60, %eax\nxor %edi, %edi\nsyscall\nhlt\ndone fatal\n"
	".balign 64, 0xcc\n.fill 64, 1, 0xcc\n";

static const char compiled[] =
	"static volatile int seed = 7;\nstatic int many(int a, int b, int c, int d, int e, int f, int g, int h);\n"
	"static int __attribute__((noinline)) chosen(int x) { switch (x & 7) { case 0: return many(x, 1, 2, 3, 4, 5, 6, 7); case 1: return x * 3; case 2: return x - seed; case 3: return x ^ seed;\n"
	"	case 4: return x + 11; case 5: return x / 3; case 6: return x << 2; default: return 1; } }\n"
	"static int __attribute__((noinline)) many(int a, int b, int c, int d, int e, int f, int g, int h)\n"
	"{ int s = a; for (int i = 0; i < (seed & 3) + 2; i++) s += chosen(s | 1) + b * c - d + e * f + g - h; return s; }\n"
	"static int __attribute__((noinline)) room(int n) { volatile char bytes[n]; int s = 0; for (int i = 0; i < n; i++) bytes[i] = (char)i; for (int i = 0; i < n; i += 5) s += bytes[i]; return s + chosen(n); }\n"
	"static int __attribute__((noinline)) deep(int n) { return n < 2 ? n : deep(n - 1) + deep(n - 2) * seed; }\n"
	"static void __attribute__((noreturn, noinline)) leave(int x) { __asm__ volatile(\"syscall\" :: \"a\"(60), \"D\"(x & 1) : \"rcx\", \"r11\", \"memory\"); __builtin_unreachable(); }\n"
	"static int __attribute__((noinline)) checked(int x) { if (x > 100000) leave(0); return many(x, x, 3, 4, x, 6, 7, 8) + room(x & 31); }\n"
	"void __attribute__((noreturn)) run(void) { int s = 0; for (int i = 0; i < 12; i++) { s += checked(i) + deep(5); seed++; } checked(200000); leave(s); }\n"
	"__asm__(\".globl _start\\n.type _start, @function\\n_start: xor %ebp, %ebp\\ncall run\\nhlt\\n.size _start, .-_start\\n\");\n";

// ---------------------------------------------------------------- the scene
struct program {
	struct image *file;
	struct elf_symbols *symbols;
	struct symbol_module module;
	struct symbolizer_options options;
	struct code *code;
	struct forward *forward;
	bool is_c, has_names;
	uint64_t sp;
	uint8_t copy[COPY_BYTES];
	size_t copied;
	unsigned long asked, told, deep, wrong;
};

static bool function_at(struct program *p, uint64_t addr, struct code_function *out);

static bool other(void *context, uint64_t addr, struct code_function *out)
{
	return function_at(context, addr, out) && out->addr == addr;
}

static bool function_at(struct program *p, uint64_t addr, struct code_function *out)
{
	struct symbol_hit hit;
	struct bytes bytes;

	if (!elf_symbols_lookup(&p->module, p->symbols, addr, &hit) || hit.size == 0 || !image_at_vaddr(p->file, hit.start, hit.size, &bytes))
		return false;
	*out = (struct code_function){ .key = hit.start, .addr = hit.start, .bytes = bytes.at, .size = hit.size, .is_c = p->is_c, .other = other, .context = p };
	return true;
}

static bool code_at(void *context, uint64_t addr, struct forward_code *out)
{
	struct program *p = context;
	struct code_function function;
	struct bytes bytes;
	uint64_t page = addr & ~UINT64_C(255);

	if (p->has_names) {
		if (!function_at(p, addr, &function))
			return false;
		*out = (struct forward_code){ function.key, function.addr, function.bytes, function.size, p->is_c, true, true };
		return true;
	}
	if (!image_at_vaddr(p->file, page, 256, &bytes))
		return false;
	*out = (struct forward_code){ page + 1, page, bytes.at, 256, p->is_c, false, true };
	return true;
}

static bool word_at(void *context, uint64_t addr, uint64_t *out)
{
	const struct program *p = context;

	if (addr - p->sp >= p->copied || p->copied - (addr - p->sp) < sizeof(*out))
		return false;
	memcpy(out, p->copy + (addr - p->sp), sizeof(*out));
	return true;
}

static bool is_caller(void *context, uint64_t ra, uint64_t pc, bool is_strict)
{
	const struct program *p = context;
	struct bytes bytes;
	int64_t distance = 0;
	struct code_function called;

	if (!image_at_vaddr(p->file, ra - UNWIND_CALL_BYTES, UNWIND_CALL_BYTES, &bytes) || !unwind_arch_for(EM_X86_64)->is_call(bytes.end, UNWIND_CALL_BYTES, &distance))
		return false;
	return !is_strict || distance == 0 || pc - (ra + (uint64_t)distance) < 4096 ||
	       (function_at(context, ra + (uint64_t)distance, &called) && code_jumps_on(p->code, &called));
}

static bool may_leave(void *context, uint64_t addr, bool is_to_function)
{
	struct program *p = context;
	struct code_function function;

	return function_at(p, addr, &function) && code_may_leave(p->code, &function, addr - function.addr, is_to_function);
}

static bool keeps_sp(void *context, uint64_t addr)
{
	struct program *p = context;
	struct code_function function;

	return p->has_names && function_at(p, addr, &function) && function.addr == addr && code_pops_nothing(p->code, &function);
}

// ---------------------------------------------------------------- what is true
struct called {
	uint64_t ra;
	struct libunwind_registers told; // of its caller, as far as ever
};

struct truth {
	struct called frames[FRAMES];
	size_t count;
};

static void wrong(struct program *p, uint64_t pc, size_t frame, const char *what, uint64_t told, uint64_t is)
{
	if (++p->wrong <= 5)
		diag("at %#llx, frame %zu: %s %#llx, it is %#llx", (unsigned long long)pc, frame, what, (unsigned long long)told, (unsigned long long)is);
}

static void note(struct program *p, struct called *called, const struct libunwind_registers *told, uint64_t pc, size_t frame)
{
	for (unsigned reg = 0; reg < LIBUNWIND_PC; reg++) {
		uint32_t bit = 1u << reg;
		if ((told->known & bit) == 0)
			continue;
		if ((called->told.known & bit) != 0 && called->told.value[reg] != told->value[reg])
			wrong(p, pc, frame, "another register than before", told->value[reg], called->told.value[reg]);
		called->told.known |= bit;
		called->told.value[reg] = told->value[reg];
	}
}

static struct libunwind_registers registers_of(const struct user_regs_struct *r)
{
	return (struct libunwind_registers){
		.value = { r->rax, r->rdx, r->rcx, r->rbx, r->rsi, r->rdi, r->rbp, r->rsp, r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip },
		.known = (1u << LIBUNWIND_REGISTERS) - 1,
	};
}

// Who called, from the leaf on, as far as that is told.
static void ask(struct program *p, struct truth *truth, const struct user_regs_struct *regs)
{
	const struct forward_scene scene = {
		.code = code_at, .word = word_at, .is_caller = is_caller, .may_leave = may_leave, .keeps_sp = keeps_sp, .context = p, .stack_start = regs->rsp - 65536,
		.stack_end = regs->rsp + (1 << 20),
	};
	struct forward_start start = { .registers = registers_of(regs), .flags = (uint32_t)regs->eflags, .flags_known = 0x8c5 };
	struct libunwind_registers told;

	for (size_t i = 0; i < truth->count; i++) {
		struct called *called = &truth->frames[truth->count - 1 - i];
		p->asked += i == 0;
		if (!forward_caller(p->forward, &scene, &start, &told))
			break;
		p->told += i == 0;
		p->deep += i > 0;
		if (told.value[LIBUNWIND_PC] != called->ra) {
			wrong(p, regs->rip, i, "the caller", told.value[LIBUNWIND_PC], called->ra);
			break;
		}
		note(p, called, &told, regs->rip, i);
		start = (struct forward_start){ .registers = told, .is_return = true };
	}
}

static void check_returned(struct program *p, const struct called *called, const struct user_regs_struct *regs)
{
	const struct libunwind_registers is = registers_of(regs);

	for (unsigned reg = 0; reg < LIBUNWIND_PC; reg++)
		if ((called->told.known >> reg & 1) != 0 && called->told.value[reg] != is.value[reg])
			wrong(p, called->ra, reg, "behind the call a register", called->told.value[reg], is.value[reg]);
}

static size_t peek(pid_t pid, uint64_t addr, void *out, size_t size)
{
	struct iovec to = { out, size }, from = { (void *)(uintptr_t)addr, size };

	ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);
	return got > 0 ? (size_t)got : 0;
}

// What the instruction before made of the frames.
static void follow(struct program *p, struct truth *truth, pid_t pid, const struct user_regs_struct *before, const struct user_regs_struct *after)
{
	uint8_t code[2] = { 0 };
	uint64_t top = 0;

	peek(pid, before->rip, code, sizeof(code));
	peek(pid, after->rsp, &top, sizeof(top));
	bool is_call = after->rsp == before->rsp - 8 && top - before->rip - 1 < 8 && after->rip != top && truth->count < FRAMES;
	if (is_call && (code[0] == 0xe8 || code[0] == 0xff || code[1] == 0xff)) {
		truth->frames[truth->count++] = (struct called){ .ra = top };
	} else if ((code[0] == 0xc3 || code[0] == 0xc2) && truth->count > 0 && truth->frames[truth->count - 1].ra == after->rip) {
		truth->count--;
		check_returned(p, &truth->frames[truth->count], after);
	}
}

static bool run(struct program *p, const char *path)
{
	struct user_regs_struct before, after;
	struct truth *truth = NEW(struct truth);
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execl(path, path, NULL);
		_exit(127);
	}
	bool is_there = pid > 0 && waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && ptrace(PTRACE_GETREGS, pid, NULL, &before) == 0;
	for (unsigned steps = 0; is_there && steps < STEPS; steps++) {
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGTRAP ||
		    ptrace(PTRACE_GETREGS, pid, NULL, &after) != 0)
			break;
		follow(p, truth, pid, &before, &after);
		p->sp = after.rsp;
		p->copied = peek(pid, after.rsp, p->copy, sizeof(p->copy));
		ask(p, truth, &after);
		before = after;
	}
	if (is_there && WIFSTOPPED(status)) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	free(truth);
	return is_there && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void check(struct program *p, const char *name, bool is_c, bool has_names, unsigned percent, const char *what)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	p->module = (struct symbol_module){ .wanted = { .path = path, .map_fd = -1 }, .options = &p->options, .is_open = true };
	p->is_c = is_c;
	p->has_names = has_names;
	p->asked = p->told = p->deep = p->wrong = 0;
	if (!image_open_path(&p->file, path, NULL)) {
		ok(false, "%s: it opens", what);
		return;
	}
	p->module.image = p->file;
	ok(elf_symbols_open(&p->module, &p->symbols) && run(p, path), "%s: it runs", what);
	ok(p->wrong == 0 && p->told * 100 >= p->asked * percent, "%s: of %lu instructions %lu tell the caller, and %lu further ones; wrong %lu", what, p->asked, p->told, p->deep, p->wrong);
	elf_symbols_release(p->symbols);
	image_release(p->file);
}

// ---------------------------------------------------------------- jumps from function to function
enum { THROWS = 0x1000, HANDLES = 0x2000, JUMP_SP = 0x8000, JUMP_RA = 0x3000, RCX = 2 };
static const uint8_t throws[] = { 0xff, 0xe1 }; // jmp *%rcx
static const uint8_t handles[] = { 0x90, 0x90, 0x90, 0x90, 0xc3 };

static bool code_of_two(void *is_c, uint64_t addr, struct forward_code *out)
{
	if (addr - THROWS < sizeof(throws))
		*out = (struct forward_code){ .key = 1, .addr = THROWS, .bytes = throws, .size = sizeof(throws) };
	else if (addr - HANDLES < sizeof(handles))
		*out = (struct forward_code){ .key = 2, .addr = HANDLES, .bytes = handles, .size = sizeof(handles) };
	else
		return false;
	out->is_c = *(bool *)is_c;
	out->is_function = out->is_steady = true;
	return true;
}

static bool jump_word(void *context, uint64_t addr, uint64_t *out)
{
	(void)context;
	*out = JUMP_RA;
	return addr == JUMP_SP;
}

static bool is_any_caller(void *context, uint64_t ra, uint64_t pc, bool is_strict)
{
	(void)context, (void)pc, (void)is_strict;
	return ra == JUMP_RA;
}

static bool leaves_always(void *context, uint64_t addr, bool is_to_function)
{
	(void)context, (void)addr, (void)is_to_function;
	return true;
}

static bool tells_of_jump(struct forward *forward, bool is_c, uint64_t to)
{
	const struct forward_scene scene = { .code = code_of_two, .word = jump_word, .is_caller = is_any_caller, .may_leave = leaves_always, .context = &is_c,
	                                     .stack_start = JUMP_SP, .stack_end = JUMP_SP + 8 };
	struct forward_start start = { .registers.known = 1u << RSP | 1u << RCX | 1u << LIBUNWIND_PC };
	struct libunwind_registers caller = { 0 };

	start.registers.value[RSP] = JUMP_SP;
	start.registers.value[RCX] = to;
	start.registers.value[LIBUNWIND_PC] = THROWS;
	return forward_caller(forward, &scene, &start, &caller) && caller.value[LIBUNWIND_PC] == JUMP_RA;
}

static void check_jumps(struct forward *forward)
{
	ok(tells_of_jump(forward, true, HANDLES), "a jump to a function's beginning: it returns to the caller");
	ok(!tells_of_jump(forward, true, HANDLES + 2), "C's code that jumps into the middle of a function has thrown: that one is the caller, and nothing is told");
	ok(tells_of_jump(forward, false, HANDLES + 2), "other code may go on there");
}

int main(void)
{
	struct err err = { 0 };
	struct program *p = NEW(struct program);

	scratch_make();
	scratch_write("shapes.s", shapes);
	scratch_write("conforming.s", conforming);
	scratch_write("compiled.c", compiled);
	if (!code_new(&p->code, &err) || !forward_new(&p->forward, &err)) {
		skip(err.text, "code run on");
	} else if (!shell("test $(uname -m) = x86_64 && gcc -nostdlib -static -Wl,-z,noseparate-code -o shapes shapes.s 2>err && "
	                  "gcc -nostdlib -static -Wl,-z,noseparate-code -o conforming conforming.s 2>err && "
	                  "gcc -O2 -fno-stack-protector -fno-asynchronous-unwind-tables -fcf-protection=none -nostdlib -static -o compiled compiled.c 2>err && "
	                  "gcc -O1 -fno-stack-protector -fno-omit-frame-pointer -fno-asynchronous-unwind-tables -fcf-protection=none -nostdlib -static -o framed compiled.c 2>err")) {
		skip("no compiler for it", "code run on");
	} else {
		check(p, "shapes", false, true, 70, "hand-written code, by its functions");
		check(p, "shapes", false, false, 40, "the same code without functions");
		check(p, "conforming", true, true, 60, "hand-written code by C's rules");
		check(p, "conforming", true, false, 20, "the same code without functions");
		check(p, "compiled", true, true, 80, "compiled code");
		check(p, "framed", true, true, 80, "compiled code with frame pointers");
		check(p, "framed", true, false, 30, "the same code without functions");
	}
	if (p->forward != NULL)
		check_jumps(p->forward);
	forward_free(p->forward);
	code_free(p->code);
	free(p);
	return tap_done();
}
