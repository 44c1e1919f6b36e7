#include "perfdata/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "perfdata/reader_open.h"

enum {
	RECORD_BYTES_MOST = 1 << 16,
	LARGE_BYTES = 2048, // of which few are looked at
	SIMPLEPERF_FIRST_TYPE = 32768, // Android's simpleperf numbers its own records from here; their sizes have 32 bits, the
	                               // upper half in `misc` (system/extras/simpleperf/record.h)
	SIMPLEPERF_LAST_TYPE = SIMPLEPERF_FIRST_TYPE + 4095, // it has some twenty; nobody numbers records from here on
};

bool reader_open(struct reader **out, const char *path, bool salvage, struct err *err)
{
	struct reader *reader = NEW(struct reader);
	reader->path = mem_string(path);
	reader->salvage = salvage;
	reader->input.fd = -1;
	reader->events.arena = &reader->arena;
	reader->copy = mem_alloc(RECORD_BYTES_MOST);
	*out = NULL;
	if (!reader_open_layout(reader, err)) {
		err_context(err, "reading %s", path);
		reader_free(reader);
		return false;
	}
	*out = reader;
	return true;
}

void reader_free(struct reader *reader)
{
	if (reader == NULL)
		return;
	input_close(&reader->input);
	inflate_free(reader->inflate);
	event_table_release(&reader->events);
	features_release(&reader->features);
	arena_release(&reader->arena);
	for (size_t i = 0; i < reader->parts.count; i++)
		free(reader->parts.data[i]);
	vec_release(&reader->parts);
	free(reader->copy);
	free(reader->path);
	free(reader);
}

size_t reader_event_count(const struct reader *reader)
{
	return reader->events.events.count;
}

const struct reader_event *reader_event_at(const struct reader *reader, size_t index)
{
	return reader->events.events.data[index];
}

bool reader_event_of_id(const struct reader *reader, uint64_t id, size_t *event)
{
	const uint32_t *found = hash_map_get(&reader->events.by_id, id);
	if (found != NULL)
		*event = *found;
	return found != NULL;
}

const struct reader_features *reader_features(const struct reader *reader)
{
	return &reader->features;
}

const struct reader_caveats *reader_caveats(const struct reader *reader)
{
	return &reader->caveats;
}

bool reader_is_folder(const struct reader *reader)
{
	return reader->is_folder;
}

void reader_announce_changes(struct reader *reader)
{
	reader->announces = true;
}

void *reader_buffer_new(void)
{
	return input_buffer_new();
}

bool reader_lend(struct reader *reader, void *buffer)
{
	if (reader->input.spare != NULL)
		return false;
	reader->input.spare = buffer;
	return true;
}

void *reader_left(struct reader *reader)
{
	void *left = reader->input.left;
	reader->input.left = NULL;
	return left;
}

bool reader_keeps(const struct reader *reader, const void *record)
{
	return reader->inflate == NULL && record != (const void *)reader->copy;
}

bool reader_is_mapped(const struct reader *reader)
{
	return reader->input.is_mapped;
}

uint64_t reader_file_bytes(const struct reader *reader)
{
	return reader->input.file_size;
}

static const uint8_t *last_of(const struct record *record)
{
	return (const uint8_t *)record->header + record->size - 1;
}

void reader_hold(struct reader *reader, const struct record *record)
{
	input_hold(&reader->input, last_of(record));
}

void reader_let_go(struct reader *reader, const struct record *record)
{
	input_let_go(&reader->input, last_of(record));
}

// ---------------------------------------------------------------- the next whole record

enum take { TAKE_RECORD, TAKE_AGAIN, TAKE_END, TAKE_ERROR };

