#include "record/sample.h"

#include <string.h>

enum { RECORD_BYTES_MAX = 65528 };

uint64_t sample_type_live(uint64_t sample_type)
{
	sample_type &= ~(uint64_t)(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
	return sample_type | PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_RAW;
}

// The order of the fields: perf_event_open(2), PERF_RECORD_SAMPLE.
size_t sample_prefix_bytes(const struct record_layout *layout, const struct perf_event_header *header)
{
	uint64_t fixed = layout->sample_type & (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
	                                        PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD);
	size_t bytes = sizeof(*header) + 8 * (size_t)__builtin_popcountll(fixed);
	if (layout->sample_type & PERF_SAMPLE_READ) {
		uint64_t format = layout->read_format;
		size_t each = 1 + !!(format & PERF_FORMAT_ID) + !!(format & PERF_FORMAT_LOST);
		size_t times = !!(format & PERF_FORMAT_TOTAL_TIME_ENABLED) + !!(format & PERF_FORMAT_TOTAL_TIME_RUNNING);
		uint64_t count = 1;
		if (format & PERF_FORMAT_GROUP) {
			if (bytes + 8 > header->size)
				return 0;
			memcpy(&count, (const uint8_t *)header + bytes, sizeof(count));
			if (count > RECORD_BYTES_MAX / 8)
				return 0;
			bytes += 8;
		}
		bytes += 8 * (times + each * (size_t)count);
	}
	return bytes <= header->size ? bytes : 0;
}

// Entries of the kernel's (and hypervisor's) part, markers included.
static size_t kernel_part(const struct record_sample *sample)
{
	size_t n = 0;
	while (n < sample->callchain_count && sample->callchain[n] != (uint64_t)PERF_CONTEXT_USER)
		n++;
	return n;
}

// What follows the stack copy (or, without one, the registers) up to the end: weight, data source, …
static const uint8_t *behind_stack(const struct record *record, const struct record_layout *layout)
{
	const uint8_t *end = (const uint8_t *)record->header + record->size;
	const struct record_sample *sample = &record->sample;
	if ((layout->sample_type & PERF_SAMPLE_STACK_USER) == 0 || sample->stack.bytes == NULL)
		return end;
	return sample->stack.bytes + sample->stack.size + (sample->stack.size > 0 ? 8 : 0);
}

bool sample_encode_live(struct buf *out, const struct record_layout *layout, const struct record *record, const struct frame *frames,
                        size_t count, struct note *note)
{
	const struct record_sample *sample = &record->sample;
	size_t prefix = sample_prefix_bytes(layout, record->header);
	if (prefix == 0)
		return false;
	const uint8_t *rest = behind_stack(record, layout), *end = (const uint8_t *)record->header + record->size;
	size_t rest_bytes = rest < end ? (size_t)(end - rest) : 0;
	size_t kernel = kernel_part(sample);
	// The note takes two bytes a run at worst and 24 fixed ones; a run is never shorter than one frame.
	size_t fixed = prefix + 8 + 8 * kernel + 8 + rest_bytes + 64 + sample->raw_size;
	size_t room = fixed < RECORD_BYTES_MAX ? (RECORD_BYTES_MAX - fixed) / 10 : 0;
	if (8 * count + 2 * count > 10 * room) {
		count = room;
		note->end = UNWIND_DEPTH_LIMIT;
	}

	size_t start = out->size;
	buf_reserve(out, fixed + 10 * count);
	buf_add(out, record->header, prefix);
	buf_u64(out, kernel + (count > 0 ? 1 + count : 0));
	buf_add(out, sample->callchain, 8 * kernel);
	if (count > 0) {
		buf_u64(out, (uint64_t)PERF_CONTEXT_USER);
		uint8_t *at = buf_add(out, NULL, 8 * count);
		for (size_t i = 0; i < count; i++)
			memcpy(at + 8 * i, &frames[i].addr, 8);
	}
	note_encode(out, note, frames, count, sample->raw, sample->raw_size);
	buf_add(out, rest, rest_bytes);
	struct perf_event_header *header = (struct perf_event_header *)(out->data + start);
	header->size = (uint16_t)(out->size - start);
	return true;
}

void sample_copy_trimmed(struct buf *out, const struct record *record, uint64_t keep)
{
	const struct record_stack *stack = &record->sample.stack;
	const uint8_t *bytes = (const uint8_t *)record->header, *end = bytes + record->size;
	if (stack->bytes == NULL || stack->size == 0) {
		buf_add(out, bytes, record->size);
		return;
	}
	if (keep > stack->dyn_size)
		keep = stack->dyn_size;
	keep = keep / 8 * 8;
	size_t start = out->size;
	buf_add(out, bytes, (size_t)(stack->bytes - bytes) - 8);
	buf_u64(out, keep);
	if (keep > 0) {
		buf_add(out, stack->bytes, keep);
		buf_u64(out, keep); // dyn_size is there only when size is not 0
	}
	const uint8_t *rest = stack->bytes + stack->size + 8;
	if (rest < end)
		buf_add(out, rest, (size_t)(end - rest));
	struct perf_event_header *header = (struct perf_event_header *)(out->data + start);
	header->size = (uint16_t)(out->size - start);
}
