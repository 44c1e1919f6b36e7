// Records of many rings in the order of time.
//
// A pass takes a snapshot of every head and hands on, oldest first, the records whose time is at or before a horizon; later ones stay in
// their ring. Where another thread reads a ring ahead (struct ring, `seen`), the horizon is before the first record that it has not come to: what is younger in other
// rings waits for that. Guarantee: records that the kernel committed within `slack` of their timestamp come in order; one that was committed
// later (an interrupt or a stolen virtual CPU between stamp and commit) comes late, is handed on at once and counted in `late`.
#ifndef PERFSAMPLE_PERF_MERGE_H
#define PERFSAMPLE_PERF_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"
#include "perf/ring.h"

struct merge_item { struct perf_event_header *header; size_t ring; uint64_t time_ns; };
// `time_of` tells a record's time (0: take the previous one of its ring).
typedef uint64_t merge_time_fn(void *context, size_t ring, const struct perf_event_header *header);
typedef void merge_take_fn(void *context, const struct merge_item *item);
typedef void merge_settle_fn(void *context);

struct merge {
	uint64_t last_ns;  // newest time handed on
	uint64_t reached_ns; // the horizon of the last pass, as far as all rings went: what is older was handed on, or comes late
	uint64_t late, broken;
	merge_settle_fn *settle; // NULL: `take` is done with a record when it returns. Else it may keep records, until this is called: before their memory is given back
};
// Returns the number of records handed on. UINT64_MAX as horizon: everything. Tails are published after each ring's part.
size_t merge_pass(struct merge *merge, struct ring *rings, size_t count, uint64_t horizon_ns, merge_time_fn *time_of, merge_take_fn *take, void *context);

#endif
