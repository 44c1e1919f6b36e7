// Writes perf.data: file layout (header, attrs, data, features) or pipe layout (HEADER_ATTR, HEADER_FEATURE records).
// Format: tools/perf/Documentation/perf.data-file-format.txt and util/header.h of the kernel sources.
//
// File: PATH.PID.tmp (O_EXCL | O_NOFOLLOW, 0600, same folder) until writer_publish renames it, an existing file becoming .old, .old.1
// … .old.9. The header's data size is rewritten by writer_checkpoint, so that a killed recorder leaves a readable file.
// Not locked: one thread writes.
#ifndef PERFSAMPLE_PERFDATA_WRITER_H
#define PERFSAMPLE_PERFDATA_WRITER_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/names.h"

struct writer_event { // one -e event, or the side-band event
	struct perf_event_attr attr; // as the *file's* records are laid out (live: no REGS_USER, STACK_USER; CALLCHAIN and RAW instead)
	const char *name;
	const uint64_t *ids;
	size_t id_count;
	int32_t group_leader; // index of its leader, itself for one, -1: no group
	uint32_t group_members; // of a leader, itself included
};

struct writer_info { // for the standard features
	const char *hostname, *os_release, *arch, *cpu_desc, *cpuid, *version;
	uint32_t cpus_online, cpus_available;
	uint64_t total_memory_kib;
	const char *const *argv; // NULL-terminated
	uint64_t first_time_ns, last_time_ns; // SAMPLE_TIME, known at the end
	uint32_t clockid; // CLOCKID and CLOCK_DATA features
	uint64_t clockid_time_ns, wall_time_ns;
};

struct writer_build_id { struct build_id build_id; const char *path; uint16_t misc; int32_t pid; }; // misc: PERF_RECORD_MISC_USER or _KERNEL

struct writer;
// `path` "-" streams to `stream_fd` in pipe layout.
bool writer_open(struct writer **out, const char *path, int stream_fd, struct err *err);
// For a name that nobody gave: always a new file (perfdata/outfile.h).
bool writer_open_default(struct writer **out, const char *path, struct err *err);
// Must come before records. In pipe layout also writes the features known now. Event ids may still be added by writer_add_ids in
// file layout (attrs are written at finish too).
bool writer_begin(struct writer *writer, const struct writer_event *events, size_t count, const struct writer_info *info, struct err *err);
// More ids of an event (reopened stretches); file layout only matters at finish and at checkpoints.
void writer_add_ids(struct writer *writer, size_t event, const uint64_t *ids, size_t count);
// Whole records, back to back. ENOSPC and EPIPE are STATUS_FINISH; what was written before stays readable.
bool writer_records(struct writer *writer, const void *records, size_t size, struct err *err);
bool writer_checkpoint(struct writer *writer, struct err *err); // header's data size := what is written
// Up to here the records are whole books: counters stand behind the samples that they count. When a write fails the file is cut back to the last such place that is
// in it, as samples whose counters are missing would be too many for what was due. `time_ns`: of these counters.
void writer_mark(struct writer *writer, uint64_t time_ns);
uint64_t writer_marked_ns(const struct writer *writer);         // the time of the last place that is in the file; 0: none is
bool writer_publish(struct writer *writer, struct err *err);    // takes the final name; nothing to do for streams, or twice
uint64_t writer_bytes(const struct writer *writer);             // written so far
const char *writer_path(const struct writer *writer);           // full final path
bool writer_is_gone(const struct writer *writer);               // after writer_finish: that path does not lead to what was written
// Standard features, build IDs, and `names` as feature 255 (file layout only; NULL: none). Publishes if not yet done.
bool writer_finish(struct writer *writer, const struct writer_info *info, const struct writer_build_id *build_ids, size_t build_id_count,
                   const struct names *names, struct err *err);
// Frees; without writer_publish or _finish the .tmp file is removed.
void writer_free(struct writer *writer);

#endif
