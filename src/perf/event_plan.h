// From -e events and options to the perf_event_attr of each event to be opened. Private to event_set.
#ifndef PERFSAMPLE_PERF_EVENT_PLAN_H
#define PERFSAMPLE_PERF_EVENT_PLAN_H

#include "perf/event_set.h"

// Fills set->events and set->sideband_attr; asks the kernel (by opening idle events on ourselves) which features it has.
bool event_plan(struct event_set *set, const struct event_specs *specs, const struct event_target *target, const struct event_options *options,
                struct err *err);
void event_plan_release(struct event_set *set);
// Changes an event that the kernel refused with `error` into one that it may accept; says so in the decisions. false: nothing is left to try.
bool event_plan_retreat(struct event_set *set, struct event_opened *event, const struct event_spec *spec, const struct event_options *options, int error);
void event_set_decide(struct event_set *set, const char *format, ...) __attribute__((format(printf, 2, 3)));
void event_set_mention(struct event_set *set, const char *format, ...) __attribute__((format(printf, 2, 3))); // a decision aside
int event_open(struct perf_event_attr *attr, int pid, int cpu, int group_fd, unsigned long flags);

#endif
