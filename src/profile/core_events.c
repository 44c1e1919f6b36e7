#include "profile/core_events.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

enum { TYPE_HARDWARE = 0, TYPE_CACHE = 3, PMU_SHIFT = 32 }; // perf_event.h: PERF_TYPE_*, PERF_PMU_TYPE_SHIFT

// An event's name taken apart: "cpu_core/cycles/Pu", as perf writes it, or "cpu_core/cycles:Pu/" of perf 5.13 to 6.1, is cycles:Pu on cpu_core.
struct parts { const char *pmu, *term, *modifiers; size_t pmu_length, term_length, modifiers_length; };

static bool take_apart(const char *name, struct parts *parts)
{
	const char *slash = strchr(name, '/'), *end = slash != NULL ? strrchr(name, '/') : NULL;
	if (slash == NULL || end == slash)
		return false;
	*parts = (struct parts){ .pmu = name, .pmu_length = (size_t)(slash - name), .term = slash + 1, .modifiers = end + 1 };
	const char *colon = memchr(slash, ':', (size_t)(end - slash));
	if (colon != NULL) {
		parts->modifiers = colon + 1;
		parts->modifiers_length = (size_t)(end - parts->modifiers);
	} else {
		parts->modifiers += *parts->modifiers == ':';
		parts->modifiers_length = strlen(parts->modifiers);
	}
	parts->term_length = (size_t)((colon != NULL ? colon : end) - parts->term);
	for (size_t i = 0; i < parts->term_length; i++)
		if (!isalnum((unsigned char)parts->term[i]) && strchr("_-.", parts->term[i]) == NULL)
			return false; // an encoding
	return parts->term_length > 0;
}

// The names that Linux gives core PMUs: x86's are cpu or begin so (arch/x86/events), ARM's with the architecture or Apple's name (drivers/perf).
static bool is_core(const char *pmu, size_t length)
{
	static const char *const starts[] = { "cpu_", "armv", "apple_" };
	bool found = length == 3 && memcmp(pmu, "cpu", 3) == 0;
	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		found |= length > strlen(starts[i]) && memcmp(pmu, starts[i], strlen(starts[i])) == 0;
	return found;
}

// Generic events are those of core PMUs alone, which then stand in config's upper half.
static bool is_generic(const struct profile_event *e)
{
	return e->attr_type == TYPE_HARDWARE || e->attr_type == TYPE_CACHE;
}

static bool is_equal(const char *a, size_t a_length, const char *b, size_t b_length)
{
	return a_length == b_length && memcmp(a, b, a_length) == 0;
}

static bool is_one_event(const struct profile *p, const struct profile_event *a, const struct profile_event *b)
{
	struct parts x, y;
	const char *first = profile_text(p, a->name), *second = profile_text(p, b->name);
	if (a->is_sampling != b->is_sampling || a->is_clock || b->is_clock || a->is_freq != b->is_freq || a->period != b->period || a->frequency != b->frequency ||
	    a->excludes_user != b->excludes_user || a->excludes_kernel != b->excludes_kernel || a->excludes_idle != b->excludes_idle ||
	    a->counts_by_weight || b->counts_by_weight)
		return false;
	if (is_generic(a) && a->attr_type == b->attr_type && (uint32_t)a->attr_config == (uint32_t)b->attr_config)
		return a->attr_config >> PMU_SHIFT != b->attr_config >> PMU_SHIFT;
	return take_apart(first, &x) && take_apart(second, &y) && is_core(x.pmu, x.pmu_length) && is_core(y.pmu, y.pmu_length) &&
		!is_equal(x.pmu, x.pmu_length, y.pmu, y.pmu_length) && is_equal(x.term, x.term_length, y.term, y.term_length) &&
		is_equal(x.modifiers, x.modifiers_length, y.modifiers, y.modifiers_length);
}

static void add_event(struct profile_event *into, const struct profile_event *from)
{
	into->value += from->value;
	into->lost += from->lost;
	into->dropped += from->dropped;
	into->shortened += from->shortened;
	into->sideband_lost += from->sideband_lost;
	into->idle += from->idle;
	into->idle_unsampled += from->idle_unsampled;
	into->others += from->others;
	into->recorder_cpu_ns += from->recorder_cpu_ns;
	into->accounted_ns += from->accounted_ns;
	into->expected += from->expected;
	into->begun += from->begun;
	into->can_expect &= from->can_expect;
	into->is_accounted &= from->is_accounted;
	into->counts_cpus |= from->counts_cpus;
	into->time_running_ns += from->time_running_ns;
	into->time_enabled_ns += from->time_enabled_ns;
	if (from->enabled_most_ns > into->enabled_most_ns)
		into->enabled_most_ns = from->enabled_most_ns;
}