static uint32_t header_at(const struct reader *reader, const uint8_t *at, struct perf_event_header *header)
{
	memcpy(header, at, sizeof(*header));
	if (reader->swap) {
		header->type = __builtin_bswap32(header->type);
		header->misc = __builtin_bswap16(header->misc);
		header->size = __builtin_bswap16(header->size);
	}
	return header->type >= SIMPLEPERF_FIRST_TYPE ? (uint32_t)header->misc << 16 | header->size : header->size;
}

static void skipped(struct reader *reader, uint64_t offset, uint64_t bytes, const char *why)
{
	if (reader->caveats.text[0] == '\0') {
		reader->caveats.first_skipped_at = offset;
		snprintf(reader->caveats.text, sizeof(reader->caveats.text), "%.255s", why);
	}
	reader->caveats.skipped_bytes += bytes;
}

static bool plausible(const struct reader *reader, const uint8_t *at)
{
	struct perf_event_header header;
	uint32_t size = header_at(reader, at, &header);
	bool known = (header.type >= 1 && header.type <= RECORD_KERNEL_LAST) ||
	             (header.type >= RECORD_USER_HEADER_ATTR && header.type <= RECORD_USER_COMPRESSED2);
	return known && size >= sizeof(header) && size % 8 == 0;
}

// Goes forward to where a record may start again: a known type with a fitting size, and the like behind it.
static enum take resync(struct reader *reader, const struct err *why, struct err *err)
{
	uint64_t from = reader->input.offset;
	for (;;) {
		size_t available;
		if (!input_skip(&reader->input, 8, err))
			return TAKE_ERROR;
		uint8_t *at = input_peek(&reader->input, sizeof(struct perf_event_header), &available, err);
		if (at == NULL)
			return TAKE_ERROR;
		bool good = available < sizeof(struct perf_event_header);
		if (!good && plausible(reader, at)) {
			struct perf_event_header header;
			uint32_t size = header_at(reader, at, &header);
			at = input_peek(&reader->input, size + sizeof(header) <= RECORD_BYTES_MOST ? size + sizeof(header) : RECORD_BYTES_MOST,
			                &available, err);
			if (at == NULL)
				return TAKE_ERROR;
			good = available < size + sizeof(header) ? available == size : plausible(reader, at + size);
		}
		if (good) {
			skipped(reader, from, reader->input.offset - from, why->text);
			return TAKE_AGAIN;
		}
	}
}

// Bytes that make no sense. In the tail of a recording that was killed that is its end.
static enum take damaged(struct reader *reader, const struct err *why, struct err *err)
{
	if (reader->in_tail)
		return TAKE_END;
	if (reader->salvage)
		return resync(reader, why, err);
	*err = *why;
	return TAKE_ERROR;
}

static enum take take_inflated(struct reader *reader, struct perf_event_header *header, uint8_t **body, struct err *err)
{
	size_t available = 0;
	struct err why = { 0 };
	uint8_t *at = inflate_peek(reader->inflate, sizeof(*header), &available, &why);
	uint32_t size = 0;
	if (at != NULL && available >= sizeof(*header)) {
		size = header_at(reader, at, header);
		if (size < sizeof(*header))
			err_set(&why, STATUS_INPUT, "inside the compressed record: size %u below %zu", size, sizeof(*header));
		else if (size > RECORD_BYTES_MOST) // simpleperf compresses none of its own
			err_set(&why, STATUS_INPUT, "inside the compressed record: size %u above %d", size, RECORD_BYTES_MOST);
		else
			at = inflate_peek(reader->inflate, size, &available, &why);
	}
	if (why.text[0] != '\0') {
		inflate_free(reader->inflate);
		reader->inflate = NULL;
		if (!reader->salvage) {
			*err = why;
			return TAKE_ERROR;
		}
		skipped(reader, reader->offset, available, why.text);
		return TAKE_AGAIN;
	}
	if (available < sizeof(*header) || available < size)
		return TAKE_END; // the rest comes in the next COMPRESSED record
	if (!reader->salvage && !inflate_count(&reader->inflated, size, err))
		return TAKE_ERROR;
	reader->skip_inflate = size;
	*body = at;
	return TAKE_RECORD;
}

