// Who is followed besides the targets themselves where events are per task: what these have started since the recording began, as the
// kernel hands on events to what is born (perf_event_open(2), inherit), and never what was there before. Events that are opened later,
// while everything runs, need that list.
#ifndef PERFSAMPLE_RECORD_FAMILY_H
#define PERFSAMPLE_RECORD_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "proc/procfs.h"
#include "proc/space.h"

// When the recording began. Births are told to a tick (10 ms): of that very tick is new who was not seen then.
struct family_since {
	uint64_t ticks;                // procfs_now_ticks
	const struct hash_map *before; // pids of the descendants that were there; NULL: none is known
};
bool family_is_new(const struct family_since *since, int32_t pid, uint64_t birth_ticks);
void family_before(const int32_t *roots, size_t count, struct hash_map *before); // fills it with those that are there now

// The pids of `roots` and of what they have started since, themselves or through others: by FORK records (`spaces`: is_target), whoever
// is their parent by now; and what no record tells of yet, by parent and time of birth. In no order; those that have
// ended may be among them.
void family_pids(const int32_t *roots, size_t count, struct spaces *spaces, const struct family_since *since, struct procfs_ids *out);

#endif
