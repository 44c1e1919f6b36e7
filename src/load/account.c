#include "load/account.h"

#include <math.h>
#include <stdlib.h>

#include "load/loader.h"

enum { THROTTLED_MOST = 4096 }; // at one time: ids and CPUs of a real machine, not of a made-up file

void account_release(struct account *account)
{
	hash_map_release(&account->by_id);
	hash_map_release(&account->by_cpu);
	hash_map_release(&account->period_ids);
	hash_map_release(&account->cut_ids);
	vec_release(&account->cuts);
	hash_map_release(&account->pids);
	vec_release(&account->periods);
	vec_release(&account->due);
	vec_release(&account->last);
	vec_release(&account->own);
	vec_release(&account->gaps.items);
	vec_release(&account->lost.items);
	vec_release(&account->cpu_time);
	vec_release(&account->throttled);
}

// ---------------------------------------------------------------- while records go by

uint32_t account_cpu(struct account *account, uint32_t cpu)
{
	bool is_new;
	uint32_t index = *hash_map_put(&account->by_cpu, cpu, (uint32_t)account->cpu_time.count, &is_new);
	if (is_new)
		vec_push(&account->cpu_time, 0);
	return index;
}

static uint64_t *cpu_time(struct account *account, uint32_t cpu)
{
	uint32_t index = account_cpu(account, cpu); // which may move them
	return &account->cpu_time.data[index];
}

// An event's counters on one CPU. What was lost since the reading before lies between the two.
static void event_reading(struct loader *loader, const struct record *record, uint64_t id, const struct account_reading *reading)
{
	struct account *account = &loader->account;
	size_t source;
	if (!reader_event_of_id(loader->reader, id, &source))
		return;
	uint32_t event = loader_event(loader, source, false);
	if (event == PROFILE_NONE)
		return;
	struct account_reading row = *reading;
	row.event = event;
	bool is_new;
	uint32_t index = *hash_map_put(&account->by_id, id, (uint32_t)account->last.count, &is_new);
	if (is_new)
		vec_push(&account->last, (struct account_reading){ .id = id, .time_ns = loader->first_ns, .event = event });
	struct account_reading *last = &account->last.data[index];
	if (row.lost > last->lost)
		vec_push(&account->gaps.items, (struct loss){ .from_ns = last->time_ns, .to_ns = row.time_ns, .count = row.lost - last->lost,
		                                               .cpu = row.cpu, .event = event });
	*last = row;
	vec_push(&loader->profile->readings,
	         (struct profile_reading){ .time_ns = record->id.time_ns, .value = row.value, .enabled = row.enabled, .running = row.running,
	                                   .lost = row.lost, .cpu = row.cpu, .event = event });
}

static void recorder_reading(struct account *account, uint64_t time_ns, const struct account_reading *reading)
{
	if (reading->lost > account->sideband_lost)
		vec_push(&account->gaps.items, (struct loss){ .from_ns = account->sideband_time_ns, .to_ns = time_ns,
		                                               .count = reading->lost - account->sideband_lost, .is_sideband = true });
	account->has_recorder = true;
	account->dropped = reading->value;
	account->shortened = reading->enabled;
	account->recorder_cpu_ns = reading->running;
	account->sideband_lost = reading->lost;
	account->sideband_time_ns = time_ns;
}

// Hybrid CPUs: an event of the profile may be several of the file, each with readings of its own.
static void own_reading(struct loader *loader, const struct account_reading *reading)
{
	struct account *account = &loader->account;
	size_t source;
	if (!reader_event_of_id(loader->reader, reading->id, &source))
		return;
	uint32_t event = loader_event(loader, source, false);
	if (event == PROFILE_NONE)
		return;
	account->has_own = true;
	while (account->own.count <= source)
		vec_push(&account->own, (struct account_reading){ .event = PROFILE_NONE });
	account->own.data[source] = *reading;
	account->own.data[source].event = event;
}

static void restart(struct loader *loader, const struct account_reading *reading)
{
	struct account *account = &loader->account;
	size_t source;
	uint32_t event = reader_event_of_id(loader->reader, reading->id, &source) ? loader_event(loader, source, false) : PROFILE_NONE;
	if (event == PROFILE_NONE)
		return;
	bool is_new;
	uint32_t index = *hash_map_put(&account->cut_ids, reading->id, (uint32_t)account->cuts.count, &is_new);
	if (is_new)
		vec_push(&account->cuts, (struct account_cut){ .id = reading->id });
	account->cuts.data[index].ns = reading->enabled;
	vec_push(&loader->profile->restarts, (struct profile_restart){ .time_ns = reading->value, .cpu = reading->cpu, .event = event });
}

