// Return addresses that a return probe has replaced: stacks of this process, single-stepped, with each return address in turn made the trampoline's. What is
// told of the callers must be what they were; where it is not told, that must be said.
#include "unwind/unwind.h"

#include "tests/tap.h"

#if defined(__x86_64__)
#include "tests/live_stack.h"

static const uint64_t TRAMPOLINE = UINT64_C(0x7fffffffe000);

static struct {
	unsigned replaced, inferred, left_out, ended, wrong, unsaid, shown;
} tally;

static size_t stack_word_of(uint64_t from, uint64_t word)
{
	for (size_t at = (from + 7) / 8 * 8; at + 8 <= snapshot.size; at += 8)
		if (memcmp(snapshot.stack + at, &word, 8) == 0)
			return at;
	return SIZE_MAX;
}

// Of the frames above the one that is replaced, those that are told are the last ones of what there were; all of them if nothing else is said.
static void judge(const struct frame *reference, size_t count, size_t replaced)
{
	bool is_inferred = stack.count > replaced && frames[replaced].via == VIA_CALL_SITE && frames[replaced].addr != TRAMPOLINE;
	size_t above = stack.count - replaced - 1, missing = count - replaced - 1;
	bool good = stack.count > replaced && frames[replaced].kind == FRAME_RETURN && above <= missing;
	for (size_t i = 0; good && i < replaced; i++)
		good = frames[i].addr == reference[i].addr;
	bool is_root = stack.end == UNWIND_ROOT;
	if (is_inferred) {
		for (size_t i = replaced; good && i < stack.count; i++)
			good = frames[i].addr == reference[i].addr;
		// Further up a register may be asked for that only the way from the leaf would tell.
		good = good && (stack.count == count) == is_root && (is_root || stack.end == UNWIND_UNSUPPORTED) && frame_via_is_guessed(VIA_CALL_SITE);
		tally.inferred += good && is_root;
		tally.ended += good && !is_root;
	} else {
		bool is_cut = stack.end == UNWIND_UNSUPPORTED; // as above
		tally.unsaid += (stack.end != UNWIND_UPROBE_TRAMPOLINE && !is_cut) || frames[replaced].addr != TRAMPOLINE;
		size_t first = count - above; // what stands above the gap
		while (good && is_cut && above > 0 && first > replaced && reference[first].addr != frames[replaced + 1].addr)
			first--;
		good = good && frames[replaced].addr == TRAMPOLINE && first > replaced;
		for (size_t i = 0; good && i < above; i++)
			good = frames[replaced + 1 + i].addr == reference[first + i].addr;
		tally.left_out += good && above > 0;
		tally.ended += good && above == 0;
	}
	if (!good) {
		tally.wrong++;
		if (tally.shown++ < 2) {
			diag("frame %zu, %#llx, replaced:", replaced, (unsigned long long)reference[replaced].addr);
			print_stack();
			for (size_t i = 0; i < count; i++)
				diag("  was %zu %#llx", i, (unsigned long long)reference[i].addr);
		}
	}
}

static void on_probed_step(int number, siginfo_t *info, void *context)
{
	static struct frame reference[MAX_CHAIN];
	ucontext_t *uc = context;
	size_t slot = 0;

	(void)number, (void)info;
	if (!stepping) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
		return;
	}
	steps++;
	snap(&snapshot, uc, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	size_t count = stack.count;
	if (stack.end != UNWIND_ROOT || count > MAX_CHAIN)
		return;
	memcpy(reference, frames, count * sizeof(*frames));
	for (size_t i = 1; i < count; i++) { // a signal's trampoline is no function's return address
		for (slot = stack_word_of(slot, reference[i].addr); slot != SIZE_MAX; slot = stack_word_of(slot + 8, reference[i].addr)) {
			memcpy(snapshot.stack + slot, &TRAMPOLINE, 8);
			unwind_stack(unwinder, &input, &stack);
			memcpy(snapshot.stack + slot, &reference[i].addr, 8);
			bool was_it = stack.count != count || stack.end != UNWIND_ROOT || frames[i].via == VIA_CALL_SITE || memcmp(frames, reference, count * sizeof(*frames)) != 0;
			if (!was_it)
				continue; // left there by a call long past
			tally.replaced++;
			judge(reference, count, i);
			break;
		}
		if (slot == SIZE_MAX)
			return;
		slot += 8;
	}
}

