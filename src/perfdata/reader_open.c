#include "perfdata/reader_open.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gunzip.h"
#include "base/mem.h"
#include "base/regular.h"
#include "base/tmpfile.h"

enum {
	HEADER_BYTES_LEAST = 72,              // up to event_types
	ATTR_BYTES_LEAST = 64,                // PERF_ATTR_SIZE_VER0
	ATTR_BYTES_MOST = 4096,               // a page: what the kernel itself takes
	FEATURE_BYTES_MOST = 256 << 20,
	PARTS_MOST = 65536,
};

static bool read_at(const struct reader *reader, uint64_t offset, void *out, size_t size, struct err *err)
{
	for (size_t done = 0; done < size;) {
		ssize_t n = pread(reader->input.fd, (char *)out + done, size - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, STATUS_INPUT, "reading at offset 0x%" PRIx64, offset + done);
		if (n == 0)
			return err_set(err, STATUS_INPUT, "expected %zu bytes at offset 0x%" PRIx64 ", the file ends at 0x%" PRIx64, size, offset,
			               offset + done);
		done += (size_t)n;
	}
	return true;
}

static bool section_in_file(const struct reader *reader, const struct perfdata_section *section)
{
	return section->size <= reader->input.file_size && section->offset <= reader->input.file_size - section->size;
}

// ---------------------------------------------------------------- attrs and their ids

static struct reader_event *add_event(struct reader *reader, struct bytes attr, struct err *err)
{
	if (reader->events.events.count >= EVENTS_MOST) {
		err_set(err, STATUS_INPUT, "more than %d events", EVENTS_MOST);
		return NULL;
	}
	return event_table_add(&reader->events, attr);
}

// Appends the ids that stand in a section, in pieces: a size is believed no further than the file goes.
static bool add_ids(struct reader *reader, size_t event, const struct perfdata_section *section, struct err *err)
{
	if (!section_in_file(reader, section) || section->size / sizeof(uint64_t) > EVENT_IDS_MOST)
		return err_set(err, STATUS_INPUT, "ids of event %zu: %" PRIu64 " bytes at 0x%" PRIx64 " in a file of %" PRIu64 " bytes", event,
		               section->size, section->offset, reader->input.file_size);
	uint64_t piece[512] = { 0 }, offset = section->offset;
	for (uint64_t left = section->size / sizeof(uint64_t); left > 0;) {
		size_t count = left < 512 ? (size_t)left : 512;
		if (!read_at(reader, offset, piece, count * sizeof(uint64_t), err))
			return false;
		for (size_t i = 0; i < count; i++)
			event_table_add_id(&reader->events, event, reader->swap ? __builtin_bswap64(piece[i]) : piece[i]);
		offset += count * sizeof(uint64_t);
		left -= count;
	}
	return true;
}

static bool read_attrs(struct reader *reader, const struct perfdata_header *header, struct err *err)
{
	uint64_t entry = header->attr_size, ids_at = entry - sizeof(struct perfdata_section);
	if (entry < ATTR_BYTES_LEAST + sizeof(struct perfdata_section) || entry > ATTR_BYTES_MOST)
		return err_set(err, STATUS_INPUT, "header at 0x10: attr size %" PRIu64 ", expected %d to %d", entry,
		               ATTR_BYTES_LEAST + (int)sizeof(struct perfdata_section), ATTR_BYTES_MOST);
	if (!section_in_file(reader, &header->attrs) || header->attrs.size % entry != 0)
		return err_set(err, STATUS_INPUT, "header at 0x18: attrs of %" PRIu64 " bytes at 0x%" PRIx64 ", expected a multiple of %" PRIu64
		               " within the file's %" PRIu64 " bytes", header->attrs.size, header->attrs.offset, entry, reader->input.file_size);
	for (uint64_t at = 0; at < header->attrs.size; at += entry) {
		uint8_t bytes[ATTR_BYTES_MOST];
		if (!read_at(reader, header->attrs.offset + at, bytes, (size_t)entry, err))
			return false;
		if (add_event(reader, bytes_of(bytes, (size_t)ids_at), err) == NULL)
			return false;
		struct bytes in = bytes_of(bytes + ids_at, sizeof(struct perfdata_section));
		in.swap = reader->swap;
		struct perfdata_section ids;
		ids.offset = bytes_u64(&in);
		ids.size = bytes_u64(&in);
		if (!add_ids(reader, reader->events.events.count - 1, &ids, err))
			return err_context(err, "attr at 0x%" PRIx64, header->attrs.offset + at);
	}
	if (reader->events.events.count == 0)
		return err_set(err, STATUS_INPUT, "header at 0x18: no attrs: expected an event at least");
	return true;
}