// "cycles:Pu", whose parts stay known by their own names.
static void name_whole(struct profile *p, uint32_t whole, uint32_t part)
{
	struct parts parts;
	struct profile_event *e = &p->events.data[whole];
	struct buf text = { 0 };
	buf_printf(&text, "%s\n%s", profile_text(p, e->parts != 0 ? e->parts : e->name), profile_text(p, p->events.data[part].name));
	e->parts = intern_string(&p->names, buf_text(&text));
	buf_clear(&text);
	if (take_apart(profile_text(p, e->name), &parts)) {
		buf_add(&text, parts.term, parts.term_length);
		if (parts.modifiers_length > 0)
			buf_printf(&text, ":%.*s", (int)parts.modifiers_length, parts.modifiers);
		e->name = intern_string(&p->names, buf_text(&text));
	}
	buf_release(&text);
}

static uint32_t same_context(void *context, const struct sample_point *point)
{
	const uint32_t *ids = context;
	return ids[point->context];
}

static void renumber_samples(struct samples *samples, const uint32_t *to)
{
	size_t count = samples->contexts.count;
	uint32_t *ids = mem_alloc((count + 1) * sizeof(*ids));
	for (size_t i = 0; i < count; i++) {
		struct sample_context c = samples->contexts.data[i];
		c.event = to[c.event];
		ids[i] = samples_context(samples, &c);
	}
	samples_recontext(samples, same_context, ids);
	free(ids);
}

static void renumber(struct profile *p, const uint32_t *to)
{
	renumber_samples(&p->samples, to);
	for (size_t i = 0; i < p->readings.count; i++)
		p->readings.data[i].event = to[p->readings.data[i].event];
	for (size_t i = 0; i < p->losses.count; i++)
		if (p->losses.data[i].event < p->events.count)
			p->losses.data[i].event = to[p->losses.data[i].event];
	for (size_t i = 0; i < p->throttles.count; i++)
		p->throttles.data[i].event = to[p->throttles.data[i].event];
	for (size_t i = 0; i < p->restarts.count; i++)
		p->restarts.data[i].event = to[p->restarts.data[i].event];
	for (size_t i = 0; i < p->events.count; i++)
		if (p->events.data[i].samples_of < p->events.count)
			p->events.data[i].samples_of = to[p->events.data[i].samples_of];
}

bool profile_join_core_events(struct profile *p)
{
	size_t count = p->events.count, kept = 0;
	uint32_t *to = mem_alloc((count + 1) * sizeof(*to));
	bool any = false;
	for (uint32_t i = 0; i < count; i++) {
		to[i] = PROFILE_NONE;
		for (uint32_t first = 0; first < i && to[i] == PROFILE_NONE; first++)
			if (to[first] == first && is_one_event(p, &p->events.data[first], &p->events.data[i]))
				to[i] = first;
		any |= to[i] != PROFILE_NONE;
		if (to[i] == PROFILE_NONE)
			to[i] = i;
	}
	for (uint32_t i = 0; any && i < count; i++) { // by the names that they still have
		if (to[i] == i)
			continue;
		add_event(&p->events.data[to[i]], &p->events.data[i]);
		name_whole(p, to[i], i);
	}
	for (uint32_t i = 0; any && i < count; i++)
		to[i] = to[i] == i ? (uint32_t)kept++ : to[to[i]]; // the whole stands before its parts
	if (any) {
		renumber(p, to);
		for (uint32_t i = 0, last = 0; i < count; i++)
			if (to[i] == last)
				p->events.data[last++] = p->events.data[i];
		p->events.count = kept;
	}
	free(to);
	return any;
}

bool profile_event_has_part(const struct profile *profile, const struct profile_event *event, const char *name)
{
	const char *at = event->parts != 0 ? profile_text(profile, event->parts) : "";
	size_t length = strlen(name);
	for (; *at != '\0'; at += strcspn(at, "\n"), at += *at == '\n')
		if (strncmp(at, name, length) == 0 && (at[length] == '\n' || at[length] == '\0'))
			return true;
	return false;
}
