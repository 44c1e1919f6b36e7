// Records put into the order of time. A file is ordered only so far: what stands before a FINISHED_ROUND may be older than what
// stands behind it by at most one round (tools/perf/util/ordered-events.c: at each round everything up to the newest time of the round
// before may go). What waits is a copy, cut to what is used of it, or stays where it is in a mapping of the file. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_QUEUE_H
#define PERFSAMPLE_LOAD_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "perf/record.h"

struct queue_chunk;
struct reader;
struct seen_chain;
struct seen_source;

struct queued { // a record and what it borrows, in one piece of memory
	struct record record;
	size_t event;
	bool synthesized; // describes /proc, not a moment
	bool is_kept;     // where it stands, in the reader's mapping of the file
	struct queue_chunk *chunk;
};

// One of the two: a record; or a sample of which nothing is copied but what it counts, as its call chain and its source are kept once for all that have
// them (seen.h).
struct queue_item {
	uint64_t time_ns, period;
	struct seen_chain *chain; // NULL: a record
	union { struct seen_source *source; struct queued *queued; };
};

struct queue {
	VEC(struct queue_item) items;      // from `first` on
	struct queue_chunk *filling, *spare;
	uint64_t oldest_ns, newest_ns;     // of all that came so far; 0: none did
	uint64_t last_round_ns;            // the newest when the last round ended
	size_t first, records;             // of `items` that waits still; and how many of those are records
	size_t bytes;                      // that wait
	bool unsorted;                     // items came out of order
	bool keeps_whole;                  // copies are whole records, header and all; else what is used of them
	struct reader *reader;             // whose records are kept
};

// Takes a record, or some samples in the order of time. A record is let go by queue_done; the items hold while the call lasts.
typedef void queue_take_fn(void *context, const struct queue_item *items, size_t count);

void queue_release(struct queue *queue);
// A copy of the record, to be let go by queue_done.
struct queued *queue_copy(struct queue *queue, const struct record *record, size_t event, bool synthesized);
// A record that the reader holds (reader_hold) is not copied, and let go by queue_done.
struct queued *queue_keep(struct queue *queue, const struct record *record, size_t event, bool synthesized);
// Copies the record's bytes to `bytes`, which are 8-byte aligned, and lets it borrow from there.
void queue_move(struct record *record, uint8_t *bytes);
// Makes items wait until their time; a record's copy is the queue's until it is taken.
void queue_add(struct queue *queue, const struct queue_item *items, size_t count);
void queue_done(struct queue *queue, struct queued *queued);
// Hands on, oldest first, what is not newer than `up_to_ns`; of equals the one that came first.
void queue_flush(struct queue *queue, uint64_t up_to_ns, queue_take_fn *take, void *context);
// A FINISHED_ROUND.
void queue_round(struct queue *queue, queue_take_fn *take, void *context);
// How many of `count` light samples may come before queue_bound has to be called: at least one.
size_t queue_room(const struct queue *queue, size_t most_bytes, size_t count);
// Where there are no rounds, memory sets the limit: past `most_bytes` the older half goes.
void queue_bound(struct queue *queue, size_t most_bytes, queue_take_fn *take, void *context);

#endif
