// From one stack of a thread of Go's to another: wherever its runtime changes stacks, with what it keeps, without it, and with what contradicts it. And how that is
// found in a thread's memory.
#include <sys/syscall.h>
#include <unistd.h>

#include "record/go_threads.h"
#include "tests/go_program.h"
#include "tests/scratch.h"
#include "unwind/unwind.h"

enum { WORDS = 64, CODE_PC = 0x18 }; // in plain's frame
// Where the stacks are; the goroutine's g.
static const uint64_t SYSTEM = 0x7ffff7000000, GOROUTINE = 0xc000010000, SIGNAL = 0xc000080000, G = 0xc000002000;

static struct unwind_image *program;
static struct unwinder *unwinder;
static struct stack_memory {
	uint64_t words[WORDS];
	uint64_t start;
} goroutine, thread_own, signals;
static struct frame frames[32];
static struct unwind_stack stack;
static struct unwind_other other;
static uint64_t regs[24];

static struct unwind_map map_at(void *context, uint64_t addr)
{
	(void)context;
	if (addr < GO_TEXT || addr >= GO_TEXT + GO_TEXT_BYTES)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	return (struct unwind_map){ .start = GO_TEXT, .end = GO_TEXT + GO_TEXT_BYTES, .image = program };
}

static void forget(void)
{
	goroutine = (struct stack_memory){ .start = GOROUTINE };
	thread_own = (struct stack_memory){ .start = SYSTEM };
	signals = (struct stack_memory){ .start = SIGNAL };
	memset(regs, 0, sizeof(regs));
	other = (struct unwind_other){ .g = G, .low = GOROUTINE, .high = GOROUTINE + 8 * WORDS };
	other.parts[0] = (struct unwind_other_part){ (const uint8_t *)goroutine.words, GOROUTINE, sizeof(goroutine.words) };
	other.parts[1] = (struct unwind_other_part){ (const uint8_t *)thread_own.words, SYSTEM, sizeof(thread_own.words) };
}

// A sample at `pc` on one of the stacks, from one of its words on.
static void walk(const struct stack_memory *on, size_t word, uint32_t pc, const struct unwind_other *with)
{
	enum { SP = 7, PC = 8 };
	const struct unwind_input input = {
		.machine = EM_X86_64, .regs = regs, .regs_mask = 0xffffff, .stack = (const uint8_t *)&on->words[word], .stack_size = 8 * (WORDS - word),
		.generation = 1, .map = map_at, .other = with,
	};

	regs[SP] = on->start + 8 * word;
	regs[PC] = GO_TEXT + pc;
	stack = (struct unwind_stack){ .frames = frames, .capacity = 32 };
	unwind_stack(unwinder, &input, &stack);
}

// plain, which was called from where a goroutine begins, has called something: what it has of the stack, from the word with that call's return address on.
static void put_plain(struct stack_memory *on, size_t word, enum go_return returns)
{
	on->words[word] = GO_TEXT + returns;
	on->words[word + 1 + 24 / 8] = GO_TEXT + GO_IN_GOEXIT;
}

static bool is_stack(enum unwind_end end, size_t count, const uint32_t *wanted)
{
	bool good = stack.end == end && stack.count == count;

	for (size_t i = 0; i < count && good; i++)
		good = frames[i].addr == GO_TEXT + wanted[i];
	for (size_t i = 0; i < stack.count && !good; i++)
		diag("%#llx by %s", (unsigned long long)(frames[i].addr - GO_TEXT), frame_via_name(frames[i].via));
	if (!good)
		diag("%s", unwind_end_name(stack.end));
	return good;
}
#define is_walk(end, name, ...) do { const uint32_t wanted_[] = { __VA_ARGS__ }; ok(is_stack(end, sizeof(wanted_) / sizeof(wanted_[0]), wanted_), name); } while (0)

