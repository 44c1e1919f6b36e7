// Any bytes as a run of records, decoded under a layout that the first bytes choose; then read whole, so that ASan sees every borrowed byte.
// Built alone (without -fsanitize=fuzzer) it replays the files named on its command line.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/record.h"
#include "proc/space.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touch(const struct record *r)
{
	uint64_t sum = 0;
	if (r->type != PERF_RECORD_SAMPLE)
		return 0;
	const struct record_sample *s = &r->sample;
	for (uint64_t i = 0; i < s->callchain_count; i++)
		sum += s->callchain[i];
	for (uint64_t i = 0; i < s->branch_count; i++)
		sum += s->branches[i].from;
	for (uint64_t i = 0; i < s->read.count; i++)
		sum += read_values_get(&s->read, i).lost;
	for (int i = 0; i < __builtin_popcountll(s->user.mask); i++)
		sum += s->user.words[i];
	for (int i = 0; i < __builtin_popcountll(s->interrupted.mask); i++)
		sum += s->interrupted.words[i];
	for (uint64_t i = 0; i < s->stack.dyn_size; i++)
		sum += s->stack.bytes[i];
	for (uint32_t i = 0; i < s->raw_size; i++)
		sum += s->raw[i];
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct { uint64_t sample_type, read_format, branch, user, interrupted; uint8_t flags; } head;
	if (size < sizeof(head))
		return 0;
	memcpy(&head, data, sizeof(head));
	struct perf_event_attr attr = { .sample_type = head.sample_type, .read_format = head.read_format, .branch_sample_type = head.branch,
		.sample_regs_user = head.user, .sample_regs_intr = head.interrupted, .sample_id_all = head.flags & 1 };
	struct record_layout layout;
	record_layout_init(&layout, &attr, (head.flags & 2) != 0);
	struct spaces *spaces = spaces_new();
	volatile uint64_t sum = 0;
	for (size_t at = sizeof(head); at + sizeof(struct perf_event_header) <= size;) {
		struct perf_event_header header;
		memcpy(&header, data + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > size - at)
			break;
		uint64_t *copy = malloc(header.size);
		memcpy(copy, data + at, header.size);
		uint64_t word = 0;
		struct record record;
		struct err err;
		sum += record_peek_id(&layout, (const void *)copy, &word) + record_peek_time(&layout, (const void *)copy, &word);
		if (record_decode(&layout, copy, header.size, &record, &err)) {
			sum += touch(&record);
			spaces_apply(spaces, &record, (head.flags & 4) != 0);
		}
		free(copy);
		at += header.size;
	}
	spaces_reap(spaces, UINT64_MAX);
	spaces_free(spaces);
	return 0;
}

#ifndef FUZZER_HAS_MAIN // -fsanitize=fuzzer brings its own
int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		FILE *f = fopen(argv[i], "rb");
		if (f == NULL) {
			perror(argv[i]);
			return 1;
		}
		static uint8_t bytes[1 << 20];
		size_t size = fread(bytes, 1, sizeof(bytes), f);
		fclose(f);
		LLVMFuzzerTestOneInput(bytes, size);
	}
	printf("%d inputs replayed\n", argc - 1);
	return 0;
}
#endif
