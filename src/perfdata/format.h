// Numbers and shapes of perf.data that reader and writer share: tools/perf/Documentation/perf.data-file-format.txt and util/header.h
// of the kernel sources (6.18). Everything is in the byte order of the host that wrote the file.
#ifndef PERFSAMPLE_PERFDATA_FORMAT_H
#define PERFSAMPLE_PERFDATA_FORMAT_H

#include <linux/perf_event.h>
#include <stdint.h>

enum perfdata_feature {
	FEATURE_TRACING_DATA = 1, FEATURE_BUILD_ID = 2, FEATURE_HOSTNAME = 3, FEATURE_OSRELEASE = 4, FEATURE_VERSION = 5, FEATURE_ARCH = 6,
	FEATURE_NRCPUS = 7, FEATURE_CPUDESC = 8, FEATURE_CPUID = 9, FEATURE_TOTAL_MEM = 10, FEATURE_CMDLINE = 11, FEATURE_EVENT_DESC = 12,
	FEATURE_GROUP_DESC = 17, FEATURE_SAMPLE_TIME = 21, FEATURE_CLOCKID = 23, FEATURE_DIR_FORMAT = 24, FEATURE_COMPRESSED = 27,
	FEATURE_CLOCK_DATA = 29,
	FEATURE_NAMES = 255, // ours: perfdata/names.h
	FEATURE_BITS = 256,
};

struct perfdata_section { uint64_t offset, size; };

struct perfdata_header { // version 2, file layout; a pipe has the first two members alone, with size 16
	char magic[8]; // "PERFILE2", as a number in the writer's byte order; "PERFFILE" for version 1
	uint64_t size; // of this header
	uint64_t attr_size; // of one entry of `attrs`: the attr and a perfdata_section with its ids
	struct perfdata_section attrs, data, event_types;
	uint64_t features[FEATURE_BITS / 64];
};

enum {
	PERFDATA_PIPE_HEADER_BYTES = 16,
	PERFDATA_STRING_ALIGN = 64, // strings of features: u32 size, then the string padded with NULs
	EVENT_UPDATE_NAME = 2,      // PERF_EVENT_UPDATE__NAME of tools/lib/perf/include/perf/event.h
	BUILD_ID_HAS_SIZE = 1 << 15, // PERF_RECORD_MISC_BUILD_ID_SIZE
	BUILD_ID_HEAD_BYTES = 8 + 4 + 24, // header, pid, build ID with its size; the file name follows
};

#endif
