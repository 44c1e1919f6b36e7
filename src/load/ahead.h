// Records read ahead of those that are applied: batches of what one piece of the file holds, decoded, and the call chains hashed. By a thread of its
// own where there are processors for it, else in the caller's; what comes is the same. The thread stops before a record that tells of
// events or features until all before it is applied: what the reader knows never changes under one who asks it. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_AHEAD_H
#define PERFSAMPLE_LOAD_AHEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "load/seen.h"
#include "perfdata/reader.h"

struct ahead;

// A sample that has a time and is nothing but a call chain; `chain` borrows from the batch.
struct ahead_light {
	struct seen_key chain;
	uint64_t time_ns, period, id; // id: UINT64_MAX where the sample has none
	int32_t pid, tid;
	uint32_t cpu;
};
// Any other record that is of use.
struct ahead_other { size_t after /* that many light samples of the batch stand before it */, event; struct record record; };

struct batch {
	VEC(struct ahead_light) lights;
	VEC(struct ahead_other) others;
	enum reader_next end; // what comes behind it: READER_RECORD: another batch; READER_ERROR: see `err`
	struct err err;
	// private
	void *buffer;         // that its records stand in, if the reader has left it; else for the reader to go on in; or NULL
	uint8_t *copies;      // of records that stand in no buffer
	size_t copied;
	bool borrows, drains; // a record stands in a buffer; nothing may be read before all is applied
};

// `as_light`: samples come as such where they can. `jobs` 1: no thread.
struct ahead *ahead_new(struct reader *reader, bool as_light, unsigned jobs);
void ahead_free(struct ahead *ahead);
// The next batch, valid until the next call; not to be called after the last.
const struct batch *ahead_next(struct ahead *ahead);

#endif
