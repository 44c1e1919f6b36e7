// The events of a perf.data that is being read: attrs, ids, and which event a record belongs to. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_EVENT_TABLE_H
#define PERFSAMPLE_PERFDATA_EVENT_TABLE_H

#include "base/arena.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "perfdata/reader.h"

struct event_table {
	struct arena *arena; // for names
	VEC(struct reader_event *) events;
	struct hash_map by_id;
	bool swap;
	size_t layouts[16]; // one event for each way in which records are laid out (more ways than that are not told apart)
	size_t layout_count;
	bool are_identified; // all events' records have an identifier
	uint64_t last_id;   // found last, where ids stand at one place in all records, and its event
	size_t last_event;
	bool has_last;
	bool has_build_ids; // an event asks for build IDs in MMAP2
};

enum { EVENTS_MOST = 16384, EVENT_IDS_MOST = 1 << 24 };

// Adds an event from the attr's bytes as they stand in the file (any size), without ids.
struct reader_event *event_table_add(struct event_table *table, struct bytes attr);
void event_table_add_id(struct event_table *table, size_t event, uint64_t id);
void event_table_release(struct event_table *table);
// The event of the record at `record` (body as in the file). Those that do not tell are of event 0. `header`, in host order, is what was checked: the record may
// stand in a mapped file, and its size be another one by now.
size_t event_table_find(struct event_table *table, const struct perf_event_header *header, const void *record);
struct reader_event *event_table_by_id(const struct event_table *table, uint64_t id); // NULL: no such id
// A name made from type and config, in perf's words where it has one.
char *event_name(const struct perf_event_attr *attr, struct arena *arena);
// Host order, zero-extended or cut to our struct. `attr` are the bytes of the attr alone.
void event_attr_decode(struct perf_event_attr *out, struct bytes attr);

#endif
