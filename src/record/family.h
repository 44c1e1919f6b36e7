// Who is followed besides the targets themselves where events are per task: what these have started since the recording began, as the
// kernel hands on events to what is born (perf_event_open(2), inherit), and never what was there before. Events that are opened later,
// while everything runs, need that list.
#ifndef PERFSAMPLE_RECORD_FAMILY_H
#define PERFSAMPLE_RECORD_FAMILY_H

#include <stddef.h>
#include <stdint.h>

#include "proc/procfs.h"
#include "proc/space.h"

// The pids of `roots` and of what they have started since, themselves or through others: by FORK records (`spaces`: is_target), whoever
// is their parent by now; and what no record tells of yet, by parent and time of birth (procfs_now_ticks). In no order; those that have
// ended may be among them.
void family_pids(const int32_t *roots, size_t count, struct spaces *spaces, uint64_t since_ticks, struct procfs_ids *out);

#endif
