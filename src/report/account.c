// What was due, what came, and what is missing (statistics, sections 5 and 6).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "report/build.h"
#include "report/estimate_more.h"

enum { TYPE_SOFTWARE = 1, TYPE_TRACEPOINT = 2 }; // perf_event.h: PERF_TYPE_*
enum { POINTS = 512 }; // samples read at a time

bool build_keeps_cpu(const struct report_filter *f, uint32_t cpu)
{
	for (size_t i = 0; i < f->cpus.count; i++)
		if (f->cpus.data[i] == cpu)
			return true;
	return f->cpus.count == 0;
}

// A loss that overlaps the window counts whole: where inside its interval it lies is not known.
bool build_counts_loss(const struct build *b, const struct profile_loss *loss)
{
	return loss->event == b->event_id && !loss->is_sideband && loss->to_ns >= b->report->from_ns && loss->from_ns <= b->report->to_ns
		&& build_keeps_cpu(&b->options->filter, loss->cpu);
}

double build_located_loss(const struct build *b)
{
	double sum = 0;
	for (size_t i = 0; i < b->profile->losses.count; i++)
		if (build_counts_loss(b, &b->profile->losses.data[i]))
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
		if (t->event == b->event_id && to > from && build_keeps_cpu(&b->options->filter, t->cpu))
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
	if (e->cut_ns > 0 && e->time_running_ns > e->cut_ns) // for what restarts of the clock cut off no sample stands
		sampled *= (double)e->time_running_ns / (double)(e->time_running_ns - e->cut_ns);
	bool by_running = e->can_expect && e->time_running_ns > 0 && b->event->idle == 0 && !e->counts_cpus && !b->event->is_filtered;
	// What the held command ran before its exec is the recorder's.
	double running = fmax((double)e->time_running_ns - b->event->others * (double)e->period, 0);
	return (by_running ? running : sampled) / 1e9;
}

static bool can_expect(const struct profile_event *e)
{
	return e->can_expect && !e->excludes_user && !e->excludes_kernel && !e->excludes_idle && !(e->is_freq && !e->is_clock);
}

// Of a part of the recording what was due is not known, but what never came of the whole is: some of that is the part's.
static void count_whole_silence(struct build *b)
{
	struct report_event *event = b->event;
	const struct profile_event *e = event->source;
	const struct samples *samples = &b->profile->samples;
	double taken = event->unfiltered, idle = 0, lost = 0;
	size_t *counts = mem_zero(samples->contexts.count + 1, sizeof(*counts));
	struct sample_point points[POINTS];
	for (size_t at = 0, count; (count = samples_points(samples, at, points, POINTS)) > 0; at += count)
		for (size_t i = 0; i < count; i++)
			counts[points[i].context]++;
	for (size_t i = 0; i < samples->contexts.count; i++)
		idle += samples->contexts.data[i].event == b->event_id && samples->contexts.data[i].is_idle ? (double)counts[i] : 0;
	free(counts);
	for (size_t i = 0; i < b->profile->losses.count; i++)
		lost += b->profile->losses.data[i].event == b->event_id && !b->profile->losses.data[i].is_sideband ? (double)b->profile->losses.data[i].count : 0;
	lost = e->is_accounted ? (double)e->lost : fmax((double)e->lost, lost);
	event->whole_expected = (double)e->expected;
	event->whole_silent = event->whole_expected - taken - fmax((double)e->idle, idle) - (double)e->idle_unsampled - (double)e->others - lost;
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
		event->lost = build_located_loss(b);
		return; // what was due in a part of the recording was not recorded
	}
	if ((double)e->idle > event->idle)
		event->idle = (double)e->idle;
	event->idle += (double)e->idle_unsampled;
	event->others = (double)e->others;
	// Without the counter that read(2) gives, the records alone: they fall short.
	event->lost = e->is_accounted ? (double)e->lost : fmax((double)e->lost, build_located_loss(b));
	event->can_expect = can_expect(e);
	if (!event->can_expect)
		return;
	event->expected = (double)e->expected;
	if (e->is_clock && !e->counts_cpus && e->time_running_ns < e->period && event->taken + event->idle + event->others + event->lost == 0)
		event->expected = 0; // rounded up to one, which could not come within a period
	bool is_per_cpu = strncmp(profile_text(b->profile, b->profile->meta.scope), "events per CPU", strlen("events per CPU")) == 0;
	event->begun = is_per_cpu ? fmin((double)e->begun, event->expected) : 0; // a task's own begins are a loss: its timer starts with a whole period
	event->silent = event->expected - event->taken - event->idle - event->others - event->lost;
}

// On the scale of n: how many samples are missing, and whether so many that ranges shown are worst cases. Of silence only from 1 % on: where nothing is wrong some
// ticks come late at the end of a recording, or with a switch.
static void count_missing(struct build *b)
{
	enum { HUNDRED = 100 };
	struct report_event *event = b->event;
	struct evidence evidence = report_evidence(b->report, event);
	double scale = b->tally.samples > 0 ? event->n / (double)b->tally.samples : 1;
	event->missing = judge_missing(&evidence) * scale;
	event->missing_share = judge_missing_share(&evidence);
	if (evidence.silent * HUNDRED <= evidence.expected)
		evidence.silent = 0;
	double told = judge_missing(&evidence) * scale;
	event->is_lossy = told > 0 && told >= 0.001 * (event->n + told);
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
	event->stacks_guessed = t->stacks_guessed;
	memcpy(event->stacks_by_via, t->stacks_by_via, sizeof(event->stacks_by_via));
	if (t->weight > 0) {
		event->user_share = t->user / t->weight;
		event->kernel_share = t->kernel / t->weight;
		event->unresolved_share = t->unresolved / t->weight;
	}
}