bool reader_add_attr(struct reader *reader, struct bytes body, struct err *err)
{
	body.swap = reader->swap;
	struct bytes peek = body;
	bytes_skip(&peek, offsetof(struct perf_event_attr, size));
	uint32_t size = bytes_u32(&peek);
	if (size == 0)
		size = ATTR_BYTES_LEAST; // the first ABI had no size
	if (size < ATTR_BYTES_LEAST || size > bytes_left(&body))
		return err_set(err, STATUS_INPUT, "attr of %u bytes, expected %d to %zu", size, ATTR_BYTES_LEAST, bytes_left(&body));
	struct bytes attr = bytes_sub(&body, size);
	if (add_event(reader, attr, err) == NULL)
		return false;
	while (bytes_left(&body) >= sizeof(uint64_t))
		event_table_add_id(&reader->events, reader->events.events.count - 1, bytes_u64(&body));
	return true;
}

// ---------------------------------------------------------------- features

static bool wanted(unsigned feature)
{
	switch (feature) {
	case FEATURE_BUILD_ID: case FEATURE_HOSTNAME: case FEATURE_OSRELEASE: case FEATURE_VERSION: case FEATURE_ARCH: case FEATURE_NRCPUS:
	case FEATURE_CPUDESC: case FEATURE_CPUID: case FEATURE_TOTAL_MEM: case FEATURE_CMDLINE: case FEATURE_EVENT_DESC: case FEATURE_GROUP_DESC:
	case FEATURE_SAMPLE_TIME: case FEATURE_CLOCK_DATA: case FEATURE_NAMES:
		return true;
	default:
		return false;
	}
}

static void read_feature(struct reader *reader, unsigned feature, const struct perfdata_section *section)
{
	struct err err = { 0 };
	if (section->size > FEATURE_BYTES_MOST) {
		err_set(&err, STATUS_INPUT, "feature %u: %" PRIu64 " bytes, expected %d at most", feature, section->size, FEATURE_BYTES_MOST);
	} else {
		void *bytes = mem_alloc((size_t)section->size + 1);
		if (read_at(reader, section->offset, bytes, (size_t)section->size, &err)) {
			struct bytes body = bytes_of(bytes, (size_t)section->size);
			body.swap = reader->swap;
			feature_read(&reader->features, &reader->events, &reader->arena, feature, body, &err);
		}
		free(bytes);
	}
	if (err.text[0] != '\0' && reader->caveats.feature[0] == '\0')
		snprintf(reader->caveats.feature, sizeof(reader->caveats.feature), "at 0x%" PRIx64 ": %.200s", section->offset, err.text);
}

// Behind the data stands a table with one section for each bit that is set, in the order of the bits.
static void read_features(struct reader *reader, const struct perfdata_header *header)
{
	uint64_t at = header->data.offset + header->data.size;
	memcpy(reader->features.bits, header->features, sizeof(reader->features.bits));
	for (unsigned feature = 0; feature < FEATURE_BITS; feature++) {
		if ((header->features[feature / 64] >> (feature % 64) & 1) == 0)
			continue;
		struct perfdata_section section;
		if (at > reader->input.file_size || reader->input.file_size - at < sizeof(section) ||
		    !read_at(reader, at, &section, sizeof(section), NULL)) {
			reader->caveats.cut_off = true;
			return;
		}
		at += sizeof(section);
		if (reader->swap) {
			section.offset = __builtin_bswap64(section.offset);
			section.size = __builtin_bswap64(section.size);
		}
		if (!section_in_file(reader, &section))
			reader->caveats.cut_off = true;
		else if (wanted(feature) && section.size > 0)
			read_feature(reader, feature, &section);
	}
}

// ---------------------------------------------------------------- header

