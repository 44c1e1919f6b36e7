#include "profile/combs.h"

#include <math.h>

static bool is_alike(const struct profile_event *a, const struct profile_event *b)
{
	return a->attr_config == b->attr_config && a->excludes_user == b->excludes_user && a->excludes_kernel == b->excludes_kernel
		&& a->excludes_idle == b->excludes_idle;
}

// The event at the second comb's period, and beside it the one at the first's, or else the only other that samples the same clock alike.
static bool find_combs(const struct profile *p, uint32_t combs[2])
{
	uint32_t second = PROFILE_NONE, first = PROFILE_NONE, usual = PROFILE_NONE, others = 0;
	for (uint32_t i = 0; i < p->events.count; i++) {
		const struct profile_event *e = &p->events.data[i];
		if (!e->is_sampling || !e->is_clock || e->is_freq || e->period != COMB_SECOND_NS || e->comb_periods[1] != 0)
			continue;
		if (second != PROFILE_NONE)
			return false;
		second = i;
	}
	for (uint32_t i = 0; second != PROFILE_NONE && i < p->events.count; i++) {
		const struct profile_event *e = &p->events.data[i];
		if (i == second || !e->is_sampling || !e->is_clock || e->is_freq || e->period == 0 || !is_alike(e, &p->events.data[second]))
			continue;
		if (e->period == COMB_FIRST_NS) {
			if (usual != PROFILE_NONE)
				return false;
			usual = i;
		}
		first = i;
		others++;
	}
	if (usual != PROFILE_NONE)
		first = usual;
	else if (others != 1)
		return false;
	combs[0] = first < second ? first : second;
	combs[1] = first < second ? second : first;
	return true;
}

// A recorder short of CPU reopens events at a coarser period: then a sample's weight is not its comb's.
static bool weights_are_periods(const struct profile *p, const uint32_t combs[2])
{
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample s_row;
		const struct profile_sample *s = samples_get(&p->samples, i, &s_row);
		if ((s->event == combs[0] || s->event == combs[1]) && s->weight != p->events.data[s->event].period)
			return false;
	}
	return true;
}

static uint32_t id_after(uint32_t event, const uint32_t combs[2])
{
	return event == combs[1] ? combs[0] : event != PROFILE_NONE && event > combs[1] ? event - 1 : event;
}

struct pooling { uint32_t combs[2]; uint64_t period; };

static void pool(void *context, struct profile_sample *s)
{
	const struct pooling *pooling = context;
	s->comb = s->event == pooling->combs[1];
	if (s->event == pooling->combs[0] || s->event == pooling->combs[1])
		s->weight = pooling->period;
	s->event = id_after(s->event, pooling->combs);
}

static void add_second(struct profile_event *into, const struct profile_event *from, uint64_t period)
{
	into->comb_periods[0] = into->period;
	into->comb_periods[1] = from->period;
	into->period = period;
	into->lost += from->lost;
	into->idle += from->idle;
	into->idle_unsampled += from->idle_unsampled;
	into->expected += from->expected;
	into->can_expect &= from->can_expect;
	into->is_accounted &= from->is_accounted;
	if (from->time_running_ns > into->time_running_ns)
		into->time_running_ns = from->time_running_ns;
	if (from->time_enabled_ns > into->time_enabled_ns)
		into->time_enabled_ns = from->time_enabled_ns;
}

bool profile_pool_combs(struct profile *p)
{
	uint32_t combs[2];
	if (!find_combs(p, combs) || !weights_are_periods(p, combs))
		return false;
	struct profile_event *first = &p->events.data[combs[0]], *second = &p->events.data[combs[1]];
	uint64_t period = (uint64_t)llround(1 / (1 / (double)first->period + 1 / (double)second->period));
	add_second(first, second, period);
	struct pooling pooling = { .combs = { combs[0], combs[1] }, .period = period };
	samples_edit(&p->samples, pool, &pooling);
	size_t kept = 0;
	for (size_t i = 0; i < p->readings.count; i++) { // cumulative: the second's would stand between the first's
		if (p->readings.data[i].event == combs[1])
			continue;
		p->readings.data[kept] = p->readings.data[i];
		p->readings.data[kept].event = id_after(p->readings.data[kept].event, combs);
		kept++;
	}
	p->readings.count = kept;
	for (size_t i = 0; i < p->losses.count; i++)
		p->losses.data[i].event = id_after(p->losses.data[i].event, combs);
	for (size_t i = 0; i < p->throttles.count; i++)
		p->throttles.data[i].event = id_after(p->throttles.data[i].event, combs);
	for (size_t i = 0; i < p->restarts.count; i++)
		p->restarts.data[i].event = id_after(p->restarts.data[i].event, combs);
	for (size_t i = combs[1]; i + 1 < p->events.count; i++)
		p->events.data[i] = p->events.data[i + 1];
	p->events.count--;
	for (size_t i = 0; i < p->events.count; i++)
		p->events.data[i].samples_of = id_after(p->events.data[i].samples_of, combs);
	return true;
}
