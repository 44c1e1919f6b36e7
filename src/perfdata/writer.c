#include "perfdata/writer.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "perf/record.h"
#include "perfdata/feature_write.h"
#include "perfdata/format.h"
#include "perfdata/outfile.h"

enum {
	WRITE_BUFFER_BYTES = 256 * 1024,
	ATTR_ENTRY_BYTES = WRITTEN_ATTR_BYTES + sizeof(struct perfdata_section),
	IDS_RESERVED_LEAST = 1024, // per event: room for ids that come while the recording runs, a hole in the file until then
	IDS_RESERVED_FACTOR = 4,
};

struct event_state {
	struct perf_event_attr attr;
	char *name;
	VEC(uint64_t) ids;
	int32_t group_leader;
	uint32_t group_members;
	uint64_t ids_offset, ids_reserved; // in the file; how many fit there
};

struct mark { uint64_t data_bytes, time_ns; };

struct writer {
	struct outfile out;
	VEC(struct event_state) events;
	struct mark marked;          // the last one that is in the file
	VEC(struct mark) marks;      // in what is pending, ascending
	struct buf pending;          // records not yet handed to the kernel
	uint64_t data_offset, data_bytes; // file: where data starts, and how much of it is in the file, whole records alone
	uint64_t attrs_offset;
	uint64_t stream_bytes;
	bool has_begun, has_failed, is_gone;
};

static bool open_as(struct writer **out, const char *path, enum outfile_name kind, int stream_fd, struct err *err)
{
	struct writer *writer = NEW(struct writer);
	if (!outfile_open(&writer->out, path, kind, stream_fd, err)) {
		writer_free(writer);
		*out = NULL;
		return false;
	}
	*out = writer;
	return true;
}

bool writer_open(struct writer **out, const char *path, int stream_fd, struct err *err)
{
	return open_as(out, path, OUTFILE_NAMED, stream_fd, err);
}

bool writer_open_default(struct writer **out, const char *path, struct err *err)
{
	return open_as(out, path, OUTFILE_DEFAULT, -1, err);
}

void writer_free(struct writer *writer)
{
	if (writer == NULL)
		return;
	outfile_close(&writer->out);
	for (size_t i = 0; i < writer->events.count; i++) {
		free(writer->events.data[i].name);
		vec_release(&writer->events.data[i].ids);
	}
	vec_release(&writer->events);
	vec_release(&writer->marks);
	buf_release(&writer->pending);
	free(writer);
}

// Writes all of it at the file's position; *written says how much, also on failure. A stream may be non-blocking.
static bool write_all(struct writer *writer, const void *bytes, size_t size, size_t *written, struct err *err)
{
	*written = 0;
	while (*written < size) {
		ssize_t n = write(writer->out.fd, (const char *)bytes + *written, size - *written);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd wait = { .fd = writer->out.fd, .events = POLLOUT };
			(void)poll(&wait, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			writer->has_failed = true;
			return err_errno(err, STATUS_FINISH, "writing %s", writer->out.path);
		}
		*written += (size_t)n;
	}
	return true;
}

static bool write_at(struct writer *writer, uint64_t offset, const void *bytes, size_t size, struct err *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pwrite(writer->out.fd, (const char *)bytes + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, STATUS_FINISH, "writing %s at 0x%" PRIx64, writer->out.path, offset + done);
		done += (size_t)n;
	}
	return true;
}

// ---------------------------------------------------------------- header, attrs, ids

static bool write_header(struct writer *writer, const uint64_t features[FEATURE_BITS / 64], struct err *err)
{
	struct perfdata_header header = {
		.magic = { 'P', 'E', 'R', 'F', 'I', 'L', 'E', '2' },
		.size = sizeof(header),
		.attr_size = ATTR_ENTRY_BYTES,
		.attrs = { writer->attrs_offset, writer->events.count * ATTR_ENTRY_BYTES },
		.data = { writer->data_offset, writer->data_bytes },
	};
	_Static_assert(sizeof(header) == 104, "the header of perf.data");
	if (features != NULL)
		memcpy(header.features, features, sizeof(header.features));
	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__) // the magic is a number
		memcpy(header.magic, "2ELIFREP", 8);
	return write_at(writer, 0, &header, sizeof(header), err);
}

// Ids and attrs where they have their room, or, when there are more ids than fit, behind `end` of the file, which moves.
static bool write_attrs(struct writer *writer, uint64_t *end, struct err *err)
{
	struct buf attrs = { 0 };
	bool good = true;
	for (size_t i = 0; i < writer->events.count && good; i++) {
		struct event_state *event = &writer->events.data[i];
		uint64_t count = event->ids.count, at = event->ids_offset;
		if (count > event->ids_reserved && end != NULL) {
			at = *end;
			*end += count * sizeof(uint64_t);
		} else if (count > event->ids_reserved) {
			count = event->ids_reserved; // a checkpoint; the rest is written at the end
		}
		feature_attr(&attrs, &event->attr);
		struct perfdata_section ids = { .offset = at, .size = count * sizeof(uint64_t) };
		buf_add(&attrs, &ids, sizeof(ids));
		if (count > 0)
			good = write_at(writer, at, event->ids.data, count * sizeof(uint64_t), err);
	}
	good = good && write_at(writer, writer->attrs_offset, attrs.data, attrs.size, err);
	buf_release(&attrs);
	return good;
}

