// What was due, what came, and what is missing (statistics, sections 5 and 6).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/build.h"
#include "report/estimate_more.h"

enum { TYPE_SOFTWARE = 1, TYPE_TRACEPOINT = 2 }; // perf_event.h: PERF_TYPE_*

static bool cpu_is_kept(const struct report_filter *f, uint32_t cpu)
{
	for (size_t i = 0; i < f->cpus.count; i++)
		if (f->cpus.data[i] == cpu)
			return true;
	return f->cpus.count == 0;
}

// A loss that overlaps the window counts whole: where inside its interval it lies is not known.
static bool loss_counts(const struct build *b, const struct profile_loss *loss)
{
	return loss->event == b->event_id && !loss->is_sideband && loss->to_ns >= b->report->from_ns && loss->from_ns <= b->report->to_ns
		&& cpu_is_kept(&b->options->filter, loss->cpu);
}

static double located_loss(const struct build *b)
{
	double sum = 0;
	for (size_t i = 0; i < b->profile->losses.count; i++)
		if (loss_counts(b, &b->profile->losses.data[i]))
			sum += (double)b->profile->losses.data[i].count;
	return sum;
}

static double throttled_seconds(const struct build *b)
{
	double sum = 0;
	for (size_t i = 0; i < b->profile->throttles.count; i++) {
		const struct profile_throttle *t = &b->profile->throttles.data[i];
		uint64_t from = t->from_ns > b->report->from_ns ? t->from_ns : b->report->from_ns;
		uint64_t to = t->to_ns < b->report->to_ns ? t->to_ns : b->report->to_ns;
		if (t->event == b->event_id && to > from && cpu_is_kept(&b->options->filter, t->cpu))
			sum += (double)(to - from) / 1e9;
	}
	return sum;
}

// Per-CPU events run while others use the CPU: their running time is not the target's.
static double cpu_seconds(const struct build *b)
{
	const struct profile_event *e = b->event->source;
	if (!e->is_clock)
		return 0;
	double sampled = b->tally.is_weighted ? b->tally.weight : (double)b->tally.samples * (double)e->period;
	bool by_running = e->can_expect && e->time_running_ns > 0 && b->event->idle == 0 && b->event->others == 0 && !b->event->is_filtered;
	return (by_running ? (double)e->time_running_ns : sampled) / 1e9;
}

static void count_what_was_due(struct build *b)
{
	struct report_event *event = b->event;
	const struct profile_event *e = event->source;
	const struct tally *t = &b->tally;
	event->taken = (double)t->samples - (b->options->idle ? (double)t->idle_samples : 0);
	event->is_accounted = e->is_accounted;
	event->idle = (double)t->idle_samples;
	if (event->is_filtered) {
		event->lost = located_loss(b);
		return; // what was due in a part of the recording was not recorded
	}
	if ((double)e->idle > event->idle)
		event->idle = (double)e->idle;
	event->others = (double)e->others;
	// Without the counter that read(2) gives, the records alone: they fall short.
	event->lost = e->is_accounted ? (double)e->lost : fmax((double)e->lost, located_loss(b));
	event->can_expect = e->can_expect && !e->excludes_user && !e->excludes_kernel && !e->excludes_idle && !(e->is_freq && !e->is_clock);
	if (!event->can_expect)
		return;
	event->expected = (double)e->expected;
	event->silent = event->expected - event->taken - event->idle - event->others - event->lost;
}

// On the scale of n: lost samples and, hidden in silence, those we dropped and the ticks of throttled stretches.
static double missing_samples(const struct build *b)
{
	const struct report_event *event = b->event;
	double hidden = event->dropped;
	if (event->source->is_clock && event->source->period > 0)
		hidden += event->throttled_s * 1e9 / (double)event->source->period;
	if (event->can_expect && event->silent > 0.01 * event->expected)
		hidden = fmax(hidden, event->silent);
	double missing = event->lost + hidden;
	return b->tally.samples > 0 ? missing * event->n / (double)b->tally.samples : missing;
}

