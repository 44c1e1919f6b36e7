// Ring and copy sizes against the formulas of perfsample-record(1), -m.
#include "record/budget.h"

#include "tests/tap.h"

static void formula(void)
{
	struct budget budget;
	struct err err = { 0 };
	struct budget_input input = { .rate_hz = 772, .has_stack = true, .delay_ms = 20, .ring_limit = SIZE_MAX };
	ok(budget_compute(&input, &budget, &err), "auto, no limit");
	is_u64(budget.stack_bytes, 65528, "auto takes the largest copy where nothing limits it");
	is_u64(budget.ring_bytes, 1 << 20, "772 Hz x 65,784 bytes x 20 ms, up to a power of two");
	ok(!budget.is_short, "it bears the delay");

	input = (struct budget_input){ .rate_hz = 772, .has_stack = true, .stack_bytes = 8192, .delay_ms = 100, .ring_limit = SIZE_MAX };
	ok(budget_compute(&input, &budget, &err), "8 KiB at normal priority");
	is_u64(budget.ring_bytes, 1 << 20, "772 x 8,448 x 0.1 = 652,185, up to 1 MiB");

	input = (struct budget_input){ .rate_hz = 772, .delay_ms = 20, .ring_limit = SIZE_MAX };
	ok(budget_compute(&input, &budget, &err), "no stacks");
	is_u64(budget.stack_bytes, 0, "then no copy");
	is_u64(budget.ring_bytes, RING_BYTES_MIN, "and the least ring");
}

static void ample(void)
{
	struct budget budget;
	struct err err = { 0 };
	struct budget_input input = { .rate_hz = 772, .has_stack = true, .delay_ms = 20, .ring_limit = SIZE_MAX, .ample_bytes = 64 << 20 };
	ok(budget_compute(&input, &budget, &err), "memory is no matter");
	is_u64(budget.ring_bytes, 8 << 20, "772 Hz x 65,784 bytes x 160 ms = 8,125,640, up to 8 MiB");
	input.ample_bytes = 2 << 20;
	ok(budget_compute(&input, &budget, &err) && budget.ring_bytes == 2 << 20, "as far as it is none");
	input.ample_bytes = 64 << 10;
	ok(budget_compute(&input, &budget, &err) && budget.ring_bytes == 1 << 20, "but the delay is borne in any case");

	// Every page fault, of which a busy program makes 100,000 a second.
	input = (struct budget_input){ .rate_hz = 1000, .likely_hz = 100000, .has_stack = true, .delay_ms = 20, .ring_limit = SIZE_MAX, .ample_bytes = 64 << 20 };
	ok(budget_compute(&input, &budget, &err), "a rate that is the program's");
	is_u64(budget.stack_bytes, 8192, "copies are small");
	ok(budget.is_cheaper, "and that is said to be for their cost");
	is_u64(budget.ring_bytes, 32 << 20, "100,000 x 8,448 x 0.02 = 16,896,000, up to 32 MiB");
	input.stack_bytes = 32768;
	ok(budget_compute(&input, &budget, &err) && budget.stack_bytes == 32768 && !budget.is_cheaper, "a size that was asked for stays");
	is_u64(budget.ring_bytes, 64 << 20, "and the ring is what may be taken");

	input = (struct budget_input){ .rate_hz = 8000, .likely_hz = 8000, .has_stack = true, .delay_ms = 20, .ring_limit = SIZE_MAX, .ample_bytes = 64 << 20 };
	ok(budget_compute(&input, &budget, &err), "8,000 Hz");
	is_u64(budget.stack_bytes, ((256 << 20) / 8000 - 256) / 8 * 8, "256 MiB a second of copies");
	is_u64(budget_ample_bytes(2, SIZE_MAX), 64 << 20, "128 MiB for two rings");
	is_u64(budget_ample_bytes(48, SIZE_MAX), 2 << 20, "for 48");
	is_u64(budget_ample_bytes(2, 4 << 20), 2 << 20, "half of what a user may lock");
}

