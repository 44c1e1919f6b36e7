// Whether a thread stood still after its sample, from the records of task switches in two rings.
#include "record/still.h"

#include "tests/fake_ring.h"
#include "tests/tap.h"

enum { TID = 700, OTHER = 701, SWITCH_BYTES = 32, SAMPLE_BYTES = 64, RING_BYTES = 32768 };

static const struct perf_event_attr attr = { .sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME, .sample_id_all = 1 };
static struct record_layout layout;
static struct fake_ring rings[2];
static uint64_t seen[2], scratch[8192];
static struct still_ring views[2];
static struct still still = { .layout = &layout, .rings = views, .count = 2 };

static void put(size_t ring, uint32_t type, uint16_t misc, uint32_t tid, uint64_t time_ns)
{
	uint64_t at = rings[ring].ring.page->data_head;
	bool is_wide = type == PERF_RECORD_SWITCH_CPU_WIDE;
	uint64_t ids[3] = { 0, (uint64_t)tid << 32 | tid, time_ns };
	fake_ring_write(&rings[ring], type, misc, 0, SWITCH_BYTES + (is_wide ? 0 : -8));
	memcpy(rings[ring].ring.data + at + 8, is_wide ? ids : ids + 1, is_wide ? 24 : 16);
}

static void out(size_t ring, uint32_t tid, uint64_t time_ns)
{
	put(ring, PERF_RECORD_SWITCH_CPU_WIDE, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, tid, time_ns);
}

static void in(size_t ring, uint32_t tid, uint64_t time_ns)
{
	put(ring, PERF_RECORD_SWITCH_CPU_WIDE, 0, tid, time_ns);
}

// A sample at 1,000,000 ns in ring 0; what follows is the case's.
static struct record begin(uint16_t misc)
{
	for (size_t i = 0; i < 2; i++) {
		if (rings[i].ring.page != NULL)
			fake_ring_release(&rings[i]);
		fake_ring_init(&rings[i], RING_BYTES);
		views[i] = (struct still_ring){ .ring = rings[i].ring, .seen = &seen[i] };
		seen[i] = 0;
	}
	for (size_t i = 0; i < STILL_THREADS; i++)
		atomic_store(&still.began_ns[i], 0);
	in(0, TID, 900000);
	in(1, OTHER, 910000);
	fake_ring_write(&rings[0], PERF_RECORD_SAMPLE, misc, 0, SAMPLE_BYTES);
	return (struct record){ .type = PERF_RECORD_SAMPLE, .misc = misc, .size = SAMPLE_BYTES, .id = { .tid = TID, .time_ns = 1000000 } };
}

static bool stood(const struct record *sample)
{
	return still_stood(&still, 0, SWITCH_BYTES + SAMPLE_BYTES, sample, scratch);
}

int main(void)
{
	record_layout_init(&layout, &attr, false);
	const uint16_t user = PERF_RECORD_MISC_USER, kernel = PERF_RECORD_MISC_KERNEL;

	struct record sample = begin(user);
	out(0, TID, 1020000);
	in(0, OTHER, 1020000);
	ok(stood(&sample), "preempted straight after the sample: it stood still");
	in(1, OTHER, 1030000);
	ok(stood(&sample), "what other threads do does not matter");
	in(1, TID, 1040000);
	ok(!stood(&sample), "it went on, on another CPU");

	sample = begin(user);
	put(0, PERF_RECORD_SWITCH, PERF_RECORD_MISC_SWITCH_OUT, TID, 1020000);
	ok(stood(&sample), "the record of a task's own event says the same");

	sample = begin(user);
	out(0, TID, 1020000);
	in(1, TID, 1040000);
	struct perf_event_header *header = (void *)(rings[1].ring.data + SWITCH_BYTES);
	seen[1] = rings[1].ring.page->data_head;
	ok(stood(&sample), "(its reader has passed the record and not said so)");
	still_note(&still, header);
	ok(!stood(&sample), "it went on, and the other reader has said so");

	sample = begin(user);
	out(0, TID, 1020000);
	in(0, TID, 1030000);
	out(0, TID, 1040000);
	ok(!stood(&sample), "it came back and left again");
	sample = begin(user);
	in(0, OTHER, 1010000);
	ok(!stood(&sample), "no record that it left");
	sample = begin(user);
	out(0, TID, 1200000);
	ok(!stood(&sample), "it left 200 us later: who knows what it did");
	sample = begin(kernel);
	out(0, TID, 1200000);
	ok(stood(&sample), "in the kernel it may: it is preempted before its own code goes on");

	sample = begin(user);
	fake_ring_write(&rings[0], PERF_RECORD_LOST, 0, 0, 32);
	out(0, TID, 1020000);
	ok(!stood(&sample), "records were lost in between");
	sample = begin(user);
	out(0, TID, 1020000);
	fake_ring_write(&rings[1], PERF_RECORD_LOST, 0, 0, 32);
	ok(!stood(&sample), "or in another ring");
	sample = begin(user);
	out(0, TID, 1020000);
	while (rings[1].ring.page->data_head <= RING_BYTES - 4096)
		in(1, OTHER, 1030000);
	ok(!stood(&sample), "another ring is so full that the next record may be lost");
	sample = begin(user);
	out(0, TID, 1020000);
	seen[1] = UINT64_MAX;
	ok(!stood(&sample), "another ring has no reader any more");

	for (size_t i = 0; i < 2; i++)
		fake_ring_release(&rings[i]);
	return tap_done();
}
