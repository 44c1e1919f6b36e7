// The walk on live stacks of this process: single-stepped through libc, glibc's own unwinder beside it.
#include "unwind/unwind.h"

#include "tests/tap.h"

#if defined(__x86_64__)
#include "tests/live_stack.h"

// ---------------------------------------------------------------- single steps

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

static void exercise_qsort(void)
{
	int values[40];
	for (int i = 0; i < 40; i++)
		values[i] = (i * 7919) % 101;
	start_stepping();
	qsort(values, 40, sizeof(int), compare_ints);
	stop_stepping();
}

static void exercise_format(void)
{
	char text[200];
	start_stepping();
	snprintf(text, sizeof(text), "%.17g %s %08x %ls", 3.25e-7, "text", 0xbeefu, L"wide");
	volatile double back = strtod(text, NULL);
	(void)back;
	stop_stepping();
}

// The first call of each goes through the PLT and the dynamic linker where binding is lazy.
static void exercise_plt(void)
{
	start_stepping();
	volatile long a = labs(-3), b = atol("12345");
	(void)a, (void)b;
	char *copy = strdup("allocated");
	free(copy);
	stop_stepping();
}

static void exercise_vdso(void)
{
	struct timespec now;
	start_stepping();
	clock_gettime(CLOCK_MONOTONIC, &now);
	stop_stepping();
}

static volatile uint64_t sink;

static __attribute__((noinline)) void realigned(int depth)
{
	__attribute__((aligned(64))) volatile uint64_t block[8]; // the CFA comes from an expression here
	block[depth & 7] = (uint64_t)depth;
	if (depth > 0)
		realigned(depth - 1);
	sink += block[depth & 7];
}

static __attribute__((noinline)) void with_alloca(int depth)
{
	volatile char *block = __builtin_alloca((size_t)(depth * 24 + 8));
	block[0] = 1;
	if (depth > 0)
		with_alloca(depth - 1);
	sink += (uint64_t)block[0];
}

static void exercise_frames(void)
{
	start_stepping();
	realigned(4);
	with_alloca(4);
	stop_stepping();
}

// ---------------------------------------------------------------- signal frames, threads, copies that are too small

static void on_nested(int number)
{
	ucontext_t here;
	(void)number;
	getcontext(&here);
	snap(&snapshot, &here, MAX_STACK);
}

static void test_signal_frame(void)
{
	signal(SIGUSR1, on_nested);
	raise(SIGUSR1);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	if (!ok(stack.end == UNWIND_ROOT && stack.count > 5, "through a signal frame to the root: %zu frames", stack.count))
		print_stack();
	ok(has_kind(FRAME_INTERRUPTED), "the interrupted frame is marked");
	size_t at = 0;
	while (at < stack.count && frames[at].kind != FRAME_INTERRUPTED)
		at++;
	ok(at + 1 < stack.count && frames[at + 1].via == VIA_SIGNAL && frames[at + 1].kind == FRAME_INTERRUPTED &&
	   frame_lookup_addr(&frames[at + 1]) == frames[at + 1].addr, "and looked up at its own address");
	ok(at < stack.count && frame_lookup_addr(&frames[at]) == frames[at].addr, "so is the trampoline: nothing called it");
	ok(at + 2 < stack.count && frame_lookup_addr(&frames[at + 2]) == frames[at + 2].addr - 1, "a return address is looked up one before");
}

static void *in_thread(void *arg)
{
	pthread_attr_t attr;
	void *base;
	size_t size;
	uint64_t before = stack_top;
	ucontext_t here;

	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &base, &size);
	pthread_attr_destroy(&attr);
	stack_top = (uint64_t)base + size;
	getcontext(&here);
	snap(&snapshot, &here, MAX_STACK);
	stack_top = before;
	return arg;
}

static void test_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, NULL);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	if (!ok(stack.end == UNWIND_ROOT && stack.count >= 3, "a thread's stack ends in clone: %zu frames", stack.count))
		print_stack();
	ok(stack.last_cfa > snapshot.regs[7] && stack.last_cfa <= snapshot.regs[7] + snapshot.size, "where its stack begins is told");
}

static void on_alternate(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info, (void)context;
	ucontext_t here;
	uint64_t before = stack_top;
	stack_t now;
	sigaltstack(NULL, &now);
	stack_top = (uint64_t)now.ss_sp + now.ss_size;
	getcontext(&here);
	snap(&snapshot, &here, MAX_STACK);
	stack_top = before;
}

static void test_alternate_stack(void)
{
	stack_t alternate = { .ss_sp = mem_alloc(1 << 16), .ss_size = 1 << 16 };
	struct sigaction action = { .sa_sigaction = on_alternate, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR2, &action, NULL);
	raise(SIGUSR2);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	ok(has_kind(FRAME_INTERRUPTED) && stack.end == UNWIND_OTHER_STACK,
	   "a handler on a stack of its own: the interrupted frame is found, and that the rest is on another stack (%s)", unwind_end_name(stack.end));
	stack_t off = { .ss_flags = SS_DISABLE };
	sigaltstack(&off, NULL);
	free(alternate.ss_sp);
}