static enum take end_of_part(struct reader *reader, size_t left, struct err *err)
{
	struct input *input = &reader->input;
	size_t inflated = 0;
	if (reader->push_left > 0)
		reader->caveats.cut_off = true;
	reader->push_left = 0;
	if (reader->inflate != NULL && inflate_peek(reader->inflate, 1, &inflated, NULL) != NULL && inflated > 0)
		reader->caveats.cut_off = true;
	if (reader->may_have_tail && !reader->in_tail && left == 0 && input->offset < input->file_size) {
		reader->in_tail = true;
		return input_seek(input, input->offset, UINT64_MAX, err) ? TAKE_AGAIN : TAKE_ERROR;
	}
	if (left > 0)
		reader->caveats.cut_off = true;
	bool more;
	if (!reader_open_part(reader, &more, err))
		return TAKE_ERROR;
	return more ? TAKE_AGAIN : TAKE_END;
}

// Data that stands behind a record without belonging to its size.
static uint64_t trailing_bytes(const struct reader *reader, const struct perf_event_header *header, const uint8_t *body)
{
	struct bytes in = bytes_of(body + sizeof(*header), header->size - sizeof(*header));
	in.swap = reader->swap;
	if (header->type == RECORD_USER_AUXTRACE)
		return bytes_u64(&in);
	if (header->type == RECORD_USER_TRACING_DATA && reader->is_pipe)
		return bytes_u32(&in);
	return 0;
}

// The file goes on behind its data section, which a record cannot.
static bool is_past_section(const struct reader *reader, uint64_t size, struct err *why)
{
	const struct input *input = &reader->input;
	if (input->limit >= input->file_size || size <= input->limit - input->offset)
		return false;
	err_set(why, STATUS_INPUT, "%" PRIu64 " bytes, expected %" PRIu64 " at most: the data section ends at 0x%" PRIx64, size, input->limit - input->offset,
	        input->limit);
	return true;
}

// A kind that is not decoded is passed over by its size.
static void pass_over(struct reader *reader, uint32_t type)
{
	if (reader->caveats.unknown_records++ == 0)
		reader->caveats.unknown_type = type;
}

// perf 6.16 to 6.18 (record__pushfn() in tools/perf/builtin-record.c) writes what one push of -z gave as several COMPRESSED2 records, and
// then the size of all of them into the first: header.size, rounded up to 8, has its low 16 bits; data_size is right but for the header. Every
// record but the last is as long as perf lets one be. The others' header.size is right, their data_size was never set, and no padding follows.
// Of such a push the size of the record at hand; 0: the record is like others. *left: bytes of the push that follow it.
static uint32_t pushed_size(struct reader *reader, const uint8_t *at, size_t available, const struct perf_event_header *header, uint64_t *left)
{
	enum { FRONT = sizeof(*header) + sizeof(uint64_t), WHOLE = RECORD_BYTES_MOST - 1 };
	*left = 0;
	if (header->type != RECORD_USER_COMPRESSED2)
		return 0;
	if (reader->push_left > 0) {
		bool fits = header->size >= FRONT && header->size <= reader->push_left;
		*left = fits ? reader->push_left - header->size : 0;
		return fits ? header->size : 0;
	}
	if (available < FRONT)
		return 0;
	struct bytes in = bytes_of(at + sizeof(*header), sizeof(uint64_t));
	in.swap = reader->swap;
	uint64_t size = bytes_u64(&in);
	if (size > UINT64_MAX - FRONT - 7 || size + FRONT <= header->size)
		return 0;
	size += FRONT;
	if ((uint16_t)((size + 7) & ~7ull) != header->size)
		return 0;
	*left = size > WHOLE ? size - WHOLE : 0;
	return size > WHOLE ? WHOLE : (uint32_t)size;
}

