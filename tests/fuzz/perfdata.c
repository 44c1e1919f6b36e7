// Any bytes as a perf.data: read, with and without salvage, then loaded into a profile, without any file of the host.
// Built alone (without -fsanitize=fuzzer) it replays the files named on its command line.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "load/load.h"
#include "perfdata/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const char *path, bool salvage)
{
	struct reader *reader;
	struct err err = { 0 };
	if (!reader_open(&reader, path, salvage, &err))
		return;
	struct record record;
	size_t event;
	uint64_t offset, records = 0;
	while (reader_next(reader, &record, &event, &offset, &err) == READER_RECORD) {
		if (event > 0 && event >= reader_event_count(reader))
			abort();
		records++;
	}
	if (salvage && err.status != STATUS_OK && strstr(err.text, "record at") == NULL)
		abort();
	reader_free(reader);
}

static void load(const char *path, bool salvage)
{
	static const char *const nowhere[] = { NULL };
	struct load_options options = load_defaults();
	options.input = path;
	options.salvage = salvage;
	options.symbols = false;
	options.symfs = "/nonexistent";
	options.debug_dirs = nowhere;
	options.jobs = 1;
	struct profile profile;
	struct err err = { 0 };
	if (load_profile(&profile, &options, &err)) {
		// Every id leads somewhere.
		for (size_t i = 0; i < profile.samples.count; i++) {
			struct profile_sample sample_row;
			const struct profile_sample *sample = samples_get(&profile.samples, i, &sample_row);
			struct stack_step steps[16];
			size_t count = profile_stack(&profile, sample->stack, true, steps, 16);
			for (size_t j = 0; j < count && j < 16; j++) {
				const struct profile_line *line = &profile.chains.data[steps[j].line];
				if (profile_text(&profile, profile.functions.data[line->function].name) == NULL)
					abort();
			}
			if (sample->event >= profile.events.count || sample->end >= UNWIND_END_COUNT)
				abort();
		}
	}
	profile_release(&profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[64];
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	for (int salvage = 0; salvage < 2; salvage++) {
		read_all(path, salvage);
		load(path, salvage);
	}
	close(fd);
	return 0;
}

#ifndef FUZZER_HAS_MAIN
#include "tests/fuzz/replay.h"
#endif