// A READ with a process of its own is one of inherit_stat, at a task's exit: its counts are in its parent's too.
static void account_read(struct loader *loader, const struct record *record)
{
	const struct record_read *read = &record->read;
	if ((int32_t)read->pid != READ_PID)
		return;
	for (uint64_t i = 0; i < read->values.count; i++) {
		struct read_value value = read_values_get(&read->values, i);
		struct account_reading reading = { .id = read->values.has_id ? value.id : record->id.id, .time_ns = record->id.time_ns,
		                                   .value = value.value, .enabled = read->values.time_enabled,
		                                   .running = read->values.time_running, .lost = value.lost, .cpu = record->id.cpu };
		if ((int32_t)read->tid == READ_EVENT)
			event_reading(loader, record, reading.id, &reading);
		else if ((int32_t)read->tid == READ_RECORDER)
			recorder_reading(&loader->account, record->id.time_ns, &reading);
		else if ((int32_t)read->tid == READ_OTHERS)
			loader->account.others = reading.value;
		else if ((int32_t)read->tid == READ_OWN)
			own_reading(loader, &reading);
		else if ((int32_t)read->tid == READ_RESTART)
			restart(loader, &reading);
	}
}

// The loss lies behind the record before it in that ring, and before the record that tells it.
static void account_lost(struct loader *loader, const struct record *record, size_t event)
{
	struct account *account = &loader->account;
	if (record->type == PERF_RECORD_LOST_SAMPLES) {
		account->lost_samples += record->lost.lost;
		return;
	}
	size_t source = event;
	(void)reader_event_of_id(loader->reader, record->lost.id, &source);
	uint64_t from = *cpu_time(account, record->id.cpu);
	uint32_t to_event = loader_event(loader, source, false);
	account->lost_records += record->lost.lost;
	vec_push(&account->lost.items, (struct loss){ .from_ns = from != 0 ? from : loader->first_ns, .to_ns = record->id.time_ns,
	                                               .count = record->lost.lost, .cpu = record->id.cpu, .event = to_event });
}

static void account_throttle(struct loader *loader, const struct record *record, size_t event)
{
	struct account *account = &loader->account;
	uint64_t time_ns = record->throttle.time_ns, id = record->throttle.id;
	size_t source = event;
	(void)reader_event_of_id(loader->reader, id, &source);
	uint32_t mine = loader_event(loader, source, false);
	if (mine == PROFILE_NONE)
		return;
	for (size_t i = 0; i < account->throttled.count; i++) {
		struct account_throttle *open = &account->throttled.data[i];
		if (open->id != id || open->cpu != record->id.cpu)
			continue;
		if (record->type == PERF_RECORD_UNTHROTTLE) {
			vec_push(&loader->profile->throttles, (struct profile_throttle){ open->from_ns, time_ns, open->cpu, mine });
			*open = account->throttled.data[--account->throttled.count];
		}
		return;
	}
	if (record->type == PERF_RECORD_THROTTLE && account->throttled.count < THROTTLED_MOST)
		vec_push(&account->throttled, (struct account_throttle){ .from_ns = time_ns, .id = id, .cpu = record->id.cpu, .event = mine });
}

// A recorder short of CPU closes its events and opens them at a coarser period: other ids, while the file's attr keeps the first period.
bool account_tells_period(const struct perf_event_attr *attr, uint64_t id)
{
	return !attr->freq && (attr->sample_type & PERF_SAMPLE_PERIOD) != 0 && id != UINT64_MAX;
}

void account_period(struct account *account, uint64_t id, uint64_t period)
{
	bool is_new;
	(void)hash_map_put(&account->period_ids, id, (uint32_t)account->periods.count, &is_new);
	if (is_new)
		vec_push(&account->periods, period);
}

static void account_sample(struct loader *loader, const struct record *record, size_t event)
{
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, event)->attr;
	uint64_t id = (record->id.has & PERF_SAMPLE_ID) != 0 ? record->id.id : UINT64_MAX, period = record->sample.period;
	if (account_tells_period(attr, id) && period != attr->sample_period && period != 0)
		account_period(&loader->account, id, period);
}

static void account_process(struct account *account, uint32_t pid)
{
	if ((int32_t)pid > 0)
		hash_map_put(&account->pids, pid, 1, NULL);
}

