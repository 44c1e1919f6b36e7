// Rings that stand still: their event runs, samples of it are due or are lost, and the head does not move, although all there was has been read. A kernel does
// that when two CPUs have written one ring at a time (src/DESIGN.md, Kernel facts); a reader that comes late looks different, as it finds a full ring.
// Noticed once a second, from counters that are read then anyway.
#ifndef PERFSAMPLE_RECORD_STUCK_H
#define PERFSAMPLE_RECORD_STUCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/vec.h"
#include "perf/ring.h"

// Of the events that write to a ring, cumulative since they were opened.
struct stuck_counters {
	uint64_t time_ns; // when they were read
	uint64_t lost;
	double due;       // samples due by the time or the count of the events; negative: cannot be told
	double spare;     // how many may be due and not come: periods begun, one for each task and event
};

struct stuck_span { uint64_t from_ns, to_ns, lost; uint32_t cpu; bool was_empty; /* no record has ever come */ bool to_the_end; /* nothing was opened again */ };
typedef VEC(struct stuck_span) stuck_spans;

// A ring, and the counters, when its head was last seen to have moved.
struct stuck_place { uint64_t head, time_ns, lost; double due; };
struct stuck { VEC(struct stuck_place) places; };

enum { STUCK_PERIODS = 100 }; // due, and none has come; where a loss is counted, one is enough

void stuck_reset(struct stuck *stuck, size_t rings, uint64_t now_ns); // they were opened now
void stuck_release(struct stuck *stuck);
// The ring as it was left by a pass, the counters read behind that pass. true: it stands still since *span says.
bool stuck_look(struct stuck *stuck, size_t index, const struct ring *ring, const struct stuck_counters *now, struct stuck_span *span);
// "a ring of the kernel stood still 2 times, …": a sentence over all that was seen; times from start_ns on. Nothing where there is none.
void stuck_text(const struct stuck_span *spans, size_t count, uint64_t start_ns, struct buf *out);

#endif