static uint64_t samples_before_filter(const struct build *b)
{
	const struct samples *samples = &b->profile->samples;
	bool by_weight = b->event->source->counts_by_weight;
	struct sample_point points[POINTS];
	uint64_t sum = 0;
	if (!b->event->is_filtered && !by_weight) // then the tally has counted them all
		return b->tally.samples - (b->tally.idle ? b->tally.idle_samples : 0);
	for (size_t at = 0, count; (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			const struct sample_context *c = &samples->contexts.data[points[i].context];
			if (c->event == b->event_id && !c->is_idle)
				sum += by_weight ? points[i].weight : 1;
		}
	}
	return sum;
}

// Blocks in which a multiplexed event never ran. Readings are cumulative, once a second and CPU: a block is off when no two readings beside
// or in it differ. Blocks without any reading count as on.
static void find_blocks_off(struct build *b)
{
	const struct profile *p = b->profile;
	double length = (double)(b->report->to_ns - b->report->from_ns) / TALLY_BLOCKS;
	uint8_t seen[TALLY_BLOCKS] = { 0 }, ran[TALLY_BLOCKS] = { 0 };
	VEC(uint32_t) last = { 0 }; // by CPU: index of its reading before + 1
	for (size_t i = 0; i < p->readings.count && length > 0; i++) {
		const struct profile_reading *now = &p->readings.data[i];
		if (now->event != b->event_id || now->cpu > 1 << 16)
			continue;
		while (last.count <= now->cpu)
			vec_push(&last, 0);
		const struct profile_reading *before = last.data[now->cpu] > 0 ? &p->readings.data[last.data[now->cpu] - 1] : NULL;
		last.data[now->cpu] = (uint32_t)i + 1;
		uint64_t from_ns = before != NULL ? before->time_ns : b->report->from_ns;
		bool is_on = now->running != (before != NULL ? before->running : 0);
		for (size_t j = 0; j < TALLY_BLOCKS; j++) {
			double start = (double)b->report->from_ns + (double)j * length;
			if ((double)from_ns >= start + length || (double)now->time_ns <= start)
				continue;
			seen[j] = 1;
			ran[j] |= is_on;
		}
	}
	for (size_t j = 0; j < TALLY_BLOCKS; j++) {
		b->off[j] = seen[j] && !ran[j] && !(b->tally.n[j] > 0);
		b->event->blocks_off += b->off[j];
	}
	vec_release(&last);
}

// What is not there to be seen, and how much of it may have been missed with the samples that are missing: where they count, a function that is not
// listed may have had all of them, and one shows for sure enough only where it has one sample more than are missing. Without loss smallest_seen() and
// largest_unseen() are the same.
static void find_unseen(struct report_event *event, double conf)
{
	double n = event->n, missing = event->is_lossy ? event->missing : 0;
	event->smallest_seen = missing > 0 ? clopper_pearson_hi(missing, n + missing, 2 * conf - 1) : smallest_seen(n, conf);
	event->largest_unseen = missing > 0 ? loss_hi(0, n, missing, n + missing, conf) : largest_unseen(n, conf);
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
	event->is_loss_known = b->profile->meta.unknown_loss == 0 && (event->is_accounted || event->lost > 0);
	event->unfiltered = event->is_filtered ? (double)samples_before_filter(b) : event->taken;
	if (event->is_filtered && can_expect(e))
		count_whole_silence(b);
	event->dropped = event->is_filtered && b->options->filter.from_ns + b->options->filter.to_ns > 0 ? 0 : (double)e->dropped;
	event->shortened = (double)e->shortened;
	event->throttled_s = throttled_seconds(b);
	event->lost_share = event->lost > 0 ? event->lost / (event->lost + event->taken) : 0;
	event->idle_excluded = !b->options->idle && event->idle > 0 ? event->idle / (event->idle + event->taken) : 0;
	event->cpu_seconds = cpu_seconds(b);
	event->accounted_s = (double)e->accounted_ns / 1e9;
	event->recorder_cpu_s = (double)e->recorder_cpu_ns / 1e9;
	// Of all the time that was recorded, whatever part of it the report is of.
	const struct profile_meta *meta = &b->profile->meta;
	double seconds = meta->end_ns > meta->start_ns ? (double)(meta->end_ns - meta->start_ns) / 1e9 : b->report->seconds;
	event->recorder_share = seconds > 0 ? event->recorder_cpu_s / seconds : 0;
	event->is_brief = seconds < JUDGE_SHARE_LEAST_S;
	// Only events that need a counter of the hardware are multiplexed; a task's clock that ran less than it was enabled was merely not running.
	bool needs_counter = e->attr_type != TYPE_SOFTWARE && e->attr_type != TYPE_TRACEPOINT;
	// One of a task is opened on each CPU, and enabled on all of them while the task runs on one (perf_event_update_time: inactive is enabled too).
	bool is_of_tasks = strcmp(profile_text(b->profile, b->profile->meta.scope), "events per task and CPU") == 0;
	uint64_t enabled = is_of_tasks && e->enabled_most_ns > 0 ? e->enabled_most_ns : e->time_enabled_ns;
	event->multiplexed = needs_counter && enabled > e->time_running_ns && e->time_running_ns > 0 ? (double)e->time_running_ns / (double)enabled : 1;
	if (event->multiplexed < 1)
		find_blocks_off(b);
	count_stacks(b);
	count_missing(b);
	find_unseen(event, b->options->confidence);
}
