// Where lost samples lie in time: the same answer for the recorder's summary and for every report.
//
// A counter of what was lost is read once a second, so a loss lies somewhere between two readings. PERF_RECORD_LOST records of the same ring say more: each is
// written when there is room again, so its loss lies behind the record before it and before its own time.
#ifndef PERFSAMPLE_JUDGE_LOSS_H
#define PERFSAMPLE_JUDGE_LOSS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct loss {
	uint64_t from_ns, to_ns, count;
	uint32_t cpu, event;
	bool is_sideband;
};
struct losses { VEC(struct loss) items; };

// Puts each gap (between two readings) where records of its CPU say, appended to `placed`; records are of a whole ring, so of the gap's count they only tell the
// shares, and what no record covers lies anywhere in the gap. Sorts `records` by their ends, and `placed` by start, CPU and event.
void losses_place(const struct losses *gaps, struct losses *records, struct losses *placed);

// Adds a loss to windows of time of `length_ns` each, the first from `from_ns` on, spread evenly over where it lies within [from_ns, to_ns].
void loss_spread(double *windows, size_t count, double length_ns, uint64_t from_ns, uint64_t to_ns, const struct loss *loss);

// The windows that hold all but a twentieth of the loss, in seconds; equal: there is none, or it is most of the recording.
struct loss_span { double from_s, to_s; };
struct loss_span loss_span(const double *windows, size_t count, double length_ns, double seconds);

#endif
