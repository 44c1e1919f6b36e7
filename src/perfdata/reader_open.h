// What opening and reading a perf.data share. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_READER_OPEN_H
#define PERFSAMPLE_PERFDATA_READER_OPEN_H

#include "perfdata/event_table.h"
#include "perfdata/feature_read.h"
#include "perfdata/format.h"
#include "perfdata/inflate.h"
#include "perfdata/input.h"
#include "perfdata/reader.h"

struct reader {
	char *path; // for messages
	bool salvage;
	struct arena arena;
	struct event_table events;
	struct reader_features features;
	struct reader_caveats caveats;
	struct input input;
	struct inflate *inflate;  // once a COMPRESSED record was met
	struct inflate_work inflated;
	bool swap, is_pipe, is_folder;
	bool may_have_tail;       // file layout, never finished: records may stand behind the size that the header tells
	bool in_tail;
	bool announces, announced; // reader_announce_changes; the record at hand was announced
	VEC(char *) parts;        // further files of a folder
	size_t next_part;
	uint64_t push_left;       // bytes of COMPRESSED2 records to come that were written with the size of all in the first
	bool is_pushed;           // the record at hand is one of these: all that stands in it are its data
	uint64_t skip_input;      // bytes of the record that was handed out last, and of what belongs to it
	size_t skip_inflate;
	uint64_t *copy;           // of a record that does not stand on 8 bytes
	uint64_t offset;          // of the record at hand
};

// Opens `reader->path`, reads header, attrs and features, and stands at the first record.
bool reader_open_layout(struct reader *reader, struct err *err);
// The next file of a folder; *more false: none is left.
bool reader_open_part(struct reader *reader, bool *more, struct err *err);
// A HEADER_ATTR record's body as an event with its ids; `stride` 0: the ids are the rest of the bytes.
bool reader_add_attr(struct reader *reader, struct bytes body, struct err *err);

#endif
