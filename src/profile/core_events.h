// One event on several core PMUs: performance and efficiency cores (Intel), clusters (ARM).
#ifndef PERFSAMPLE_PROFILE_CORE_EVENTS_H
#define PERFSAMPLE_PROFILE_CORE_EVENTS_H

#include "profile/profile.h"

// On a hybrid host an event is opened once on each core PMU, and a recording has cpu_core/cycles/ and cpu_atom/cycles/. A CPU has one of these PMUs, so
// together they are what one event is elsewhere: they become one, named cycles, with the samples, losses and counters of all of them, each sample with
// its own period. They have to be of one name and alike in modifiers, rate, and in what they leave out; others stay as they are. An event given by
// its encoding (cpu_core/event=0x3c/) is another on another PMU. Returns whether there were such.
bool profile_join_core_events(struct profile *profile);
// Whether `name` is one of the names that such an event has in the file.
bool profile_event_has_part(const struct profile *profile, const struct profile_event *event, const char *name);

#endif
