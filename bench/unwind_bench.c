// ns a frame of the walk, on stacks made here: a plain recursion, and calls through 256 functions with frames of many sizes. Cold: every
// stack is read from memory that no cache holds. Warm: it was just copied. Beside it, on the live stack, glibc's backtrace(3) and
// libunwind's unw_backtrace where that library is installed.
//
//   unwind_bench [SNAPSHOTS [ROUNDS]]       one line a setting, tab-separated: name, setting, frames a stack, ns/frame
#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#include "base/mem.h"
#include "unwind/unwind.h"

#if defined(__x86_64__)

enum { MAX_MAPS = 64, COPY_BYTES = 65528, CALLS = 256, RING = 16 };

static struct unwind_map maps[MAX_MAPS];
static size_t map_count;

static struct unwind_map map_at(void *context, uint64_t addr)
{
	(void)context;
	for (size_t i = 0; i < map_count; i++)
		if (addr >= maps[i].start && addr < maps[i].end)
			return maps[i];
	return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

static uint64_t stack_top;

static void load_maps(void)
{
	FILE *file = fopen("/proc/self/maps", "r");
	char line[4096], perms[8], path[2048];
	unsigned long long start, end, pgoff;

	while (file != NULL && fgets(line, sizeof(line), file) != NULL && map_count < MAX_MAPS) {
		path[0] = '\0';
		if (sscanf(line, "%llx-%llx %7s %llx %*s %*s %2047s", &start, &end, perms, &pgoff, path) < 4)
			continue;
		if ((uintptr_t)line >= start && (uintptr_t)line < end) // not named [stack] under valgrind
			stack_top = end;
		struct image *image;
		if (perms[2] != 'x' || !image_open_path(&image, path, NULL))
			continue;
		struct unwind_map *map = &maps[map_count++];
		*map = (struct unwind_map){ .start = start, .end = end };
		image_bias(image, start, end, pgoff, &map->bias);
		unwind_image_new(&map->image, image, true, NULL);
		image_release(image);
	}
	if (file != NULL)
		fclose(file);
}

struct snapshot {
	uint64_t regs[17];
	size_t size;
	uint8_t *stack;
};
static struct snapshot *snapshots;
static size_t snapshot_count, wanted_snapshots;

static double peer_ns[2]; // backtrace(3), unw_backtrace
static size_t peer_frames[2];
static int (*unw_backtrace_found)(void **, int);

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void run_peers(void)
{
	static void *addrs[1024];

	for (int peer = 0; peer < 2; peer++) {
		if (peer == 1 && unw_backtrace_found == NULL)
			continue;
		uint64_t before = now_ns(CLOCK_THREAD_CPUTIME_ID);
		for (int i = 0; i < 3; i++)
			peer_frames[peer] += (size_t)(peer == 0 ? backtrace(addrs, 1024) : unw_backtrace_found(addrs, 1024));
		peer_ns[peer] += (double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - before);
	}
}

static __attribute__((noinline)) void take_snapshot(void)
{
	static const uint8_t order[17] = { REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP,
	                                   REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15 };
	static ucontext_t here;
	struct snapshot *snapshot = &snapshots[snapshot_count];

	getcontext(&here);
	for (int i = 0; i < 17; i++)
		snapshot->regs[i] = (uint64_t)here.uc_mcontext.gregs[order[i]];
	uint64_t sp = snapshot->regs[7];
	snapshot->size = stack_top - sp < COPY_BYTES ? stack_top - sp : COPY_BYTES;
	snapshot->stack = mem_copy((const void *)(uintptr_t)sp, snapshot->size);
	if (snapshot_count % 16 == 0)
		run_peers();
	snapshot_count++;
}

static uint64_t seed = 1;

static unsigned next_random(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33);
}

static volatile uint64_t sink;
typedef void call_fn(int depth);
static call_fn *const table[CALLS];