static __attribute__((noinline)) int deep(int depth)
{
	if (depth == 0) {
		static ucontext_t here; // kept out of every level's frame
		getcontext(&here);
		snap(&snapshot, &here, MAX_STACK);
		return 1;
	}
	int below = deep(depth - 1);
	sink += (uint64_t)below;
	return below + 1;
}

static void test_truncated(void)
{
	deep(60);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	size_t whole = stack.count;
	struct frame *reference = mem_copy(frames, whole * sizeof(*frames));
	size_t half = (stack.last_cfa - snapshot.regs[7]) / 2 & ~(size_t)7;
	ok(stack.end == UNWIND_ROOT && whole > 60, "a recursion of 60: %zu frames", whole);

	unsigned wrong_end = 0, wrong_frames = 0, shorter = 0;
	for (size_t size = 8; size < snapshot.size; size += 8) {
		input.stack_size = size;
		unwind_stack(unwinder, &input, &stack);
		if (stack.count == whole && stack.end == UNWIND_ROOT)
			continue; // past the root's frame nothing is needed
		shorter++;
		wrong_end += stack.end != UNWIND_TRUNCATED;
		wrong_frames += memcmp(frames, reference, stack.count * sizeof(*frames)) != 0;
	}
	ok(shorter > 100 && wrong_end == 0 && wrong_frames == 0, "%u shorter copies: a prefix of the frames, truncated", shorter);

	// The same where more was to be copied than there is: a page was not in memory.
	wrong_end = 0;
	for (size_t size = 8; size < half; size += 8) {
		input.stack_size = size;
		input.stack_asked = snapshot.size;
		unwind_stack(unwinder, &input, &stack);
		wrong_end += stack.end != UNWIND_ABSENT_PAGE;
		input.stack_asked = size;
		unwind_stack(unwinder, &input, &stack);
		wrong_end += stack.end != UNWIND_TRUNCATED;
	}
	is_u64(wrong_end, 0, "copies that stopped before all was copied: absent_page, not truncated");
	input.stack_asked = snapshot.size;

	input.stack_size = half;
	input.stack_top = snapshot.regs[7] + half;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.end == UNWIND_BAD_READ, "past the stack's known top it is no truncation: %s", unwind_end_name(stack.end));
	input.stack_top = 0;
	input.stack_size = snapshot.size;

	// Fewer than there are frames: the leaf's half, and the root's half but one, which the mark takes in a file.
	struct frame few[40];
	unsigned wrong = 0;
	memset(few, 0, sizeof(few)); // and padding
	for (size_t capacity = 4; capacity <= 40; capacity++) {
		struct unwind_stack small = { .frames = few, .capacity = capacity };
		unwind_stack(unwinder, &input, &small);
		size_t leaf = (capacity + 1) / 2, root = capacity - 1 - leaf;
		wrong += small.end != UNWIND_DEPTH_LIMIT || small.gap != leaf || small.count != leaf + root ||
		         memcmp(few, reference, leaf * sizeof(*few)) != 0 || memcmp(few + leaf, reference + whole - root, root * sizeof(*few)) != 0;
	}
	ok(wrong == 0, "buffers of 4 to 40: the leaf's half and the root's, depth_limit (%u are wrong)", wrong);
	struct frame *enough = mem_zero(whole + 1, sizeof(*enough));
	struct unwind_stack all = { .frames = enough, .capacity = whole + 1 };
	unwind_stack(unwinder, &input, &all);
	ok(all.count == whole && all.gap == 0 && all.end == UNWIND_ROOT, "as many as fit are no gap");
	all.capacity = 0;
	unwind_stack(unwinder, &input, &all);
	ok(all.count == 0 && all.end == UNWIND_DEPTH_LIMIT, "a buffer of none");
	for (size_t capacity = 1; capacity <= 3; capacity++) {
		all.capacity = capacity;
		unwind_stack(unwinder, &input, &all);
		ok(all.count == (capacity == 3 ? 2 : capacity) && all.end == UNWIND_DEPTH_LIMIT, "a buffer of %zu", capacity);
	}
	free(enough);
	free(reference);
}