static void count_stacks(struct build *b)
{
	struct report_event *event = b->event;
	const struct tally *t = &b->tally;
	event->stacks_complete = t->stacks_complete;
	event->stacks_joined = t->stacks_joined;
	event->stacks_truncated = t->stacks_truncated;
	event->stacks_failed = t->stacks_failed;
	memcpy(event->ends, t->ends, sizeof(event->ends));
	memcpy(event->splices, t->splices, sizeof(event->splices));
	if (t->weight > 0) {
		event->user_share = t->user / t->weight;
		event->kernel_share = t->kernel / t->weight;
		event->unresolved_share = t->unresolved / t->weight;
	}
}

static uint64_t samples_before_filter(const struct build *b)
{
	uint64_t count = 0;
	for (size_t i = 0; i < b->profile->samples.count; i++)
		count += b->profile->samples.data[i].event == b->event_id && !b->profile->samples.data[i].is_idle;
	return count;
}

void account_event(struct build *b)
{
	struct report_event *event = b->event;
	const struct profile_event *e = event->source;
	const struct tally *t = &b->tally;
	event->is_weighted = t->is_weighted;
	event->n = t->is_weighted ? kish_n(t->weight, t->weight_squares) : (double)t->samples;
	event->threads = t->threads;
	event->processes = t->processes;
	count_what_was_due(b);
	event->unfiltered = event->is_filtered ? (double)samples_before_filter(b) : event->taken;
	event->dropped = event->is_filtered && b->options->filter.from_ns + b->options->filter.to_ns > 0 ? 0 : (double)e->dropped;
	event->shortened = (double)e->shortened;
	event->throttled_s = throttled_seconds(b);
	event->lost_share = event->lost > 0 ? event->lost / (event->lost + event->taken) : 0;
	event->missing = missing_samples(b);
	event->is_lossy = event->missing > 0 && event->missing >= 0.001 * (event->n + event->missing);
	event->idle_excluded = !b->options->idle && event->idle > 0 ? event->idle / (event->idle + event->taken) : 0;
	event->cpu_seconds = cpu_seconds(b);
	event->recorder_cpu_s = (double)e->recorder_cpu_ns / 1e9;
	event->recorder_share = b->report->seconds > 0 ? event->recorder_cpu_s / b->report->seconds : 0;
	// Only events that need a counter of the hardware are multiplexed; a task's clock that ran less than it was enabled was merely not running.
	bool needs_counter = e->attr_type != TYPE_SOFTWARE && e->attr_type != TYPE_TRACEPOINT;
	event->multiplexed = needs_counter && e->time_enabled_ns > e->time_running_ns && e->time_running_ns > 0
		? (double)e->time_running_ns / (double)e->time_enabled_ns : 1;
	count_stacks(b);
	double n = event->n;
	event->smallest_seen = smallest_seen(n, b->options->confidence);
	event->largest_unseen = largest_unseen(n, b->options->confidence);
}

// ---------------------------------------------------------------- where the loss lies

struct windows { double *kept, *lost; size_t count; double length_ns; };

static struct windows windows_of(const struct build *b, double length_ns)
{
	enum { MAX_WINDOWS = 1 << 20 };
	double span = (double)(b->report->to_ns - b->report->from_ns);
	if (span / length_ns > MAX_WINDOWS)
		length_ns = span / MAX_WINDOWS;
	struct windows w = { .count = (size_t)(span / length_ns) + 1, .length_ns = length_ns };
	if (w.count > 1 && (double)(w.count - 1) * length_ns >= span)
		w.count--;
	w.kept = mem_zero(w.count, sizeof(double));
	w.lost = mem_zero(w.count, sizeof(double));
	return w;
}

static size_t window_at(const struct build *b, const struct windows *w, uint64_t time_ns)
{
	double offset = time_ns > b->report->from_ns ? (double)(time_ns - b->report->from_ns) : 0;
	size_t at = (size_t)(offset / w->length_ns);
	return at < w->count ? at : w->count - 1;
}