static void test_systemstack(void)
{
	forget();
	put_plain(&thread_own, 8, 0); // the callee, on the thread's own stack
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_SYSTEMSTACK;
	put_plain(&goroutine, 20, GO_AFTER_SYSTEMSTACK);
	other.sp = GOROUTINE + 8 * 20;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "systemstack: on to the goroutine that called it", CODE_PC, GO_IN_SYSTEMSTACK, GO_AFTER_SYSTEMSTACK, GO_IN_GOEXIT);
	ok(stack.switches == 1 && frames[2].via == VIA_SWITCHED && frames[3].via == VIA_CFI && stack.last_cfa == 0, "how that was found is marked");
	walk(&thread_own, 8, CODE_PC, NULL);
	is_walk(UNWIND_OTHER_STACK, "where nothing was read, that is the reason", CODE_PC, GO_IN_SYSTEMSTACK);
	ok(stack.lacks_goroutine && stack.lacks_g == 0, "it is one of Go's");
	walk(&goroutine, 20, 0x44, NULL);
	is_walk(UNWIND_ROOT, "in systemstack, before it has left the stack", 0x44, GO_AFTER_SYSTEMSTACK, GO_IN_GOEXIT);
	walk(&thread_own, 20, 0x4c, &other);
	is_walk(UNWIND_ROOT, "and when it has", 0x4c, GO_AFTER_SYSTEMSTACK, GO_IN_GOEXIT);
	walk(&thread_own, 20, 0x4c, NULL);
	is_walk(UNWIND_OTHER_STACK, "which no one may take for the other", 0x4c);
	goroutine.words[20] = GO_TEXT + GO_AFTER_ASMCGOCALL;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_OTHER_STACK, "a place that no call of systemstack left is none", CODE_PC, GO_IN_SYSTEMSTACK);
	other.sp = GOROUTINE + 8 * WORDS;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_OTHER_STACK, "nor one beyond what was read", CODE_PC, GO_IN_SYSTEMSTACK);
	put_plain(&goroutine, 20, GO_AFTER_SYSTEMSTACK);
	other.sp = GOROUTINE + 8 * 20;
	other.parts[0].size = 8 * 22;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_TRUNCATED, "a goroutine's stack that is deeper than what was read is truncated", CODE_PC, GO_IN_SYSTEMSTACK, GO_AFTER_SYSTEMSTACK);
}

static void test_morestack(void)
{
	forget();
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_MORESTACK;
	goroutine.words[20] = GO_TEXT + GO_IN_GOEXIT;
	other.sp = GOROUTINE + 8 * 20;
	other.pc = GO_TEXT + GO_AFTER_MORESTACK;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "morestack: the function that ran out of stack, and its caller", CODE_PC, GO_IN_MORESTACK, GO_AFTER_MORESTACK, GO_IN_GOEXIT);
	other.pc = GO_TEXT + GO_AFTER_MCALL;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_OTHER_STACK, "one that called something else is none", CODE_PC, GO_IN_MORESTACK);
	other.g = 0;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "a goroutine that has given way is no longer the thread's", CODE_PC, GO_IN_MORESTACK);
}

static void test_mcall(void)
{
	forget();
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_MCALL;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "mcall: what runs, runs for the scheduler", CODE_PC, GO_IN_MCALL);
	goroutine.words[20] = GO_TEXT + GO_AFTER_MCALL;
	goroutine.words[21] = GO_TEXT + GO_IN_GOEXIT;
	walk(&goroutine, 20, 0x62, NULL);
	is_walk(UNWIND_ROOT, "in mcall, before it has left the stack", 0x62, GO_AFTER_MCALL, GO_IN_GOEXIT);
	walk(&thread_own, 20, 0x68, NULL);
	is_walk(UNWIND_ROOT, "and when it has", 0x68);
}

// C code called by Go, from `word` on of the thread's own stack; the goroutine's is left at its word `at`.
static void put_c(size_t word, size_t at)
{
	thread_own.words[word + 40 / 8] = 8 * (WORDS - at); // how deep it is
	thread_own.words[word + 48 / 8] = G;
}

