// ns a frame on raw stacks of real programs: recordings that hold registers and copies of stacks are read, their stacks kept, and unwound again
// and again; libunwind's remote unwinding and libdw's (one Dwfl kept an address space) beside it on a part of the same stacks.
//
//   unwind_replay [--stacks N] [--passes N] NAME=RECORDING…
//
// One line a setting, tab-separated: name, who, frames a stack, ns/frame (the least of the passes), the passes' median. CPU time of the thread; rules
// are warm: one pass comes before. Cold, in place: the copies are unwound where they lie, pass after
// pass, so each comes from wherever the others left it (the third-level cache or memory). Cold, flushed: every line of them was flushed from all caches before
// the pass. Warm: 16 copies at a time are copied to a place that is used again and again, as a reader does, and then unwound.
#include <stdio.h>

#if defined(__x86_64__) && __has_include(<elfutils/libdwfl.h>)
#include <elfutils/libdwfl.h>
#include <emmintrin.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/vec.h"
#include "load/load.h"
#include "unwind/libunwind_backend.h"
#include "unwind/rule_table.h"
#include "unwind/unwind.h"

enum { REGISTERS = 17, BATCH = 32, WARM_BATCH = 16, COPY_BYTES = 65536, PEER_STACKS = 200, LINE_BYTES = 64 };
enum { MASK = 0xff01ff, PERF_SP = 7, PERF_PC = 8 };

struct space { // what the recording answered about one generation of an address space
	uint64_t generation;
	VEC(struct unwind_map) maps;
	Dwfl *dwfl;
};

struct snapshot {
	uint64_t regs[REGISTERS];
	uint64_t stack_top;
	size_t space, size;
	uint8_t *stack;
	size_t frames; // ours
	VEC(uint32_t) words; // where in the copy the return addresses are
};

struct replay {
	VEC(struct space) spaces;
	VEC(struct unwind_image *) images;
	VEC(struct snapshot) snapshots;
	size_t most, stride, seen;
	struct unwinder *unwinder;
	struct frame *frames; // room for a batch of stacks
	// Capturing: what is asked for is noted.
	const struct unwind_input *source;
	size_t space;
};

// ---------------------------------------------------------------- stacks out of a recording

static struct unwind_image *own_image(struct replay *replay, struct image *image)
{
	struct unwind_image *made;

	for (size_t i = 0; i < replay->images.count; i++)
		if (replay->images.data[i]->image == image)
			return replay->images.data[i];
	unwind_image_new(&made, image, false, NULL);
	vec_push(&replay->images, made);
	return made;
}

static struct unwind_map find(const struct space *space, uint64_t addr)
{
	size_t low = 0, high = space->maps.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (space->maps.data[middle].start <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && addr < space->maps.data[low - 1].end)
		return space->maps.data[low - 1];
	return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
}

static struct unwind_map noted_map(void *context, uint64_t addr)
{
	struct replay *replay = context;
	struct space *space = &replay->spaces.data[replay->space];
	struct unwind_map map = find(space, addr);

	if (map.end > map.start)
		return map;
	map = replay->source->map(replay->source->map_context, addr);
	if (map.end <= map.start)
		return map;
	if (map.image != NULL)
		map.image = own_image(replay, map.image->image);
	size_t at = space->maps.count;
	vec_push(&space->maps, map);
	for (; at > 0 && space->maps.data[at - 1].start > map.start; at--)
		space->maps.data[at] = space->maps.data[at - 1];
	space->maps.data[at] = map;
	return map;
}

struct lookup { // for one stack
	const struct replay *replay;
	size_t space;
};

static struct unwind_map kept_map(void *context, uint64_t addr)
{
	const struct lookup *lookup = context;
	return find(&lookup->replay->spaces.data[lookup->space], addr);
}

static size_t space_of(struct replay *replay, uint64_t generation)
{
	for (size_t i = replay->spaces.count; i > 0; i--)
		if (replay->spaces.data[i - 1].generation == generation)
			return i - 1;
	vec_push(&replay->spaces, (struct space){ .generation = generation });
	return replay->spaces.count - 1;
}

static void let_go(struct snapshot *snapshot)
{
	free(snapshot->stack);
	vec_release(&snapshot->words);
}

