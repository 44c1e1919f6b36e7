// Sampling clocks are started anew now and then, so that a recording can tell whether a program keeps step with them.
//
// A loop in step with the sampling period is met at the same place each time. The recording shows one function for long, as it does of a program that stays
// there for long: no recording by an undisturbed clock can tell the two apart. But a clock that is started anew meets the loop at another place, and the
// program that stays for long where it was. The moments are the recorder's own, by chance, so nothing that the program does by itself comes together
// with them more often than not; report compares what is seen before and after (report/lockstep.c). And the shares of a loop in step are right on
// the average of many starts, where one alone has them anywhere.
//
// What it costs: on each CPU that runs the target a call into the kernel every 64 samples or so at first (40 times), then every 192, and the part of a period that was begun,
// which is counted (`cut`): it is neither due nor silent.
#ifndef PERFSAMPLE_RECORD_RESTART_H
#define PERFSAMPLE_RECORD_RESTART_H

#include <stdbool.h>
#include <stdint.h>

#include "perf/clock.h"
#include "perf/event_set.h"
#include "record/ledger.h"

struct restarts {
	uint64_t next_ns; // by the clock of the records; 0: not yet chosen
	uint64_t random;
	unsigned count;   // times that some CPU's was
};

// Whether the events can be tested so: one event samples a clock, on CPUs or in a cgroup (an inherited event's clock cannot be started anew).
bool restarts_are_possible(const struct event_set *set, bool is_by_task);
// After a pass; `clock`: the records'. Where a restart is due, waits a part of a period by chance, and starts the clock on every CPU on which the event ran meanwhile.
void restarts_step(struct restarts *restarts, struct event_set *set, struct ledger *ledger, const struct perf_clock *clock);

#endif