static bool begin_file(struct writer *writer, struct err *err)
{
	uint64_t at = sizeof(struct perfdata_header);
	for (size_t i = 0; i < writer->events.count; i++) {
		struct event_state *event = &writer->events.data[i];
		uint64_t room = event->ids.count * IDS_RESERVED_FACTOR;
		event->ids_reserved = room > IDS_RESERVED_LEAST ? room : IDS_RESERVED_LEAST;
		event->ids_offset = at;
		at += event->ids_reserved * sizeof(uint64_t);
	}
	writer->attrs_offset = at;
	writer->data_offset = at + writer->events.count * ATTR_ENTRY_BYTES;
	if (!write_attrs(writer, NULL, err) || !write_header(writer, NULL, err))
		return false;
	if (lseek(writer->out.fd, (off_t)writer->data_offset, SEEK_SET) < 0)
		return err_errno(err, STATUS_FINISH, "writing %s", writer->out.path);
	return true;
}

// ---------------------------------------------------------------- records made here

static void put_header(struct buf *out, uint32_t type, size_t size)
{
	struct perf_event_header header = { .type = type, .size = (uint16_t)size };
	buf_add(out, &header, sizeof(header));
}

// An event's name as a record, so that the name is there however the recording ends; perf takes it in files and streams.
static void put_event_name(struct buf *out, const struct event_state *event)
{
	if (event->ids.count == 0 || *event->name == '\0')
		return;
	size_t length = strnlen(event->name, 4000);
	size_t padded = (length + 8) & ~(size_t)7;
	put_header(out, RECORD_USER_EVENT_UPDATE, sizeof(struct perf_event_header) + 16 + padded);
	buf_u64(out, EVENT_UPDATE_NAME);
	buf_u64(out, event->ids.data[0]);
	buf_add(out, event->name, length);
	for (size_t i = length; i < padded; i++)
		buf_byte(out, 0);
}

static bool put_event_attr(struct buf *out, const struct event_state *event, struct err *err)
{
	size_t size = sizeof(struct perf_event_header) + WRITTEN_ATTR_BYTES + event->ids.count * sizeof(uint64_t);
	if (size > UINT16_MAX)
		return err_set(err, STATUS_FINISH, "%s: %zu event ids do not fit a stream's record (at most %zu): write to a file", event->name,
		               event->ids.count, (UINT16_MAX - sizeof(struct perf_event_header) - WRITTEN_ATTR_BYTES) / sizeof(uint64_t));
	put_header(out, RECORD_USER_HEADER_ATTR, size);
	feature_attr(out, &event->attr);
	buf_add(out, event->ids.data, event->ids.count * sizeof(uint64_t));
	return true;
}

// Standard features as a stream's records. There is no mark behind the last: its number differs from version to version of
// perf, and a wrong one stops it.
static void put_stream_features(struct buf *out, const struct writer_info *info, const struct feature_input *inputs, size_t count)
{
	for (unsigned feature = 1; feature < 64; feature++) {
		size_t at = out->size;
		put_header(out, RECORD_USER_HEADER_FEATURE, 0);
		buf_u64(out, feature);
		bool has = feature_write(out, feature, info, inputs, count);
		while ((out->size - at) % 8 != 0)
			buf_byte(out, 0);
		size_t size = out->size - at;
		if (!has || size > UINT16_MAX) {
			out->size = at;
			continue;
		}
		((struct perf_event_header *)(void *)(out->data + at))->size = (uint16_t)size;
	}
}

static struct feature_input *feature_inputs(const struct writer *writer)
{
	struct feature_input *inputs = mem_zero(writer->events.count + 1, sizeof(*inputs));
	for (size_t i = 0; i < writer->events.count; i++) {
		const struct event_state *event = &writer->events.data[i];
		inputs[i] = (struct feature_input){ &event->attr, event->name, event->ids.data, event->ids.count, event->group_leader,
		                                    event->group_members };
	}
	return inputs;
}

