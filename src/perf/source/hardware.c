// The generalized hardware events of perf_event_open(2), PERF_TYPE_HARDWARE.
#include <string.h>

#include "perf/event_spec.h"
#include "perf/sysfs.h"

static const struct { const char *name, *alias, *description; uint64_t config; } events[] = {
	{ "cycles", "cpu-cycles", "CPU cycles; the frequency may vary", PERF_COUNT_HW_CPU_CYCLES },
	{ "instructions", NULL, "retired instructions", PERF_COUNT_HW_INSTRUCTIONS },
	{ "cache-references", NULL, "accesses to the last level cache", PERF_COUNT_HW_CACHE_REFERENCES },
	{ "cache-misses", NULL, "misses in the last level cache", PERF_COUNT_HW_CACHE_MISSES },
	{ "branches", "branch-instructions", "retired branch instructions", PERF_COUNT_HW_BRANCH_INSTRUCTIONS },
	{ "branch-misses", NULL, "mispredicted branches", PERF_COUNT_HW_BRANCH_MISSES },
	{ "bus-cycles", NULL, "bus cycles", PERF_COUNT_HW_BUS_CYCLES },
	{ "stalled-cycles-frontend", "idle-cycles-frontend", "cycles without an instruction to issue", PERF_COUNT_HW_STALLED_CYCLES_FRONTEND },
	{ "stalled-cycles-backend", "idle-cycles-backend", "cycles without a retired instruction", PERF_COUNT_HW_STALLED_CYCLES_BACKEND },
	{ "ref-cycles", NULL, "cycles of a constant frequency", PERF_COUNT_HW_REF_CPU_CYCLES },
};

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	(void)err;
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		if (strcmp(word, events[i].name) != 0 && (events[i].alias == NULL || strcmp(word, events[i].alias) != 0))
			continue;
		spec->attr.type = PERF_TYPE_HARDWARE;
		spec->attr.config = events[i].config;
		sysfs_core_pmus(spec->host, spec);
		return 1;
	}
	return 0;
}

static void list(const struct event_host *host, void (*each)(const char *name, const char *description, void *context), void *context)
{
	(void)host;
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		each(events[i].name, events[i].description, context);
		if (events[i].alias != NULL)
			each(events[i].alias, events[i].description, context);
	}
}

const struct event_source event_source_hardware = { .name = "hardware", .order = 20, .parse = parse, .list = list };
