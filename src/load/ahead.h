// Records read ahead of those that are applied, in batches: decoded, and the call chains found among those seen before. By a thread of its
// own where there are processors for it, else in the caller's; what comes is the same. The thread stops before a record that tells of
// events or features until all before it is applied: what the reader knows never changes under one who asks it. A mapped file is read in the
// caller's thread: what takes time there, the pages of stack copies, would only be waited for in another one. Inside load/ only.
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

// Any other record that is of use.
struct ahead_other {
	size_t after; // that many light samples of the batch stand before it
	size_t event;
	bool is_held; // by reader_hold: who takes it lets go of it
	struct record record;
};

struct batch {
	VEC(struct queue_item) lights; // samples that have a time and are nothing but a call chain
	struct seen_table *table;      // that they were found in; NULL: there are none
	VEC(struct ahead_other) others;
	enum reader_next end; // what comes behind it: READER_RECORD: another batch; READER_ERROR: see `err`
	struct err err;
	// private
	void *buffer;         // that its records stand in, if the reader has left it; else for the reader to go on in; or NULL
	uint8_t *copies;      // of records that stand in no buffer
	size_t copied;
	bool borrows, drains; // a record stands in a buffer; nothing may be read before all is applied
};

// Samples come as light ones where they can, their chains found in `seen`; NULL: none does. `jobs` 1: no thread.
struct ahead *ahead_new(struct reader *reader, struct seen *seen, unsigned jobs);
void ahead_free(struct ahead *ahead);
// The next batch, valid until the next call; not to be called after the last.
const struct batch *ahead_next(struct ahead *ahead);

#endif
