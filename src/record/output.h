// From the drain thread to the file: records in the order of time, in batches, written by a thread of normal priority.
//
// A record is *held* until the drain thread says up to which time nothing older can come (samples that wait for an image hold back what is newer), then
// *released*, in order, into the open batch. A batch is *handed over* when it is a quarter of a MiB or a quarter of a second old and ends
// with FINISHED_ROUND: what perf's readers rely on to sort. Memory is bounded: BATCH_COUNT batches of BATCH_BYTES; when the disk stalls and all are full,
// output_has_room says no and samples are dropped and counted; side-band records are held whatever it takes.
#ifndef PERFSAMPLE_RECORD_OUTPUT_H
#define PERFSAMPLE_RECORD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "perfdata/writer.h"

struct output_limits {
	uint64_t max_bytes;      // --max-size; 0: none
	uint64_t min_free_bytes; // --min-free; 0: none
	double min_free_share;   // … or this share of the disk where that is less; 0: the bytes alone count
};

struct output;
struct output *output_new(struct writer *writer, const struct output_limits *limits);
bool output_start(struct output *output, struct err *err);

// Drain thread. The buffer records are appended to, one after another; output_commit ends one that began at `offset`.
struct buf *output_buffer(struct output *output);
void output_commit(struct output *output, size_t offset, uint64_t time_ns, bool is_sample);
void output_add(struct output *output, const void *record, size_t bytes, uint64_t time_ns);
// The record that was added last ends the counters of `time_ns`: should a write fail, the file ends behind such a record (writer_mark).
void output_end_counters(struct output *output, uint64_t time_ns);
bool output_has_room(const struct output *output);
void output_release(struct output *output, uint64_t up_to_ns);
// Hands over what was released, if it is time to (`now`) or in any case (`checkpoint`: the header's data size is rewritten too).
void output_hand(struct output *output, uint64_t now_ns, bool checkpoint);
// More ids of an event, written before the records that follow. Takes a copy.
void output_ids(struct output *output, size_t event, const uint64_t *ids, size_t count);

// Any thread.
enum output_state { OUTPUT_FINE, OUTPUT_FAILED, OUTPUT_SIZE_REACHED, OUTPUT_DISK_LOW };
enum output_state output_state(const struct output *output);

uint64_t output_counted_ns(const struct output *output); // the time of the last counters that are in the file, as far as it is known by now; 0: none are
bool output_is_broken_pipe(const struct output *output); // after output_finish: why it failed

// Drain thread gone: hands over the rest, waits for the writer thread. false: writing failed; what was written before stays readable.
bool output_finish(struct output *output, struct err *err);
void output_free(struct output *output);

#endif
