// Rules by the address itself (unwind/near.h) are a short cut: an unwinder that has walked for long finds what one that has never walked before finds,
// whatever other address spaces had at the same addresses. x86-64 only.
#include "unwind/unwind.h"

#include "tests/tap.h"
#include "unwind/walk.h"

#if defined(__x86_64__)
#include "tests/live_stack.h"

enum { SNAPSHOTS = 24, FEW_FRAMES = 60 }; // fewer than an address space has to be walked before the short cut serves it
static struct snapshot *taken[SNAPSHOTS];
static size_t taken_count;
static volatile uint64_t sink;

static __attribute__((noinline)) int descend(int depth)
{
	static ucontext_t here;

	if (depth == 0) {
		getcontext(&here);
		taken[taken_count] = mem_alloc(sizeof(struct snapshot));
		snap(taken[taken_count++], &here, MAX_STACK);
		return 0;
	}
	int below = descend(depth - 1);
	sink += (uint64_t)below;
	return below + 1;
}

static __attribute__((noinline)) int descend_sized(int depth)
{
	volatile char *block = __builtin_alloca((size_t)depth * 24 + 8);

	block[0] = (char)depth;
	int below = descend(depth);
	return below + block[0];
}

static int by_qsort(const void *a, const void *b)
{
	if (taken_count < SNAPSHOTS)
		descend(2);
	return *(const int *)a - *(const int *)b;
}

static void take_all(void)
{
	int values[] = { 3, 1 };

	while (taken_count < SNAPSHOTS - 1) {
		if (taken_count % 2 == 0)
			descend((int)taken_count * 2);
		else
			descend_sized((int)taken_count);
	}
	qsort(values, 2, sizeof(*values), by_qsort);
}

// ---------------------------------------------------------------- address spaces that have something else at the same addresses

enum world { AS_IT_IS, CUT, MOVED, WITHOUT_IMAGE, SMALLER, WORLDS };
static struct maps worlds[WORLDS];

// Where the program's own code is, which most frames are in.
static size_t own_map(void)
{
	for (size_t i = 0; i < maps.count; i++)
		if ((uintptr_t)descend >= maps.map[i].start && (uintptr_t)descend < maps.map[i].end)
			return i;
	return 0;
}

// The highest address in the program's code that a frame of some stack has; its leaf lies below.
static uint64_t highest_frame(void)
{
	struct unwind_input input = input_of(taken[11], &maps);
	uint64_t highest = 0;
	size_t own = own_map();

	unwind_stack(unwinder, &input, &stack);
	for (size_t i = 0; i < stack.count; i++)
		if (frames[i].addr < maps.map[own].end && frames[i].addr > highest)
			highest = frames[i].addr;
	return highest;
}

static void make_worlds(void)
{
	size_t own = own_map();

	for (size_t i = 0; i < WORLDS; i++)
		worlds[i] = maps;
	worlds[CUT].map[own].end = highest_frame() - 1; // what comes from there on was unmapped
	worlds[MOVED].map[own].bias += 4; // the image is mapped elsewhere
	worlds[WITHOUT_IMAGE].map[own].image = NULL;
	worlds[SMALLER].map[own].start += 16; // the same there, as another mapping
}

enum { GROUP = 24 };
static struct frame rooms[GROUP + 2][UNWIND_MAX_FRAMES];

// Of the stacks, unwound one by one and together, those that an unwinder of its own unwinds otherwise.
static unsigned differing_of(struct unwinder *seasoned, struct unwind_input *inputs, size_t count, size_t capacity)
{
	struct unwind_stack outs[GROUP];
	unsigned wrong = 0;

	for (size_t i = 0; i < count; i++)
		outs[i] = (struct unwind_stack){ .frames = rooms[i], .capacity = capacity };
	unwind_stacks(seasoned, inputs, outs, count);
	for (size_t i = 0; i < count; i++) {
		struct unwinder *fresh = unwinder_new();
		struct unwind_stack one = { .frames = rooms[GROUP], .capacity = capacity }, plain = { .frames = rooms[GROUP + 1], .capacity = capacity };
		unwind_stack(seasoned, &inputs[i], &one);
		unwind_stack(fresh, &inputs[i], &plain);
		if (plain.count > FEW_FRAMES) // the new one had a short cut too
			wrong++;
		wrong += !is_same(&one, &plain) || !is_same(&outs[i], &plain);
		unwinder_free(fresh);
	}
	return wrong;
}

static void warm(struct unwinder *by, uint64_t generation, struct maps *of)
{
	struct unwind_stack out = { .frames = rooms[0], .capacity = UNWIND_MAX_FRAMES };

	for (int round = 0; round < 8; round++)
		for (size_t i = 0; i < taken_count; i++) {
			struct unwind_input input = input_of(taken[i], of);
			input.generation = generation;
			unwind_stack(by, &input, &out);
		}
}