static void probed_steps(const char *what, void (*exercise)(void), double inferred_least)
{
	struct sigaction action = { .sa_sigaction = on_probed_step, .sa_flags = SA_SIGINFO };

	memset(&tally, 0, sizeof(tally));
	sigaction(SIGTRAP, &action, NULL);
	exercise();
	signal(SIGTRAP, SIG_DFL);
	diag("%s: %u replaced, %u told, %u with one left out, %u ended there", what, tally.replaced, tally.inferred, tally.left_out, tally.ended);
	is_u64(tally.unsaid, 0, "%s: what is not told is said", what);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	// Of 75,834 replaced addresses 986 were told wrong there: an interceptor had called another function, which jumped into the probed one.
	(void)inferred_least;
	skip("a sanitizer's interceptors jump into what they do not call", "%s: no caller is another than it was", what);
	skip("a sanitizer's interceptors jump into what they do not call", "%s: and most are told", what);
#else
	is_u64(tally.wrong, 0, "%s: no caller is another than it was", what);
	ok(tally.replaced > 200 && tally.inferred >= inferred_least * tally.replaced, "%s: and most are told", what);
#endif
	ok(tally.ended < 0.4 * tally.replaced, "%s: few stacks end there", what);
}

// ---------------------------------------------------------------- what is stepped through
static volatile uint64_t sink;
static uint64_t (*volatile pointer)(uint64_t);

static __attribute__((noinline, noclone)) uint64_t probed(uint64_t n)
{
	for (uint64_t i = 0; i < 3; i++)
		sink += n * i;
	return sink + n;
}

static __attribute__((noinline, noclone)) uint64_t small(uint64_t n) { return probed(n) + 1; }
static __attribute__((noinline, noclone)) uint64_t by_pointer(uint64_t n) { return pointer(n) + 2; }
static __attribute__((noinline, noclone)) uint64_t wide(uint64_t n)
{
	volatile uint64_t room[40];
	room[n % 40] = n;
	return probed(n) + room[n % 40] + by_pointer(n);
}
static __attribute__((noinline, noclone)) uint64_t variable(uint64_t n) // a frame pointer, whatever the compiler's options
{
	volatile uint8_t *room = __builtin_alloca(16 + n % 64);
	room[0] = 1;
	return probed(n) + room[0];
}
static __attribute__((noinline, noclone)) uint64_t recursive(uint64_t n)
{
	return n == 0 ? probed(1) + wide(2) : recursive(n - 1) + 1;
}

static void exercise_functions(void)
{
	pointer = probed;
	start_stepping();
	sink += small(1) + wide(2) + variable(3) + recursive(4) + by_pointer(5);
	stop_stepping();
}

static int compare_ints(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

static void exercise_libc(void)
{
	int values[9];
	char text[100];
	for (int i = 0; i < 9; i++)
		values[i] = (i * 7919) % 101;
	start_stepping();
	qsort(values, 9, sizeof(int), compare_ints);
	snprintf(text, sizeof(text), "%d %s", values[3], "text");
	free(strdup(text));
	stop_stepping();
}

static void test_pages(void)
{
	ok(unwind_is_probe_return(62, TRAMPOLINE) && unwind_is_probe_return(62, (UINT64_C(1) << 56) - 0x2000) && !unwind_is_probe_return(62, TRAMPOLINE - 0x1000),
	   "x86-64: the last page but one");
	ok(unwind_is_probe_return(183, UINT64_C(0xfffffffff000)) && unwind_is_probe_return(183, UINT64_C(0x7fffff0000)) && !unwind_is_probe_return(183, 0x400000),
	   "AArch64: the last page");
	ok(unwind_is_probe_return(3, 0xffffd000) && !unwind_is_probe_return(8, 0xffffd000), "i386, and no other");
}

// Named by a mapping it may be anywhere; what lies right below it is no matter.
static void test_mapped(void)
{
	const uint64_t elsewhere = UINT64_C(0x7ffff0001000);
	ucontext_t uc;
	getcontext(&uc);
	snap(&snapshot, &uc, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	uint64_t last = frames[1].addr;
	size_t count = stack.count, slot = stack_word_of(0, last);
	memcpy(snapshot.stack + slot, &elsewhere, 8);
	input.generation = 1000;
	unwind_stack(unwinder, &input, &stack);
	ok(count > 2 && stack.end == UNWIND_NO_MAPPING && stack.count == 2, "an address in no mapping is no trampoline, and no root: %s", unwind_end_name(stack.end));
	maps.map[maps.count++] = (struct map){ .start = elsewhere, .end = elsewhere + 0x1000, .missing = UNWIND_UPROBE_TRAMPOLINE };
	input.generation = 1001;
	unwind_stack(unwinder, &input, &stack);
	ok(stack.count >= 2 && (stack.end == UNWIND_UPROBE_TRAMPOLINE || frames[1].via == VIA_CALL_SITE), "in one that is named so it is: %s", unwind_end_name(stack.end));
	maps.count--;
}

int main(void)
{
	live_start();
	test_pages();
	probed_steps("functions", exercise_functions, 0.5);
	probed_steps("libc", exercise_libc, 0.2);
	test_mapped();
	live_stop();
	return tap_done();
}
#else
int main(void)
{
	return tap_done();
}
#endif
