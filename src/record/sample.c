#include "record/sample.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

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

// Bytes of the fields behind the stack copy, in the ABI's order: weight, data source, transaction, registers at the interrupt, addresses …
static size_t bytes_behind_stack(const struct record_sample *sample, const struct record_layout *layout)
{
	uint64_t type = layout->sample_type;
	uint64_t words = type & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_TRANSACTION | PERF_SAMPLE_PHYS_ADDR |
	                         PERF_SAMPLE_CGROUP | PERF_SAMPLE_DATA_PAGE_SIZE | PERF_SAMPLE_CODE_PAGE_SIZE);
	size_t bytes = 8 * (size_t)__builtin_popcountll(words);
	if (type & PERF_SAMPLE_REGS_INTR)
		bytes += 8 + (sample->interrupted.abi != PERF_SAMPLE_REGS_ABI_NONE ? 8 * (size_t)__builtin_popcountll(sample->interrupted.mask) : 0);
	if (type & PERF_SAMPLE_AUX)
		bytes += 8 + sample->aux_size;
	return bytes;
}

// What follows the stack copy (or, without one, the registers) up to the end: weight, data source, …
static const uint8_t *behind_stack(const struct record *record, const struct record_layout *layout)
{
	const uint8_t *end = (const uint8_t *)record->header + record->size;
	const struct record_sample *sample = &record->sample;
	if ((layout->sample_type & PERF_SAMPLE_STACK_USER) == 0)
		return end;
	if (sample->stack.bytes == NULL) { // of a kernel thread: a size of 0, and nothing more of it
		size_t bytes = bytes_behind_stack(sample, layout);
		return bytes < record->size ? end - bytes : end;
	}
	return sample->stack.bytes + sample->stack.size + (sample->stack.size > 0 ? 8 : 0);
}

// Bytes that the note's runs take at most: a length of up to 16,383, kind and via.
static size_t run_bytes(const struct frame *frames, size_t count)
{
	size_t runs = count > 0;
	for (size_t i = 1; i < count; i++)
		runs += frames[i].kind != frames[i - 1].kind || frames[i].via != frames[i - 1].via;
	return 3 * runs;
}

// How many frames fit into `room` bytes, runs and the mark of a gap included.
static size_t frames_that_fit(const struct unwind_stack *stack, size_t room)
{
	size_t runs = run_bytes(stack->frames, stack->count);
	if (8 * (stack->count + (stack->gap > 0)) + runs <= room)
		return stack->count;
	// As if there were all the runs, or as if each frame were one: whichever leaves more.
	size_t with_all = room > runs + 16 ? (room - runs - 16) / 8 : 0, each = room > 16 ? (room - 16) / 10 : 0, most = with_all > each ? with_all : each;
	return most < stack->count ? most : stack->count;
}

static void put_addresses(struct buf *out, const struct frame *frames, size_t count)
{
	uint8_t *at = buf_add(out, NULL, 8 * count);
	for (size_t i = 0; i < count; i++)
		memcpy(at + 8 * i, &frames[i].addr, 8);
}

bool sample_encode_live(struct buf *out, const struct record_layout *layout, const struct record *record, const struct unwind_stack *stack,
                        struct note *note)
{
	const struct record_sample *sample = &record->sample;
	size_t prefix = sample_prefix_bytes(layout, record->header);
	if (prefix == 0)
		return false;
	const uint8_t *rest = behind_stack(record, layout), *end = (const uint8_t *)record->header + record->size;
	size_t rest_bytes = rest < end ? (size_t)(end - rest) : 0;
	size_t kernel = kernel_part(sample);
	size_t fixed = prefix + 8 + 8 * kernel + 8 + rest_bytes + 64 + sample->raw_size; // 64: of the note but its runs
	struct unwind_stack kept = *stack;
	kept.count = frames_that_fit(stack, fixed < RECORD_BYTES_MAX ? RECORD_BYTES_MAX - fixed : 0);
	struct frame *shorter = NULL;
	if (kept.count < stack->count) {
		note->end = UNWIND_DEPTH_LIMIT;
		// The middle goes. A gap that was there is in it.
		size_t leaf = (kept.count + 1) / 2, root = kept.count - leaf;
		kept.frames = shorter = mem_zero(kept.count + 1, sizeof(*shorter));
		memcpy(shorter, stack->frames, leaf * sizeof(*shorter));
		memcpy(shorter + leaf, stack->frames + (stack->count - root), root * sizeof(*shorter));
		kept.gap = root > 0 ? leaf : 0;
	}

	size_t start = out->size, gap = kept.gap > 0 && kept.gap < kept.count ? kept.gap : kept.count;
	buf_reserve(out, fixed + 8 * (kept.count + 1) + run_bytes(kept.frames, kept.count));
	buf_add(out, record->header, prefix);
	buf_u64(out, kernel + (kept.count > 0 ? 1 + kept.count + (gap < kept.count) : 0));
	buf_add(out, sample->callchain, 8 * kernel);
	if (kept.count > 0)
		buf_u64(out, (uint64_t)PERF_CONTEXT_USER);
	put_addresses(out, kept.frames, gap);
	if (gap < kept.count) {
		buf_u64(out, (uint64_t)PERF_CONTEXT_USER);
		put_addresses(out, kept.frames + gap, kept.count - gap);
	}
	note_encode(out, note, kept.frames, kept.count, sample->raw, sample->raw_size);
	free(shorter);
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
