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
// Of a layout that is a constant nothing is left but its fields.
static inline __attribute__((always_inline)) bool plain_decode(const struct record_layout *layout, const uint8_t *record, size_t size,
                                                               struct plain_sample *out)
{
	struct plain_sample s = { .pid = -1, .tid = -1, .cpu = UINT32_MAX, .id = UINT64_MAX };
	size_t ip_at = layout->front[PLAIN_IP], task_at = layout->front[PLAIN_TID], time_at = layout->front[PLAIN_TIME], cpu_at = layout->front[PLAIN_CPU];
	size_t id_at = layout->front[PLAIN_ID] != 0 ? layout->front[PLAIN_ID] : layout->front[PLAIN_IDENTIFIER];
	size_t period_at = layout->front[PLAIN_PERIOD], at = layout->front_bytes;
	if (size < at)
		return false;
	if (ip_at != 0)
		s.ip = plain_word(record, ip_at);
	if (task_at != 0) {
		memcpy(&s.pid, record + task_at, sizeof(s.pid));
		memcpy(&s.tid, record + task_at + sizeof(s.pid), sizeof(s.tid));
	}
	if (time_at != 0)
		s.time_ns = plain_word(record, time_at);
	if (id_at != 0)
		s.id = plain_word(record, id_at);
	if (cpu_at != 0)
		memcpy(&s.cpu, record + cpu_at, sizeof(s.cpu));
	if (period_at != 0)
		s.period = plain_word(record, period_at);
	s.bytes = record + at;
	size_t left = size - at;
	if ((layout->sample_type & PERF_SAMPLE_CALLCHAIN) != 0) {
		if (left < sizeof(uint64_t))
			return false;
		uint64_t count = plain_word(s.bytes, 0);
		left -= sizeof(uint64_t);
		if (count > left / sizeof(uint64_t))
			return false;
		s.callchain_count = (uint32_t)count;
		left -= count * sizeof(uint64_t);
	}
	if ((layout->sample_type & PERF_SAMPLE_RAW) != 0) {
		uint32_t raw_size;
		if (left < sizeof(raw_size))
			return false;
		memcpy(&raw_size, record + size - left, sizeof(raw_size));
		left -= sizeof(raw_size);
		if (raw_size > left)
			return false;
		s.raw_at = (uint32_t)(size - at - left);
		s.raw_size = raw_size;
		left -= raw_size;
	}
	s.size = (uint32_t)(size - at - left);
	*out = s;
	return true;
}

static inline bool plain_is_deferred(const struct plain_sample *s)
{
	return s->callchain_count >= 2 && plain_word(s->bytes, sizeof(uint64_t) * (s->callchain_count - 1)) == CONTEXT_USER_DEFERRED;
}

// The layout of a plain sample's words, as a constant.
#define PLAIN_AT(type, bit) (((type) & (bit)) != 0 ? 8 + 8 * __builtin_popcountll((type) & PLAIN_BEFORE(bit)) : 0)
#define PLAIN_BEFORE(bit) ((bit) == PERF_SAMPLE_IDENTIFIER ? 0 : PERF_SAMPLE_IDENTIFIER | \
	(((bit) - 1) & (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD)))
#define PLAIN_LAYOUT(type) { .sample_type = (type), .is_plain = true, .front_bytes = 8 + 8 * __builtin_popcountll((type) & PLAIN_BEFORE(1u << 31)), \
	.front = { [PLAIN_IDENTIFIER] = PLAIN_AT(type, PERF_SAMPLE_IDENTIFIER), [PLAIN_IP] = PLAIN_AT(type, PERF_SAMPLE_IP), \
	           [PLAIN_TID] = PLAIN_AT(type, PERF_SAMPLE_TID), [PLAIN_TIME] = PLAIN_AT(type, PERF_SAMPLE_TIME), \
	           [PLAIN_ADDR] = PLAIN_AT(type, PERF_SAMPLE_ADDR), [PLAIN_ID] = PLAIN_AT(type, PERF_SAMPLE_ID), \
	           [PLAIN_CPU] = PLAIN_AT(type, PERF_SAMPLE_CPU), [PLAIN_PERIOD] = PLAIN_AT(type, PERF_SAMPLE_PERIOD) } }

#endif
