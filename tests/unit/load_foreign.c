// What newer recorders write and ours does not: chains whose user part follows later, and samples that sum up the recording.
#include "load/load.h"

#include "report/report.h"
#include "tests/recording.h"
#include "tests/scratch.h"
#include "unwind/unwind.h"

enum { START_NS = 5000000, STEP_NS = 1000000, KERNEL = 1, USER = 2 };
static const uint64_t kernel_chain[] = { PERF_CONTEXT_KERNEL, 0xffffffff81001000, 0xffffffff81002000 };

static bool load(const struct buf *body, struct profile *profile, unsigned jobs)
{
	struct err err = { 0 };
	struct load_options options = load_defaults();
	struct writer *writer;
	struct writer_event events[2] = { { rec_attr(false), "cpu-clock", REC_IDS, 2, -1, 0 }, { rec_attr(true), "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	options.input = scratch_path("file");
	options.jobs = jobs;
	bool good = writer_open(&writer, options.input, -1, &err) && writer_begin(writer, events, 2, &info, &err) &&
	            writer_records(writer, body->data, body->size, &err) && writer_checkpoint(writer, &err) && writer_publish(writer, &err);
	writer_free(writer);
	if (!good || !load_profile(profile, &options, &err))
		ok(good = false, "a recording loads (%s)", err.text);
	return good;
}

// ---------------------------------------------------------------- chains that follow

// A sample in the kernel or in user space, whose user part follows.
static void put_deferred(struct buf *out, uint32_t tid, uint64_t time_ns, uint64_t cookie, int where)
{
	uint64_t chain[5];
	size_t count = 0;
	if (where == KERNEL)
		for (; count < 3; count++)
			chain[count] = kernel_chain[count];
	chain[count++] = CONTEXT_USER_DEFERRED;
	chain[count++] = cookie;
	rec_sample(out, &(struct rec_sample){ .pid = REC_PID, .tid = tid, .time_ns = time_ns, .is_kernel = where == KERNEL, .chain = chain, .chain_count = count });
}

static void put_answer(struct buf *out, uint32_t tid, uint64_t time_ns, uint64_t cookie, uint64_t caller)
{
	size_t at = rec_start(out, RECORD_KERNEL_CALLCHAIN_DEFERRED, PERF_RECORD_MISC_USER);
	buf_u64(out, cookie);
	buf_u64(out, 4);
	buf_u64(out, (uint64_t)PERF_CONTEXT_USER);
	buf_u64(out, 0x401010);
	buf_u64(out, 0x402010);
	buf_u64(out, caller);
	rec_trailer(out, REC_PID, tid, time_ns, 0, REC_IDS[0]);
	rec_end(out, at);
}

// The addresses, leaf first.
static size_t addresses(const struct profile *p, const struct profile_sample *sample, uint64_t *out, size_t most)
{
	size_t count = 0;
	for (uint32_t node = sample->stack; node != PROFILE_NONE && count < most; node = p->nodes.data[node].parent)
		out[count++] = p->frames.data[p->nodes.data[node].frame].addr;
	return count;
}

static bool has_stack(const struct profile *p, size_t index, uint8_t end, const uint64_t *wanted, size_t count)
{
	uint64_t found[8];
	struct profile_sample sample = samples_at(&p->samples, index);
	size_t n = addresses(p, &sample, found, 8);
	bool good = n == count && memcmp(found, wanted, n * sizeof(*found)) == 0 && (end == UINT8_MAX || sample.end == end);
	for (size_t i = 0; !good && i < n; i++)
		diag("%#llx", (unsigned long long)found[i]);
	if (!good)
		diag("end %s, %zu frames for %zu", unwind_end_name(sample.end), n, count);
	return good;
}

static bool has_caveat(const struct profile *p, const char *text)
{
	for (size_t i = 0; i < p->meta.caveats.count; i++) {
		if (strstr(profile_text(p, p->meta.caveats.data[i]), text) != NULL)
			return true;
	}
	return false;
}

static void test_deferred(void)
{
	static const uint64_t both[] = { 0xffffffff81001000, 0xffffffff81002000, 0x401010, 0x402010, 0x403010 };
	static const uint64_t other[] = { 0xffffffff81001000, 0xffffffff81002000, 0x401010, 0x402010, 0x404010 };
	for (unsigned jobs = 1; jobs <= 2; jobs++) {
		struct buf body = { 0 };
		struct profile p;
		put_deferred(&body, 1, START_NS, 71, KERNEL);                // 0, 1: two in one system call
		put_deferred(&body, 2, START_NS + 1, 72, KERNEL);            // 2 (time): another thread's, answered first
		put_deferred(&body, 1, START_NS + 2, 71, KERNEL);
		put_answer(&body, 2, START_NS + 3, 72, 0x404010);
		put_answer(&body, 1, START_NS + 4, 71, 0x403010);
		put_deferred(&body, 1, START_NS + 5, 73, USER);              // 3: the interrupt came from user space
		put_answer(&body, 1, START_NS + 6, 73, 0x403010);
		put_deferred(&body, 1, START_NS + 7, 74, KERNEL);            // 4: its answer was lost
		put_answer(&body, 1, START_NS + 8, 75, 0x403010);
		put_deferred(&body, 1, START_NS + 9, 71, KERNEL);            // 5: the recording ends, whatever answered that cookie before
		if (!load(&body, &p, jobs))
			return;
		is_u64(p.samples.count, 6, "six samples by %u", jobs);
		ok(has_stack(&p, 0, UINT8_MAX, both, 5) && has_stack(&p, 2, UINT8_MAX, both, 5), "both samples of a system call get what was written once");
		ok(has_stack(&p, 1, UINT8_MAX, other, 5), "each thread gets its own");
		ok(has_stack(&p, 3, UINT8_MAX, both + 2, 3), "one in user space");
		ok(has_stack(&p, 4, UNWIND_CHAIN_MISSING, both, 2), "without an answer the kernel's part is left, and no frame is made of the cookie");
		ok(has_stack(&p, 5, UNWIND_CHAIN_MISSING, both, 2), "nor at the end");
		ok(has_caveat(&p, "2 samples have no callers in user space"), "and that is said");
		profile_release(&p);
		buf_release(&body);
	}
}

// One thread never returns; the places of those that did are used again.
static void test_many(void)
{
	enum { SAMPLES = 50000 };
	struct buf body = { 0 };
	struct profile p;
	put_deferred(&body, 9, START_NS, 1, KERNEL);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		uint32_t tid = 10 + (uint32_t)(i % 3);
		put_deferred(&body, tid, START_NS + 10 * i + 1, 100 + i, i % 2 == 0 ? KERNEL : USER);
		put_answer(&body, tid, START_NS + 10 * i + 2, 100 + i, 0x403010);
	}
	if (!load(&body, &p, 2))
		return;
	size_t whole = 0, missing = 0;
	for (size_t i = 0; i < p.samples.count; i++) {
		uint64_t found[8];
		struct profile_sample sample = samples_at(&p.samples, i);
		whole += addresses(&p, &sample, found, 8) == (sample.is_kernel ? 5 : 3);
		missing += sample.end == UNWIND_CHAIN_MISSING;
	}
	ok(p.samples.count == SAMPLES + 1 && whole == SAMPLES && missing == 1, "%zu of %zu whole, %zu missing", whole, p.samples.count, missing);
	profile_release(&p);
	buf_release(&body);
}

// ---------------------------------------------------------------- times that are none

static void test_stand_in_times(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010, 0x402010 };
	enum { SAMPLES = 200, SUMS = 5 };
	struct buf body = { 0 };
	struct profile p;
	struct report report = { 0 };
	struct err err = { 0 };
	rec_comm(&body, REC_PID, REC_PID, "app", false, 1); // perf's own of what was there before
	for (uint64_t i = 0; i < SAMPLES; i++)
		rec_sample(&body, &(struct rec_sample){ .pid = REC_PID, .tid = REC_PID, .time_ns = 1000000000 + i * STEP_NS, .chain = chain, .chain_count = 3 });
	for (uint64_t i = 0; i < SUMS; i++)
		rec_sample(&body, &(struct rec_sample){ .pid = REC_PID, .tid = REC_PID, .time_ns = (~0ull << 32) + i, .chain = chain, .chain_count = 3 });
	if (!load(&body, &p, 1))
		return;
	size_t timeless = 0;
	for (size_t i = 0; i < p.samples.count; i++)
		timeless += samples_at(&p.samples, i).time_ns == 0;
	ok(p.samples.count == SAMPLES + SUMS && timeless == SUMS, "%zu samples, %zu of no time", p.samples.count, timeless);
	struct report_options options = { .confidence = 0.95 };
	ok(report_build(&report, &p, &options, &err), "a report (%s)", err.text);
	ok(report.from_ns == 1000000000 && report.to_ns == 1000000000 + (SAMPLES - 1) * STEP_NS + 1, "its window is that of the times: %.3f s", report.seconds);
	report_release(&report);
	profile_release(&p);
	buf_release(&body);
}

int main(void)
{
	test_deferred();
	test_many();
	test_stand_in_times();
	return tap_done();
}
