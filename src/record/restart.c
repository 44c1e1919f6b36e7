#include "record/restart.h"

#include <sys/random.h>
#include <time.h>

#include "base/hash.h"

enum { FIRST = 40, FIRST_PERIODS = 64, PERIODS = 192, WAIT_NS_MOST = 10000000 };

static bool samples_clock(const struct event_set *set, uint32_t event)
{
	const struct event_opened *e = &set->events.data[event];
	return e->samples && e->is_clock && !e->attr.freq && e->attr.sample_period > 0;
}

bool restarts_are_possible(const struct event_set *set, bool is_by_task)
{
	size_t sampling = 0, clocks = 0;
	for (uint32_t e = 0; e < set->events.count; e++) {
		sampling += set->events.data[e].samples;
		clocks += samples_clock(set, e);
	}
	return !is_by_task && clocks == 1 && sampling == 1;
}

static double chance(struct restarts *r) // in [0, 1)
{
	r->random++;
	return (double)(hash_u64(r->random) >> 11) / 9007199254740992.0;
}

static uint64_t period_of(const struct event_set *set)
{
	for (uint32_t e = 0; e < set->events.count; e++)
		if (samples_clock(set, e))
			return set->events.data[e].attr.sample_period;
	return 1;
}

// Where the event ran for long enough since the last time: what is cut off is a small part.
static bool restart_all(struct event_set *set, struct ledger *ledger, const struct perf_clock *clock, uint64_t least)
{
	bool any = false;
	for (size_t i = 0; i < set->fds.count; i++) {
		const struct event_fd *f = &set->fds.data[i];
		uint64_t running, cut;
		if (f->event == EVENT_SIDEBAND || !samples_clock(set, f->event) || !event_set_restart(set, i, least, &running, &cut))
			continue;
		ledger_restart(ledger, &(struct ledger_restart){ .event = f->event, .cpu_index = f->cpu_index, .time_ns = perf_clock_ns(clock), .running = running, .cut = cut });
		any = true;
	}
	return any;
}

void restarts_step(struct restarts *r, struct event_set *set, struct ledger *ledger, const struct perf_clock *clock)
{
	uint64_t now = perf_clock_ns(clock), period = period_of(set), periods = r->count < FIRST ? FIRST_PERIODS : PERIODS;
	if (r->next_ns != 0 && now < r->next_ns)
		return;
	if (r->next_ns == 0) {
		if (getrandom(&r->random, sizeof(r->random), GRND_NONBLOCK) != (ssize_t)sizeof(r->random))
			r->random = now;
	} else {
		// Passes may follow samples: the moment within a period has to be by chance.
		double wait = chance(r) * (double)(period < WAIT_NS_MOST ? period : WAIT_NS_MOST);
		nanosleep(&(struct timespec){ .tv_nsec = (long)wait }, NULL);
		r->count += restart_all(set, ledger, clock, periods * period * 3 / 4);
	}
	r->next_ns = now + (uint64_t)((0.5 + chance(r)) * (double)(period * periods));
}
