// Call chains that are met again: the same stack where the mappings are the same, another where they are not.
#include "load/seen.h"

#include "load/load.h"
#include "tests/recording.h"
#include "tests/tap.h"

enum { FRAMES_MOST = 1000 };
struct body { uint64_t words[FRAMES_MOST + 4]; }; // as in a record: the chain behind its length, raw data behind its own

static struct record record_of(struct body *body, const uint64_t *chain, size_t count, const char *raw, uint64_t ip)
{
	uint32_t raw_size = (uint32_t)strlen(raw);
	uint8_t *raw_at = (uint8_t *)(body->words + 1 + count);
	body->words[0] = count;
	memcpy(body->words + 1, chain, count * sizeof(*chain));
	memcpy(raw_at, &raw_size, sizeof(raw_size));
	memcpy(raw_at + sizeof(raw_size), raw, raw_size);
	return (struct record){ .type = PERF_RECORD_SAMPLE, .misc = PERF_RECORD_MISC_USER, .sample.ip = ip, .sample.callchain = body->words + 1,
	                        .sample.callchain_count = count, .sample.raw = raw_at + sizeof(raw_size), .sample.raw_size = raw_size };
}

static struct seen_chain *find(struct seen *seen, const struct record *record, size_t event)
{
	struct plain_sample sample = seen_sample_of(record, event);
	struct seen_table *table = seen_begin(seen);
	struct queue_item item;
	seen_find(table, &sample, 1, &item);
	seen_came(seen, table, 1);
	return item.chain;
}

static void identity(void)
{
	static const uint64_t chain[] = { PERF_CONTEXT_USER, 0x401010, 0x401205 };
	struct seen seen;
	struct body bodies[6];
	struct record a = record_of(&bodies[0], chain, 3, "note", 1), b = record_of(&bodies[1], chain, 3, "note", 1);
	seen_init(&seen);
	struct seen_chain *first = find(&seen, &a, 0);
	ok(find(&seen, &b, 0) == first, "equal bytes are one chain");
	ok(first->callchain_count == 3 && memcmp(first->words + 1, chain, sizeof(chain)) == 0 && first->raw_size == 4 &&
	   memcmp((const uint8_t *)first->words + first->raw_at, "note", 4) == 0, "kept whole");
	struct record shorter = record_of(&bodies[2], chain, 2, "note", 1), other_note = record_of(&bodies[3], chain, 3, "nope", 1);
	struct record other_ip = record_of(&bodies[4], chain, 3, "note", 2), in_kernel = a, nothing = { .type = PERF_RECORD_SAMPLE };
	struct record no_chain = record_of(&bodies[5], chain, 0, "note", 1);
	in_kernel.misc = PERF_RECORD_MISC_KERNEL;
	no_chain.sample.callchain = NULL;
	ok(find(&seen, &shorter, 0) != first, "its length counts");
	ok(find(&seen, &other_note, 0) != first, "its note counts");
	ok(find(&seen, &other_ip, 0) != first && find(&seen, &in_kernel, 0) != first, "where the sample was counts");
	ok(find(&seen, &a, 1) != first, "its event counts");
	struct seen_chain *alone = find(&seen, &no_chain, 0);
	ok(alone->callchain_count == 0 && alone->raw_size == 4 && memcmp((const uint8_t *)alone->words + alone->raw_at, "note", 4) == 0, "raw data alone");
	ok(find(&seen, &nothing, 0) != first && find(&seen, &nothing, 0)->callchain_count == 0, "no chain at all is one, too");
	seen_release(&seen);
}

// Each source once, many or few of them.
static void sources(void)
{
	enum { SOURCES = 3000 };
	static struct seen_source *kept[SOURCES];
	struct seen seen;
	seen_init(&seen);
	struct seen_table *table = seen_begin(&seen);
	size_t same = 0, apart = 0;
	for (uint32_t round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < SOURCES; i++) {
			struct plain_sample sample = { .id = i % 3, .pid = (int32_t)(i / 7), .tid = (int32_t)i, .cpu = i % 5, .event = i % 2 };
			struct queue_item item;
			seen_find(table, &sample, 1, &item);
			const struct seen_source *s = item.source;
			same += round == 1 && item.source == kept[i];
			apart += s->id == sample.id && s->pid == sample.pid && s->tid == sample.tid && s->cpu == sample.cpu && s->event == sample.event;
			kept[i] = item.source;
		}
	}
	ok(same == SOURCES && apart == 2 * SOURCES, "%zu of %d sources are met again, %zu are what was asked for", same, SOURCES, apart);
	seen_release(&seen);
}

// More chains than a table holds, of which one is waited for all the while.
static void bounded(void)
{
	enum { CHAINS = 20000 };
	struct seen seen;
	static struct body body;
	static const uint64_t chain[FRAMES_MOST];
	struct record record = record_of(&body, chain, FRAMES_MOST, "", 0);
	seen_init(&seen);
	struct seen_chain *kept = find(&seen, &record, 0);
	const struct seen_table *first = kept->table;
	for (uint64_t i = 1; i < CHAINS; i++) { // 160 MB of them
		body.words[1 + FRAMES_MOST / 2] = i;
		seen_done(&seen, find(&seen, &record, 0));
	}
	ok(kept->callchain_count == FRAMES_MOST && kept->words[1 + FRAMES_MOST / 2] == 0, "a chain stays as long as a sample waits");
	ok(seen.filling != first && seen_tables(&seen) == 2, "in an old table");
	seen_done(&seen, kept);
	ok(seen_tables(&seen) == 1, "which goes with it");
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
	sources();
	bounded();
	mappings();
	return tap_done();
}
