#include "record/cost.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/sort.h"
#include "perf/event_set.h"

enum {
	ROUNDS = 9, PIECES = 6, PIECE_NS = 1000 * 1000,
	PERIOD_NS = 100 * 1000, // 10 samples a piece
	RING_BYTES = 1 << 20,   // holds 15 of the largest copies
	COPY_SMALL = 8192, COPY_LARGE = 57344,
	STACK_DEPTH = 72 * 1024, // above the loop's frame, so that each copy is full
};
enum kind { KIND_NONE, KIND_BARE, KIND_SMALL, KIND_LARGE, KINDS };

static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// CPU time of fixed work.
static __attribute__((noinline)) uint64_t work_ns(uint64_t turns)
{
	uint64_t before = cpu_ns(), x = turns;
	for (uint64_t i = 0; i < turns; i++) {
		x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
		__asm__ volatile("" : "+r"(x));
	}
	return cpu_ns() - before;
}

static uint64_t turns_for(uint64_t ns)
{
	uint64_t turns = 1000, took;
	while ((took = work_ns(turns)) < ns / 4)
		turns *= 2;
	return (uint64_t)((double)turns * (double)ns / (double)took);
}

static bool open_clock(struct event_set *set, const struct event_specs *specs, uint32_t copy, struct err *err)
{
	int32_t tid = (int32_t)syscall(SYS_gettid);
	uint32_t cpu = 0; // SCOPE_THREAD binds to none
	const struct event_target target = { .scope = SCOPE_THREAD, .cgroup_fd = -1, .tids = &tid, .tid_count = 1, .cpus = &cpu, .cpu_count = 1 };
	const struct event_options options = {
		.period = PERIOD_NS, .kernel_callchain = true, .user_regs = copy > 0, .stack_bytes = copy, .ring_bytes = RING_BYTES,
	};
	return event_set_open(set, specs, &target, &options, err);
}

static uint64_t empty_ring(struct ring *ring)
{
	uint64_t samples = 0;
	struct perf_event_header *header;
	bool broken;
	ring_snapshot(ring);
	while ((header = ring_peek(ring, &broken)) != NULL) {
		samples += header->type == PERF_RECORD_SAMPLE;
		ring_advance(ring, header);
	}
	ring_release_read(ring);
	return samples;
}

struct round { uint64_t ns, samples; };

static struct round run_round(struct event_set *set, uint64_t turns)
{
	struct round round = { 0 };
	for (int i = 0; i < PIECES; i++) {
		if (set != NULL)
			(void)event_set_enable(set, NULL);
		round.ns += work_ns(turns);
		if (set == NULL)
			continue;
		event_set_disable(set);
		round.samples += empty_ring(&set->rings.data[0]);
	}
	return round;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static double median(double *values, size_t count)
{
	sort_stable(values, count, sizeof(*values), by_value);
	return count % 2 != 0 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

// Each round has all kinds, so that what else runs on the machine meets them alike.
static bool measure(struct cost_calibration *out, struct event_set *sets, struct err *err)
{
	double cost[KINDS][ROUNDS];
	uint64_t turns = turns_for(PIECE_NS);
	(void)run_round(NULL, turns);
	for (size_t i = 0; i < ROUNDS; i++) {
		struct round plain = run_round(NULL, turns);
		for (int kind = KIND_BARE; kind < KINDS; kind++) {
			struct round round = run_round(&sets[kind], turns);
			if (round.samples == 0)
				return err_set(err, STATUS_HOST, "calibrating: the clock gave no samples");
			cost[kind][i] = ((double)round.ns - (double)plain.ns) / (double)round.samples;
			out->samples += round.samples;
		}
	}
	out->rounds = ROUNDS;
	double bare = median(cost[KIND_BARE], ROUNDS), few = median(cost[KIND_SMALL], ROUNDS), many = median(cost[KIND_LARGE], ROUNDS);
	out->tick_ns = bare > 0 ? bare : 0;
	out->copy_ns_per_kib = many > few ? (many - few) / ((COPY_LARGE - COPY_SMALL) / 1024.0) : 0;
	return true;
}

static __attribute__((noinline)) bool measure_deep(struct cost_calibration *out, struct event_set *sets, struct err *err)
{
	uint8_t depth[STACK_DEPTH];
	memset(depth, 1, sizeof(depth));
	__asm__ volatile("" : : "r"(depth) : "memory");
	bool good = measure(out, sets, err);
	__asm__ volatile("" : : "r"(depth) : "memory"); // no tail call: the array stays above
	return good;
}

bool cost_calibrate(struct cost_calibration *out, struct err *err)
{
	static const uint32_t copies[KINDS] = { [KIND_SMALL] = COPY_SMALL, [KIND_LARGE] = COPY_LARGE };
	struct event_set sets[KINDS] = { 0 };
	struct event_specs specs = { 0 };
	*out = (struct cost_calibration){ 0 };
	bool good = event_specs_parse(&specs, "cpu-clock", err);
	for (int kind = KIND_BARE; good && kind < KINDS; kind++)
		good = open_clock(&sets[kind], &specs, copies[kind], err);
	good = good && measure_deep(out, sets, err);
	for (int kind = KIND_BARE; kind < KINDS; kind++)
		event_set_close(&sets[kind]);
	event_specs_release(&specs);
	return good;
}

static double seconds_of(const struct cost *cost, uint64_t ticks, double copied_kib)
{
	return ((double)ticks * cost->unit.tick_ns + copied_kib * cost->unit.copy_ns_per_kib) / 1e9;
}

double cost_target_s(const struct cost *cost)
{
	return seconds_of(cost, cost->ticks, cost->copied_kib);
}

double cost_others_s(const struct cost *cost)
{
	return seconds_of(cost, cost->others_ticks, cost->others_copied_kib);
}

double cost_drain_us(const struct cost *cost)
{
	uint64_t ticks = cost->ticks + cost->others_ticks;
	return ticks > 0 ? 1e6 * cost->recorder_cpu_s / (double)ticks : 0;
}