static void test_worlds(void)
{
	static const char *const names[WORLDS] = { "as it is", "cut", "moved", "without its image", "smaller" };
	struct unwinder *seasoned = unwinder_new();
	struct unwind_input inputs[GROUP];
	unsigned ends[UNWIND_END_COUNT] = { 0 };

	for (size_t w = 0; w < WORLDS; w++)
		warm(seasoned, 1 + w, &worlds[w]);
	ok(seasoned->near.spaces[1].places != 0 && seasoned->near.spaces[1].places != seasoned->near.spaces[1 + MOVED].places, "places are known: %#llx",
	   (unsigned long long)seasoned->near.spaces[1].places);
	for (size_t w = 0; w < WORLDS; w++) {
		// So that both are there: one look-up has room for two of an address.
		warm(seasoned, 1 + w, &worlds[w]);
		warm(seasoned, 1, &worlds[AS_IT_IS]);
		struct unwind_stack out = { .frames = rooms[0], .capacity = UNWIND_MAX_FRAMES };
		for (size_t i = 0; i < taken_count; i++) {
			inputs[i] = input_of(taken[i], &worlds[w]);
			inputs[i].generation = 1 + w;
			unwind_stack(seasoned, &inputs[i], &out);
			ends[out.end]++;
		}
		is_u64(differing_of(seasoned, inputs, taken_count, UNWIND_MAX_FRAMES), 0, "%s: as without the short cut", names[w]);
	}
	ok(ends[UNWIND_ROOT] >= taken_count * 2 && ends[UNWIND_ROOT] < taken_count * WORLDS, "which ends %u of them at the root", ends[UNWIND_ROOT]);

	// Nothing is asked of the other tables.
	warm(seasoned, 1, &maps);
	struct unwind_input input = input_of(taken[10], &maps);
	struct unwind_stack out = { .frames = rooms[0], .capacity = UNWIND_MAX_FRAMES };
	struct known_map kept = seasoned->active[0];
	memset(&seasoned->active, 0, sizeof(seasoned->active));
	memset(&seasoned->recent, 0, sizeof(seasoned->recent));
	unsigned asked = maps.calls;
	unwind_stack(seasoned, &input, &out);
	ok(out.end == UNWIND_ROOT && out.count > 20 && maps.calls == asked, "a stack of %zu frames is walked without asking for a mapping", out.count);
	seasoned->active[0] = kept;

	// Another generation with the same number in the table: it is not taken for the first.
	for (size_t i = 0; i < taken_count; i++) {
		inputs[i] = input_of(taken[i], &worlds[CUT]);
		inputs[i].generation = 1 + NEAR_SPACES;
	}
	is_u64(differing_of(seasoned, inputs, taken_count, UNWIND_MAX_FRAMES), 0, "a generation that shares its place in the table with another");
	unwinder_free(seasoned);
}

// Words of the stack that are no return addresses, and rooms that are too small.
static void test_spoiled(void)
{
	static const uint64_t words[] = { 0, 1, UINT64_MAX, (uint64_t)1 << 47, ((uint64_t)1 << 47) - 1, (uint64_t)1 << 58, 0x1000 };
	struct unwinder *seasoned = unwinder_new();
	struct snapshot *copies[GROUP];
	struct unwind_input inputs[GROUP];
	unsigned wrong = 0, walks = 0;
	uint64_t seed = 1;

	warm(seasoned, 1, &maps);
	for (size_t i = 0; i < GROUP; i++)
		copies[i] = mem_alloc(sizeof(struct snapshot));
	for (size_t round = 0; round < 40; round++) {
		for (size_t i = 0; i < GROUP; i++) {
			memcpy(copies[i], taken[i % taken_count], sizeof(struct snapshot));
			for (size_t change = 0; change < 1 + round; change++) {
				seed = seed * 6364136223846793005u + 1442695040888963407u;
				size_t at = (seed >> 33) % (copies[i]->size < 2048 ? copies[i]->size / 8 : 256) * 8;
				uint64_t word = words[(seed >> 20) % 7];
				if ((seed >> 50) % 3 == 0)
					word = copies[i]->regs[7] + (seed >> 40) % 4096; // a frame pointer that may even be one
				memcpy(copies[i]->stack + at, &word, 8);
			}
			if (round % 4 == 3)
				copies[i]->regs[6] = copies[i]->regs[7] + (seed >> 30) % 512;
			inputs[i] = input_of(copies[i], &maps);
			if (round % 5 == 4)
				inputs[i].stack_size = (seed >> 24) % 1024;
			if (round % 7 == 6)
				inputs[i].stack_top = copies[i]->regs[7] + (seed >> 24) % 1024;
		}
		wrong += differing_of(seasoned, inputs, GROUP, UNWIND_MAX_FRAMES);
		walks += GROUP;
	}
	ok(walks > 900 && wrong == 0, "%u spoiled stacks: as without the short cut (%u differ)", walks, wrong);
	wrong = 0;
	for (size_t capacity = 0; capacity < 40; capacity++) {
		for (size_t i = 0; i < GROUP; i++)
			inputs[i] = input_of(taken[i], &maps);
		wrong += differing_of(seasoned, inputs, GROUP, capacity);
	}
	is_u64(wrong, 0, "as many frames are kept of stacks that are too deep");
	for (size_t i = 0; i < GROUP; i++)
		free(copies[i]);
	unwinder_free(seasoned);
}

