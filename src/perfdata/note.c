#include "perfdata/note.h"

#include <endian.h>

#include "base/bytes.h"

enum { NOTE_VERSION = 1, NOTE_HEAD_BYTES = 4, NOTE_TAIL_BYTES = 8 };
static const char NOTE_MAGIC[4] = { 'P', 'S', 'n', '1' };

static void encode_runs(struct buf *out, const struct frame *frames, size_t count)
{
	for (size_t i = 0; i < count;) {
		uint8_t tag = (uint8_t)(frames[i].kind << 4 | (frames[i].via & 15));
		size_t end = i + 1;
		while (end < count && (uint8_t)(frames[end].kind << 4 | (frames[end].via & 15)) == tag)
			end++;
		buf_uleb(out, end - i);
		buf_byte(out, tag);
		i = end;
	}
}

void note_encode(struct buf *out, const struct note *note, const struct frame *frames, size_t count, const void *raw, size_t raw_size)
{
	size_t size_at = out->size;
	buf_u32(out, 0);
	buf_add(out, raw, raw_size);
	size_t part_at = out->size;
	const uint8_t head[NOTE_HEAD_BYTES] = { NOTE_VERSION, (uint8_t)note->end, (uint8_t)note->splice, 0 };
	buf_add(out, head, sizeof(head));
	encode_runs(out, frames, count);
	// A run of length 0 is padding. Size field and data are a multiple of 8 together (kernel: perf_prepare_sample, raw).
	while ((out->size - size_at + NOTE_TAIL_BYTES) % 8 != 0)
		buf_byte(out, 0);
	uint32_t length = htole32((uint32_t)(out->size - part_at + NOTE_TAIL_BYTES));
	buf_add(out, &length, sizeof(length));
	buf_add(out, NOTE_MAGIC, sizeof(NOTE_MAGIC));
	uint32_t size = (uint32_t)(out->size - size_at - sizeof(uint32_t));
	memcpy(out->data + size_at, &size, sizeof(size));
}

// How many frames the runs cover; false when they make no sense.
static bool decode_runs(struct bytes runs, uint8_t *kinds, size_t capacity, size_t *covered)
{
	size_t at = 0;
	while (bytes_left(&runs) > 0) {
		uint64_t length = bytes_uleb(&runs);
		if (length == 0)
			break;
		uint8_t tag = bytes_u8(&runs);
		if (runs.bad || length > UINT16_MAX || tag >> 4 > FRAME_INTERRUPTED)
			return false;
		for (uint64_t i = 0; i < length; i++, at++) {
			if (at < capacity)
				kinds[at] = tag;
		}
		if (at > UINT16_MAX) // a record holds fewer than 8,192 addresses
			return false;
	}
	*covered = at;
	return !runs.bad;
}

bool note_decode(const uint8_t *raw, size_t size, struct note *note, uint8_t *kinds, size_t capacity, size_t *covered, size_t *raw_size)
{
	*covered = 0;
	*raw_size = size;
	if (size < NOTE_HEAD_BYTES + NOTE_TAIL_BYTES || memcmp(raw + size - 4, NOTE_MAGIC, 4) != 0)
		return false;
	uint32_t length;
	memcpy(&length, raw + size - NOTE_TAIL_BYTES, sizeof(length));
	length = le32toh(length);
	if (length < NOTE_HEAD_BYTES + NOTE_TAIL_BYTES || length > size)
		return false;
	const uint8_t *part = raw + (size - length);
	if (part[0] != NOTE_VERSION || part[1] >= UNWIND_END_COUNT || part[2] > SPLICE_CHECKED)
		return false;
	if (!decode_runs(bytes_of(part + NOTE_HEAD_BYTES, length - NOTE_HEAD_BYTES - NOTE_TAIL_BYTES), kinds, capacity, covered)) {
		*covered = 0;
		return false;
	}
	note->end = (enum unwind_end)part[1];
	note->splice = (enum splice)part[2];
	*raw_size = size - length;
	return true;
}

const char *splice_name(unsigned splice)
{
	static const char *const names[] = { [SPLICE_NONE] = "none", [SPLICE_EXACT] = "exact", [SPLICE_CHECKED] = "checked" };

	return splice < sizeof(names) / sizeof(names[0]) ? names[splice] : names[SPLICE_NONE];
}
