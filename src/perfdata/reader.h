// Reads any perf.data: file and pipe layout, versions 1 and 2, both byte orders, attrs of any size, COMPRESSED records, directory
// data. Records come one by one in the order of the file, 8-byte aligned, user-type records among them (interpreted ones too).
// read(2) in 256 KiB chunks, or mapped where records have stack copies; memory does not grow with the file.
#ifndef PERFSAMPLE_PERFDATA_READER_H
#define PERFSAMPLE_PERFDATA_READER_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "perf/plain.h"
#include "perfdata/names.h"

struct reader_event {
	struct perf_event_attr attr; // host byte order, zero-extended or cut to our size
	struct record_layout layout;
	const char *name;            // EVENT_DESC or EVENT_UPDATE, else made from type and config ("cpu-clock", "raw 0x1a8", …)
	VEC(uint64_t) ids;
	int32_t group_leader;        // GROUP_DESC; -1: none
};

struct reader_build_id { struct build_id build_id; const char *path; uint16_t misc; int32_t pid; };

struct reader_features { // strings NULL, numbers 0 where the file has no such feature
	const char *hostname, *os_release, *version, *arch, *cpu_desc, *cpuid;
	uint32_t cpus_online, cpus_available;
	uint64_t total_memory_kib;
	VEC(const char *) argv;
	VEC(struct reader_build_id) build_ids;
	uint64_t first_time_ns, last_time_ns;
	bool has_clock_data;
	uint32_t clockid;
	uint64_t wall_time_ns, clockid_time_ns;
	struct names *names; // feature 255, or NULL
	uint64_t bits[4];    // HEADER_* bits present
};

struct reader_caveats { // what was unusual; the report says each
	bool cut_off;              // ends inside its last record, or its data size was 0 or past the end
	uint64_t unknown_records;  // skipped by size; simpleperf's own, which say nothing that its samples need, apart
	uint32_t unknown_type;     // of the first of them
	uint64_t skipped_bytes;    // by --salvage
	uint64_t first_skipped_at; // file offset
	char text[256];            // of the first thing salvaged
	char feature[256];         // of the first feature that could not be read; the records do not depend on any
};

struct reader;
// "-": standard input. `salvage`: skip what is damaged instead of failing.
bool reader_open(struct reader **out, const char *path, bool salvage, struct err *err);
void reader_free(struct reader *reader);

// Known after reader_open for file layout, growing while a pipe is read; names of features at the end of a file are read at open.
size_t reader_event_count(const struct reader *reader);
const struct reader_event *reader_event_at(const struct reader *reader, size_t index);
// The event that has this id; false: none.
bool reader_event_of_id(const struct reader *reader, uint64_t id, size_t *event);
const struct reader_features *reader_features(const struct reader *reader);
const struct reader_caveats *reader_caveats(const struct reader *reader);

// perf.data folders hold a file per thread of perf: FINISHED_ROUND then says nothing about the order of the whole.
bool reader_is_folder(const struct reader *reader);

enum reader_next { READER_RECORD, READER_END, READER_ERROR, READER_CHANGE };
// The next record, decoded. *event: index of the event it belongs to (0 when the record does not tell). Valid until the next call.
// `offset`: where it stands in the file (of its COMPRESSED record if it came out of one).
enum reader_next reader_next(struct reader *reader, struct record *record, size_t *event, uint64_t *offset, struct err *err);

// Plain samples that tell a moment and have their whole chain, as many as stand in a row from here on in what was read from the file already, at most `capacity`. 0: ask
// reader_next. They are valid as long as the buffer that they stand in.
size_t reader_samples(struct reader *reader, struct plain_sample *out, size_t capacity);

// For who reads ahead. From now on reader_next says READER_CHANGE before it takes a record by which events or features become others, and
// takes it at the call after.
void reader_announce_changes(struct reader *reader);
// Records stay valid for as long as the buffer that they stand in: once that is used up the reader goes on in the buffer lent to it, which it then
// owns, and gives the old one away. Without one it fills its own again.
void *reader_buffer_new(void); // free() frees it
bool reader_lend(struct reader *reader, void *buffer); // false: it has one to go on in
void *reader_left(struct reader *reader);              // the buffer that was left, now the caller's; NULL: none was
bool reader_keeps(const struct reader *reader, const void *record); // the record stands in a buffer; false: it holds until the next one is read
// A file with stack copies, of which few bytes are looked at, may be mapped instead: then no buffer is left, one thread may read, and samples that the
// reader keeps stay valid as long as it. Their pages stay in memory from reader_hold, before the next record is read, to reader_let_go.
bool reader_is_mapped(const struct reader *reader);
uint64_t reader_file_bytes(const struct reader *reader); // UINT64_MAX: a stream
void reader_hold(struct reader *reader, const struct record *record);
void reader_let_go(struct reader *reader, const struct record *record);

#endif
