// Call chains that are met again: the same stack where the mappings are the same, another where they are not.
#include "load/seen.h"

#include "load/load.h"
#include "tests/recording.h"
#include "tests/tap.h"

static struct record record_of(const uint64_t *chain, size_t count, const char *raw, uint64_t ip)
{
	return (struct record){ .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER, .sample.ip = ip, .sample.callchain = chain,
	                        .sample.callchain_count = count, .sample.raw = (const uint8_t *)raw, .sample.raw_size = (uint32_t)strlen(raw) };
}

static struct seen_chain *find(struct seen *seen, const struct record *record, size_t event)
{
	struct seen_key key = seen_key_of(record, event);
	return seen_find(seen, &key);
}

static void identity(void)
{
	struct seen seen = { 0 };
	uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010, 0x401205 }, same[] = { PERF_CONTEXT_USER, 0x401010, 0x401205 };
	struct record a = record_of(chain, 3, "note", 1), b = record_of(same, 3, "note", 1);
	struct seen_chain *first = find(&seen, &a, 0);
	ok(find(&seen, &b, 0) == first, "equal bytes are one chain");
	ok(first->callchain_count == 3 && memcmp(first->words, chain, sizeof(chain)) == 0 && memcmp(first->words + 3, "note", 4) == 0, "kept whole");
	struct record shorter = record_of(chain, 2, "note", 1), other_note = record_of(chain, 3, "nope", 1), other_ip = record_of(chain, 3, "note", 2);
	struct record in_kernel = a, nothing = record_of(NULL, 0, "", 1);
	in_kernel.misc = PERF_RECORD_MISC_KERNEL;
	ok(find(&seen, &shorter, 0) != first, "its length counts");
	ok(find(&seen, &other_note, 0) != first, "its note counts");
	ok(find(&seen, &other_ip, 0) != first && find(&seen, &in_kernel, 0) != first, "where the sample was counts");
	ok(find(&seen, &a, 1) != first, "its event counts");
	ok(find(&seen, &nothing, 0) != first && find(&seen, &nothing, 0)->callchain_count == 0, "no chain at all is one, too");
	seen_release(&seen);
}

// More chains than a table holds, of which one is waited for all the while.
static void bounded(void)
{
	enum { FRAMES = 1000, CHAINS = 20000 };
	struct seen seen = { 0 };
	static uint64_t chain[FRAMES];
	struct record record = record_of(chain, FRAMES, "", 0);
	struct seen_chain *kept = find(&seen, &record, 0);
	for (uint64_t i = 1; i < CHAINS; i++) { // 160 MB of them
		chain[FRAMES / 2] = i;
		seen_done(&seen, find(&seen, &record, 0));
	}
	ok(kept->callchain_count == FRAMES && kept->words[FRAMES / 2] == 0, "a chain stays as long as a sample waits");
	ok(seen.old != NULL, "in an old table");
	seen_done(&seen, kept);
	ok(seen.old == NULL && seen.filling != NULL, "which goes with it");
	seen_release(&seen);
}

static uint64_t image_addr(const struct profile *p, size_t sample)
{
	return p->frames.data[p->nodes.data[samples_at(&p->samples, sample).stack].frame].image_addr;
}

// Two processes with the same chains, and mappings that change under one of them.
static void mappings(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010 };
	static const struct { uint32_t pid; uint64_t pgoff; } steps[] = { { 7, 0x1000 }, { 8, 0x2000 }, { 7, 0 }, { 8, 0 }, { 7, 0x5000 }, { 8, 0 }, { 7, 0 } };
	static const uint64_t wanted[] = { 0x1010, 0x2010, 0x1010, 0x2010, 0x5010, 0x2010, 0x5010 };
	enum { STEPS = sizeof(steps) / sizeof(*steps) };
	char path[] = "/tmp/perfsample-seen-XXXXXX";
	struct writer *writer;
	struct perf_event_attr clock = rec_attr(false), dummy = rec_attr(true);
	struct writer_event events[2] = { { clock, "cpu-clock", REC_IDS, 2, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	struct buf body = { 0 };
	struct err err = { 0 };
	uint64_t time_ns = 1000000;
	for (size_t i = 0; i < STEPS; i++) {
		if (steps[i].pgoff != 0)
			rec_mmap2(&body, steps[i].pid, 0x401000, 0x1000, steps[i].pgoff, "/usr/bin/app", time_ns += 1000);
		struct rec_sample sample = { .pid = steps[i].pid, .tid = steps[i].pid, .time_ns = time_ns += 1000, .chain = chain, .chain_count = 2 };
		rec_sample_of(&body, &sample, REC_IDS[0], REC_PERIOD_NS);
	}
	int fd = mkstemp(path);
	bool good = fd >= 0 && close(fd) == 0 && writer_open(&writer, path, -1, &err) && writer_begin(writer, events, 2, &info, &err) &&
		writer_records(writer, body.data, body.size, &err) && writer_finish(writer, &info, NULL, 0, NULL, &err);
	writer_free(writer);
	buf_release(&body);
	struct load_options options = load_defaults();
	options.input = path;
	options.symbols = false;
	struct profile p;
	ok(good && load_profile(&p, &options, &err) && p.samples.count == STEPS, "a recording of two processes (%s)", err.text);
	for (size_t i = 0; i < STEPS && i < p.samples.count; i++)
		is_u64(image_addr(&p, i), wanted[i], "sample %zu: where its chain leads in the mappings of its moment", i);
	profile_release(&p);
	unlink(path);
}

int main(void)
{
	identity();
	bounded();
	mappings();
	return tap_done();
}
