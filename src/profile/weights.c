#include "profile/weights.h"

#include <string.h>

enum { POINTS = 512 }; // read at a time

// Every sample weighs the events that the kernel counted for it (hw_perf_event.last_period): the few of 1 and more with which a frequency begins, where
// its period is still far too short, as those of a part of the program that has few of the events. So shares are of events, and no function is missing
// that has a sample.
bool profile_weights_differ(const struct profile *p, uint32_t event)
{
	struct sample_point points[POINTS];
	uint64_t first = 0;
	if (event >= p->events.count || p->events.data[event].counts_by_weight || p->events.data[event].lacks_periods || !p->samples.weights_differ)
		return false;
	for (size_t at = 0, count; (count = samples_points(&p->samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			if (points[i].weight == 0 || p->samples.contexts.data[points[i].context].event != event)
				continue;
			if (first == 0)
				first = points[i].weight;
			if (points[i].weight != first)
				return true;
		}
	}
	return false;
}

void profile_count_events(const struct profile *p, uint64_t *counts)
{
	struct sample_point points[POINTS];
	memset(counts, 0, p->events.count * sizeof(*counts));
	for (size_t at = 0, count; (count = samples_points(&p->samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			const struct sample_context *c = &p->samples.contexts.data[points[i].context];
			if (c->event < p->events.count && c->is_idle == 0)
				counts[c->event] += p->events.data[c->event].counts_by_weight ? points[i].weight : 1;
		}
	}
}
