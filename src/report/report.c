#include "report/report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/build.h"

struct report_options report_defaults(void)
{
	return (struct report_options){ .inlines = true, .confidence = 0.95, .max_loss = 0.01, .calls_limit = 5, .ranges = SIZE_MAX };
}

const char *report_printf(struct report *report, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int length = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *text = arena_alloc(&report->arena, (size_t)(length > 0 ? length : 0) + 1);
	vsnprintf(text, (size_t)(length > 0 ? length : 0) + 1, format, again);
	va_end(again);
	return text;
}

static bool check_options(const struct report_options *options, struct err *err)
{
	const struct report_filter *f = &options->filter;
	if (!(options->confidence >= 0.5 && options->confidence <= 0.9999))
		return err_set(err, STATUS_USAGE, "a confidence of %g is not between 0.5 and 0.9999", options->confidence);
	if (f->to_ns != 0 && f->to_ns <= f->from_ns)
		return err_set(err, STATUS_USAGE, "the time asked for ends before it begins");
	for (size_t i = 0; i < options->keys.count; i++) {
		if (options->keys.data[i] >= KEY_COUNT)
			return err_set(err, STATUS_USAGE, "no such key: %u", options->keys.data[i]);
		if (options->keys.data[i] == KEY_CGROUP)
			return err_set(err, STATUS_USAGE, "samples of this recording do not name their cgroup");
	}
	return true;
}

static bool is_filtered(const struct report_filter *f)
{
	return f->comms != NULL || f->pids.count > 0 || f->tids.count > 0 || f->cpus.count > 0 || f->from_ns != 0 || f->to_ns != 0;
}

// The time of the first sample that has one; 0: none has. Those without stand before the others.
static uint64_t first_time(const struct samples *samples)
{
	size_t from = 0, to = samples->count;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (samples_at(samples, middle).time_ns == 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < samples->count ? samples_at(samples, from).time_ns : 0;
}

// The recording's first and last moment, by what it says and by its samples; the filter's part of it.
static void find_window(struct report *r)
{
	const struct profile *p = r->profile;
	uint64_t from = p->meta.start_ns, to = p->meta.end_ns;
	if (p->samples.count > 0) {
		uint64_t first = first_time(&p->samples), last = samples_at(&p->samples, p->samples.count - 1).time_ns;
		from = from == 0 || (first != 0 && first < from) ? first : from;
		to = last >= to ? last + 1 : to;
	}
	const struct report_filter *f = &r->options.filter;
	if (f->from_ns > from)
		from = f->from_ns;
	if (f->to_ns != 0 && f->to_ns < to)
		to = f->to_ns;
	r->from_ns = from;
	r->to_ns = to > from ? to : from;
	r->seconds = (double)(r->to_ns - r->from_ns) / 1e9;
}

// Of the samples kept that are not idle.
static bool has_one_process(const struct report *r)
{
	enum { POINTS = 512 };
	const struct samples *samples = &r->profile->samples;
	const struct report_filter *filter = &r->options.filter;
	bool *keeps = filter_contexts(filter, r->profile), one = true;
	size_t first = SIZE_MAX; // context of the process
	for (size_t i = 0; i < samples->contexts.count; i++) { // from here on: the contexts that the question is about
		keeps[i] = keeps[i] && !samples->contexts.data[i].is_idle;
		if (!keeps[i])
			continue;
		one &= first == SIZE_MAX || samples->contexts.data[first].pid == samples->contexts.data[i].pid;
		first = first == SIZE_MAX ? i : first;
	}
	bool by_time = filter->from_ns != 0 || filter->to_ns != 0;
	struct sample_point points[POINTS];
	int32_t pid = -1;
	for (size_t at = 0, count; !one && by_time && (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			if (!keeps[points[i].context] || !filter_keeps_time(filter, points[i].time_ns))
				continue;
			int32_t own = samples->contexts.data[points[i].context].pid;
			if (pid != -1 && own != pid) {
				free(keeps);
				return false;
			}
			pid = own;
		}
	}
	free(keeps);
	return one || by_time;
}

static void choose_keys(struct report *r)
{
	static const uint8_t one[] = { KEY_SYMBOL }, many[] = { KEY_COMM, KEY_DSO, KEY_SYMBOL };
	const uint8_t *keys = r->options.keys.data;
	size_t count = r->options.keys.count;
	if (count == 0) {
		bool single = has_one_process(r);
		keys = single ? one : many;
		count = single ? 1 : 3;
	}
	uint8_t *own = arena_alloc(&r->arena, count);
	memcpy(own, keys, count);
	r->options.keys.data = own;
	r->options.keys.count = r->options.keys.capacity = count;
}

// perf adds a dummy event for its side-band records.
static bool is_dummy(const struct profile_event *e)
{
	enum { TYPE_SOFTWARE = 1, SW_DUMMY = 9 }; // perf_event.h: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
	return e->attr_type == TYPE_SOFTWARE && e->attr_config == SW_DUMMY;
}

static void build_event(struct report *r, uint32_t id)
{
	const struct profile *p = r->profile;
	struct report_event *event = vec_add(&r->events);
	event->source = &p->events.data[id];
	event->name = profile_text(p, event->source->name);
	event->is_filtered = is_filtered(&r->options.filter);
	struct build b = { .report = r, .profile = p, .options = &r->options, .event_id = id, .event = event };
	tally_build(&b.tally, p, id, &r->options, r->from_ns, r->to_ns);
	account_event(&b);
	place_losses(&b);
	test_aliasing(&b);
	test_lockstep(&b);
	build_rows(&b);
	judge_event(&b);
	choose_rows(&b);
	if (r->options.calls != CALLS_NONE)
		build_calls(&b);
	r->weighted |= event->is_weighted;
	if (event->source->is_sampling && event->verdict > r->verdict)
		r->verdict = event->verdict;
	free(b.ties);
	free(b.aliased);
	tally_release(&b.tally);
}

bool report_build(struct report *report, const struct profile *profile, const struct report_options *options, struct err *err)
{
	*report = (struct report){ .profile = profile, .options = *options };
	report->options.keys.data = NULL; // the caller's; choose_keys takes a copy
	if (!check_options(options, err)) {
		report->options.keys.count = 0;
		return false;
	}
	report->options.keys.data = options->keys.data;
	choose_keys(report);
	find_window(report);
	for (size_t i = 0; i < profile->events.count; i++)
		if (!is_dummy(&profile->events.data[i]))
			build_event(report, (uint32_t)i);
	return true;
}

void report_release(struct report *report)
{
	for (size_t i = 0; i < report->events.count; i++) {
		vec_release(&report->events.data[i].rows);
		vec_release(&report->events.data[i].caveats);
	}
	vec_release(&report->events);
	arena_release(&report->arena);
	*report = (struct report){ 0 };
}
