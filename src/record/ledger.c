#include "record/ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/buf.h"
#include "perf/record.h"
#include "proc/procfs.h"

void ledger_init(struct ledger *ledger, size_t event_count, size_t cpu_count)
{
	*ledger = (struct ledger){ .cpu_count = cpu_count };
	for (size_t i = 0; i <= event_count; i++) { // the last one is the side-band event
		struct ledger_event *event = vec_add(&ledger->events);
		event->cpus = mem_zero(cpu_count, sizeof(*event->cpus));
		event->cut = mem_zero(cpu_count, sizeof(*event->cut));
	}
}

void ledger_release(struct ledger *ledger)
{
	for (size_t i = 0; i < ledger->events.count; i++) {
		free(ledger->events.data[i].cpus);
		free(ledger->events.data[i].cut);
	}
	vec_release(&ledger->restarts);
	vec_release(&ledger->events);
	vec_release(&ledger->gaps.items);
	vec_release(&ledger->lost.items);
	vec_release(&ledger->ring_ns);
	ledger_forget(ledger);
}

static void take(struct ledger *ledger, const struct ledger_taken *taken)
{
	struct ledger_event *event = &ledger->events.data[taken->event];
	event->taken++;
	event->taken_weight += taken->weight;
	event->idle += taken->is_idle;
	ledger->by_name += taken->is_by_name && !taken->is_idle;
	if (!taken->is_unwound || taken->is_idle)
		return;
	ledger->ends[taken->end]++;
	if (unwind_end_is_root(taken->end))
		ledger->splices[taken->splice]++;
}

void ledger_take(struct ledger *ledger, const struct ledger_taken *taken)
{
	take(ledger, taken);
	// It stands before those counters in the file, though it came out of its ring, or its stack was unwound, after they were read.
	for (size_t i = ledger->past.count; i > 0 && taken->time_ns <= ledger->past.data[i - 1]->read_ns; i--)
		take(ledger->past.data[i - 1], taken);
}

void ledger_record(struct ledger *ledger, size_t ring, uint64_t time_ns, uint32_t cpu, uint64_t lost)
{
	while (ledger->ring_ns.count <= ring)
		vec_push(&ledger->ring_ns, ledger->start_ns);
	if (lost > 0) { // readings stand between the records of each CPU, too
		uint64_t from_ns = ledger->ring_ns.data[ring], read_ns = ledger->read_ns <= time_ns ? ledger->read_ns : ledger->read_before_ns;
		vec_push(&ledger->lost.items, (struct loss){ .from_ns = read_ns > from_ns && read_ns <= time_ns ? read_ns : from_ns, .to_ns = time_ns, .count = lost, .cpu = cpu });
	}
	ledger->ring_ns.data[ring] = time_ns;
}

static uint64_t process_cpu_ns(void)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	return ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * 1000000000u +
	       ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * 1000u;
}

uint64_t ledger_cpu_ns(const struct ledger *ledger)
{
	return process_cpu_ns() - ledger->cpu_before_ns;
}

// What the start costs (rings of a gigabyte to be zeroed, /proc to be read) lies before the window that it would be a share of.
void ledger_begin(struct ledger *ledger, uint64_t start_ns)
{
	ledger->start_ns = start_ns;
	ledger->cpu_before_ns = process_cpu_ns();
}

// The trailer of sample_id_all, in the order of perf_event_open(2).
void ledger_trailer(struct buf *out, const struct perf_event_attr *attr, int32_t pid, int32_t tid, uint64_t time_ns, uint64_t id, uint32_t cpu)
{
	if (!attr->sample_id_all)
		return;
	if (attr->sample_type & PERF_SAMPLE_TID) {
		buf_u32(out, (uint32_t)pid);
		buf_u32(out, (uint32_t)tid);
	}
	if (attr->sample_type & PERF_SAMPLE_TIME)
		buf_u64(out, time_ns);
	if (attr->sample_type & PERF_SAMPLE_ID)
		buf_u64(out, id);
	if (attr->sample_type & PERF_SAMPLE_STREAM_ID)
		buf_u64(out, id);
	if (attr->sample_type & PERF_SAMPLE_CPU)
		buf_u64(out, cpu);
	if (attr->sample_type & PERF_SAMPLE_IDENTIFIER)
		buf_u64(out, id);
}