static enum take take_from_input(struct reader *reader, struct perf_event_header *header, uint8_t **body, struct err *err)
{
	size_t available;
	uint8_t *at = input_peek(&reader->input, sizeof(*header) + sizeof(uint64_t), &available, err);
	if (at == NULL)
		return TAKE_ERROR;
	reader->offset = reader->input.offset;
	if (available < sizeof(*header))
		return end_of_part(reader, available, err);
	uint32_t size = header_at(reader, at, header);
	struct err why = { 0 };
	uint64_t push_left;
	uint32_t pushed = pushed_size(reader, at, available, header, &push_left);
	if (reader->push_left > 0 && pushed == 0) {
		err_set(&why, STATUS_INPUT, "type %u, size %u inside a push of compressed records, of which %" PRIu64 " bytes are left: expected type %d",
		        header->type, size, reader->push_left, RECORD_USER_COMPRESSED2);
		reader->push_left = 0;
		return damaged(reader, &why, err);
	}
	reader->push_left = push_left;
	reader->is_pushed = pushed > 0;
	if (pushed > 0)
		header->size = (uint16_t)(size = pushed);
	if (size < sizeof(*header)) {
		err_set(&why, STATUS_INPUT, "size %u below %zu", size, sizeof(*header));
		return damaged(reader, &why, err);
	}
	if (header->type == 0) {
		err_set(&why, STATUS_INPUT, "type 0, expected 1 or more");
		return damaged(reader, &why, err);
	}
	if (header->type > SIMPLEPERF_LAST_TYPE) {
		err_set(&why, STATUS_INPUT, "type %u, expected %d at most", header->type, SIMPLEPERF_LAST_TYPE);
		return damaged(reader, &why, err);
	}
	if (is_past_section(reader, size, &why))
		return damaged(reader, &why, err);
	if (header->type >= SIMPLEPERF_FIRST_TYPE) {
		reader->skip_input = size;
		return TAKE_AGAIN;
	}
	at = input_peek(&reader->input, size, &available, err);
	if (at == NULL)
		return TAKE_ERROR;
	if (available < size)
		return end_of_part(reader, available, err);
	uint64_t trailing = trailing_bytes(reader, header, at), whole = trailing <= UINT64_MAX - size ? size + trailing : UINT64_MAX;
	if (is_past_section(reader, whole, &why))
		return damaged(reader, &why, err);
	reader->skip_input = whole;
	*body = at;
	return TAKE_RECORD;
}

static bool finish_last(struct reader *reader, struct err *err)
{
	if (reader->skip_inflate > 0)
		inflate_skip(reader->inflate, reader->skip_inflate);
	uint64_t skip = reader->skip_input, from = reader->input.offset;
	reader->skip_inflate = 0;
	reader->skip_input = 0;
	if (skip == 0)
		return true;
	if (!input_skip(&reader->input, skip, err))
		return false;
	if (reader->input.offset - from < skip)
		reader->caveats.cut_off = true;
	return true;
}

// ---------------------------------------------------------------- records that are the reader's own

static bool update_event(struct reader *reader, struct bytes body)
{
	uint64_t kind = bytes_u64(&body), id = bytes_u64(&body);
	struct reader_event *event = event_table_by_id(&reader->events, id);
	size_t length = strnlen((const char *)body.at, bytes_left(&body));
	if (kind == EVENT_UPDATE_NAME && event != NULL && length > 0 && !body.bad)
		event->name = arena_string(&reader->arena, (const char *)body.at, length);
	return true;
}