static bool begin_stream(struct writer *writer, const struct writer_info *info, struct err *err)
{
	struct buf head = { 0 };
	buf_u64(&head, 0x32454c4946524550); // "PERFILE2" as a number
	buf_u64(&head, PERFDATA_PIPE_HEADER_BYTES);
	bool good = true;
	for (size_t i = 0; i < writer->events.count && good; i++)
		good = put_event_attr(&head, &writer->events.data[i], err);
	for (size_t i = 0; i < writer->events.count; i++)
		put_event_name(&head, &writer->events.data[i]);
	struct feature_input *inputs = feature_inputs(writer);
	put_stream_features(&head, info, inputs, writer->events.count);
	free(inputs);
	size_t written = 0;
	good = good && write_all(writer, head.data, head.size, &written, err);
	writer->stream_bytes += written;
	buf_release(&head);
	return good;
}

bool writer_begin(struct writer *writer, const struct writer_event *events, size_t count, const struct writer_info *info, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct event_state *event = vec_add(&writer->events);
		event->attr = events[i].attr;
		event->name = mem_string(events[i].name != NULL ? events[i].name : "");
		event->group_leader = events[i].group_leader;
		event->group_members = events[i].group_members;
		writer_add_ids(writer, i, events[i].ids, events[i].id_count);
	}
	writer->has_begun = true;
	if (writer->out.is_stream)
		return begin_stream(writer, info, err);
	if (!begin_file(writer, err))
		return false;
	struct buf update = { 0 };
	for (size_t i = 0; i < count; i++)
		put_event_name(&update, &writer->events.data[i]);
	bool good = writer_records(writer, update.data, update.size, err);
	buf_release(&update);
	return good;
}

void writer_add_ids(struct writer *writer, size_t event, const uint64_t *ids, size_t count)
{
	for (size_t i = 0; i < count; i++)
		vec_push(&writer->events.data[event].ids, ids[i]);
}

// ---------------------------------------------------------------- data

// How many of the first `size` bytes are whole records.
static size_t whole_records(const char *bytes, size_t size)
{
	size_t at = 0;
	while (size - at >= sizeof(struct perf_event_header)) {
		struct perf_event_header header;
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > size - at)
			break;
		at += header.size;
	}
	return at;
}

// Marks that what was written reaches.
static void take_marks(struct writer *writer)
{
	size_t reached = 0;
	while (reached < writer->marks.count && writer->marks.data[reached].data_bytes <= writer->data_bytes)
		writer->marked = writer->marks.data[reached++];
	for (size_t i = reached; i < writer->marks.count; i++)
		writer->marks.data[i - reached] = writer->marks.data[i];
	writer->marks.count -= reached;
}

static bool write_data(struct writer *writer, const void *bytes, size_t size, struct err *err)
{
	size_t written = 0;
	bool good = write_all(writer, bytes, size, &written, err);
	if (writer->out.is_stream) {
		writer->stream_bytes += written;
		return good;
	}
	if (!good) {
		// The disk is full, say. What goes serves the header and the features: the half record, and what no counters stand behind.
		written = whole_records(bytes, written);
	}
	writer->data_bytes += written;
	take_marks(writer);
	if (!good) {
		if (writer->marked.data_bytes > 0)
			writer->data_bytes = writer->marked.data_bytes;
		if (ftruncate(writer->out.fd, (off_t)(writer->data_offset + writer->data_bytes)) != 0)
			err_context(err, "cutting the last records");
	}
	return good;
}

static bool flush(struct writer *writer, struct err *err)
{
	bool good = writer->pending.size == 0 || write_data(writer, writer->pending.data, writer->pending.size, err);
	buf_clear(&writer->pending);
	return good;
}

bool writer_records(struct writer *writer, const void *records, size_t size, struct err *err)
{
	if (writer->has_failed)
		return err_set(err, STATUS_FINISH, "writing %s: an earlier write failed", writer->out.path);
	if (writer->pending.size + size > WRITE_BUFFER_BYTES && !flush(writer, err))
		return false;
	if (size > WRITE_BUFFER_BYTES)
		return write_data(writer, records, size, err);
	buf_add(&writer->pending, records, size);
	return true;
}

void writer_mark(struct writer *writer, uint64_t time_ns)
{
	if (!writer->out.is_stream && !writer->has_failed)
		vec_push(&writer->marks, (struct mark){ writer->data_bytes + writer->pending.size, time_ns });
	take_marks(writer);
}

uint64_t writer_marked_ns(const struct writer *writer)
{
	return writer->marked.time_ns;
}

bool writer_checkpoint(struct writer *writer, struct err *err)
{
	if (!writer->has_begun)
		return true;
	bool good = writer->has_failed || flush(writer, err);
	if (writer->out.is_stream)
		return good;
	struct err ignored;
	return write_attrs(writer, NULL, good ? err : &ignored) && write_header(writer, NULL, good ? err : &ignored) && good;
}

bool writer_publish(struct writer *writer, struct err *err)
{
	return outfile_publish(&writer->out, err);
}

