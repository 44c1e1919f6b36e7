// Call chains as they stand in the file, each kept once: what a chain leads to is worked out the first time it is met in an address space,
// and a sample whose chain was met before costs one hash and one comparison. So does what samples share beside it: their event, thread and CPU. Bounded:
// past a size a new table is begun, and the old one goes with the last sample that waits for it.
//
// One thread may look up while another uses what was found: what the one wrote is not written again, and results and the like are the other's. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_SEEN_H
#define PERFSAMPLE_LOAD_SEEN_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "load/queue.h"
#include "perf/plain.h"

struct maps;
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
	uint32_t callchain_count, raw_size, raw_at, size;
	struct seen_result results[SEEN_RESULTS]; // the newest first; of whoever applies samples
	uint64_t words[];       // plain_sample.bytes, `size` of them: the call chain behind its length, the raw data at raw_at
};

// The contexts of samples that have a source: by where the leaf is, and how the stack ends.
struct seen_context { uint32_t context; uint8_t end, splice; bool is_known; };

struct seen_source {
	uint64_t id;            // UINT64_MAX where samples have none
	int32_t pid, tid;
	uint32_t cpu, event;    // the reader's
	// Of whoever applies samples. Looked up once,
	bool is_known, has_weight, tells_period;
	uint32_t cpu_at;        // account_cpu()
	uint64_t nominal_period;
	// until processes or their mappings change, and until another end or event is met.
	uint32_t known_at;      // loader->light_forgotten at the time
	uint32_t comm, generation, kernel_generation;
	struct maps *maps, *kernel;
	struct seen_context contexts[2]; // by is_kernel
	uint64_t weight;        // where samples do not tell theirs
};

struct seen {
	pthread_mutex_t lock;       // of the list of all tables
	struct seen_table *all;
	struct seen_table *filling; // of who looks up; NULL: none yet
	struct seen_table *coming;  // of who applies: samples of this one may come still
};

void seen_init(struct seen *seen);
void seen_release(struct seen *seen);
size_t seen_tables(struct seen *seen); // how many there are

// ---------------------------------------------------------------- who looks up

// A record that has no registers, stack or branches, as plain_decode() gives them; borrows from the record.
struct plain_sample seen_sample_of(const struct record *record, size_t event);
// The table that the next samples are looked up in.
struct seen_table *seen_begin(struct seen *seen);
// Makes each sample an item for the queue.
void seen_find(struct seen_table *table, const struct plain_sample *samples, size_t count, struct queue_item *out);

// ---------------------------------------------------------------- who applies what was found

// That many samples of a table have come. Those of one table come before those of the next one.
void seen_came(struct seen *seen, struct seen_table *table, size_t count);
// One of them is done with.
void seen_done(struct seen *seen, struct seen_chain *chain);

#endif