// A loss is spread evenly over its interval, clipped to the window of the report.
static void spread(const struct build *b, struct windows *w, const struct profile_loss *loss)
{
	uint64_t from = loss->from_ns > b->report->from_ns ? loss->from_ns : b->report->from_ns;
	uint64_t to = loss->to_ns < b->report->to_ns ? loss->to_ns : b->report->to_ns;
	size_t first = window_at(b, w, from), last = window_at(b, w, to);
	if (first >= last || to <= from) {
		w->lost[last] += (double)loss->count;
		return;
	}
	double span = (double)(to - from);
	for (size_t i = first; i <= last; i++) {
		double start = (double)b->report->from_ns + (double)i * w->length_ns, end = start + w->length_ns;
		double part = fmin(end, (double)to) - fmax(start, (double)from);
		w->lost[i] += (double)loss->count * fmax(0, part) / span;
	}
}

static void fill_windows(const struct build *b, struct windows *w)
{
	struct report_filter filter = b->options->filter;
	filter.dsos = filter.symbols = NULL;
	for (size_t i = 0; i < b->profile->samples.count; i++) {
		const struct profile_sample *s = &b->profile->samples.data[i];
		if (s->event == b->event_id && filter_keeps(&filter, b->profile, s))
			w->kept[window_at(b, w, s->time_ns)]++;
	}
	for (size_t i = 0; i < b->profile->losses.count; i++)
		if (loss_counts(b, &b->profile->losses.data[i]))
			spread(b, w, &b->profile->losses.data[i]);
}

static void find_worst_second(struct report_event *event, const struct windows *w)
{
	for (size_t i = 0; i < w->count; i++) {
		double share = w->lost[i] > 0 ? w->lost[i] / (w->lost[i] + w->kept[i]) : 0;
		if (share > event->worst_second_share) {
			event->worst_second_share = share;
			event->worst_second_at = (uint64_t)((double)i * w->length_ns / 1e9);
		}
	}
}

// The span that holds all but a twentieth of the loss; none when that is most of the recording.
static void find_span(struct report_event *event, const struct windows *w, double seconds)
{
	double sum = 0, cut = 0;
	for (size_t i = 0; i < w->count; i++)
		sum += w->lost[i];
	if (!(sum > 0))
		return;
	size_t first = 0, last = w->count - 1;
	while (first < last) { // take away the end that holds less
		bool front = w->lost[first] <= w->lost[last];
		double less = front ? w->lost[first] : w->lost[last];
		if (cut + less > sum / 20)
			break;
		cut += less;
		if (front)
			first++;
		else
			last--;
	}
	double from = (double)first * w->length_ns / 1e9, to = fmin((double)(last + 1) * w->length_ns / 1e9, seconds);
	if (to - from <= seconds / 2) {
		event->loss_from_s = from;
		event->loss_to_s = to;
	}
}

void place_losses(struct build *b)
{
	struct report_event *event = b->event;
	event->loss_windows_p = -1;
	if (!(located_loss(b) > 0) || !(b->report->seconds > 0))
		return;
	struct windows seconds = windows_of(b, 1e9);
	fill_windows(b, &seconds);
	find_worst_second(event, &seconds);
	find_span(event, &seconds, b->report->seconds);
	struct windows shorter = { 0 }, *w = &seconds;
	if (b->report->seconds < 20) {
		shorter = windows_of(b, b->report->seconds * 1e9 / 20);
		fill_windows(b, &shorter);
		w = &shorter;
	}
	double *nothing = mem_zero(w->count, sizeof(double));
	if (w->count > 1)
		event->loss_windows_p = loss_windows(w->kept, w->lost, nothing, w->count).p;
	free(nothing);
	free(seconds.kept);
	free(seconds.lost);
	free(shorter.kept);
	free(shorter.lost);
}