// Every second one is let go of when there are enough, so that those that stay are spread over the whole recording.
static void thin(struct replay *replay)
{
	size_t kept = 0;

	for (size_t i = 0; i < replay->snapshots.count; i++)
		if (i % 2 == 0)
			replay->snapshots.data[kept++] = replay->snapshots.data[i];
		else
			let_go(&replay->snapshots.data[i]);
	replay->snapshots.count = kept;
	replay->stride *= 2;
}

static void take_stack(void *context, const struct record *record, const struct unwind_input *input, const struct unwind_stack *ours,
                       const struct unwind_stack *theirs)
{
	struct replay *replay = context;
	struct snapshot snapshot = { .stack_top = input->stack_top, .size = input->stack_size };

	(void)record, (void)theirs;
	if (input->machine != 62 || (input->regs_mask & MASK) != MASK || input->stack_size == 0 || replay->seen++ % replay->stride != 0)
		return;
	if (replay->snapshots.count == replay->most)
		thin(replay);
	for (unsigned i = 0, at = 0; i < 24; i++)
		if (MASK >> i & 1)
			snapshot.regs[at++] = input->regs[__builtin_popcountll(input->regs_mask & (((uint64_t)1 << i) - 1))];
	snapshot.space = replay->space = space_of(replay, input->generation);
	replay->source = input;
	struct unwind_input again = *input;
	again.map = noted_map;
	again.map_context = replay;
	again.generation = replay->spaces.count > 0 ? input->generation : 0;
	struct unwind_stack out = { .frames = replay->frames, .capacity = UNWIND_MAX_FRAMES };
	unwind_stack(replay->unwinder, &again, &out);
	snapshot.frames = out.count;
	if (out.count != ours->count)
		fprintf(stderr, "  a stack of %zu frames has %zu here\n", ours->count, out.count);
	if (posix_memalign((void **)&snapshot.stack, 4096, (input->stack_size + 4095) & ~(size_t)4095) != 0)
		abort();
	memcpy(snapshot.stack, input->stack, input->stack_size);
	// Of words that look like it the first above the last one: a call's leftovers may give a word too many in the same lines, which does no harm.
	for (size_t i = 1, at = 0; i < out.count; i++)
		for (size_t word = at; word + 8 <= input->stack_size; word += 8)
			if (memcmp(input->stack + word, &out.frames[i].addr, 8) == 0) {
				vec_push(&snapshot.words, (uint32_t)word);
				at = word + 8;
				break;
			}
	vec_push(&replay->snapshots, snapshot);
}

static void no_time(void *context, uint64_t ours_ns, uint64_t theirs_ns)
{
	(void)context, (void)ours_ns, (void)theirs_ns;
}

static bool read_stacks(struct replay *replay, const char *path)
{
	struct load_options options = load_defaults();
	const struct load_compare compare = { .context = replay, .stack = take_stack, .time = no_time };
	struct profile profile;
	struct err err = { 0 };

	options.input = path;
	options.symbols = false;
	options.jobs = 1;
	options.compare = &compare;
	bool good = load_profile(&profile, &options, &err);
	if (!good)
		fprintf(stderr, "unwind_replay: %s\n", err.text);
	profile_release(&profile);
	return good && replay->snapshots.count > 0;
}

// ---------------------------------------------------------------- time

static uint64_t cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

// What reading the clock adds to each span.
static double clock_cost_ns(void)
{
	double spans[1001];

	for (size_t i = 0; i < 1001; i++) {
		uint64_t before = cpu_ns();
		spans[i] = (double)(cpu_ns() - before);
	}
	qsort(spans, 1001, sizeof(*spans), by_size);
	return spans[500];
}

static void print(const char *name, const char *who, double frames, double *passes, size_t count)
{
	qsort(passes, count, sizeof(*passes), by_size);
	printf("%s\t%s\t%.1f\t%.1f\t%.1f\n", name, who, frames, passes[0], passes[count / 2]);
	fflush(stdout);
}

// ---------------------------------------------------------------- ours

static void flush(const struct replay *replay)
{
	for (size_t i = 0; i < replay->snapshots.count; i++)
		for (size_t at = 0; at < replay->snapshots.data[i].size; at += LINE_BYTES)
			_mm_clflush(replay->snapshots.data[i].stack + at);
	_mm_mfence();
}