static void limited(void)
{
	struct budget budget;
	struct err err = { 0 };
	struct budget_input input = { .rate_hz = 772, .has_stack = true, .delay_ms = 100, .ring_limit = 512 * 1024 };
	ok(budget_compute(&input, &budget, &err), "auto under a limit");
	is_u64(budget.ring_bytes, 512 * 1024, "the ring is what is allowed");
	// 524,288 / 77.2 - 256 = 6,535: below 8,192, so 8,192 and the delay it bears.
	is_u64(budget.stack_bytes, 8192, "auto goes no lower than 8,192");
	ok(budget.is_short, "and says that it bears less");
	is_close(budget.bears_ms, 524288.0 / (772 * 8448.0) * 1000, 1e-9, "how much less");

	input.delay_ms = 20;
	ok(budget_compute(&input, &budget, &err), "the same at real-time priority");
	is_u64(budget.stack_bytes, (uint64_t)(524288 / (772 * 0.02) - 256) / 8 * 8, "copy = ring / (rate x delay) - 256, down to a multiple of 8");
	ok(!budget.is_short, "which bears the delay");

	input = (struct budget_input){ .rate_hz = 4000, .has_stack = true, .stack_bytes = 65528, .delay_ms = 20, .ring_limit = 64 * 1024 };
	ok(!budget_compute(&input, &budget, &err) && err.status == STATUS_HOST, "a limit below one record is the host's refusal");
	ok(strstr(err.text, "perf_event_mlock_kb") != NULL, "that names the setting: %s", err.text);
}

// What is advised is taken: tried with the very budget that refused.
static void advice(void)
{
	unsigned refused = 0, bad = 0;
	for (size_t limit = 0; limit <= 128 * 1024; limit = limit == 0 ? 4096 : 2 * limit)
		for (uint32_t stack = 0; stack <= 65528; stack = stack == 0 ? 8192 : stack + 8192 - 8 * (stack == 57344))
			for (size_t ring = 0; ring <= 16384; ring = ring == 0 ? 4096 : 2 * ring) {
				struct budget budget;
				struct err err = { 0 };
				struct budget_input input = { .rate_hz = 772, .has_stack = true, .stack_bytes = stack, .ring_bytes = ring, .delay_ms = 20, .ring_limit = limit, .rings = 2 };
				if (budget_compute(&input, &budget, &err))
					continue;
				refused++;
				const char *smaller = strstr(err.text, "--call-graph "), *larger = strstr(err.text, "(-m ");
				unsigned bytes = 0, pages = 0;
				if (smaller != NULL && sscanf(smaller, "--call-graph dwarf,%u", &bytes) == 1)
					input.stack_bytes = bytes;
				else if (smaller != NULL)
					input.has_stack = false;
				if (larger != NULL && sscanf(larger, "(-m %u)", &pages) == 1)
					input.ring_bytes = pages * (size_t)4096;
				bool good = (smaller != NULL || larger != NULL) && budget_compute(&input, &budget, &err) && budget.ring_bytes >= budget.stack_bytes + (size_t)4096 - 4096 * !input.has_stack &&
				            (larger == NULL || input.ring_bytes <= limit);
				if (limit == 0) // there is nothing smaller
					good = smaller == NULL && larger == NULL && strstr(err.text, "perf_event_mlock_kb=") != NULL && strstr(err.text, "ulimit -l ") != NULL;
				bad += !good;
				if (!good)
					diag("limit %zu, stack %u, ring %zu: %s", limit, stack, ring, err.text);
			}
	ok(refused > 30 && bad == 0, "of %u refusals %u advise what would be refused again", refused, bad);
}

static void given(void)
{
	struct budget budget;
	struct err err = { 0 };
	struct budget_input input = { .rate_hz = 772, .has_stack = true, .stack_bytes = 32768, .ring_bytes = 32768, .delay_ms = 20, .ring_limit = SIZE_MAX };
	ok(!budget_compute(&input, &budget, &err) && err.status == STATUS_USAGE, "-m 8 cannot hold one record with a copy of 32,768 bytes");
	ok(strstr(err.text, "64K") != NULL && strstr(err.text, "-m 16") != NULL, "and the least size is named: %s", err.text);
	input.ring_bytes = 65536;
	ok(budget_compute(&input, &budget, &err), "that size is enough");
	is_u64(budget.ring_bytes, 65536, "-m is obeyed");
	input = (struct budget_input){ .rate_hz = 4000, .has_stack = true, .ring_bytes = 1 << 20, .delay_ms = 20, .ring_limit = SIZE_MAX };
	ok(budget_compute(&input, &budget, &err), "-m with auto");
	is_u64(budget.stack_bytes, (uint64_t)((1 << 20) / 80.0 - 256) / 8 * 8, "the copy follows the ring");
	is_u64(budget_power_of_two(1), 4096, "at least a page");
	is_u64(budget_power_of_two(4097), 8192, "up to a power of two");
}

int main(void)
{
	formula();
	ample();
	limited();
	advice();
	given();
	return tap_done();
}