void account_record(struct loader *loader, const struct record *record, size_t event)
{
	switch (record->type) {
	case PERF_RECORD_SAMPLE:
		account_sample(loader, record, event);
		break;
	case PERF_RECORD_READ:
		account_read(loader, record);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		account_lost(loader, record, event);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		account_throttle(loader, record, event);
		break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_COMM:
		account_process(&loader->account, record->type == PERF_RECORD_FORK ? record->task.pid : record->comm.pid);
		break;
	default:
		break;
	}
	if (record_is_moment(record->id.time_ns))
		*cpu_time(&loader->account, record->id.cpu) = record->id.time_ns;
}

// ---------------------------------------------------------------- at the end

static void place_losses(struct loader *loader, bool any_accounted)
{
	struct account *account = &loader->account;
	struct losses placed = { 0 };
	for (size_t i = 0; i < account->lost.items.count && !any_accounted; i++) { // the records are all there is
		struct loss lost = account->lost.items.data[i];
		if (lost.event != PROFILE_NONE)
			vec_push(&account->gaps.items, lost);
	}
	if (!any_accounted)
		vec_clear(&account->lost.items);
	losses_place(&account->gaps, &account->lost, &placed);
	for (size_t i = 0; i < placed.items.count; i++) {
		const struct loss *loss = &placed.items.data[i];
		vec_push(&loader->profile->losses, (struct profile_loss){ loss->from_ns, loss->to_ns, loss->count, loss->cpu, loss->event, loss->is_sideband });
	}
	vec_release(&placed.items);
}

static void sum_readings(struct loader *loader)
{
	struct account *account = &loader->account;
	struct hash_map cpus = { 0 };       // (event, CPU) to index into `enabled`: an event has other ids there after its rate was changed
	VEC(uint64_t) enabled = { 0 };
	vec_push(&enabled, 0); // of none
	for (size_t i = 0; i < loader->profile->events.count; i++)
		vec_push(&account->due, (struct account_due){ 0 });
	for (size_t i = 0; i < loader->account.last.count; i++) {
		const struct account_reading *last = &loader->account.last.data[i];
		struct profile_event *event = &loader->profile->events.data[last->event];
		event->is_accounted = true;
		event->value += last->value;
		event->time_enabled_ns += last->enabled;
		event->time_running_ns += last->running;
		bool is_new;
		uint32_t at = *hash_map_put(&cpus, (uint64_t)last->event << 32 | last->cpu, (uint32_t)enabled.count, &is_new);
		if (is_new)
			vec_push(&enabled, 0);
		enabled.data[at] += last->enabled;
		if (enabled.data[at] > event->enabled_most_ns)
			event->enabled_most_ns = enabled.data[at];
		event->lost += last->lost;
		const uint32_t *own = hash_map_get(&account->period_ids, last->id);
		uint64_t period = own != NULL ? account->periods.data[*own] : event->period;
		const uint32_t *cut = hash_map_get(&account->cut_ids, last->id);
		uint64_t cut_ns = cut != NULL && event->is_clock ? account->cuts.data[*cut].ns : 0;
		uint64_t ran = event->is_clock ? last->running - (cut_ns < last->running ? cut_ns : 0) : last->value;
		event->cut_ns += cut_ns < last->running ? cut_ns : 0;
		double due = period > 0 ? (double)ran / (double)period : 0;
		account->due.data[last->event].all += due;
		account->due.data[last->event].over += floor(due);
	}
	hash_map_release(&cpus);
	vec_release(&enabled);
}

// Due samples: CPU time over the period, or, for counters, the count over the period, of each stretch and CPU. Ticks that an exclude bit drops, and periods
// that vary, cannot be reckoned.
static void expect(struct profile_event *event, const struct account_due *due)
{
	bool excludes = event->excludes_user || event->excludes_kernel || event->excludes_idle;
	event->can_expect = event->is_accounted && event->is_sampling && !excludes && !event->is_freq && event->period > 0;
	if (!event->can_expect || due->all >= 1e18)
		return;
	event->expected = (uint64_t)llround(due->all);
	event->begun = event->expected - (uint64_t)due->over;
}