static void decode_header(const struct reader *reader, const uint8_t *bytes, size_t size, struct perfdata_header *header)
{
	struct bytes in = bytes_of(bytes, size);
	in.swap = reader->swap;
	bytes_skip(&in, sizeof(header->magic));
	header->size = bytes_u64(&in);
	header->attr_size = bytes_u64(&in);
	struct perfdata_section *sections[] = { &header->attrs, &header->data, &header->event_types };
	for (size_t i = 0; i < 3; i++) {
		sections[i]->offset = bytes_u64(&in);
		sections[i]->size = bytes_u64(&in);
	}
	for (size_t i = 0; i < FEATURE_BITS / 64; i++)
		header->features[i] = header->size >= sizeof(*header) ? bytes_u64(&in) : 0;
	// Bits of a foreign byte order may have been written as words of 32 bits (perf's own rule: HOSTNAME is always there).
	if (reader->swap && (header->features[0] >> FEATURE_HOSTNAME & 1) == 0) {
		for (size_t i = 0; i < FEATURE_BITS / 64; i++) {
			uint64_t word = header->features[i];
			header->features[i] = word >> 32 | word << 32;
		}
		if ((header->features[0] >> FEATURE_HOSTNAME & 1) == 0) {
			for (size_t i = 0; i < FEATURE_BITS / 64; i++)
				header->features[i] = header->features[i] >> 32 | header->features[i] << 32;
		}
	}
}

// The magic is a number, so that its order tells that of the file. Version 1 had a string; there the size of the header tells.
static bool check_magic(struct reader *reader, const uint8_t *bytes, struct err *err)
{
	uint64_t size;
	memcpy(&size, bytes + 8, sizeof(size));
	bool big_host = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
	if (memcmp(bytes, "PERFILE2", 8) == 0)
		reader->swap = big_host;
	else if (memcmp(bytes, "2ELIFREP", 8) == 0)
		reader->swap = !big_host;
	else if (memcmp(bytes, "PERFFILE", 8) == 0)
		reader->swap = size > UINT32_MAX;
	else
		return err_set(err, STATUS_INPUT, "at 0x0: not a perf.data: expected the magic PERFILE2 or PERFFILE");
	reader->events.swap = reader->swap;
	return true;
}

// A file of file layout that comes through a pipe is set down first: its features stand at its end.
static bool spool(struct reader *reader, struct err *err)
{
	int fd = tmpfile_open();
	if (fd < 0)
		return err_errno(err, STATUS_FINISH, "setting the stream down in a temporary file");
	for (;;) {
		size_t size;
		uint8_t *bytes = input_peek(&reader->input, 1, &size, err);
		if (bytes == NULL || size == 0)
			break;
		for (size_t done = 0; done < size;) {
			ssize_t n = write(fd, bytes + done, size - done);
			if (n < 0 && errno != EINTR) {
				err_errno(err, STATUS_FINISH, "setting the stream down in a temporary file");
				close(fd);
				return false;
			}
			done += n > 0 ? (size_t)n : 0;
		}
		if (!input_skip(&reader->input, size, err))
			break;
	}
	if (!reader->input.at_end) {
		close(fd);
		return false;
	}
	return input_go_on(&reader->input, fd, err);
}

static bool has_stack_copies(const struct reader *reader)
{
	for (size_t i = 0; i < reader->events.events.count; i++)
		if ((reader->events.events.data[i]->attr.sample_type & PERF_SAMPLE_STACK_USER) != 0)
			return true;
	return false;
}

static bool open_file_layout(struct reader *reader, struct err *err)
{
	if (reader->input.file_size == UINT64_MAX && !spool(reader, err))
		return false;
	struct perfdata_header header = { 0 };
	uint8_t bytes[sizeof(header)] = { 0 };
	uint64_t file_size = reader->input.file_size;
	size_t size = file_size < sizeof(bytes) ? (size_t)file_size : sizeof(bytes);
	if (!read_at(reader, 0, bytes, size, err))
		return false;
	decode_header(reader, bytes, sizeof(bytes), &header);
	if (header.size < HEADER_BYTES_LEAST || header.size > ATTR_BYTES_MOST || size < HEADER_BYTES_LEAST)
		return err_set(err, STATUS_INPUT, "header at 0x8: size %" PRIu64 " in a file of %" PRIu64 " bytes, expected %zu", header.size, file_size,
		               sizeof(header));
	if (!read_attrs(reader, &header, err))
		return false;
	struct perfdata_section data = header.data;
	if (data.offset > INT64_MAX || data.size > INT64_MAX || data.offset < HEADER_BYTES_LEAST)
		return err_set(err, STATUS_INPUT, "header at 0x28: data of %" PRIu64 " bytes at 0x%" PRIx64, data.size, data.offset);
	bool has_features = (header.features[0] | header.features[1] | header.features[2] | header.features[3]) != 0;
	bool short_file = data.size == 0 || data.offset + data.size > file_size;
	// Whoever finishes a file writes a feature or more; without any, what the header says is as of the last checkpoint.
	reader->caveats.cut_off |= short_file || !has_features;
	reader->may_have_tail = !has_features && header.attrs.offset < data.offset;
	if (!short_file)
		read_features(reader, &header);
	if (!input_seek(&reader->input, data.offset, short_file ? UINT64_MAX : data.offset + data.size, err))
		return false;
	if (has_stack_copies(reader) && !reader->swap && !reader->is_folder && data.offset % 8 == 0)
		input_map(&reader->input);
	return true;
}

