// Stacks of the test's own process: its mappings, snapshots of registers and stack as a sample holds them, and single-stepping with glibc's
// backtrace(3) beside our walk. x86-64 only.
#ifndef PERFSAMPLE_TESTS_LIVE_STACK_H
#define PERFSAMPLE_TESTS_LIVE_STACK_H

#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/auxv.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/tap.h"
#include "unwind/unwind.h"

enum { MAX_MAPS = 256, MAX_STACK = 65528, MAX_CHAIN = 512 };

struct map {
	uint64_t start, end, bias;
	struct unwind_image *image;
	enum unwind_end missing;
};
struct maps {
	struct map map[MAX_MAPS];
	size_t count;
	unsigned calls;
};

static struct unwind_map map_at(void *context, uint64_t addr)
{
	struct maps *maps = context;

	maps->calls++;
	for (size_t i = 0; i < maps->count; i++) {
		const struct map *m = &maps->map[i];
		if (addr >= m->start && addr < m->end)
			return (struct unwind_map){ .start = m->start, .end = m->end, .bias = m->bias, .image = m->image, .missing = m->missing };
	}
	return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

static void load_maps(struct maps *maps)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[4096];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL && maps->count < MAX_MAPS) {
		unsigned long long start, end, pgoff;
		char perms[8], path[2048] = "";
		if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %2047s", &start, &end, perms, &pgoff, path) < 4 || perms[2] != 'x')
			continue;
		struct map *m = &maps->map[maps->count++];
		*m = (struct map){ .start = start, .end = end, .missing = UNWIND_NO_CFI };
		struct image *image = NULL;
		if (path[0] == '/')
			image_open_path(&image, path, NULL);
		else if (strcmp(path, "[vdso]") == 0)
			image_open_bytes(&image, (const void *)(uintptr_t)start, end - start, true, path, NULL);
		if (image == NULL)
			continue;
		if (image_bias(image, start, end, pgoff, &m->bias))
			unwind_image_new(&m->image, image, true, NULL);
		image_release(image);
	}
	if (file != NULL)
		fclose(file);
}

static void free_maps(struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++)
		unwind_image_free(maps->map[i].image);
	maps->count = 0;
}

// What a sample holds.
struct snapshot {
	uint64_t regs[17]; // ax bx cx dx si di bp sp ip r8 … r15
	size_t size;
	uint8_t stack[MAX_STACK] __attribute__((aligned(8)));
};
enum { REGS_MASK = 0xff01ff };

static uint64_t stack_top;

// Word by word, as the kernel would: the sanitizer's red zones are part of the copy.
__attribute__((no_sanitize_address, noinline)) static void copy_words(uint8_t *to, uint64_t from, size_t size)
{
	for (size_t at = 0; at + 8 <= size; at += 8)
		*(volatile uint64_t *)(to + at) = *(const volatile uint64_t *)(from + at);
}

static void snap(struct snapshot *snapshot, const ucontext_t *uc, size_t limit)
{
	static const uint8_t order[17] = { REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP,
	                                   REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
	for (int i = 0; i < 17; i++)
		snapshot->regs[i] = (uint64_t)uc->uc_mcontext.gregs[order[i]];
	uint64_t sp = snapshot->regs[7], size = stack_top - sp;
	snapshot->size = size < limit ? size : limit;
	copy_words(snapshot->stack, sp, snapshot->size);
}

static struct unwind_input input_of(const struct snapshot *snapshot, struct maps *maps)
{
	return (struct unwind_input){
		.machine = 62, .regs = snapshot->regs, .regs_mask = REGS_MASK, .stack = snapshot->stack, .stack_size = snapshot->size,
		.generation = 1, .map = map_at, .map_context = maps,
	};
}

__attribute__((unused)) static bool is_same(const struct unwind_stack *a, const struct unwind_stack *b)
{
	if (a->count != b->count || a->end != b->end || a->gap != b->gap || a->last_cfa != b->last_cfa)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (a->frames[i].addr != b->frames[i].addr || a->frames[i].kind != b->frames[i].kind || a->frames[i].via != b->frames[i].via)
			return false;
	return true;
}

static struct maps maps;
static struct unwinder *unwinder;
static struct snapshot snapshot;
static struct frame frames[UNWIND_MAX_FRAMES];
static struct unwind_stack stack = { .frames = frames, .capacity = UNWIND_MAX_FRAMES };

static void print_stack(void)
{
	for (size_t i = 0; i < stack.count; i++)
		diag("  %zu %#llx kind %u via %u", i, (unsigned long long)frames[i].addr, frames[i].kind, frames[i].via);
	diag("  end %s", unwind_end_name(stack.end));
}

__attribute__((unused)) static bool has_kind(uint8_t kind)
{
	for (size_t i = 0; i < stack.count; i++)
		if (frames[i].kind == kind)
			return true;
	return false;
}

static volatile sig_atomic_t stepping;
static unsigned steps, differing, roots, shown;
static size_t deepest;

// One instruction later: ours against backtrace(3), from the interrupted frame up.
static void on_step(int number, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	void *theirs[MAX_CHAIN];

	(void)number, (void)info;
	if (!stepping) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~0x100ll;
		return;
	}
	steps++;
	snap(&snapshot, uc, MAX_STACK);
	struct unwind_input input = input_of(&snapshot, &maps);
	unwind_stack(unwinder, &input, &stack);
	int count = backtrace(theirs, MAX_CHAIN), first = 0;
	while (first < count && (uint64_t)theirs[first] != snapshot.regs[8])
		first++;
	bool same = first < count && (size_t)(count - first) == stack.count;
	for (size_t i = 0; same && i < stack.count; i++)
		same = frames[i].addr == (uint64_t)theirs[(size_t)first + i];
	roots += stack.end == UNWIND_ROOT;
	deepest = stack.count > deepest ? stack.count : deepest;
	if (!same || stack.end != UNWIND_ROOT) {
		differing += !same;
		if (shown++ < 3) {
			diag("step %u at %#llx differs:", steps, (unsigned long long)snapshot.regs[8]);
			print_stack();
			for (int i = first; i < count; i++)
				diag("  theirs %p", theirs[i]);
		}
	}
}

__attribute__((unused)) static void start_stepping(void)
{
	stepping = 1;
	__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

__attribute__((unused)) static void stop_stepping(void)
{
	stepping = 0;
}

__attribute__((unused)) static void test_steps(const char *what, void (*exercise)(void))
{
	struct sigaction action = { .sa_sigaction = on_step, .sa_flags = SA_SIGINFO };

	steps = differing = roots = shown = 0;
	deepest = 0;
	sigaction(SIGTRAP, &action, NULL);
	exercise();
	signal(SIGTRAP, SIG_DFL);
	ok(steps > 20 && differing == 0, "%s: %u single steps, %u differ from backtrace(3)", what, steps, differing);
	ok(roots == steps, "%s: %u of them end at the root, up to %zu frames", what, roots, deepest);
}

static void live_start(void)
{
	void *warm[8];
	char line[256];
	unsigned long long start, end;

	backtrace(warm, 8); // loads libgcc_s, outside of handlers
	FILE *file = fopen("/proc/self/maps", "r");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
		if (strstr(line, "[stack]") != NULL && sscanf(line, "%llx-%llx", &start, &end) == 2)
			stack_top = end;
	if (file != NULL)
		fclose(file);
	load_maps(&maps);
	unwinder = unwinder_new();
}

static void live_stop(void)
{
	unwinder_free(unwinder);
	free_maps(&maps);
}

#endif