static void test_inputs(void)
{
	deep(3);
	struct unwind_input input = input_of(&snapshot, &maps);
	input.stack_size = 0;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.count == 1 && stack.end == UNWIND_NO_REGISTERS, "no stack: the leaf alone");
	input.regs_mask = 0xff;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.count == 0 && stack.end == UNWIND_NO_REGISTERS, "no pc");
	input = input_of(&snapshot, &maps);
	input.machine = 8;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.count == 0 && stack.end == UNWIND_UNSUPPORTED, "a machine of no table");
	input = input_of(&snapshot, &maps);
	uint64_t pc = snapshot.regs[8];
	snapshot.regs[8] = 0x1234;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.count == 1 && stack.end == UNWIND_NO_MAPPING, "a pc in no mapping");
	snapshot.regs[8] = pc;

	for (size_t i = 0; i < maps.count; i++) { // as if the file of the leaf's image could not be opened, or not yet
		if (pc < maps.map[i].start || pc >= maps.map[i].end)
			continue;
		struct unwind_image *image = maps.map[i].image;
		for (int way = 0; way < 3; way++) {
			static const enum unwind_end reasons[] = { UNWIND_NO_IMAGE, UNWIND_DEFERRED, UNWIND_UPROBE_TRAMPOLINE };
			maps.map[i].image = NULL;
			maps.map[i].missing = reasons[way];
			input.generation = 100;
			unwind_stack(unwinder, &input, &stack);
			ok(stack.count == 1 && stack.end == reasons[way], "%s", unwind_end_name(reasons[way]));
		}
		maps.map[i].image = image;
		unwind_stack(unwinder, &input, &stack);
		ok(stack.end == UNWIND_ROOT, "the same generation again, now it is there");
	}
}

static void test_cache(void)
{
	deep(30);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	struct unwind_counters before = unwinder_counters(unwinder);
	unsigned calls = maps.calls;
	unwind_stack(unwinder, &input, &stack);
	struct unwind_counters after = unwinder_counters(unwinder);
	is_u64(after.cache_misses - before.cache_misses, 0, "the second walk misses nothing");
	is_u64(after.cache_hits - before.cache_hits, stack.count, "one look-up a frame");
	is_u64(maps.calls - calls, 0, "and asks for no mapping");
	input.generation = 77;
	unwind_stack(unwinder, &input, &stack);
	ok(maps.calls > calls, "another generation does");
	is_u64(unwinder_counters(unwinder).cache_misses - before.cache_misses, 0, "rules are relative to the image: none is lost");
	struct unwinder *other = unwinder_new();
	unwind_stack(other, &input, &stack);
	ok(stack.end == UNWIND_ROOT && unwinder_counters(other).cache_misses > 0, "another unwinder starts with an empty cache");
	unwinder_free(other);
	input.generation = 78;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.end == UNWIND_ROOT, "the first one goes on");
}

static void test_noise(void)
{
	unsigned ends[UNWIND_END_COUNT] = { 0 };
	uint64_t seed = 42;
	size_t longest = 0;

	deep(50);
	struct unwind_input input = input_of(&snapshot, &maps);
	for (int round = 0; round < 20000; round++) {
		if (round % 4 == 0)
			deep(50);
		for (int i = 0; i < 3; i++) { // words of the copy become noise, addresses of code, or pointers into the stack
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			uint64_t at = (seed >> 33) % (snapshot.size / 8), word = seed;
			const struct map *m = &maps.map[(seed >> 20) % maps.count];
			if (round % 3 == 0)
				word = m->start + (seed >> 13) % (m->end - m->start);
			else if (round % 3 == 1)
				word = snapshot.regs[7] + (seed >> 40) % snapshot.size / 8 * 8;
			memcpy(snapshot.stack + at * 8, &word, 8);
		}
		if (round % 5 == 0)
			snapshot.regs[8] = maps.map[round % maps.count].start + (seed >> 30) % 4096;
		unwind_stack(unwinder, &input, &stack);
		ends[stack.end]++;
		longest = stack.count > longest ? stack.count : longest;
	}
	ok(ends[UNWIND_DEFERRED] == 0 && longest <= UNWIND_MAX_FRAMES, "20,000 stacks of noise: longest %zu", longest);
	for (int i = 0; i < UNWIND_END_COUNT; i++)
		if (ends[i] > 0)
			diag("%s: %u", unwind_end_name(i), ends[i]);
}

static void test_names(void)
{
	struct unwind_regs regs;

	ok(unwind_regs_for(62, &regs) && regs.pc == 8 && regs.sp == 7 && regs.mask == REGS_MASK, "x86-64's registers");
	ok(unwind_regs_for(183, &regs) && regs.pc == 32 && regs.sp == 31, "aarch64's");
	ok(unwind_regs_for(3, &regs) && regs.pc == 8, "i386's");
	ok(!unwind_regs_for(8, &regs), "none for others");
	is_str(unwind_end_name(UNWIND_TRUNCATED), "truncated", "a reason's name");
	is_str(unwind_end_name(99), "unknown", "a number of no reason");
}

int main(void)
{
	live_start();
	test_names();
	test_steps("frames", exercise_frames);
	test_steps("qsort", exercise_qsort);
	test_steps("printf, strtod", exercise_format);
	test_steps("PLT and malloc", exercise_plt);
	test_steps("vdso", exercise_vdso);
	test_signal_frame();
	test_thread();
	test_alternate_stack();
	test_truncated();
	test_inputs();
	test_cache();
	test_noise();
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
