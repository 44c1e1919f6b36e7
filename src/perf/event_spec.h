// The -e language: names of events to perf_event_attr. Each kind of event is one file in src/perf/source/.
#ifndef PERFSAMPLE_PERF_EVENT_SPEC_H
#define PERFSAMPLE_PERF_EVENT_SPEC_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

// Where events are looked up: this host, or folders that a test made.
struct event_host {
	const char *devices; // the PMUs' folder in sysfs
	const char *tracefs; // NULL: wherever /proc/self/mountinfo says it is mounted; "": nowhere
};
extern const struct event_host event_host_here;

struct event_pmu { // a core PMU of a hybrid host
	char name[32];
	uint32_t type;
	uint32_t *cpus; // that it counts on
	size_t cpu_count;
};

struct event_spec {
	struct perf_event_attr attr; // type, config*, bp_*, exclude_*, precise_ip; nothing about sampling
	char name[128];              // as the user wrote it, modifiers included, with the defaults filled in
	char pmu[32];                // sysfs device, "" for the generic types
	VEC(uint32_t) cpus;          // empty: all; else the PMU's cpus (hybrid core PMUs, uncore cpumask)
	VEC(struct event_pmu) pmus;  // hybrid: the core PMUs; the event is opened on each (hardware and cache events: type in config's
	                             // high 32 bits; raw: as attr.type)
	int32_t group;               // number of its { } group, -1: none
	bool is_leader;
	bool is_clock;               // cpu-clock, task-clock: periods are ns
	bool has_period;             // period=, freq= terms of the event itself
	uint64_t period, frequency;
	char *filter;                // --filter, or NULL
	bool is_tracepoint;
	bool is_default;             // cycles because nothing was asked for: may fall back to cpu-clock
	bool is_uncore;              // counts a part that no task owns: per CPU only, on `cpus`
	bool rings_given;            // :u, :k or :h was written: what is excluded is not changed behind the user's back
	bool precise_max;            // :P: attr.precise_ip is an upper bound
	bool is_weak;                // :W: the group may be broken up if it cannot be opened
	const struct event_host *host;
};

struct event_specs { VEC(struct event_spec) items; int32_t groups; };

// Appends what one -e argument says (commas, groups, modifiers). STATUS_USAGE names the offending word and the likely one meant; STATUS_HOST
// when tracefs or a PMU is not there.
bool event_specs_parse(struct event_specs *specs, const char *text, struct err *err);
bool event_specs_parse_at(struct event_specs *specs, const char *text, const struct event_host *host, struct err *err);
// What is recorded when nothing is asked for: cycles, with is_default.
bool event_specs_default(struct event_specs *specs, struct err *err);
void event_specs_release(struct event_specs *specs);

// A kind of event: src/perf/source/NAME.c defines `const struct event_source event_source_NAME`; the makefile lists them.
struct event_source {
	const char *name;
	int order;  // lower is asked first
	// Whether `word` (without modifiers) is of this kind: 1 yes (spec filled), 0 no, -1 yes but wrong (err filled).
	int (*parse)(const char *word, struct event_spec *spec, struct err *err);
	// Calls `each` for the events of this kind the host has, for `list` and for the likely word meant; may be NULL.
	void (*list)(const struct event_host *host, void (*each)(const char *name, const char *description, void *context), void *context);
};
extern const struct event_source *const event_sources[]; // NULL-terminated, generated

#endif