// A recording that was cut off may end with samples whose counters did not come any more.
static void count_uncounted(struct loader *loader)
{
	enum { POINTS = 512, CPUS_MOST = 1 << 16 };
	struct profile *profile = loader->profile;
	const struct samples *samples = &profile->samples;
	struct sample_point points[POINTS];
	for (size_t e = 0; e < profile->events.count; e++) {
		struct profile_event *event = &profile->events.data[e];
		VEC(uint64_t) by_cpu = { 0 }; // the newest reading; 0: there is none
		uint64_t newest = 0;
		for (size_t i = 0; i < loader->account.last.count; i++) {
			const struct account_reading *last = &loader->account.last.data[i];
			if (last->event != e || last->cpu >= CPUS_MOST)
				continue;
			while (by_cpu.count <= last->cpu)
				vec_push(&by_cpu, 0);
			if (last->time_ns > by_cpu.data[last->cpu])
				by_cpu.data[last->cpu] = last->time_ns;
			if (last->time_ns > newest)
				newest = last->time_ns;
		}
		for (size_t at = 0, count; newest > 0 && (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
			for (size_t i = 0; i < count; i++) {
				const struct sample_context *c = &samples->contexts.data[points[i].context];
				uint64_t read_ns = c->cpu < by_cpu.count && by_cpu.data[c->cpu] > 0 ? by_cpu.data[c->cpu] : newest;
				event->uncounted += c->event == e && points[i].time_ns > read_ns;
			}
		}
		vec_release(&by_cpu);
		if (event->can_expect)
			event->expected += event->uncounted;
		if (event->is_clock && !event->is_freq)
			event->time_running_ns += event->uncounted * event->period;
	}
}

// Without readings: the sum of the kernel's records, or of perf's own at its end, which count the same losses.
static void unread_losses(struct loader *loader, struct profile_event *first)
{
	struct account *account = &loader->account;
	if (account->last.count > 0)
		return;
	for (size_t i = 0; i < account->lost.items.count; i++) {
		struct loss *lost = &account->lost.items.data[i];
		if (lost->event == PROFILE_NONE)
			lost->event = (uint32_t)(first - loader->profile->events.data);
		loader->profile->events.data[lost->event].lost += lost->count;
	}
	if (account->lost_samples > account->lost_records)
		first->lost += account->lost_samples - account->lost_records;
}

static void count_idle(struct profile *profile)
{
	enum { POINTS = 512 };
	const struct samples *samples = &profile->samples;
	struct sample_point points[POINTS];
	bool any = false;
	for (size_t i = 0; i < samples->contexts.count; i++)
		any |= samples->contexts.data[i].is_idle != 0;
	for (size_t at = 0, count; any && (count = samples_points(samples, at, points, POINTS)) > 0; at += count) {
		for (size_t i = 0; i < count; i++) {
			const struct sample_context *c = &samples->contexts.data[points[i].context];
			profile->events.data[c->event].idle += c->is_idle;
		}
	}
}

void account_finish(struct loader *loader)
{
	struct account *account = &loader->account;
	struct profile *profile = loader->profile;
	struct profile_event *first = NULL;
	sum_readings(loader);
	for (size_t i = 0; i < profile->events.count; i++) {
		if (first == NULL && profile->events.data[i].is_sampling)
			first = &profile->events.data[i];
		expect(&profile->events.data[i], &account->due.data[i]);
	}
	count_idle(profile);
	if (reader_caveats(loader->reader)->cut_off)
		count_uncounted(loader);
	for (size_t i = 0; i < account->own.count; i++) {
		const struct account_reading *own = &account->own.data[i];
		if (own->event == PROFILE_NONE)
			continue;
		struct profile_event *event = &profile->events.data[own->event];
		event->others += own->value;
		event->dropped += own->enabled;
		event->idle_unsampled += own->lost;
		event->counts_cpus |= own->running != 0;
	}
	if (first != NULL) { // what the recorder counts over all events stands with the first
		if (!account->has_own) {
			first->dropped = account->dropped;
			first->others = account->others;
			first->counts_cpus = account->others > 0;
		}
		first->shortened = account->shortened;
		first->sideband_lost = account->sideband_lost;
		first->recorder_cpu_ns = account->recorder_cpu_ns;
		unread_losses(loader, first);
	}
	profile->meta.processes_seen = (uint32_t)account->pids.count;
	place_losses(loader, account->last.count > 0);
	for (size_t i = 0; i < account->throttled.count; i++) {
		const struct account_throttle *open = &account->throttled.data[i];
		vec_push(&profile->throttles, (struct profile_throttle){ open->from_ns, loader->last_ns, open->cpu, open->event });
	}
}