static bool find_parts(struct reader *reader, struct err *err)
{
	struct dirent **found;
	int count = scandir(reader->path, &found, NULL, versionsort);
	if (count < 0)
		return err_errno(err, STATUS_INPUT, "listing");
	for (int i = 0; i < count; i++) {
		if (strncmp(found[i]->d_name, "data.", 5) == 0 && reader->parts.count < PARTS_MOST)
			vec_push(&reader->parts, mem_printf("%s/%s", reader->path, found[i]->d_name));
		free(found[i]);
	}
	free(found);
	reader->is_folder = true;
	return true;
}

static int open_input(const char *path)
{
	return open(path, O_RDONLY | O_NOCTTY | O_CLOEXEC);
}

static bool open_path(struct reader *reader, struct err *err)
{
	if (strcmp(reader->path, "-") == 0) {
		int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
		return fd >= 0 ? input_open(&reader->input, fd, err) : err_errno(err, STATUS_INPUT, "standard input");
	}
	struct stat st;
	int fd = open_input(reader->path);
	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
		close(fd);
		if (!find_parts(reader, err))
			return false;
		char *main = mem_printf("%s/data", reader->path);
		fd = open_input(main);
		free(main);
		if (fd < 0)
			return err_errno(err, STATUS_INPUT, "a folder; opening its file data, which a perf.data folder has");
	}
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "opening");
	return input_open(&reader->input, fd, err);
}

// The next bytes of the input, for gunzip_unpack: those handed out before are passed by then.
struct packed { struct input *input; size_t handed_out; };
static bool more_of_input(void *context, const void **bytes, size_t *size, struct err *err)
{
	struct packed *packed = context;
	if (!input_skip(packed->input, packed->handed_out, err))
		return false;
	*bytes = input_peek(packed->input, 1, &packed->handed_out, err);
	*size = packed->handed_out;
	return *bytes != NULL;
}

static bool unpack(struct reader *reader, struct err *err)
{
	int fd = gunzip_unpack(more_of_input, &(struct packed){ &reader->input, 0 }, &reader->caveats.cut_off, err);
	return fd >= 0 && input_go_on(&reader->input, fd, err);
}

bool reader_open_layout(struct reader *reader, struct err *err)
{
	size_t available;
	if (!open_path(reader, err))
		return false;
	uint8_t *bytes = input_peek(&reader->input, PERFDATA_PIPE_HEADER_BYTES, &available, err);
	if (bytes != NULL && gunzip_is_packed(bytes, available))
		bytes = unpack(reader, err) ? input_peek(&reader->input, PERFDATA_PIPE_HEADER_BYTES, &available, err) : NULL;
	if (bytes == NULL)
		return false;
	if (available < PERFDATA_PIPE_HEADER_BYTES)
		return err_set(err, STATUS_INPUT, "not a perf.data: %zu bytes, expected a header of %d at least", available, PERFDATA_PIPE_HEADER_BYTES);
	if (!check_magic(reader, bytes, err))
		return false;
	uint64_t size;
	memcpy(&size, bytes + 8, sizeof(size));
	if (reader->swap)
		size = __builtin_bswap64(size);
	reader->is_pipe = size == PERFDATA_PIPE_HEADER_BYTES;
	if (reader->is_pipe)
		return input_skip(&reader->input, PERFDATA_PIPE_HEADER_BYTES, err);
	return open_file_layout(reader, err);
}

bool reader_open_part(struct reader *reader, bool *more, struct err *err)
{
	*more = reader->next_part < reader->parts.count;
	if (!*more)
		return true;
	const char *path = reader->parts.data[reader->next_part++];
	int fd = regular_open(path, 0);
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "opening %s", path);
	inflate_free(reader->inflate); // each file is a zstd stream of its own
	reader->inflate = NULL;
	return input_go_on(&reader->input, fd, err);
}
