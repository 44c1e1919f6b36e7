// What the recording says about itself: counters read once a second, losses, throttling. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_ACCOUNT_H
#define PERFSAMPLE_LOAD_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/vec.h"
#include "judge/loss.h"
#include "perf/record.h"

struct loader;

// READ records of ours have pid -1. tid -1: counters of the event that has the id, on one CPU, cumulative since it was opened. tid -2, of
// the side-band event: value = samples dropped by the recorder, enabled = samples with a shortened stack, running = the recorder's
// CPU ns, lost = side-band records lost. tid -3: value = samples of others than the target, over all events. tid -4: what the recorder did with
// the event that has the id: value = samples of others, enabled = samples dropped, running = 1: the event counts whole CPUs, not the target. tid -5: the clock of
// the event that has the id was started anew on that CPU: value = when, enabled = ns of its running time so far that such starts cut off, for which no
// sample was due.
enum { READ_PID = -1, READ_EVENT = -1, READ_RECORDER = -2, READ_OTHERS = -3, READ_OWN = -4, READ_RESTART = -5 };

struct account_reading { uint64_t id, time_ns, value, enabled, running, lost; uint32_t cpu, event; };
struct account_throttle { uint64_t from_ns, id; uint32_t cpu, event; };
struct account_cut { uint64_t id, ns; };

struct account_due { double all, over; }; // samples due; of them, periods that were over

struct account {
	struct hash_map by_id;              // event id -> index into `last`
	VEC(struct account_reading) last;   // newest reading of each id
	VEC(struct account_cut) cuts;       // of each id that was restarted, the newest
	struct hash_map cut_ids;            // id -> index into `cuts`
	struct hash_map period_ids;         // event id -> index into `periods`, where its samples say another than the event's attr
	VEC(uint64_t) periods;
	VEC(struct account_due) due;        // by profile event, at the end
	VEC(struct account_reading) own;    // newest of each of the file's events, cumulative over stretches; event PROFILE_NONE: none
	struct losses gaps;                 // losses between two readings
	struct losses lost;                 // LOST records: from the record before it on that CPU
	struct hash_map by_cpu;             // CPU -> index into `cpu_time`
	VEC(uint64_t) cpu_time;             // time of the last record
	VEC(struct account_throttle) throttled; // open ones
	uint64_t dropped, shortened, sideband_lost, recorder_cpu_ns, others;
	uint64_t sideband_time_ns;
	uint64_t lost_records, lost_samples; // sums over LOST and LOST_SAMPLES
	struct hash_map pids;               // that FORK and COMM records tell of
	bool has_recorder, has_own; // has_own: others and dropped of each event are with the events
};

void account_release(struct account *account);
// Records in the order of time, all of them.
void account_record(struct loader *loader, const struct record *record, size_t event);
// The same for who takes very many samples. Where a CPU's entry in cpu_time is: each record's time goes there, unless that is 0.
uint32_t account_cpu(struct account *account, uint32_t cpu);
// Whether samples of this id (UINT64_MAX: none) may tell another period than the event's attr; the first one that is not 0 goes to account_period.
bool account_tells_period(const struct perf_event_attr *attr, uint64_t id);
void account_period(struct account *account, uint64_t id, uint64_t period);
// Fills events, losses and throttles of the profile.
void account_finish(struct loader *loader);

#endif