static void test_c(void)
{
	forget();
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_ASMCGOCALL;
	put_c(12, 20);
	put_plain(&goroutine, 20, GO_AFTER_ASMCGOCALL);
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "C code called by Go", CODE_PC, GO_IN_ASMCGOCALL, GO_AFTER_ASMCGOCALL, GO_IN_GOEXIT);
	walk(&thread_own, 8, CODE_PC, NULL);
	is_walk(UNWIND_OTHER_STACK, "where nothing was read", CODE_PC, GO_IN_ASMCGOCALL);
	is_u64(stack.lacks_g, G, "its stack tells the goroutine");
	other.g += 8;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_OTHER_STACK, "another goroutine's is not believed", CODE_PC, GO_IN_ASMCGOCALL);
	thread_own.words[12 + 48 / 8] = 0;
	thread_own.words[12 + 40 / 8] = SYSTEM + 8 * 30;
	put_plain(&thread_own, 30, GO_AFTER_ASMCGOCALL);
	walk(&thread_own, 8, CODE_PC, NULL);
	is_walk(UNWIND_ROOT, "called on the thread's own stack already", CODE_PC, GO_IN_ASMCGOCALL, GO_AFTER_ASMCGOCALL, GO_IN_GOEXIT);
	ok(stack.switches == 0, "which is no other");
	// Called on a stack that it leads back to, for ever.
	thread_own.words[30 + 1 + 24 / 8] = GO_TEXT + GO_IN_ASMCGOCALL;
	thread_own.words[35 + 48 / 8] = 0;
	thread_own.words[35 + 40 / 8] = SYSTEM + 8 * 30;
	walk(&thread_own, 8, CODE_PC, NULL);
	ok(stack.end != UNWIND_ROOT, "a stack that leads back to itself ends: %s", unwind_end_name(stack.end));
}

static void test_callback(void)
{
	forget();
	// Go that was called by C, on the goroutine's stack; C, on the thread's own; Go that called C.
	goroutine.words[4 + 3] = GO_TEXT + GO_IN_CGOCALLBACK;
	thread_own.words[10] = GO_TEXT + GO_AFTER_CGOCALLBACK;
	thread_own.words[11] = GO_TEXT + GO_IN_ASMCGOCALL;
	put_c(12, 20);
	put_plain(&goroutine, 20, GO_AFTER_ASMCGOCALL);
	other.system_sp = SYSTEM + 8 * 10;
	walk(&goroutine, 4, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "Go called by C called by Go", CODE_PC, GO_IN_CGOCALLBACK, GO_AFTER_CGOCALLBACK, GO_IN_ASMCGOCALL, GO_AFTER_ASMCGOCALL, GO_IN_GOEXIT);
	ok(stack.switches == 2, "there and back");
	walk(&goroutine, 4, CODE_PC, NULL);
	is_walk(UNWIND_OTHER_STACK, "where nothing was read, what C has called is not joined to what called C", CODE_PC, GO_IN_CGOCALLBACK);
	ok(stack.lacks_system, "the thread's own stack is what it takes");
	// A ring of stacks that lead to each other ends.
	goroutine.words[20 + 4] = GO_TEXT + GO_IN_CGOCALLBACK;
	thread_own.words[10] = GO_TEXT + GO_AFTER_CGOCALLBACK;
	walk(&goroutine, 4, CODE_PC, &other);
	ok(stack.end != UNWIND_ROOT && stack.count < 32, "stacks that lead to each other end: %s", unwind_end_name(stack.end));
}

static void test_vdso(void)
{
	enum { R12 = 20, RBX = 1 };

	forget();
	put_plain(&goroutine, 20, GO_AFTER_NANOTIME);
	regs[R12] = GOROUTINE + 8 * 20;
	walk(&thread_own, 8, 0xaa, &other);
	is_walk(UNWIND_ROOT, "the stack pointer is in the register that the code keeps it in", 0xaa, GO_AFTER_NANOTIME, GO_IN_GOEXIT);
	regs[RBX] = regs[R12];
	regs[R12] = 0;
	walk(&thread_own, 8, 0xaa, &other);
	is_walk(UNWIND_OTHER_STACK, "in no other", 0xaa);
}

