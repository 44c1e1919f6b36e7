// The kernel's own events of perf_event_open(2), PERF_TYPE_SOFTWARE.
#include <string.h>

#include "perf/event_spec.h"

enum { CGROUP_SWITCHES = 11 }; // PERF_COUNT_SW_CGROUP_SWITCHES, 5.13

static const struct { const char *name, *alias, *description; uint64_t config; bool is_clock; } events[] = {
	{ "cpu-clock", NULL, "a timer of each CPU", PERF_COUNT_SW_CPU_CLOCK, true },
	{ "task-clock", NULL, "a timer of each task", PERF_COUNT_SW_TASK_CLOCK, true },
	{ "page-faults", "faults", "page faults", PERF_COUNT_SW_PAGE_FAULTS, false },
	{ "context-switches", "cs", "context switches", PERF_COUNT_SW_CONTEXT_SWITCHES, false },
	{ "cpu-migrations", "migrations", "moves to another CPU", PERF_COUNT_SW_CPU_MIGRATIONS, false },
	{ "minor-faults", NULL, "page faults without input or output", PERF_COUNT_SW_PAGE_FAULTS_MIN, false },
	{ "major-faults", NULL, "page faults that waited for a device", PERF_COUNT_SW_PAGE_FAULTS_MAJ, false },
	{ "alignment-faults", NULL, "unaligned accesses that the kernel handled", PERF_COUNT_SW_ALIGNMENT_FAULTS, false },
	{ "emulation-faults", NULL, "instructions that the kernel emulated", PERF_COUNT_SW_EMULATION_FAULTS, false },
	{ "cgroup-switches", NULL, "switches between tasks of different cgroups", CGROUP_SWITCHES, false },
	{ "dummy", NULL, "counts nothing", PERF_COUNT_SW_DUMMY, false },
	{ "bpf-output", NULL, "data written by a BPF program", PERF_COUNT_SW_BPF_OUTPUT, false },
};

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	(void)err;
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		if (strcmp(word, events[i].name) != 0 && (events[i].alias == NULL || strcmp(word, events[i].alias) != 0))
			continue;
		spec->attr.type = PERF_TYPE_SOFTWARE;
		spec->attr.config = events[i].config;
		spec->is_clock = events[i].is_clock;
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

const struct event_source event_source_software = { .name = "software", .order = 10, .parse = parse, .list = list };
