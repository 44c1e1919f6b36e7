// Samples that have nothing but words, a call chain and raw data (record_layout.is_plain), as most have: read where they stand, by one look at
// their length. For who reads very many of them; all that a record may hold is decoded by record_decode.
#ifndef PERFSAMPLE_PERF_PLAIN_H
#define PERFSAMPLE_PERF_PLAIN_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "perf/record.h"

// The words of a plain sample, in the order of the ABI: indexes of record_layout.front.
enum plain_word { PLAIN_IDENTIFIER, PLAIN_IP, PLAIN_TID, PLAIN_TIME, PLAIN_ADDR, PLAIN_ID, PLAIN_STREAM, PLAIN_CPU, PLAIN_PERIOD, PLAIN_WORDS };
_Static_assert(PLAIN_WORDS == sizeof(((struct record_layout *)NULL)->front), "one place each");

// What is absent is 0, but UINT64_MAX for `id`, -1 for pid and tid, UINT32_MAX for the CPU. Borrows from the record.
struct plain_sample {
	const uint8_t *bytes; // the call chain behind its length, and the raw data behind its own
	uint32_t size;        // of these
	uint32_t callchain_count, raw_size, raw_at /* in `bytes`; 0: no raw data */;
	uint64_t ip, time_ns, period, id;
	int32_t pid, tid;
	uint32_t cpu;
	uint32_t event;       // whose it is; of who asks
	uint16_t misc;
};

static inline uint64_t plain_word(const uint8_t *record, size_t at)
{
	uint64_t word;
	memcpy(&word, record + at, sizeof(word));
	return word;
}

// The SAMPLE of `size` bytes at `record`, header and all, 8-byte aligned and of a layout that is_plain. false: it is shorter than its fields.
static inline bool plain_decode(const struct record_layout *layout, const uint8_t *record, size_t size, struct plain_sample *out)
{
	const uint8_t *front = layout->front;
	if (size < layout->front_bytes)
		return false;
	out->ip = front[PLAIN_IP] != 0 ? plain_word(record, front[PLAIN_IP]) : 0;
	out->pid = out->tid = -1;
	if (front[PLAIN_TID] != 0) {
		memcpy(&out->pid, record + front[PLAIN_TID], sizeof(out->pid));
		memcpy(&out->tid, record + front[PLAIN_TID] + sizeof(out->pid), sizeof(out->tid));
	}
	out->time_ns = front[PLAIN_TIME] != 0 ? plain_word(record, front[PLAIN_TIME]) : 0;
	uint8_t id_at = front[PLAIN_ID] != 0 ? front[PLAIN_ID] : front[PLAIN_IDENTIFIER];
	out->id = id_at != 0 ? plain_word(record, id_at) : UINT64_MAX;
	out->cpu = UINT32_MAX;
	if (front[PLAIN_CPU] != 0)
		memcpy(&out->cpu, record + front[PLAIN_CPU], sizeof(out->cpu));
	out->period = front[PLAIN_PERIOD] != 0 ? plain_word(record, front[PLAIN_PERIOD]) : 0;
	size_t at = layout->front_bytes;
	out->bytes = record + at;
	out->callchain_count = out->raw_size = out->raw_at = 0;
	if ((layout->sample_type & PERF_SAMPLE_CALLCHAIN) != 0) {
		uint64_t count = size - at >= 8 ? plain_word(record, at) : UINT64_MAX;
		if (size - at < 8 || count > (size - at - 8) / 8)
			return false;
		out->callchain_count = (uint32_t)count;
		at += 8 + count * 8;
	}
	if ((layout->sample_type & PERF_SAMPLE_RAW) != 0) {
		uint32_t raw_size = 0;
		if (size - at < sizeof(raw_size))
			return false;
		memcpy(&raw_size, record + at, sizeof(raw_size));
		if (raw_size > size - at - sizeof(raw_size))
			return false;
		at += sizeof(raw_size);
		out->raw_at = (uint32_t)(at - layout->front_bytes);
		out->raw_size = raw_size;
		at += raw_size;
	}
	out->size = (uint32_t)(at - layout->front_bytes);
	return true;
}

#endif
