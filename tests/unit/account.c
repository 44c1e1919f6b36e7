// What a recording says of itself, as the loader sums it up.
#include "load/load.h"

#include "tests/recording.h"
#include "tests/scratch.h"
#include "tests/tap.h"

// A recorder that was killed: what came to the file behind its last counters is no more than was due.
static void killed(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010 };
	struct writer *writer;
	struct perf_event_attr clock = rec_attr(false), dummy = rec_attr(true);
	struct writer_event events[2] = { { clock, "cpu-clock", REC_IDS, 2, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	struct buf body = { 0 };
	struct err err = { 0 };
	uint64_t time_ns = 1000000;
	for (uint32_t i = 0; i < 40; i++) {
		if (i == 20) // of the second CPU no second reading came any more
			rec_read(&body, UINT32_MAX, UINT32_MAX, 1, REC_IDS[1], time_ns += 1000, 0, 1, 11 * (uint64_t)REC_PERIOD_NS, 0);
		if (i == 20 || i == 30)
			rec_read(&body, UINT32_MAX, UINT32_MAX, 0, REC_IDS[0], time_ns += 1000, 0, 1, (i == 20 ? 10 : 16) * (uint64_t)REC_PERIOD_NS, 0);
		struct rec_sample sample = { .pid = REC_PID, .tid = REC_PID, .cpu = i % 2, .time_ns = time_ns += 1000, .chain = chain, .chain_count = 2 };
		rec_sample(&body, &sample);
	}
	bool good = writer_open(&writer, scratch_path("killed"), -1, &err) && writer_begin(writer, events, 2, &info, &err) &&
		writer_records(writer, body.data, body.size, &err) && writer_checkpoint(writer, &err) && writer_publish(writer, &err);
	writer_free(writer);
	buf_release(&body);
	struct load_options options = load_defaults();
	options.input = scratch_path("killed");
	struct profile p;
	ok(good && load_profile(&p, &options, &err), "a recording without an end is loaded (%s)", err.text);
	const struct profile_event *e = &p.events.data[0];
	is_u64(e->uncounted, 5 + 10, "samples behind the last counters of their CPU");
	// 16 and 11 were counted; 15 and 10 of them came: two ticks are missing.
	is_u64(e->expected, 16 + 11 + 15, "each stands for itself");
	is_u64(e->time_running_ns, (16 + 11 + 15) * (uint64_t)REC_PERIOD_NS, "and for its CPU time");
	profile_release(&p);
}

int main(void)
{
	scratch_make();
	killed();
	return tap_done();
}