static size_t begin_record(struct buf *out, uint32_t type)
{
	size_t start = out->size;
	struct perf_event_header header = { .type = type };
	buf_add(out, &header, sizeof(header));
	return start;
}

static void end_record(struct output *output, size_t start, uint64_t time_ns)
{
	struct buf *out = output_buffer(output);
	((struct perf_event_header *)(void *)(out->data + start))->size = (uint16_t)(out->size - start);
	output_commit(output, start, time_ns, false);
}

// PERF_RECORD_READ: pid, tid, values as the event's read_format says, trailer.
static void write_reading(const struct ledger_context *context, const struct perf_event_attr *attr, int32_t tid, uint64_t id, uint32_t cpu,
                          const struct event_reading *reading)
{
	struct buf *out = output_buffer(context->output);
	size_t start = begin_record(out, PERF_RECORD_READ);
	uint64_t format = attr->read_format;
	buf_u32(out, (uint32_t)-1);
	buf_u32(out, (uint32_t)tid);
	buf_u64(out, format & PERF_FORMAT_GROUP ? 1 : reading->value);
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		buf_u64(out, reading->enabled);
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		buf_u64(out, reading->running);
	if (format & PERF_FORMAT_GROUP)
		buf_u64(out, reading->value);
	if (format & PERF_FORMAT_ID)
		buf_u64(out, id);
	if (format & PERF_FORMAT_LOST)
		buf_u64(out, reading->lost);
	ledger_trailer(out, attr, -1, tid, context->now_ns, id, cpu);
	end_record(context->output, start, context->now_ns);
}

static void write_lost(const struct ledger_context *context, const struct perf_event_attr *attr, uint64_t id, uint32_t cpu, uint64_t lost)
{
	struct buf *out = output_buffer(context->output);
	size_t start = begin_record(out, PERF_RECORD_LOST_SAMPLES);
	buf_u64(out, lost);
	ledger_trailer(out, attr, -1, -1, context->now_ns, id, cpu);
	end_record(context->output, start, context->now_ns);
}

// The id of an event's first fd on a CPU; false: it has none there (its PMU has other CPUs).
static bool first_id(const struct event_set *set, uint32_t event, uint32_t cpu_index, uint64_t *id)
{
	for (size_t i = 0; i < set->fds.count; i++) {
		const struct event_fd *fd = &set->fds.data[i];
		if (fd->event == event && fd->cpu_index == cpu_index) {
			*id = fd->id;
			return true;
		}
	}
	return false;
}

// Idle ticks that no sample stands for. Of what would be silent, never more.
static void count_idle(struct ledger *ledger, const struct ledger_context *context, uint32_t event)
{
	struct ledger_event *books = &ledger->events.data[event];
	double begun, expected = ledger_expected(ledger, context->set, event, &begun);
	if (!ledger->counts_idle || !context->set->events.data[event].is_clock || expected < 0)
		return;
	double due = books->idle_due + (double)ledger->idle_ns / (double)context->set->events.data[event].attr.sample_period;
	double unsampled = due - (double)(books->idle + books->others_idle);
	double silent = expected - (double)(books->taken + books->others + books->dropped + ledger_total(ledger, event).lost);
	unsampled = unsampled < silent ? unsampled : silent;
	books->idle_unsampled = unsampled > 0 ? (uint64_t)unsampled : 0;
}

static void read_event(struct ledger *ledger, const struct ledger_context *context, uint32_t event, const struct perf_event_attr *attr)
{
	struct ledger_event *books = &ledger->events.data[event];
	for (uint32_t c = 0; c < ledger->cpu_count; c++) {
		uint64_t id;
		if (!first_id(context->set, event, c, &id))
			continue;
		struct event_reading reading = event_set_read(context->set, event, c);
		if (!context->set->has_format_lost && c == 0)
			reading.lost = books->lost_records; // LOST records name no CPU that would be of use: all on the first
		uint64_t before = books->cpus[c].lost;
		books->cpus[c] = reading;
		write_reading(context, attr, -1, id, context->cpus[c], &reading);
		if (reading.lost > before) {
			write_lost(context, attr, id, context->cpus[c], reading.lost - before);
			if (event == 0)
				vec_push(&ledger->gaps.items, (struct loss){ .from_ns = ledger->read_ns > 0 ? ledger->read_ns : ledger->start_ns, .to_ns = context->now_ns,
				                                             .count = reading.lost - before, .cpu = context->cpus[c] });
		}
	}
}