static bool take_compressed(struct reader *reader, struct bytes body, bool second, struct err *err)
{
	if (reader->skip_inflate > 0)
		return err_set(err, STATUS_INPUT, "a compressed record inside another");
	if (second) { // u64 size of the data, which is padded
		uint64_t size = bytes_u64(&body);
		if (reader->is_pushed)
			size = bytes_left(&body);
		if (size > bytes_left(&body))
			return err_set(err, STATUS_INPUT, "compressed data of %" PRIu64 " bytes, %zu are left", size, bytes_left(&body));
		body = bytes_sub(&body, (size_t)size);
	}
	if (reader->inflate == NULL)
		reader->inflate = inflate_new();
	reader->inflated.fed += bytes_left(&body);
	inflate_feed(reader->inflate, body.at, bytes_left(&body));
	return true;
}

static bool interpret(struct reader *reader, const struct perf_event_header *header, uint8_t *bytes, struct err *err)
{
	struct bytes body = bytes_of(bytes + sizeof(*header), header->size - sizeof(*header));
	body.swap = reader->swap;
	switch (header->type) {
	case RECORD_USER_HEADER_ATTR:
		return reader->is_pipe ? reader_add_attr(reader, body, err) : true;
	case RECORD_USER_EVENT_UPDATE:
		return update_event(reader, body);
	case RECORD_USER_HEADER_FEATURE: {
		uint64_t feature = bytes_u64(&body);
		if (feature >= FEATURE_BITS || feature == FEATURE_NAMES || body.bad)
			return true;
		reader->features.bits[feature / 64] |= 1ull << (feature % 64);
		struct err ignored = { 0 };
		if (!feature_read(&reader->features, &reader->events, &reader->arena, (unsigned)feature, body, &ignored) &&
		    reader->caveats.feature[0] == '\0')
			snprintf(reader->caveats.feature, sizeof(reader->caveats.feature), "at 0x%" PRIx64 ": %.200s", reader->offset, ignored.text);
		return true;
	}
	case RECORD_USER_BUILD_ID: {
		struct bytes whole = bytes_of(bytes, header->size);
		// The header is in host order already; only its size is looked at.
		struct perf_event_header raw = *header;
		if (reader->swap) {
			raw.misc = __builtin_bswap16(raw.misc);
			raw.size = __builtin_bswap16(raw.size);
		}
		memcpy(bytes, &raw, sizeof(raw));
		whole.swap = reader->swap;
		(void)feature_read_build_id(&reader->features, &reader->arena, &whole);
		memcpy(bytes, header, sizeof(*header));
		return true;
	}
	case RECORD_USER_COMPRESSED:
	case RECORD_USER_COMPRESSED2:
		return take_compressed(reader, body, header->type == RECORD_USER_COMPRESSED2, err);
	default:
		return true;
	}
}

// ---------------------------------------------------------------- decoding

// Puts the header into host order where it stands, and the record where 64-bit words may be read and, of a mapped file, be written.
static uint8_t *settle(struct reader *reader, const struct perf_event_header *header, uint8_t *bytes)
{
	if ((uintptr_t)bytes % 8 != 0 || reader->input.is_mapped) {
		memcpy(reader->copy, bytes, header->size);
		bytes = (uint8_t *)reader->copy;
	}
	memcpy(bytes, header, sizeof(*header));
	return bytes;
}

// The kernel sets MISC_MMAP_BUILD_ID in a record for all events that get it, once one of them (another recorder's, say) asked
// for build IDs; the others' records hold device and inode all the same (perf_event_mmap_output() in kernel/events/core.c, seen
// on 6.18: perf 6.1 dies of it). So without an event that asks, the bit is believed only where a build ID can stand: u8 size, three
// zero bytes, 20 bytes that are zero behind the size.
static bool has_false_build_id(const struct reader *reader, const struct perf_event_header *header, const uint8_t *bytes)
{
	enum { ID_AT = 8 + 8 + 24, ID_BYTES = 24 };
	if (header->type != PERF_RECORD_MMAP2 || (header->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) == 0 || reader->events.has_build_ids ||
	    header->size < ID_AT + ID_BYTES)
		return false;
	const uint8_t *id = bytes + ID_AT;
	if (id[0] < 8 || id[0] > 20 || id[1] != 0 || id[2] != 0 || id[3] != 0)
		return true;
	for (unsigned i = 4 + id[0]; i < ID_BYTES; i++) {
		if (id[i] != 0)
			return true;
	}
	return false;
}

