// Call chains as they stand in the file, each kept once: what a chain leads to is worked out the first time it is met in an address space,
// and a sample whose chain was met before costs one hash and one comparison. Bounded: past a size a new table is begun, and the old one goes with
// the last sample that waits for it. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_SEEN_H
#define PERFSAMPLE_LOAD_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/record.h"

struct seen_table;

struct seen_result { // of a chain in one state of its process's and the kernel's mappings
	uint32_t generation, kernel_generation;
	uint32_t stack;
	uint8_t end, splice;
	bool is_kernel, is_known;
};

enum { SEEN_RESULTS = 2 }; // processes forked of one share their chains for a while

struct seen_chain {
	struct seen_table *table;
	uint64_t ip;
	uint32_t event;         // the reader's
	uint16_t misc;
	uint32_t callchain_count, raw_size;
	struct seen_result results[SEEN_RESULTS]; // the newest first
	uint64_t words[];       // the call chain, then the raw data
};

struct seen_key { // a chain that is looked for
	uint64_t hash, ip;
	const uint64_t *words;
	const uint8_t *raw;
	uint32_t callchain_count, raw_size, event;
	uint16_t misc;
};

struct seen {
	struct seen_table *filling; // NULL: none yet
	struct seen_table *old;     // samples wait for their chains still
};

// Of a sample that has neither registers nor branches; borrows from the record. Needs no table: made by whoever reads ahead.
struct seen_key seen_key_of(const struct record *record, size_t event);
// The key's chain, to be let go by seen_done.
struct seen_chain *seen_find(struct seen *seen, const struct seen_key *key);
// Brings into the cache what the look-ups of keys that are soon to come need: first its slot, and once that is there its chain.
void seen_fetch_slot(const struct seen *seen, const struct seen_key *key);
void seen_fetch_chain(const struct seen *seen, const struct seen_key *key);
void seen_done(struct seen *seen, struct seen_chain *chain);
void seen_release(struct seen *seen);

#endif