// As if what descend_sized() called were about to return to it: where sp is then, and with which fp the walk goes on to the root.
static bool make_returning(struct snapshot *copy)
{
	for (size_t at = 0; at + 8 <= copy->size; at += 8) {
		uint64_t word;
		memcpy(&word, copy->stack + at, 8);
		if (word <= (uintptr_t)descend_sized || word > (uintptr_t)descend_sized + 200)
			continue;
		copy->regs[7] += at;
		copy->size -= at;
		memmove(copy->stack, copy->stack + at, copy->size);
		for (size_t fp = 0; fp < 512; fp += 8) {
			copy->regs[6] = copy->regs[7] + fp;
			copy->regs[8] = word;
			struct snapshot *caller = mem_alloc(sizeof(*caller));
			memcpy(caller, copy, sizeof(*caller));
			caller->regs[7] += 8;
			caller->size -= 8;
			memmove(caller->stack, caller->stack + 8, caller->size);
			struct unwind_input input = input_of(caller, &maps);
			unwind_stack(unwinder, &input, &stack);
			free(caller);
			if (stack.end == UNWIND_ROOT && stack.count > 3)
				return true;
		}
	}
	return false;
}

// The leaf at each byte of a function that returns to one whose CFA counts from fp: also behind what popped fp, where its slot is below sp.
static void test_every_address(void)
{
	struct unwinder *seasoned = unwinder_new();
	struct snapshot *copy = mem_alloc(sizeof(*copy));
	struct unwind_input input;
	unsigned wrong = 0, whole = 0;

	warm(seasoned, 1, &maps);
	memcpy(copy, taken[9], sizeof(*copy));
	ok(make_returning(copy), "a stack that goes on from a frame pointer");
	for (uint64_t i = 0; i < 400; i++) {
		struct unwind_stack out = { .frames = rooms[0], .capacity = UNWIND_MAX_FRAMES };
		copy->regs[8] = (uintptr_t)descend_sized + i;
		input = input_of(copy, &maps);
		for (int again = 0; again < 2; again++)
			unwind_stack(seasoned, &input, &out);
		whole += out.end == UNWIND_ROOT;
		wrong += differing_of(seasoned, &input, 1, UNWIND_MAX_FRAMES);
	}
	ok(wrong == 0 && whole > 0, "a leaf at each of 400 bytes, %u to the root: as without the short cut (%u differ)", whole, wrong);
	free(copy);
	unwinder_free(seasoned);
}

// A new unwinder's.
static uint32_t unwinder_patience(void)
{
	struct unwinder *fresh = unwinder_new();
	uint32_t patience = fresh->near.patience;

	unwinder_free(fresh);
	return patience;
}

// More mappings than there are numbers.
static void test_many_mappings(void)
{
	struct unwinder *seasoned = unwinder_new();
	struct maps *other = mem_alloc(sizeof(*other));
	struct unwind_input inputs[GROUP];
	size_t own = own_map();
	unsigned wrong = 0, refused = 0;

	for (uint64_t generation = 1; generation <= 300; generation++) {
		*other = maps;
		other->map[own].start += generation; // each a mapping of its own
		warm(seasoned, generation, other);
		refused += seasoned->near.refused > 0;
		for (size_t i = 0; i < 4; i++) {
			inputs[i] = input_of(taken[i * 5], other);
			inputs[i].generation = generation;
		}
		wrong += differing_of(seasoned, inputs, 4, UNWIND_MAX_FRAMES);
	}
	ok(wrong == 0 && refused > 30, "300 address spaces with mappings of their own (%u found no number): none differs", refused);
	ok(seasoned->near.walked_before > 0 && seasoned->near.spaces[300 % NEAR_SPACES].places != 0, "numbers are given anew, to those that are walked now");
	is_u64(seasoned->near.patience, unwinder_patience(), "and soon, as it helps");
	// Two hundred that take turns: whatever is given, most are without.
	for (int round = 0; round < 60; round++)
		for (uint64_t generation = 1001; generation <= 1200; generation++) {
			*other = maps;
			other->map[own].start += generation;
			struct unwind_input input = input_of(taken[round % taken_count], other);
			struct unwind_stack out = { .frames = rooms[0], .capacity = UNWIND_MAX_FRAMES };
			input.generation = generation;
			unwind_stack(seasoned, &input, &out);
			if (generation % 50 == 0)
				wrong += differing_of(seasoned, &input, 1, UNWIND_MAX_FRAMES);
		}
	ok(wrong == 0 && seasoned->near.patience > unwinder_patience(), "where it does not help it is left (%u differ)", wrong);
	free(other);
	unwinder_free(seasoned);
}

int main(void)
{
	live_start();
	take_all();
	make_worlds();
	test_worlds();
	test_spoiled();
	test_every_address();
	test_many_mappings();
	for (size_t i = 0; i < taken_count; i++)
		free(taken[i]);
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
