// One mmap ring of the kernel: perf_event_open(2), "MMAP layout"; barriers as linux/perf_event.h says at data_head.
#ifndef PERFSAMPLE_PERF_RING_H
#define PERFSAMPLE_PERF_RING_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ring {
	struct perf_event_mmap_page *page;
	uint8_t *data;
	size_t size;      // of the data area, power of two
	uint64_t head;    // snapshot: records up to here may be read
	uint64_t written; // snapshot: and up to here there are some, which whoever moves `seen` has not come to yet
	uint64_t tail;    // read so far; given back by ring_release_read
	uint32_t cpu;     // UINT32_MAX: a thread's own ring
	int fd;           // to poll; owned by the event set
	uint32_t slot;    // cpu_index of the event_fds that write here
	uint64_t *wrapped; // copy of a record that wraps around the end, 64 KiB
	const uint64_t *seen; // where another thread that reads ahead has got to: nothing beyond may be taken (loaded with acquire); NULL: none
	uint64_t glanced; // how far drain_glance has looked
	uint64_t last_time_ns; // of the newest record merge_pass took: what a record without a time of its own counts as
};

bool ring_map(struct ring *ring, int fd, uint32_t cpu, size_t data_bytes, struct err *err);
void ring_unmap(struct ring *ring);
void ring_snapshot(struct ring *ring); // reads data_head with acquire
// The record at the tail, whole and 8-byte aligned (in place, or in `wrapped`), without moving on; NULL when there is none before the head,
// or when the bytes make no sense (then the tail jumps to the head and *broken is set).
struct perf_event_header *ring_peek(struct ring *ring, bool *broken);
void ring_advance(struct ring *ring, const struct perf_event_header *header);
void ring_release_read(struct ring *ring); // publishes the tail with release
static inline size_t ring_unread(const struct ring *ring) { return (size_t)(ring->head - ring->tail); }

#endif