static void test_signal(void)
{
	enum { FRAME_PC = 168, FRAME_SP = 160 };

	forget();
	signals.words[8 + 3] = GO_TEXT + 0xd0; // sigreturn, which nothing calls
	signals.words[12 + FRAME_PC / 8] = GO_TEXT + CODE_PC;
	signals.words[12 + FRAME_SP / 8] = GOROUTINE + 8 * 21;
	put_plain(&goroutine, 20, 0);
	other.parts[1].size = 0;
	goroutine.words[21 + 3] = GO_TEXT + GO_IN_GOEXIT;
	walk(&signals, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "a handler on a stack of its own: what it interrupted is read too", CODE_PC, 0xd0, CODE_PC, GO_IN_GOEXIT);
	walk(&signals, 8, CODE_PC, NULL);
	is_walk(UNWIND_OTHER_STACK, "where it was not", CODE_PC, 0xd0, CODE_PC);
	ok(!stack.lacks_goroutine, "which a handler of C's has, too");
}

// A goroutine that is made to give way in the middle of a function: as if it had called asyncPreempt there.
static void test_preempted(void)
{
	forget();
	goroutine.words[20] = GO_TEXT + 0x14; // right where plain has made its frame
	goroutine.words[21 + 3] = GO_TEXT + GO_IN_GOEXIT;
	walk(&goroutine, 20, 0xe4, NULL);
	is_walk(UNWIND_ROOT, "what asyncPreempt interrupted is looked up where it stands, not at a call before", 0xe4, 0x14, GO_IN_GOEXIT);
	ok(frames[1].kind == FRAME_INTERRUPTED, "it was interrupted");
}

// ---------------------------------------------------------------- a thread's memory

struct made_g {
	uint64_t low, high, guards[2], panics, defers, m, sp, pc, self, ctxt, ret, lr, bp;
};
static struct made_m {
	uint64_t words[32];
} m, stranger;
static struct made_g g0, current, handler;
static uint64_t own_stack[512], current_stack[512], handler_stack[512];

static void point(struct made_g *g, uint64_t *memory)
{
	*g = (struct made_g){ .low = (uintptr_t)memory, .high = (uintptr_t)(memory + 512), .m = (uintptr_t)&m };
}

static void make_thread(size_t less)
{
	point(&g0, own_stack);
	point(&current, current_stack);
	point(&handler, handler_stack);
	m = (struct made_m){ .words = { (uintptr_t)&g0 } };
	m.words[10 - less] = (uintptr_t)&handler;
	m.words[24 - less] = (uintptr_t)&current;
	current.sp = (uintptr_t)&current_stack[100];
	current.pc = 0x1234;
	g0.sp = (uintptr_t)&own_stack[300];
	if (less > 0)
		current.lr = 0x5678; // where Go 1.25 has bp
	else
		current.bp = 0x5678;
}

static uint8_t read_bytes[1 << 16];
static struct go_plan plan;

static enum go_found read_copied(struct go_threads *threads, const uint64_t *sp, const void *g, const uint64_t *copy)
{
	struct go_sample sample = { .tid = (int32_t)syscall(SYS_gettid), .sp = (uintptr_t)sp, .g = (uintptr_t)g, .copy = (const uint8_t *)copy, .copied = 64 };
	enum go_found found = go_threads_find(threads, &sample, &plan);

	return found == GO_OTHER && (plan.size > sizeof(read_bytes) || !go_threads_read(&sample, &plan, read_bytes)) ? GO_NOTHING : found;
}

static enum go_found read_thread(struct go_threads *threads, const uint64_t *sp, const void *g)
{
	return read_copied(threads, sp, g, sp);
}

