// Several recordings of one host and one start of its kernel as one: which events are the same, in what order the recordings come, and their names.
#ifndef PERFSAMPLE_CMD_INJECT_JOIN_H
#define PERFSAMPLE_CMD_INJECT_JOIN_H

#include "perfdata/names.h"
#include "perfdata/reader.h"
#include "perfdata/writer.h"

enum { STRIP_NAMES = 1, STRIP_HOST = 2, STRIP_COMMAND = 4 };

struct join_source {
	const char *path;
	uint64_t first_ns, last_ns; // 0: not known
	size_t event_count;         // described when it was opened
};

struct join {
	struct arena arena;
	VEC(struct join_source) sources;   // in the order of their first moments
	VEC(struct writer_event) events;
	struct writer_info info;
	VEC(const char *) argv;            // NULL-terminated
	VEC(struct writer_build_id) build_ids;
	bool are_apart;                    // each ended before the next began
	uint64_t stack_bytes;              // copied of each raw stack
	struct names names;                // of all, once each source was joined; strings in `parts`
	VEC(struct names *) parts;
	uint64_t recorder_cpu_ns;
};

// STATUS_INPUT: recordings of different hosts, architectures, clocks or starts of the kernel; different events of the same ids.
bool join_open(struct join *join, const char *const *paths, size_t count, bool salvage, unsigned strip, struct err *err);
// Takes the names and build IDs of one source over; `features` are its reader's, `names` what it is to be known by.
bool join_take(struct join *join, const struct reader_features *features, struct names *names, struct err *err);
// What the whole says of itself, from the first part and all parts' times.
void join_close(struct join *join);
void join_release(struct join *join);

// Whether samples of the event carry a raw stack; and the event as it is once those are unwound.
bool inject_is_raw(const struct perf_event_attr *attr);
struct perf_event_attr inject_live_attr(const struct perf_event_attr *from);
void inject_count_members(struct writer_event *events, size_t count); // of groups

#endif
