#include "record/budget.h"

#include <stdio.h>

#include "perf/event_set.h"

size_t budget_power_of_two(size_t bytes)
{
	size_t power = 4096;
	while (power < bytes && power <= SIZE_MAX / 2)
		power *= 2;
	return power;
}

size_t budget_ample_bytes(size_t rings, size_t ring_limit)
{
	size_t each = AMPLE_BYTES / (rings > 0 ? rings : 1);
	if (ring_limit != SIZE_MAX && each > ring_limit / 2)
		each = ring_limit / 2;
	size_t power = 4096;
	while (power <= each / 2)
		power *= 2;
	return power;
}

// Samples that come within a delay.
static double fill(const struct budget_input *input)
{
	double rate = input->rate_hz > 1 ? input->rate_hz : 1;
	return rate * input->delay_ms / 1000.0;
}

static size_t ring_for(uint32_t stack_bytes)
{
	return budget_power_of_two((size_t)stack_bytes + RECORD_REST_BYTES_MAX);
}

// The ring of a recording that nothing limits: the delay must be borne; beyond, a larger one saves wake-ups and bears a rate that is only likely.
static size_t wished_ring(const struct budget_input *input, uint32_t stack_bytes)
{
	double bytes = (double)stack_bytes + SAMPLE_REST_BYTES, need = fill(input) * bytes;
	double few_wakes = input->rate_hz * AMPLE_MS / 1000 * bytes, likely = input->likely_hz * input->delay_ms / 1000 * bytes;
	double ample = few_wakes > likely ? few_wakes : likely;
	if (ample > (double)input->ample_bytes)
		ample = (double)input->ample_bytes;
	double wish = need > ample ? need : ample;
	size_t least = ring_for(stack_bytes);
	size_t ring = budget_power_of_two(wish < RING_BYTES_MIN ? RING_BYTES_MIN : (size_t)wish);
	return ring < least ? least : ring;
}

// The largest copy that costs the target no more than the budget.
static uint32_t copy_for_cost(const struct budget_input *input)
{
	double rate = input->likely_hz > input->rate_hz ? input->likely_hz : input->rate_hz;
	double copy = rate > 1 ? COPIED_BYTES_PER_S / rate - SAMPLE_REST_BYTES : STACK_BYTES_MAX;
	if (copy >= STACK_BYTES_MAX)
		return STACK_BYTES_MAX;
	return copy < STACK_BYTES_AUTO_MIN ? STACK_BYTES_AUTO_MIN : (uint32_t)copy / 8 * 8;
}

static uint32_t copy_for_ring(const struct budget_input *input, size_t ring_bytes)
{
	double copy = (double)ring_bytes / fill(input) - SAMPLE_REST_BYTES;
	if (copy >= STACK_BYTES_MAX)
		return STACK_BYTES_MAX;
	if (copy < STACK_BYTES_AUTO_MIN)
		return STACK_BYTES_AUTO_MIN;
	return (uint32_t)copy / 8 * 8;
}

// To what the ring bears, where that is less.
static void shrink_copy(const struct budget_input *input, struct budget *budget)
{
	uint32_t copy = copy_for_ring(input, budget->ring_bytes);
	if (copy >= budget->stack_bytes)
		return;
	budget->stack_bytes = copy;
	budget->is_cheaper = false;
}

// What such a ring does hold.
static void smaller(char *text, size_t size, size_t ring_bytes)
{
	enum { WORTH_BYTES = 1024 };
	size_t copy = ring_bytes > RECORD_REST_BYTES_MAX ? ring_bytes - RECORD_REST_BYTES_MAX : 0;
	if (copy >= WORTH_BYTES)
		snprintf(text, size, "--call-graph dwarf,%zu", copy);
	else
		snprintf(text, size, "--call-graph fp");
}

// What the host allows is too little, or nothing.
static bool refuse(const struct budget_input *input, const struct budget *budget, struct err *err)
{
	size_t least = ring_for(budget->stack_bytes), raise = ring_mlock_kib(input->rings > 0 ? input->rings : 1, least);
	char text[48] = "";
	if (input->ring_limit == 0) {
		if (input->ring_bytes > 0 && input->ring_bytes < least)
			snprintf(text, sizeof(text), "; and -m %zu", least / 4096);
		return err_set(err, STATUS_HOST, "the host lets no ring be locked in memory: sysctl kernel.perf_event_mlock_kb=%zu, or ulimit -l %zu, or CAP_IPC_LOCK%s", raise,
		               raise * ring_mlock_cpus(), text);
	}
	smaller(text, sizeof(text), input->ring_limit);
	return err_set(err, STATUS_HOST, "the host allows rings of %zuK only, too small for one record with a stack copy of %u bytes: %s, or raise it: sysctl kernel.perf_event_mlock_kb=%zu",
	               input->ring_limit / 1024, budget->stack_bytes, text, raise);
}

static bool refuse_given(const struct budget_input *input, const struct budget *budget, struct err *err)
{
	size_t least = ring_for(budget->stack_bytes);
	char text[48];
	if (input->ring_limit == 0)
		return refuse(input, budget, err);
	if (least <= input->ring_limit)
		snprintf(text, sizeof(text), "at least %zuK (-m %zu)", least / 1024, least / 4096);
	else
		smaller(text, sizeof(text), input->ring_bytes < input->ring_limit ? input->ring_bytes : input->ring_limit);
	return err_set(err, STATUS_USAGE, "-m: a ring of %zuK is too small for one record with a stack copy of %u bytes: %s", budget->ring_bytes / 1024,
	               budget->stack_bytes, text);
}

bool budget_compute(const struct budget_input *input, struct budget *budget, struct err *err)
{
	bool automatic = input->has_stack && input->stack_bytes == 0;
	*budget = (struct budget){ .stack_bytes = !input->has_stack ? 0 : automatic ? copy_for_cost(input) : input->stack_bytes };
	budget->is_cheaper = automatic && budget->stack_bytes < STACK_BYTES_MAX;
	if (budget->stack_bytes > STACK_BYTES_MAX)
		budget->stack_bytes = STACK_BYTES_MAX;
	budget->stack_bytes = (budget->stack_bytes + 7) / 8 * 8;

	if (input->ring_bytes > 0) {
		budget->ring_bytes = input->ring_bytes;
		if (automatic)
			shrink_copy(input, budget);
		if (budget->ring_bytes < ring_for(budget->stack_bytes))
			return refuse_given(input, budget, err);
	} else {
		budget->ring_bytes = wished_ring(input, budget->stack_bytes);
		if (budget->ring_bytes > input->ring_limit) {
			budget->ring_bytes = input->ring_limit;
			if (automatic)
				shrink_copy(input, budget);
			if (budget->ring_bytes < ring_for(budget->stack_bytes))
				return refuse(input, budget, err);
		}
	}
	double rate = input->rate_hz > 1 ? input->rate_hz : 1;
	budget->bears_ms = (double)budget->ring_bytes / (rate * ((double)budget->stack_bytes + SAMPLE_REST_BYTES)) * 1000;
	budget->is_short = budget->bears_ms < input->delay_ms;
	return true;
}