uint64_t writer_bytes(const struct writer *writer)
{
	uint64_t written = writer->out.is_stream ? writer->stream_bytes : writer->data_offset + writer->data_bytes;
	return written + writer->pending.size;
}

bool writer_is_gone(const struct writer *writer)
{
	return writer->is_gone;
}

const char *writer_path(const struct writer *writer)
{
	return writer->out.path;
}

// ---------------------------------------------------------------- the end

struct feature_list { // what is in the file's tail: the table of sections, then the sections
	uint64_t bits[FEATURE_BITS / 64];
	VEC(struct perfdata_section) sections; // offsets from the start of `bodies`
	struct buf bodies;
};

static void add_feature(struct feature_list *list, unsigned feature, size_t at)
{
	list->bits[feature / 64] |= 1ull << (feature % 64);
	vec_push(&list->sections, (struct perfdata_section){ .offset = at, .size = list->bodies.size - at });
}

static void collect_features(const struct writer *writer, struct feature_list *list, const struct writer_info *info,
                             const struct writer_build_id *build_ids, size_t build_id_count, const struct names *names)
{
	struct feature_input *inputs = feature_inputs(writer);
	for (unsigned feature = 1; feature < 64; feature++) {
		buf_align(&list->bodies, 8);
		size_t at = list->bodies.size;
		if (feature == FEATURE_BUILD_ID && build_id_count > 0) {
			for (size_t i = 0; i < build_id_count; i++)
				feature_build_id(&list->bodies, &build_ids[i], 0);
			add_feature(list, feature, at);
		} else if (feature_write(&list->bodies, feature, info, inputs, writer->events.count)) {
			add_feature(list, feature, at);
		} else {
			list->bodies.size = at;
		}
	}
	free(inputs);
	if (names != NULL) {
		buf_align(&list->bodies, 8);
		size_t at = list->bodies.size;
		names_encode(names, &list->bodies);
		add_feature(list, FEATURE_NAMES, at);
	}
}

static bool finish_file(struct writer *writer, struct feature_list *list, struct err *err)
{
	uint64_t table_at = writer->data_offset + writer->data_bytes;
	uint64_t bodies_at = table_at + list->sections.count * sizeof(struct perfdata_section);
	uint64_t end = bodies_at + list->bodies.size;
	for (size_t i = 0; i < list->sections.count; i++)
		list->sections.data[i].offset += bodies_at;
	return write_at(writer, table_at, list->sections.data, list->sections.count * sizeof(struct perfdata_section), err) &&
	       write_at(writer, bodies_at, list->bodies.data, list->bodies.size, err) && write_attrs(writer, &end, err) &&
	       write_header(writer, list->bits, err);
}

static bool finish_stream(struct writer *writer, const struct writer_build_id *build_ids, size_t count, struct err *err)
{
	struct buf records = { 0 };
	for (size_t i = 0; i < count; i++)
		feature_build_id(&records, &build_ids[i], RECORD_USER_BUILD_ID);
	bool good = writer_records(writer, records.data, records.size, err) && flush(writer, err);
	buf_release(&records);
	return good;
}

static bool write_features(struct writer *writer, const struct writer_info *info, const struct writer_build_id *build_ids, size_t build_id_count,
                           const struct names *names, struct err *err)
{
	struct feature_list list = { 0 };
	collect_features(writer, &list, info, build_ids, build_id_count, names);
	bool good = finish_file(writer, &list, err);
	vec_release(&list.sections);
	buf_release(&list.bodies);
	return good;
}

static bool cut_behind_data(const struct writer *writer)
{
	return ftruncate(writer->out.fd, (off_t)(writer->data_offset + writer->data_bytes)) == 0;
}

bool writer_finish(struct writer *writer, const struct writer_info *info, const struct writer_build_id *build_ids, size_t build_id_count,
                   const struct names *names, struct err *err)
{
	if (writer->out.is_stream)
		return finish_stream(writer, build_ids, build_id_count, err);
	bool good = writer->has_failed ? err_set(err, STATUS_FINISH, "writing %s: an earlier write failed", writer->out.path)
	                               : flush(writer, err);
	struct err ignored;
	if (!write_features(writer, info, build_ids, build_id_count, names, good ? err : &ignored)) {
		good = false;
		// No room for all of that: what the recording says of itself; or the records alone, as after a kill.
		struct names words = { 0 };
		if (names != NULL)
			memcpy(&words.meta, &names->meta, sizeof(words.meta));
		if (names == NULL || !cut_behind_data(writer) || !write_features(writer, info, NULL, 0, &words, &ignored))
			(void)(cut_behind_data(writer) && write_attrs(writer, NULL, &ignored) && write_header(writer, NULL, &ignored));
	}
	good = writer_publish(writer, good ? err : &ignored) && good;
	writer->is_gone = !outfile_check(&writer->out, good ? err : &ignored);
	return good && !writer->is_gone;
}
