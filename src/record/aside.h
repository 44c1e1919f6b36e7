// Samples that wait for an image: a bounded queue of trimmed copies, oldest first. Used by the drain thread alone.
//
// The bound is one block of memory that is reused: fresh pages cost more than the copies (src/DESIGN.md, Recording). Under pressure stack copies
// are shortened first (half full: 8 KiB, three quarters: 2 KiB), then samples are refused; the caller counts both.
#ifndef PERFSAMPLE_RECORD_ASIDE_H
#define PERFSAMPLE_RECORD_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "perf/record.h"
#include "proc/space.h"

struct aside_entry {
	uint32_t bytes;        // of entry and record, multiple of 8
	uint32_t event;        // index of its event
	uint64_t time_ns;      // of the sample
	uint64_t since_ns;     // when it was set aside
	struct maps *maps;     // of the sample's moment, retained
	bool is_done;          // unwound already, or filler at the end of the block
	bool is_shortened;
	uint32_t asked;        // bytes of stack that the kernel was to copy, which is no longer said in the record; 0: what was trimmed is known
	uint64_t record[];     // the sample, its stack trimmed
};

struct aside {
	uint8_t *block;
	size_t capacity, head, tail, used; // bytes; entries stand in [tail, head), around the end
	size_t waiting;                    // entries that are not done
	struct buf scratch;
};

void aside_init(struct aside *aside, size_t capacity);
void aside_release(struct aside *aside); // maps of what is left are released
enum aside_result { ASIDE_TAKEN, ASIDE_SHORTENED, ASIDE_FULL };
// `keep`: bytes of the stack copy worth keeping. Retains `maps`. Takes over the memory of the oldest entries that are done, so it is not to be called in a walk.
enum aside_result aside_add(struct aside *aside, const struct record *record, uint64_t keep, struct maps *maps, uint32_t event,
                            uint64_t now_ns);
// Entries from the oldest on: aside_first, then aside_next; NULL at the end. Done ones are skipped.
struct aside_entry *aside_first(struct aside *aside);
struct aside_entry *aside_next(struct aside *aside, struct aside_entry *entry);
// The entry is dealt with; its maps are released. Memory comes back when every older entry is done.
void aside_done(struct aside *aside, struct aside_entry *entry);
uint64_t aside_oldest_ns(struct aside *aside); // UINT64_MAX: nothing waits

#endif