static struct unwind_input input_of(const struct replay *replay, const struct snapshot *s, struct lookup *lookup)
{
	*lookup = (struct lookup){ replay, s->space };
	return (struct unwind_input){
		.machine = 62, .regs = s->regs, .regs_mask = MASK, .stack = s->stack, .stack_size = s->size, .stack_top = s->stack_top,
		.generation = replay->spaces.data[s->space].generation, .map = kept_map, .map_context = lookup,
	};
}

enum way { ONE_BY_ONE, TOGETHER };
enum heat { FLUSHED, IN_PLACE, WARM };

// One pass over all stacks; its time, and the frames found.
static double pass(struct replay *replay, enum heat heat, enum way way, uint8_t *ring, size_t *frames)
{
	struct unwind_input inputs[BATCH];
	struct unwind_stack outs[BATCH];
	struct lookup lookups[BATCH];
	uint64_t spent = 0, spans = 0;
	double clock_ns = clock_cost_ns();

	*frames = 0;
	if (heat == FLUSHED)
		flush(replay);
	size_t batch = heat == WARM ? WARM_BATCH : BATCH;
	for (size_t from = 0; from < replay->snapshots.count; from += batch) {
		size_t count = replay->snapshots.count - from < batch ? replay->snapshots.count - from : batch;
		for (size_t i = 0; i < count; i++) {
			const struct snapshot *s = &replay->snapshots.data[from + i];
			inputs[i] = input_of(replay, s, &lookups[i]);
			if (heat == WARM)
				inputs[i].stack = memcpy(ring + i * COPY_BYTES, s->stack, s->size);
			outs[i] = (struct unwind_stack){ .frames = replay->frames + i * UNWIND_MAX_FRAMES, .capacity = UNWIND_MAX_FRAMES };
		}
		uint64_t before = cpu_ns();
		if (way == TOGETHER)
			unwind_stacks(replay->unwinder, inputs, outs, count);
		else
			for (size_t i = 0; i < count; i++)
				unwind_stack(replay->unwinder, &inputs[i], &outs[i]);
		spent += cpu_ns() - before;
		spans++;
		for (size_t i = 0; i < count; i++)
			*frames += outs[i].count;
	}
	return ((double)spent - (double)spans * clock_ns) / (double)*frames;
}

// What memory alone takes: the return addresses of cold stacks read with all of their places known, so that nothing waits for anything. ns for each.
static double pass_of_memory(struct replay *replay)
{
	uint64_t spent = 0, spans = 0, sum = 0;
	size_t words = 0;
	double clock_ns = clock_cost_ns();

	flush(replay);
	for (size_t from = 0; from < replay->snapshots.count; from += BATCH) {
		size_t end = replay->snapshots.count - from < BATCH ? replay->snapshots.count : from + BATCH;
		uint64_t before = cpu_ns();
		for (size_t i = from; i < end; i++) {
			const struct snapshot *s = &replay->snapshots.data[i];
			for (size_t w = 0; w < s->words.count; w++)
				sum += *(const volatile uint64_t *)(const void *)(s->stack + s->words.data[w]);
			words += s->words.count;
		}
		__asm__ volatile("lfence" : : "r"(sum)); // all of them have arrived
		spent += cpu_ns() - before;
		spans++;
	}
	return ((double)spent - (double)spans * clock_ns) / (double)words;
}

