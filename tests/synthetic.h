// Profiles made by hand, for the tests of report and exporters: functions by name, stacks as lists of them, samples at given times.
#ifndef PERFSAMPLE_TESTS_SYNTHETIC_H
#define PERFSAMPLE_TESTS_SYNTHETIC_H

#include <stdarg.h>
#include <stdio.h>

#include "profile/profile.h"
#include "report/report.h"

enum { SYN_PERIOD_NS = 1295295, SYN_START_S = 1000 };

// One event, cpu-clock, accounted; `seconds` long.
__attribute__((unused)) static void syn_init(struct profile *p, double seconds)
{
	profile_init(p);
	struct profile_event event = { .name = intern_string(&p->names, "cpu-clock"), .is_clock = true, .period = SYN_PERIOD_NS, .is_sampling = true,
		.is_accounted = true, .can_expect = true, .attr_type = 1 };
	vec_push(&p->events, event);
	p->meta.start_ns = (uint64_t)SYN_START_S * 1000000000u;
	p->meta.end_ns = p->meta.start_ns + (uint64_t)(seconds * 1e9);
}

static uint32_t syn_dso(struct profile *p, const char *name)
{
	uint32_t short_name = intern_string(&p->names, name);
	for (size_t i = 0; i < p->dsos.count; i++)
		if (p->dsos.data[i].short_name == short_name)
			return (uint32_t)i;
	char path[300];
	snprintf(path, sizeof(path), "/usr/bin/%s", name);
	struct profile_dso dso = { .path = intern_string(&p->names, path), .short_name = short_name };
	return profile_add_dso(p, &dso);
}

// A frame whose inline chain is `count` functions, innermost first; names[0] NULL: unresolved.
static uint32_t syn_frame(struct profile *p, const char *const *names, size_t count, const char *dso)
{
	static uint64_t next = 0x1000; // every frame is an address of its own
	uint32_t dso_id = syn_dso(p, dso), first = (uint32_t)p->chains.count;
	for (size_t i = 0; i < count; i++) {
		uint32_t name = intern_string(&p->names, names[i] != NULL ? names[i] : "[unknown]"), function = PROFILE_NONE;
		for (size_t f = 0; f < p->functions.count; f++)
			if (p->functions.data[f].name == name && p->functions.data[f].dso == dso_id)
				function = (uint32_t)f;
		if (function == PROFILE_NONE) {
			struct profile_function made = { .name = name, .linkage_name = name, .dso = dso_id, .is_known = names[i] != NULL };
			function = profile_add_function(p, &made);
		}
		vec_push(&p->chains, (struct profile_line){ .function = function, .file = intern_string(&p->names, "a.c"), .line = 7, .is_inlined = i + 1 < count });
	}
	struct profile_frame frame = { .addr = next, .image_addr = next, .dso = dso_id, .first_line = first, .line_count = (uint32_t)count,
		.is_kernel = strcmp(dso, "[kernel]") == 0 };
	next += 0x10;
	return profile_add_frame(p, &frame);
}

__attribute__((unused)) static uint32_t syn_function(struct profile *p, const char *name, const char *dso)
{
	return syn_frame(p, &name, 1, dso);
}

// Frames root first, ended by PROFILE_NONE.
__attribute__((unused)) static uint32_t syn_stack(struct profile *p, ...)
{
	va_list args;
	va_start(args, p);
	uint32_t node = PROFILE_NONE;
	for (uint32_t frame; (frame = va_arg(args, uint32_t)) != (uint32_t)PROFILE_NONE;)
		node = profile_add_node(p, node, frame);
	va_end(args);
	return node;
}

__attribute__((unused)) static void syn_sample(struct profile *p, double at_s, uint32_t stack, int32_t tid)
{
	struct profile_sample s = { .time_ns = p->meta.start_ns + (uint64_t)(at_s * 1e9), .weight = SYN_PERIOD_NS, .pid = 4242, .tid = tid,
		.comm = intern_string(&p->names, "app"), .stack = stack, .end = UNWIND_ROOT };
	if (stack != PROFILE_NONE)
		s.is_kernel = p->frames.data[p->nodes.data[stack].frame].is_kernel;
	samples_add(&p->samples, &s);
}

// One member of a sample, of the last one added.
#define syn_set(p, index, member, value) do { \
	struct profile_sample row_ = samples_at(&(p)->samples, index); \
	row_.member = (value); \
	samples_set(&(p)->samples, index, &row_); } while (0)
#define syn_last(p, member, value) syn_set(p, (p)->samples.count - 1, member, value)

// What was due: samples, lost and `silent` add up.
__attribute__((unused)) static void syn_account(struct profile *p, uint64_t lost, uint64_t silent)
{
	struct profile_event *e = &p->events.data[0];
	uint64_t taken = 0;
	for (size_t i = 0; i < p->samples.count; i++)
		taken += samples_at(&p->samples, i).event == 0;
	e->lost = lost;
	e->expected = taken + lost + silent;
	e->time_running_ns = e->time_enabled_ns = e->expected * e->period;
}

__attribute__((unused)) static const struct report_row *syn_row(const struct report_event *e, const char *symbol)
{
	for (size_t i = 0; i < e->rows.count; i++)
		if (e->rows.data[i].keys[KEY_SYMBOL] != NULL && strcmp(e->rows.data[i].keys[KEY_SYMBOL], symbol) == 0)
			return &e->rows.data[i];
	return NULL;
}

#endif