static bool decode(struct reader *reader, const struct perf_event_header *header, uint8_t *bytes, struct record *record, size_t *event,
                   struct err *err)
{
	static const struct record_layout no_layout;
	*event = 0;
	if (header->type >= RECORD_USER_HEADER_ATTR) {
		struct record_layout plain = no_layout;
		plain.swap = reader->swap;
		return interpret(reader, header, bytes, err) && record_decode(&plain, bytes, header->size, record, err);
	}
	if (reader->events.events.count == 0)
		return err_set(err, STATUS_INPUT, "type %u before the first HEADER_ATTR", header->type);
	if (has_false_build_id(reader, header, bytes))
		((struct perf_event_header *)(void *)bytes)->misc = header->misc & (uint16_t)~PERF_RECORD_MISC_MMAP_BUILD_ID;
	*event = event_table_find(&reader->events, header, bytes);
	return record_decode(&reader->events.events.data[*event]->layout, bytes, header->size, record, err);
}

static bool is_change(const struct reader *reader, uint32_t type)
{
	return (type == RECORD_USER_HEADER_ATTR && reader->is_pipe) || type == RECORD_USER_EVENT_UPDATE || type == RECORD_USER_HEADER_FEATURE ||
	       type == RECORD_USER_BUILD_ID;
}

// The usual case, without detours: a sample that stands whole in the buffer, on 8 bytes and in host order. false: nothing was done that
// the long way does not do again.
static bool next_sample(struct reader *reader, struct record *record, size_t *event)
{
	struct input *input = &reader->input;
	size_t unread = input_unread(input), skip = (size_t)reader->skip_input;
	if (reader->inflate != NULL || reader->swap || reader->skip_input >= unread || unread - skip < sizeof(struct perf_event_header))
		return false;
	uint8_t *at = input->buffer + input->begin + skip;
	struct perf_event_header header;
	if ((uintptr_t)at % 8 != 0)
		return false;
	__atomic_load((uint64_t *)(void *)at, (uint64_t *)(void *)&header, __ATOMIC_RELAXED); // once: a mapped file may change meanwhile
	if (header.type != PERF_RECORD_SAMPLE || header.size < sizeof(header) || header.size > unread - skip || reader->events.events.count == 0)
		return false;
	size_t found = event_table_find(&reader->events, &header, at);
	if (!record_decode(&reader->events.events.data[found]->layout, at, header.size, record, NULL) || record->type != PERF_RECORD_SAMPLE)
		return false;
	input->begin += skip;
	input->offset += skip;
	input_passed(input);
	if (header.size > LARGE_BYTES) // the end of the next one and the beginning of the one after that: of its size as a rule
		for (size_t i = 0; i < 5; i++)
			__builtin_prefetch(at + 2 * header.size - 64 + 64 * i);
	reader->skip_input = header.size;
	reader->offset = input->offset;
	*event = found;
	return true;
}

// What we write, and perf record -g; compiled by their own.
static const struct record_layout OURS = PLAIN_LAYOUT(PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
                                                      PERF_SAMPLE_PERIOD | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW);
static const struct record_layout PERFS = PLAIN_LAYOUT(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
                                                       PERF_SAMPLE_CALLCHAIN);

static inline bool decode_sample(const struct record_layout *layout, const uint8_t *at, size_t size, struct plain_sample *out)
{
	if (!layout->is_plain)
		return false;
	if (layout->sample_type == OURS.sample_type)
		return plain_decode(&OURS, at, size, out);
	if (layout->sample_type == PERFS.sample_type)
		return plain_decode(&PERFS, at, size, out);
	return plain_decode(layout, at, size, out);
}