static void measure_ours(struct replay *replay, const char *name, size_t passes)
{
	static const struct { const char *who; enum heat heat; enum way way; } settings[] = {
		{ "perfsample, cold stacks, flushed", FLUSHED, TOGETHER }, { "perfsample, cold stacks, flushed, one by one", FLUSHED, ONE_BY_ONE },
		{ "perfsample, cold stacks, in place", IN_PLACE, TOGETHER }, { "perfsample, cold stacks, in place, one by one", IN_PLACE, ONE_BY_ONE },
		{ "perfsample, warm stacks", WARM, TOGETHER }, { "perfsample, warm stacks, one by one", WARM, ONE_BY_ONE },
	};
	enum { SETTINGS = sizeof(settings) / sizeof(*settings) };
	double times[SETTINGS][64], memory[64];
	size_t frames = 0;
	uint8_t *ring;

	if (posix_memalign((void **)&ring, 4096, (size_t)BATCH * COPY_BYTES) != 0)
		abort();
	for (size_t i = 0; i <= passes; i++) // in turn, so that what else the machine does falls on all alike
		for (size_t s = 0; s < SETTINGS; s++)
			times[s][i > 0 ? i - 1 : 0] = pass(replay, settings[s].heat, settings[s].way, ring, &frames);
	for (size_t i = 0; i < passes; i++)
		memory[i] = pass_of_memory(replay);
	struct unwind_counters c = unwinder_counters(replay->unwinder);
	size_t bytes = 0;
	for (size_t i = 0; i < replay->images.count; i++)
		bytes += unwind_image_bytes(replay->images.data[i]);
	fprintf(stderr, "  %s: %zu stacks, %zu address spaces, %" PRIu64 " FDEs, %" PRIu64 " rows, %zu KB of rules and indexes, %.3f %% missed the cache\n", name,
	        replay->snapshots.count, replay->spaces.count, c.fdes_compiled, c.rows_compiled, bytes / 1024,
	        100.0 * (double)c.cache_misses / (double)(c.cache_hits + c.cache_misses));
	for (size_t s = 0; s < SETTINGS; s++)
		print(name, settings[s].who, (double)frames / (double)replay->snapshots.count, times[s], passes);
	print(name, "flushed stacks: their return addresses only read, places known", (double)frames / (double)replay->snapshots.count, memory, passes);
	free(ring);
}

// ---------------------------------------------------------------- libunwind

static void measure_libunwind(struct replay *replay, const char *name)
{
	struct libunwind *peer;
	struct err err = { 0 };
	double times[3];
	size_t frames = 0, stacks = 0;
	struct lookup lookup;

	if (!libunwind_new(&peer, &err))
		return;
	for (size_t i = 0; i <= 3; i++) {
		uint64_t before = cpu_ns();
		frames = stacks = 0;
		for (size_t at = 0; at < replay->snapshots.count; at += replay->snapshots.count / PEER_STACKS + 1) {
			struct unwind_input input = input_of(replay, &replay->snapshots.data[at], &lookup);
			struct unwind_stack out = { .frames = replay->frames, .capacity = UNWIND_MAX_FRAMES };
			libunwind_stack(peer, &input, &out);
			frames += out.count;
			stacks++;
		}
		times[i > 0 ? i - 1 : 0] = (double)(cpu_ns() - before) / (double)frames;
	}
	print(name, "libunwind, remote", (double)frames / (double)stacks, times, 3);
	libunwind_free(peer);
}

// ---------------------------------------------------------------- libdw

static const struct snapshot *dwfl_snapshot; // libdw's callbacks have one context an address space, not one a stack

static pid_t next_thread(Dwfl *dwfl, void *context, void **thread)
{
	(void)dwfl, (void)context;
	if (*thread != NULL)
		return 0;
	*thread = (void *)&dwfl_snapshot;
	return 1;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *context, void **thread)
{
	(void)dwfl, (void)tid, (void)context;
	*thread = (void *)&dwfl_snapshot;
	return true;
}

static bool memory_read(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *result, void *context)
{
	uint64_t at = addr - dwfl_snapshot->regs[PERF_SP];

	(void)dwfl, (void)context;
	if (at >= dwfl_snapshot->size || dwfl_snapshot->size - at < 8)
		return false;
	memcpy(result, dwfl_snapshot->stack + at, 8);
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *context)
{
	// DWARF's order (x86-64 psABI, figure 3.36) of perf's registers: ax dx cx bx si di bp sp r8 … r15 and the return address
	static const uint8_t order[REGISTERS] = { 0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 8 };
	Dwarf_Word words[REGISTERS];

	(void)context;
	for (size_t i = 0; i < REGISTERS; i++)
		words[i] = dwfl_snapshot->regs[order[i]];
	return dwfl_thread_state_registers(thread, 0, REGISTERS, words);
}