static void test_threads(void)
{
	static struct go_threads threads;
	const struct unwind_other *got;

	for (size_t less = 0; less < 2; less++) {
		threads = (struct go_threads){ 0 };
		make_thread(less);
		bool good = read_thread(&threads, &own_stack[40], &g0) == GO_OTHER && (got = go_threads_open(read_bytes, plan.size)) != NULL;
		ok(good && got->g == (uintptr_t)&current && got->low == current.low && got->high == current.high && got->sp == current.sp && got->pc == current.pc &&
		   got->fp == 0x5678 && got->system_sp == g0.sp, "on its own stack: the goroutine, and where its stack was left (%s)", less > 0 ? "Go 1.25" : "Go 1.9 to 1.24");
		ok(good && got->parts[0].start == current.sp && got->parts[0].size == 412 * 8 && memcmp(got->parts[0].bytes, &current_stack[100], 412 * 8) == 0 &&
		   got->parts[1].size == 0, "its stack from there on");
		ok(read_thread(&threads, &current_stack[40], NULL) == GO_SAME && plan.top == current.high, "on the goroutine's: all is there; the m is known from before");
	}
	make_thread(0);
	go_threads_note(&threads, 77, (int32_t)syscall(SYS_gettid), 0, true);
	ok(go_threads_has(&threads, 77) && !go_threads_has(&threads, 78), "the process is one that needs it");
	ok(read_thread(&threads, &current_stack[40], NULL) == GO_OTHER && (got = go_threads_open(read_bytes, plan.size)) != NULL && got->parts[0].start == g0.sp &&
	   got->parts[0].size == 212 * 8, "C code calls Go: the thread's own stack");
	ok(read_thread(&threads, &handler_stack[40], NULL) == GO_OTHER && (got = go_threads_open(read_bytes, plan.size)) != NULL &&
	   got->parts[0].start == current.low && got->parts[1].start == g0.low, "in a signal's handler: both");
	ok(go_threads_open(read_bytes, plan.size - 8) == NULL && go_threads_open(read_bytes, 8) == NULL, "what is cut short is not opened");
	uint64_t copy[8] = { 1 };
	ok(read_thread(&threads, &own_stack[40], NULL) == GO_OTHER && read_copied(&threads, &own_stack[40], NULL, copy) == GO_NOTHING, "a stack that is another by now");
	uint64_t elsewhere[16] = { 0 };
	ok(read_thread(&threads, elsewhere, &g0) == GO_NOTHING, "a stack pointer on none of its stacks: not this thread's");

	threads = (struct go_threads){ 0 };
	ok(read_thread(&threads, &own_stack[40], own_stack) == GO_NOTHING, "a register that points elsewhere");
	current.m = (uintptr_t)&stranger;
	ok(read_thread(&threads, &own_stack[40], &g0) == GO_NOTHING, "a goroutine that another thread runs");
	make_thread(0);
	go_threads_note(&threads, 77, (int32_t)syscall(SYS_gettid), (uintptr_t)&current, false);
	ok(read_thread(&threads, &own_stack[40], own_stack) == GO_OTHER, "a goroutine that the stack told of, where the register is C's");
	m.words[24] = 0;
	ok(read_thread(&threads, &own_stack[40], NULL) == GO_OTHER && (got = go_threads_open(read_bytes, plan.size)) != NULL && got->g == 0, "a thread without a goroutine");
}

static void open_program(bool has_frames)
{
	const struct go_shape shape = { .version = GO_118, .is_64 = true, .machine = EM_X86_64, .has_frames = has_frames };
	struct buf file = { 0 };
	struct image *image;

	go_program(&file, &shape);
	if (!image_open_bytes(&image, file.data, file.size, false, "go", NULL))
		exit(1);
	unwind_image_new(&program, image, false, NULL);
	unwinder = unwinder_new();
	image_release(image);
	buf_release(&file);
}

static void close_program(void)
{
	unwinder_free(unwinder);
	unwind_image_free(program);
}

// From Go 1.21 on: a word more between the place that is kept and the return address.
static void test_frames(void)
{
	forget();
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_SYSTEMSTACK;
	put_plain(&goroutine, 20, GO_AFTER_SYSTEMSTACK);
	other.sp = GOROUTINE + 8 * 19;
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "systemstack with a frame of its own", CODE_PC, GO_IN_SYSTEMSTACK, GO_AFTER_SYSTEMSTACK, GO_IN_GOEXIT);
	thread_own.words[8 + 3] = GO_TEXT + GO_IN_ASMCGOCALL;
	put_c(12, 19);
	put_plain(&goroutine, 20, GO_AFTER_ASMCGOCALL);
	walk(&thread_own, 8, CODE_PC, &other);
	is_walk(UNWIND_ROOT, "asmcgocall with a frame of its own", CODE_PC, GO_IN_ASMCGOCALL, GO_AFTER_ASMCGOCALL, GO_IN_GOEXIT);
}

int main(void)
{
	open_program(false);
	test_systemstack();
	test_morestack();
	test_mcall();
	test_c();
	test_callback();
	test_vdso();
	test_signal();
	test_preempted();
	test_threads();
	close_program();
	open_program(true);
	test_frames();
	close_program();
	return tap_done();
}
