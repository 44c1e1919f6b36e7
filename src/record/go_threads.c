#include "record/go_threads.h"

#include <string.h>
#include <sys/uio.h>

enum {
	WORD = 8,
	// g: stack {low, high}, stackguard0, stackguard1, _panic, _defer, m, sched. gobuf: sp, pc, g, ctxt, ret, lr, bp; Go 1.25 did away with ret.
	G_LOW = 0, G_HIGH = 8, G_M = 48, G_SP = 56, G_PC = 64, G_BP = 104, G_BP_125 = 96, G_BYTES = 112,
	// m: g0, morebuf (a gobuf), …, gsignal, …, curg.
	M_G0 = 0, M_SIGNAL = 80, M_CURRENT = 192, M_BYTES = 200, GOBUF_RET = 8,
	GO_HINT_IS_G = 1, // pointers are aligned
};
static const uint64_t LEAST_ADDRESS = 4096, LAST_ADDRESS = UINT64_C(1) << 56;

static uint32_t slot_of(int32_t id, uint32_t slots)
{
	return (uint32_t)id * UINT32_C(2654435761) % slots;
}

void go_threads_note(struct go_threads *threads, int32_t pid, int32_t tid, uint64_t g, bool wants_system)
{
	atomic_store_explicit(&threads->pids[slot_of(pid, GO_PROCESSES)], pid, memory_order_relaxed);
	if (g != 0 && atomic_load_explicit(&threads->hints[slot_of(tid, GO_THREADS)], memory_order_relaxed) == 0)
		atomic_store_explicit(&threads->hints[slot_of(tid, GO_THREADS)], g | GO_HINT_IS_G, memory_order_relaxed);
	if (wants_system)
		atomic_store_explicit(&threads->systems[slot_of(tid, GO_THREADS)], 1, memory_order_relaxed);
}

bool go_threads_has(const struct go_threads *threads, int32_t pid)
{
	return atomic_load_explicit(&threads->pids[slot_of(pid, GO_PROCESSES)], memory_order_relaxed) == pid;
}

// ---------------------------------------------------------------- reading

static bool is_pointer(uint64_t value)
{
	return value >= LEAST_ADDRESS && value < LAST_ADDRESS && value % WORD == 0;
}

static bool read_at(int32_t tid, uint64_t addr, void *out, size_t size)
{
	const struct iovec to = { .iov_base = out, .iov_len = size }, from = { .iov_base = (void *)(uintptr_t)addr, .iov_len = size };

	return is_pointer(addr) && process_vm_readv(tid, &to, 1, &from, 1, 0) == (ssize_t)size;
}

struct g {
	uint64_t at, low, high, m, sp, pc, fp;
};

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

static struct g g_of(uint64_t at, const uint8_t *bytes)
{
	return (struct g){ .at = at, .low = word_at(bytes, G_LOW), .high = word_at(bytes, G_HIGH), .m = word_at(bytes, G_M), .sp = word_at(bytes, G_SP),
			   .pc = word_at(bytes, G_PC), .fp = word_at(bytes, G_BP) };
}

static bool is_on(const struct g *g, uint64_t sp)
{
	return g->at != 0 && g->high > g->low && sp > g->low && sp <= g->high;
}

struct m {
	uint64_t at;
	struct g system, current, signal;
};

// An m, with its goroutines. Go 1.25's has one word less before the goroutine that it runs.
static bool read_m(int32_t tid, uint64_t at, uint64_t sp, struct m *out)
{
	uint8_t m[M_BYTES], g[3][G_BYTES];

	*out = (struct m){ .at = at };
	if (!read_at(tid, at, m, sizeof(m)))
		return false;
	for (unsigned less = 0; less <= GOBUF_RET; less += GOBUF_RET) {
		const uint64_t places[3] = { word_at(m, M_G0), word_at(m, M_SIGNAL - less), word_at(m, M_CURRENT - less) };
		struct iovec to[3], from[3];
		struct g *const gs[3] = { &out->system, &out->signal, &out->current };
		size_t count = 0;
		for (size_t i = 0; i < 3; i++) {
			*gs[i] = (struct g){ 0 };
			if (!is_pointer(places[i]))
				continue;
			to[count] = (struct iovec){ .iov_base = g[i], .iov_len = G_BYTES };
			from[count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)places[i], .iov_len = G_BYTES };
		}
		if (!is_pointer(places[0]) || process_vm_readv(tid, to, count, from, count, 0) != (ssize_t)(count * G_BYTES))
			continue;
		for (size_t i = 0; i < 3; i++)
			if (is_pointer(places[i]))
				*gs[i] = g_of(places[i], g[i]);
		if (less > 0)
			out->current.fp = word_at(g[2], G_BP_125);
		const bool is_whole = out->system.m == at && out->signal.at != 0 && out->signal.m == at && // each m gets one before its thread runs
				      (out->current.at == 0 || (out->current.m == at && out->current.high > out->current.low));
		if (is_whole && (is_on(&out->system, sp) || is_on(&out->current, sp) || is_on(&out->signal, sp)))
			return true;
	}
	return false;
}

