#include "profile/combs.h"

#include <math.h>

static bool is_comb(const struct profile_event *e)
{
	return e->is_sampling && e->is_clock && !e->is_freq && (e->period == COMB_FIRST_NS || e->period == COMB_SECOND_NS);
}

// The two events; false: none, or something of them is not alike.
static bool find_combs(const struct profile *p, uint32_t combs[2])
{
	size_t found = 0;
	for (size_t i = 0; i < p->events.count; i++) {
		if (!is_comb(&p->events.data[i]))
			continue;
		if (found == 2)
			return false;
		combs[found++] = (uint32_t)i;
	}
	if (found < 2)
		return false;
	const struct profile_event *a = &p->events.data[combs[0]], *b = &p->events.data[combs[1]];
	return a->period != b->period && a->attr_config == b->attr_config && a->excludes_user == b->excludes_user && a->excludes_kernel == b->excludes_kernel
		&& a->excludes_idle == b->excludes_idle;
}

// A recorder short of CPU reopens events at a coarser period: then a sample's weight is not its comb's.
static bool weights_are_periods(const struct profile *p, const uint32_t combs[2])
{
	for (size_t i = 0; i < p->samples.count; i++) {
		const struct profile_sample *s = &p->samples.data[i];
		if ((s->event == combs[0] || s->event == combs[1]) && s->weight != p->events.data[s->event].period)
			return false;
	}
	return true;
}

static uint32_t id_after(uint32_t event, const uint32_t combs[2])
{
	return event == combs[1] ? combs[0] : event != PROFILE_NONE && event > combs[1] ? event - 1 : event;
}

static void add_second(struct profile_event *into, const struct profile_event *from, uint64_t period)
{
	into->comb_periods[0] = into->period;
	into->comb_periods[1] = from->period;
	into->period = period;
	into->lost += from->lost;
	into->idle += from->idle;
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
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample *s = &p->samples.data[i];
		s->comb = s->event == combs[1];
		if (s->event == combs[0] || s->event == combs[1])
			s->weight = period;
		s->event = id_after(s->event, combs);
	}
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
	for (size_t i = combs[1]; i + 1 < p->events.count; i++)
		p->events.data[i] = p->events.data[i + 1];
	p->events.count--;
	for (size_t i = 0; i < p->events.count; i++)
		p->events.data[i].samples_of = id_after(p->events.data[i].samples_of, combs);
	return true;
}
