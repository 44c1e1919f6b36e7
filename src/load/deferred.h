// Samples whose chain of user space follows later (CONTEXT_USER_DEFERRED in perf/record.h): they wait for their thread's record with the same
// cookie. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_DEFERRED_H
#define PERFSAMPLE_LOAD_DEFERRED_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/vec.h"
#include "perf/record.h"
#include "profile/profile.h"

struct loader;
struct queued;

struct deferred_sample {
	struct profile_sample sample; // all but stack and end
	size_t event;                 // the reader's
	uint64_t ip, cookie, *chain;  // the kernel's part, markers among it, without the mark of what follows; owned
	size_t chain_count;
	uint16_t misc;
	uint32_t next;                // of the same thread, older, or the next free one; DEFERRED_NONE: none
};
enum { DEFERRED_NONE = UINT32_MAX };

struct deferred {
	VEC(struct deferred_sample) waiting; // chain NULL: free
	uint32_t first_free;    // of them + 1; 0: none is free
	struct hash_map newest; // tid -> index in `waiting` of its newest
	size_t bytes;           // of chains that wait
	uint64_t unanswered;    // samples whose record never came
};

void deferred_release(struct deferred *deferred);
// Takes the sample over from the queue, all but its stack; `queued` is let go of.
void deferred_wait(struct loader *loader, struct queued *queued, const struct profile_sample *sample);
// A CALLCHAIN_DEFERRED record: the samples of its thread that wait for it get their stacks. A thread enters the kernel once at a time, so
// what waits for another cookie of it waits in vain.
void deferred_answer(struct loader *loader, const struct record *record);
// What still waits gets none: the records are lost, or the recording ended while the threads were in the kernel.
void deferred_end(struct loader *loader);

#endif
