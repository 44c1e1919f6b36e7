// Whether a sampled thread has stood still since its sample, by the records of task switches (event_set_add_waking).
//
// That a copy of its stack is unchanged does not say so: a loop comes back to the same frames. Standing still is: it was preempted on the CPU of the
// sample, straight after it, and has not begun to run since, neither there nor on another CPU that had nothing else to do.
#ifndef PERFSAMPLE_RECORD_STILL_H
#define PERFSAMPLE_RECORD_STILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"
#include "perf/ring.h"

enum { STILL_THREADS = 4096 };
struct still {
	const struct record_layout *layout; // of switch records
	struct still_ring {
		struct ring ring;
		uint64_t *seen; // where its reader stands: what lies before was shown to still_note
	} *rings;
	size_t count;
	// When a thread was last seen to begin to run. A slot may be another thread's: that makes a stack less certain, never more.
	_Atomic uint64_t began_ns[STILL_THREADS];
};

// The reader of a ring, of every record, before its `seen` moves behind it.
void still_note(struct still *still, struct perf_event_header *header);
// The reader of ring `own`, which runs on the ring's CPU; `behind` is where the sample's record ends there. `wrapped`: 64 KiB of the reader's own.
// false: the thread ran, or nobody knows.
bool still_stood(struct still *still, size_t own, uint64_t behind, const struct record *sample, uint64_t *wrapped);

#endif
