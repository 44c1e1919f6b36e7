#include "record/budget.h"

size_t budget_power_of_two(size_t bytes)
{
	size_t power = 4096;
	while (power < bytes && power <= SIZE_MAX / 2)
		power *= 2;
	return power;
}

// Bytes that one second of delay fills, for each byte of a sample.
static double fill(const struct budget_input *input)
{
	double rate = input->rate_hz > 1 ? input->rate_hz : 1;
	return rate * input->delay_ms / 1000.0;
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

static bool one_record_fits(const struct budget *budget, struct err *err)
{
	size_t least = budget_power_of_two((size_t)budget->stack_bytes + RECORD_REST_BYTES_MAX);
	if (budget->ring_bytes >= least)
		return true;
	return err_set(err, STATUS_USAGE, "-m: a ring of %zuK is too small for one record with a stack copy of %u bytes: at least %zuK (-m %zu)",
	               budget->ring_bytes / 1024, budget->stack_bytes, least / 1024, least / 4096);
}

bool budget_compute(const struct budget_input *input, struct budget *budget, struct err *err)
{
	bool automatic = input->has_stack && input->stack_bytes == 0;
	*budget = (struct budget){ .stack_bytes = !input->has_stack ? 0 : automatic ? STACK_BYTES_MAX : input->stack_bytes };
	if (budget->stack_bytes > STACK_BYTES_MAX)
		budget->stack_bytes = STACK_BYTES_MAX;
	budget->stack_bytes = (budget->stack_bytes + 7) / 8 * 8;

	if (input->ring_bytes > 0) {
		budget->ring_bytes = input->ring_bytes;
		if (automatic)
			budget->stack_bytes = copy_for_ring(input, budget->ring_bytes);
		if (!one_record_fits(budget, err))
			return false;
	} else {
		double want = fill(input) * ((double)budget->stack_bytes + SAMPLE_REST_BYTES);
		size_t least = budget_power_of_two((size_t)budget->stack_bytes + RECORD_REST_BYTES_MAX);
		budget->ring_bytes = budget_power_of_two(want < RING_BYTES_MIN ? RING_BYTES_MIN : (size_t)want);
		if (budget->ring_bytes < least)
			budget->ring_bytes = least;
		if (budget->ring_bytes > input->ring_limit) {
			budget->ring_bytes = input->ring_limit;
			if (automatic)
				budget->stack_bytes = copy_for_ring(input, budget->ring_bytes);
			if (!one_record_fits(budget, err))
				return err_set(err, STATUS_HOST, "the host allows rings of %zuK only, too small for one record with a stack copy of %u bytes: "
				               "--call-graph dwarf,8192, or raise it: sysctl kernel.perf_event_mlock_kb=%zu",
				               budget->ring_bytes / 1024, budget->stack_bytes, least / 1024 + 4);
		}
	}
	double rate = input->rate_hz > 1 ? input->rate_hz : 1;
	budget->bears_ms = (double)budget->ring_bytes / (rate * ((double)budget->stack_bytes + SAMPLE_REST_BYTES)) * 1000;
	budget->is_short = budget->bears_ms < input->delay_ms;
	return true;
}