// What we did with an event's samples; its first fd may be on any CPU.
static void write_own(const struct ledger *ledger, const struct ledger_context *context, uint32_t event)
{
	const struct ledger_event *books = &ledger->events.data[event];
	uint64_t id;
	for (uint32_t c = 0; c < ledger->cpu_count; c++) {
		if (!first_id(context->set, event, c, &id))
			continue;
		write_reading(context, &context->attrs[event], -4, id, context->cpus[c],
		              &(struct event_reading){ .value = books->others, .enabled = books->dropped, .running = ledger->counts_cpus,
		                                             .lost = books->idle_unsampled });
		return;
	}
}

static void read_sideband(struct ledger *ledger, const struct ledger_context *context, uint64_t id)
{
	size_t count = ledger->events.count - 1;
	struct ledger_event *sideband = &ledger->events.data[count];
	if (context->set->has_format_lost)
		ledger->sideband_lost = sideband->closed.lost + event_set_read(context->set, EVENT_SIDEBAND, UINT32_MAX).lost;
	uint64_t dropped = 0, others = 0;
	for (size_t e = 0; e < count; e++) {
		dropped += ledger->events.data[e].dropped;
		others += ledger->events.data[e].others;
	}
	write_reading(context, &context->attrs[count], -2, id, context->cpus[0],
	              &(struct event_reading){ .value = dropped, .enabled = ledger->shortened, .running = ledger->recorder_cpu_ns,
	                                       .lost = ledger->sideband_lost });
	write_reading(context, &context->attrs[count], -3, id, context->cpus[0],
	              &(struct event_reading){ .value = others, .enabled = ledger->aside, .running = ledger->late });
}

void ledger_restart(struct ledger *ledger, const struct ledger_restart *restart)
{
	uint64_t *cut = &ledger->events.data[restart->event].cut[restart->cpu_index];
	*cut += restart->cut;
	vec_push(&ledger->restarts, *restart);
	ledger->restarts.data[ledger->restarts.count - 1].cut = *cut;
}

static void write_restarts(struct ledger *ledger, const struct ledger_context *context)
{
	for (size_t i = 0; i < ledger->restarts.count; i++) {
		const struct ledger_restart *r = &ledger->restarts.data[i];
		uint64_t id;
		if (first_id(context->set, r->event, r->cpu_index, &id))
			write_reading(context, &context->attrs[r->event], -5, id, context->cpus[r->cpu_index],
			              &(struct event_reading){ .value = r->time_ns, .enabled = r->cut, .running = r->running });
	}
	vec_clear(&ledger->restarts);
}

bool ledger_read(struct ledger *ledger, const struct ledger_context *context)
{
	size_t count = ledger->events.count - 1;
	uint64_t idle_ns;
	if (ledger->counts_idle && procfs_idle_ns(context->cpus, ledger->cpu_count, &idle_ns))
		ledger->idle_ns = idle_ns > ledger->idle_before_ns ? idle_ns - ledger->idle_before_ns : 0;
	for (uint32_t e = 0; e < count; e++) {
		if (!context->set->events.data[e].samples)
			continue;
		read_event(ledger, context, e, &context->attrs[e]);
		count_idle(ledger, context, e);
		write_own(ledger, context, e);
	}
	write_restarts(ledger, context);
	ledger->recorder_cpu_ns = ledger_cpu_ns(ledger);
	uint64_t id, before = ledger->sideband_lost;
	if (context->set->has_sideband && first_id(context->set, EVENT_SIDEBAND, 0, &id))
		read_sideband(ledger, context, id);
	ledger->read_before_ns = ledger->read_ns;
	ledger->read_ns = context->now_ns;
	output_end_counters(context->output, context->now_ns);
	ledger_remember(ledger, output_counted_ns(context->output));
	return ledger->sideband_lost > before;
}

static bool is_measurable(const struct event_set *set, uint32_t event)
{
	const struct perf_event_attr *attr = &set->events.data[event].attr;
	return !attr->freq && attr->sample_period > 0 && !attr->exclude_user && !attr->exclude_kernel && !attr->exclude_idle;
}

