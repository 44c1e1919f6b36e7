// The clock that records are dated by: CLOCK_MONOTONIC as the kernel's own code reads it (perf_event_attr.clockid). In a time namespace clock_gettime(2) gives another
// (time_namespaces(7): MONOTONIC, MONOTONIC_RAW, MONOTONIC_COARSE and BOOTTIME are shifted), so the two are compared nowhere: "now" is always asked of this one.
#ifndef PERFSAMPLE_PERF_CLOCK_H
#define PERFSAMPLE_PERF_CLOCK_H

#include <stdint.h>

struct perf_clock { int64_t ahead_ns; }; // how far clock_gettime(CLOCK_MONOTONIC) is ahead of it

// By a record of our own that the kernel dates between two readings of the other clock. Where the host refuses an event for that, the two are taken for the same.
void perf_clock_find(struct perf_clock *clock);
uint64_t perf_clock_ns(const struct perf_clock *clock); // now
// What a record's time and the other clock's, read before and after, say of how far the latter is ahead: nothing where the record's time lies between them.
int64_t perf_clock_ahead(uint64_t record_ns, uint64_t before_ns, uint64_t after_ns);

#endif