#define CALL(n) \
	static __attribute__((noinline)) void call_##n(int depth) \
	{ \
		volatile uint64_t block[(0x##n * 7) % 40 + 1]; \
		block[0] = (uint64_t)depth; \
		if (depth == 0) \
			take_snapshot(); \
		else \
			table[next_random() % CALLS](depth - 1); \
		sink += block[0]; \
	}
#define EIGHT(n) CALL(n##0) CALL(n##1) CALL(n##2) CALL(n##3) CALL(n##4) CALL(n##5) CALL(n##6) CALL(n##7)
#define SIXTEEN(n) EIGHT(n) CALL(n##8) CALL(n##9) CALL(n##a) CALL(n##b) CALL(n##c) CALL(n##d) CALL(n##e) CALL(n##f)
#define ALL(M) M(0) M(1) M(2) M(3) M(4) M(5) M(6) M(7) M(8) M(9) M(a) M(b) M(c) M(d) M(e) M(f)
ALL(SIXTEEN)
#define NAMES(n) call_##n##0, call_##n##1, call_##n##2, call_##n##3, call_##n##4, call_##n##5, call_##n##6, call_##n##7, call_##n##8, \
	call_##n##9, call_##n##a, call_##n##b, call_##n##c, call_##n##d, call_##n##e, call_##n##f,
static call_fn *const table[CALLS] = { ALL(NAMES) };

static __attribute__((noinline)) void recursion(int depth)
{
	if (depth == 0)
		take_snapshot();
	else
		recursion(depth - 1);
	sink += (uint64_t)depth;
}

static void measure(const char *name, bool warm, int rounds)
{
	static struct frame frames[UNWIND_MAX_FRAMES];
	struct unwinder *unwinder = unwinder_new();
	uint8_t *ring = mem_alloc(COPY_BYTES);
	uint64_t spent = 0, counted = 0, roots = 0;

	for (int round = 0; round <= rounds; round++) {
		for (size_t i = 0; i < snapshot_count; i++) {
			const struct snapshot *s = &snapshots[i];
			struct unwind_stack out = { .frames = frames, .capacity = UNWIND_MAX_FRAMES };
			struct unwind_input input = {
				.machine = 62, .regs = s->regs, .regs_mask = 0xff01ff, .stack = s->stack, .stack_size = s->size, .generation = 1, .map = map_at,
			};
			if (warm)
				input.stack = memcpy(ring, s->stack, s->size);
			uint64_t before = now_ns(CLOCK_MONOTONIC);
			unwind_stack(unwinder, &input, &out);
			uint64_t after = now_ns(CLOCK_MONOTONIC);
			if (round == 0) // the rules are compiled in this one
				continue;
			spent += after - before;
			counted += out.count;
			roots += out.end == UNWIND_ROOT;
		}
	}
	struct unwind_counters c = unwinder_counters(unwinder);
	size_t samples = snapshot_count * (size_t)rounds;
	printf("%s\tperfsample, %s stacks\t%.1f\t%.1f\n", name, warm ? "warm" : "cold", (double)counted / (double)samples,
	       (double)spent / (double)counted);
	fprintf(stderr, "  %llu of %zu reach the root, %llu FDEs, %llu rows, %.3f %% missed the cache\n", (unsigned long long)roots, samples,
	        (unsigned long long)c.fdes_compiled, (unsigned long long)c.rows_compiled,
	        100.0 * (double)c.cache_misses / (double)(c.cache_hits + c.cache_misses));
	free(ring);
	unwinder_free(unwinder);
}

static void run(const char *name, bool wide, int rounds)
{
	snapshots = mem_zero(wanted_snapshots, sizeof(*snapshots));
	snapshot_count = 0;
	memset(peer_ns, 0, sizeof(peer_ns));
	memset(peer_frames, 0, sizeof(peer_frames));
	while (snapshot_count < wanted_snapshots) {
		if (wide)
			table[next_random() % CALLS](40 + (int)(next_random() % 200));
		else
			recursion(100 + (int)(next_random() % 400));
	}
	measure(name, false, rounds);
	measure(name, true, rounds);
	static const char *const peers[] = { "glibc backtrace(3), live stack", "libunwind unw_backtrace, live stack" };
	for (int peer = 0; peer < 2; peer++)
		if (peer_frames[peer] > 0)
			printf("%s\t%s\t%.1f\t%.1f\n", name, peers[peer], (double)peer_frames[peer] / (3.0 * (double)((wanted_snapshots + 15) / 16)),
			       peer_ns[peer] / (double)peer_frames[peer]);
	for (size_t i = 0; i < snapshot_count; i++)
		free(snapshots[i].stack);
	free(snapshots);
}

int main(int argc, char **argv)
{
	void *library = dlopen("libunwind.so.8", RTLD_NOW);

	wanted_snapshots = argc > 1 ? strtoul(argv[1], NULL, 10) : 1500;
	int rounds = argc > 2 ? atoi(argv[2]) : 5;
	if (wanted_snapshots == 0 || rounds < 1) {
		fprintf(stderr, "usage: unwind_bench [SNAPSHOTS [ROUNDS]]\n");
		return 2;
	}
	if (library != NULL)
		unw_backtrace_found = (int (*)(void **, int))dlsym(library, "unw_backtrace");
	load_maps();
	run("recursion", false, rounds);
	run("256 functions", true, rounds);
	for (size_t i = 0; i < map_count; i++)
		unwind_image_free(maps[i].image);
	return 0;
}

#else
int main(void)
{
	return 0;
}
#endif