static int count_frame(Dwfl_Frame *frame, void *context)
{
	Dwarf_Addr pc;
	bool is_activation;
	size_t *frames = context;

	if (!dwfl_frame_pc(frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	++*frames;
	return DWARF_CB_OK;
}

static Dwfl *dwfl_of(struct space *space)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = dwfl_build_id_find_elf, .find_debuginfo = dwfl_standard_find_debuginfo };
	static const Dwfl_Thread_Callbacks threads = {
		.next_thread = next_thread, .get_thread = get_thread, .memory_read = memory_read, .set_initial_registers = set_registers,
	};

	if (space->dwfl != NULL)
		return space->dwfl;
	space->dwfl = dwfl_begin(&callbacks);
	dwfl_report_begin(space->dwfl);
	for (size_t i = 0; i < space->maps.count; i++) {
		const struct unwind_map *map = &space->maps.data[i];
		if (map->image != NULL && map->image->image->path[0] == '/' && (i == 0 || map[-1].image != map->image))
			dwfl_report_elf(space->dwfl, map->image->image->path, map->image->image->path, -1, map->bias, true);
	}
	dwfl_report_end(space->dwfl, NULL, NULL);
	dwfl_attach_state(space->dwfl, NULL, 1, &threads, NULL);
	return space->dwfl;
}

static void measure_libdw(struct replay *replay, const char *name)
{
	double times[3];
	size_t frames = 0, stacks = 0;

	for (size_t i = 0; i <= 3; i++) {
		uint64_t before = cpu_ns();
		frames = stacks = 0;
		for (size_t at = 0; at < replay->snapshots.count; at += replay->snapshots.count / PEER_STACKS + 1) {
			dwfl_snapshot = &replay->snapshots.data[at];
			dwfl_getthread_frames(dwfl_of(&replay->spaces.data[dwfl_snapshot->space]), 1, count_frame, &frames);
			stacks++;
		}
		times[i > 0 ? i - 1 : 0] = frames > 0 ? (double)(cpu_ns() - before) / (double)frames : 0;
	}
	if (frames > 0)
		print(name, "libdw, one Dwfl kept", (double)frames / (double)stacks, times, 3);
}

// ----------------------------------------------------------------

static bool replay_recording(const char *name, const char *path, size_t stacks, size_t passes)
{
	struct replay replay = { .most = stacks, .stride = 1, .unwinder = unwinder_new() };

	replay.frames = mem_zero((size_t)BATCH * UNWIND_MAX_FRAMES, sizeof(*replay.frames));
	bool good = read_stacks(&replay, path);
	if (good) {
		measure_ours(&replay, name, passes);
		measure_libunwind(&replay, name);
		measure_libdw(&replay, name);
	}
	for (size_t i = 0; i < replay.spaces.count; i++) {
		if (replay.spaces.data[i].dwfl != NULL)
			dwfl_end(replay.spaces.data[i].dwfl);
		vec_release(&replay.spaces.data[i].maps);
	}
	for (size_t i = 0; i < replay.snapshots.count; i++)
		let_go(&replay.snapshots.data[i]);
	for (size_t i = 0; i < replay.images.count; i++)
		unwind_image_free(replay.images.data[i]);
	vec_release(&replay.spaces);
	vec_release(&replay.snapshots);
	vec_release(&replay.images);
	unwinder_free(replay.unwinder);
	free(replay.frames);
	return good;
}

int main(int argc, char **argv)
{
	size_t stacks = 2000, passes = 7;
	bool good = argc > 1;

	for (int i = 1; i < argc; i++) {
		char *path = strchr(argv[i], '=');
		if (strcmp(argv[i], "--stacks") == 0 && i + 1 < argc) {
			stacks = strtoul(argv[++i], NULL, 10);
		} else if (strcmp(argv[i], "--passes") == 0 && i + 1 < argc) {
			passes = strtoul(argv[++i], NULL, 10);
		} else if (path == NULL || stacks < 2 || passes < 1 || passes > 64) {
			good = false;
			break;
		} else {
			*path = '\0';
			good = replay_recording(argv[i], path + 1, stacks, passes) && good;
		}
	}
	if (argc < 2 || !good)
		fprintf(stderr, "usage: unwind_replay [--stacks N] [--passes N] NAME=RECORDING…\n");
	return good ? 0 : 1;
}

#else
int main(void)
{
	fprintf(stderr, "unwind_replay: skipped: x86-64 with elfutils only\n");
	return 0;
}
#endif