size_t reader_samples(struct reader *reader, struct plain_sample *out, size_t capacity)
{
	struct input *input = &reader->input;
	struct event_table *events = &reader->events;
	size_t unread = input_unread(input), count = 0, event = 0;
	if (reader->inflate != NULL || reader->swap || reader->skip_input >= unread || events->events.count == 0)
		return 0;
	const uint8_t *start = input->buffer + input->begin, *end = start + unread, *at = start + reader->skip_input, *last = start;
	const struct record_layout *layout = &events->events.data[0]->layout;
	bool is_one = events->events.count == 1, has_id = false; // all samples are of one event; those with the same id as the one before are
	for (; count < capacity && (uintptr_t)at % 8 == 0 && (size_t)(end - at) >= sizeof(struct perf_event_header); count++) {
		struct perf_event_header header;
		__atomic_load((const uint64_t *)(const void *)at, (uint64_t *)(void *)&header, __ATOMIC_RELAXED);
		size_t size = header.size;
		if (header.type != PERF_RECORD_SAMPLE || size < sizeof(header) || size > (size_t)(end - at))
			break;
		bool is_same = is_one || (has_id && layout->sample_id_at + sizeof(uint64_t) <= size && plain_word(at, layout->sample_id_at) == events->last_id);
		if (!is_same) {
			event = event_table_find(events, &header, at);
			layout = &events->events.data[event]->layout;
			has_id = events->has_last && events->last_event == event;
		}
		if (!decode_sample(layout, at, size, &out[count]) || !record_is_moment(out[count].time_ns) || plain_is_deferred(&out[count]))
			break;
		out[count].event = (uint32_t)event;
		out[count].misc = header.misc;
		last = at;
		at += size;
	}
	if (count == 0)
		return 0;
	input->begin += (size_t)(last - start);
	input->offset += (size_t)(last - start);
	input_passed(input);
	reader->offset = input->offset;
	reader->skip_input = (size_t)(at - last);
	return count;
}

enum reader_next reader_next(struct reader *reader, struct record *record, size_t *event, uint64_t *offset, struct err *err)
{
	if (next_sample(reader, record, event)) {
		*offset = reader->offset;
		return READER_RECORD;
	}
	for (;;) {
		struct perf_event_header header = { 0 };
		uint8_t *bytes = NULL;
		if (!finish_last(reader, err))
			break;
		enum take take = TAKE_END;
		if (reader->inflate != NULL)
			take = take_inflated(reader, &header, &bytes, err);
		if (take == TAKE_END)
			take = take_from_input(reader, &header, &bytes, err);
		if (take == TAKE_END)
			return READER_END;
		if (take == TAKE_ERROR)
			break;
		if (take == TAKE_AGAIN)
			continue;
		*offset = reader->offset;
		if (reader->announces && !reader->announced && is_change(reader, header.type)) {
			reader->announced = true;
			reader->skip_input = 0; // found again by the next call
			reader->skip_inflate = 0;
			return READER_CHANGE;
		}
		reader->announced = false;
		bytes = settle(reader, &header, bytes);
		struct err why = { 0 };
		if (decode(reader, &header, bytes, record, event, &why)) {
			if (header.type == RECORD_USER_COMPRESSED || header.type == RECORD_USER_COMPRESSED2)
				continue; // what is in it comes next
			if ((record->type < RECORD_USER_HEADER_ATTR && record->type > RECORD_KERNEL_LAST) || record->type > RECORD_USER_COMPRESSED2)
				pass_over(reader, record->type);
			return READER_RECORD;
		}
		if (reader->in_tail) {
			reader->caveats.cut_off = true;
			return READER_END;
		}
		if (!reader->salvage) {
			*err = why;
			break;
		}
		skipped(reader, reader->offset, header.size, why.text);
	}
	err_context(err, "record at 0x%" PRIx64, reader->offset);
	err_context(err, "reading %s", reader->path);
	return READER_ERROR;
}