double ledger_due(const struct ledger *ledger, const struct event_set *set, uint32_t event, uint32_t cpu_index)
{
	const struct event_reading *reading = &ledger->events.data[event].cpus[cpu_index];
	if (!is_measurable(set, event))
		return -1;
	uint64_t cut = ledger->events.data[event].cut[cpu_index], ran = reading->running > cut ? reading->running - cut : 0;
	return (double)(set->events.data[event].is_clock ? ran : reading->value) / (double)set->events.data[event].attr.sample_period;
}

// round(time_running / period) over all CPUs, as the loader reckons it; and how much of it are periods that were not over.
static double expected_now(const struct ledger *ledger, const struct event_set *set, uint32_t event, double *begun)
{
	double sum = 0, over = 0;
	for (uint32_t c = 0; c < ledger->cpu_count; c++) {
		double due = ledger_due(ledger, set, event, c);
		sum += due;
		over += floor(due);
	}
	*begun = round(sum) - over;
	return round(sum);
}

void ledger_close_stretch(struct ledger *ledger, const struct event_set *set)
{
	for (uint32_t e = 0; e < ledger->events.count; e++) {
		struct ledger_event *books = &ledger->events.data[e];
		bool is_sideband = e == ledger->events.count - 1;
		double begun = 0;
		if (!is_sideband && is_measurable(set, e))
			books->expected += expected_now(ledger, set, e, &begun);
		books->begun += begun;
		if (!is_sideband && set->events.data[e].is_clock && set->events.data[e].attr.sample_period > 0)
			books->idle_due += (double)ledger->idle_ns / (double)set->events.data[e].attr.sample_period;
		if (is_sideband)
			books->closed.lost = ledger->sideband_lost;
		for (size_t c = 0; !is_sideband && c < ledger->cpu_count; c++) {
			books->closed.value += books->cpus[c].value;
			books->closed.enabled += books->cpus[c].enabled;
			books->closed.running += books->cpus[c].running;
			books->closed.lost += books->cpus[c].lost;
			books->cpus[c] = (struct event_reading){ 0 };
			books->cut[c] = 0;
		}
		books->lost_records = 0;
	}
	ledger->stretches++;
	ledger->idle_before_ns += ledger->idle_ns;
	ledger->idle_ns = 0;
}

struct event_reading ledger_total(const struct ledger *ledger, uint32_t event)
{
	const struct ledger_event *books = &ledger->events.data[event];
	struct event_reading sum = books->closed;
	for (size_t c = 0; c < ledger->cpu_count; c++) {
		sum.value += books->cpus[c].value;
		sum.enabled += books->cpus[c].enabled;
		sum.running += books->cpus[c].running;
		sum.lost += books->cpus[c].lost;
	}
	return sum;
}

double ledger_expected(const struct ledger *ledger, const struct event_set *set, uint32_t event, double *begun)
{
	*begun = 0;
	if (!is_measurable(set, event))
		return -1;
	double expected = ledger->events.data[event].expected + expected_now(ledger, set, event, begun);
	*begun += ledger->events.data[event].begun;
	return expected;
}

struct loss_span ledger_loss_span(const struct ledger *ledger)
{
	enum { WINDOWS_MOST = 1 << 20 };
	uint64_t span_ns = ledger->end_ns > ledger->start_ns ? ledger->end_ns - ledger->start_ns : 0;
	double length_ns = fmax(1e9, (double)span_ns / WINDOWS_MOST);
	struct losses records = { 0 }, placed = { 0 };
	if (span_ns == 0)
		return (struct loss_span){ 0, 0 };
	for (size_t i = 0; i < ledger->lost.items.count; i++)
		vec_push(&records.items, ledger->lost.items.data[i]);
	losses_place(&ledger->gaps, &records, &placed);
	size_t count = (size_t)ceil((double)span_ns / length_ns);
	double *windows = mem_zero(count, sizeof(*windows));
	for (size_t i = 0; i < placed.items.count; i++)
		loss_spread(windows, count, length_ns, ledger->start_ns, ledger->end_ns, &placed.items.data[i]);
	struct loss_span span = loss_span(windows, count, length_ns, (double)span_ns / 1e9);
	free(windows);
	vec_release(&records.items);
	vec_release(&placed.items);
	return span;
}