// The thread's m: the one that it had before, or that of the goroutine in its register, or that a frame of its stack told of.
static bool find_m(struct go_threads *threads, const struct go_sample *sample, struct m *out)
{
	_Atomic uint64_t *slot = &threads->hints[slot_of(sample->tid, GO_THREADS)];
	const uint64_t hint = atomic_load_explicit(slot, memory_order_relaxed);
	const bool is_g = (hint & GO_HINT_IS_G) != 0;

	if (hint != 0 && !is_g && read_m(sample->tid, hint, sample->sp, out))
		return true;
	const uint64_t told[] = { sample->g, is_g ? hint - GO_HINT_IS_G : 0 };
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		uint64_t m;
		if (told[i] != 0 && read_at(sample->tid, told[i] + G_M, &m, sizeof(m)) && read_m(sample->tid, m, sample->sp, out)) {
			atomic_store_explicit(slot, m, memory_order_relaxed);
			return true;
		}
	}
	return false;
}

// ---------------------------------------------------------------- what is read of the stacks

static void add_part(struct go_plan *plan, uint64_t start, uint64_t end, uint64_t most)
{
	start &= ~(uint64_t)(WORD - 1);
	if (end <= start)
		return;
	const uint64_t size = end - start < most ? end - start : most;
	plan->other.parts[plan->count++] = (struct unwind_other_part){ .start = start, .size = size };
	plan->size += size;
}

// Where the goroutine's stack is used: from where it was left, which its gobuf has, or a register.
static uint64_t lowest_used(const struct go_sample *sample, const struct g *g)
{
	uint64_t lowest = is_on(g, g->sp) ? g->sp : g->high;

	for (size_t i = 0; i < GO_KEPT; i++)
		if (is_on(g, sample->kept[i]) && sample->kept[i] < lowest)
			lowest = sample->kept[i];
	return lowest < g->high ? lowest : g->low;
}

enum go_found go_threads_find(struct go_threads *threads, const struct go_sample *sample, struct go_plan *plan)
{
	struct m m;

	if (!find_m(threads, sample, &m))
		return GO_NOTHING;
	const struct g *current = &m.current;
	*plan = (struct go_plan){
		.other = { .g = current->at, .low = current->low, .high = current->high, .sp = current->sp, .pc = current->pc, .fp = current->fp, .system_sp = m.system.sp },
		.size = sizeof(plan->other),
	};
	const bool is_here = is_on(current, sample->sp), is_system = is_on(&m.system, sample->sp);
	const bool is_signal = !is_here && !is_system; // a handler's: where what it interrupted was on its stack nobody knows yet
	const bool wants_system = atomic_load_explicit(&threads->systems[slot_of(sample->tid, GO_THREADS)], memory_order_relaxed) != 0;
	plan->top = is_here ? current->high : 0;
	if (!is_here && current->at != 0)
		add_part(plan, is_system ? lowest_used(sample, current) : current->low, current->high, GO_STACK_MOST);
	if (is_signal && m.system.high - m.system.low <= GO_SYSTEM_MOST)
		add_part(plan, m.system.low, m.system.high, GO_SYSTEM_MOST);
	else if ((is_signal || (is_here && wants_system)) && is_on(&m.system, m.system.sp))
		add_part(plan, m.system.sp, m.system.high, GO_SYSTEM_MOST);
	return plan->count == 0 && current->at != 0 ? GO_SAME : GO_OTHER;
}

bool go_threads_read(const struct go_sample *sample, const struct go_plan *plan, uint8_t *out)
{
	uint8_t again[GO_CHECKED];
	const size_t checked = sample->copied < GO_CHECKED ? sample->copied : GO_CHECKED;
	struct iovec to[1 + UNWIND_OTHER_STACKS] = { { .iov_base = again, .iov_len = checked } };
	struct iovec from[1 + UNWIND_OTHER_STACKS] = { { .iov_base = (void *)(uintptr_t)sample->sp, .iov_len = checked } };
	size_t at = sizeof(plan->other);

	for (size_t i = 0; i < plan->count; i++) {
		const struct unwind_other_part *part = &plan->other.parts[i];
		to[1 + i] = (struct iovec){ .iov_base = out + at, .iov_len = part->size };
		from[1 + i] = (struct iovec){ .iov_base = (void *)(uintptr_t)part->start, .iov_len = part->size };
		at += part->size;
	}
	memcpy(out, &plan->other, sizeof(plan->other));
	return process_vm_readv(sample->tid, to, 1 + plan->count, from, 1 + plan->count, 0) == (ssize_t)(checked + plan->size - sizeof(plan->other)) &&
	       memcmp(again, sample->copy, checked) == 0;
}

const struct unwind_other *go_threads_open(void *bytes, size_t size)
{
	struct unwind_other *other = bytes;
	size_t at = sizeof(*other);

	if (size < at)
		return NULL;
	for (size_t i = 0; i < UNWIND_OTHER_STACKS; i++) {
		if (other->parts[i].size > size - at)
			return NULL;
		other->parts[i].bytes = (const uint8_t *)bytes + at;
		at += other->parts[i].size;
	}
	return other;
}
