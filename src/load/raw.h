// Samples that hold registers and a copy of the stack: collected, unwound many at a time (by several threads where wanted), put into the profile in
// the order they came. The result does not depend on the number of threads. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_RAW_H
#define PERFSAMPLE_LOAD_RAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/queue.h"
#include "proc/space.h"
#include "profile/samples.h"
#include "unwind/unwind.h"

struct loader;
struct raw_worker;

struct raw_job {
	struct queued *queued;         // NULL: nothing is left to do, but its turn has not come
	struct profile_sample sample;  // its row, complete when it was unwound
	uint16_t machine;
	struct maps *maps, *kernel;  // of the sample's moment
	struct raw_worker *worker;   // who unwound it
	size_t first, count;         // frames in the worker's results
	size_t gap;                  // as unwind_stack.gap
	enum unwind_end end;
};

struct raw {
	VEC(struct raw_job) jobs;
	size_t bytes; // of stack that wait
	uint64_t done; // samples unwound
	struct raw_worker *workers;
	unsigned worker_count;
};

// Takes the queued sample over.
void raw_add(struct loader *loader, struct queued *queued, const struct profile_sample *sample, uint16_t machine, struct maps *maps,
             struct maps *kernel);
// A sample whose stack is known: into the profile, behind what waits.
void raw_add_known(struct loader *loader, const struct profile_sample *sample);
// Unwinds what waits.
void raw_flush(struct loader *loader);
void raw_release(struct loader *loader);

#endif
