// What an errno of perf_event_open or of mapping a ring means on this host, and the command that changes it.
#ifndef PERFSAMPLE_PERF_EVENT_ERROR_H
#define PERFSAMPLE_PERF_EVENT_ERROR_H

#include <linux/perf_event.h>
#include <stdbool.h>

#include "base/err.h"
#include "perf/event_set.h"

// Fills err (STATUS_HOST; STATUS_USAGE for what no host would accept) and returns false.
bool event_error(struct err *err, int error, const char *name, const struct perf_event_attr *attr, const struct event_target *target);
// The fd budget: tids × CPUs × (events + 1) against RLIMIT_NOFILE.
bool event_error_files(struct err *err, int error, size_t need, const struct event_specs *specs, const struct event_target *target);
bool event_error_mlock(struct err *err, size_t ring_bytes, size_t rings);

#endif
