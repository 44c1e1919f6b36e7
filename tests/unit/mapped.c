// Recordings with stack copies are mapped: the profile is that of a stream of the same records, memory does not grow with the file, and a file
// that is torn, or cut short meanwhile, is told of.
#include <fcntl.h>
#include <stdlib.h>

#include "perfdata/reader.h"
#include "tests/loaded.h"
#include "tests/scratch.h"

enum { SAMPLES = 3000, SMALL = 8192, LARGE = 65000, DEPTH_MOST = 40, NODES_LEAST = SAMPLES * DEPTH_MOST / 4, RBP = 6, RSP = 7, RIP = 8 };
static const uint64_t STACK = 0x7ffd00000000, CODE = 0x7f0000000000;

static struct perf_event_attr raw_attr(void)
{
	struct perf_event_attr attr = rec_attr(false);
	attr.sample_type = (attr.sample_type & ~(uint64_t)(PERF_SAMPLE_RAW | PERF_SAMPLE_CALLCHAIN)) | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	attr.sample_regs_user = 1 << RBP | 1 << RSP | 1 << RIP;
	attr.sample_stack_user = LARGE;
	return attr;
}

// A stack of frames that frame pointers link, through all of the copy: code without a file, so they are followed.
static void raw_sample(struct buf *out, uint64_t time_ns, uint32_t pid, uint64_t *random)
{
	size_t size = next_random(random) % 2 == 0 ? SMALL : LARGE, depth = 1 + next_random(random) % DEPTH_MOST, step = size / (depth + 1) & ~(size_t)7;
	size_t at = rec_start(out, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
	uint64_t ip = CODE + next_random(random) % 64;
	buf_u64(out, REC_IDS[0]);
	buf_u64(out, ip);
	buf_u32(out, pid);
	buf_u32(out, pid);
	buf_u64(out, time_ns);
	buf_u64(out, 0); // CPU
	buf_u64(out, REC_PERIOD_NS);
	buf_u64(out, PERF_SAMPLE_REGS_ABI_64);
	buf_u64(out, STACK + step);
	buf_u64(out, STACK);
	buf_u64(out, ip);
	buf_u64(out, size);
	uint64_t *stack = mem_zero(1, size);
	for (size_t i = 1; i <= depth; i++) {
		stack[i * step / 8] = i < depth ? STACK + (i + 1) * step : 0;
		stack[i * step / 8 + 1] = CODE + 1000 * i + next_random(random) % 4;
	}
	buf_add(out, stack, size);
	free(stack);
	buf_u64(out, size);
	rec_end(out, at);
}

static void make_body(struct buf *body)
{
	uint64_t random = 1;
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint64_t time_ns = 1000000 + (uint64_t)i * 1000 + next_random(&random) % 100000;
		if (i % 1000 == 0)
			rec_mmap2(body, 7 + i / 1000, CODE, 0x100000, 0, "//anon", 1000);
		raw_sample(body, time_ns, 7 + next_random(&random) % (1 + i / 1000), &random);
		if (i % 200 == 199)
			rec_round(body);
	}
}

static void *feed(void *context)
{
	const struct feed *f = context;
	static uint8_t piece[100000];
	int fd = open(f->of, O_RDONLY);
	for (ssize_t n; fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0;)
		if (write(f->fd, piece, (size_t)n) != n)
			break;
	close(fd);
	close(f->fd);
	return NULL;
}

static void same_as_a_stream(const struct buf *body)
{
	struct err err;
	int fd = open(scratch_path("stream"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ok(fd >= 0 && write_recording("-", fd, raw_attr(), body), "as a stream");
	close(fd);
	uint64_t wanted = load_fed(feed, scratch_path("stream"), 1, SAMPLES, NODES_LEAST, &err);
	ok(wanted != 0, "read out of a pipe (%s)", err.text);
	for (unsigned jobs = 1; jobs <= 3; jobs++)
		is_u64(load(scratch_path("file"), jobs, SAMPLES, NODES_LEAST, &err), wanted, "the same mapped, by %u (%s)", jobs, err.text);
}

static size_t resident_file_kib(void)
{
	char line[256];
	unsigned long kib = 0;
	FILE *f = fopen("/proc/self/status", "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "RssFile: %lu", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib;
}

// As many records wait as `lag`, all bytes of which are looked at. The most that was resident, above what was before, in KiB.
static size_t read_all(size_t lag, size_t *count)
{
	enum { WAITING_MOST = 512 };
	static struct record waiting[WAITING_MOST];
	struct reader *reader;
	struct record record;
	struct err err = { 0 };
	size_t event, before = resident_file_kib(), most = before, held = 0, sum = 0;
	uint64_t offset;
	if (!ok(reader_open(&reader, scratch_path("file"), false, &err) && reader_is_mapped(reader), "it is mapped (%s)", err.text))
		return 0;
	while (reader_next(reader, &record, &event, &offset, &err) == READER_RECORD) {
		if (record.type != PERF_RECORD_SAMPLE || !reader_keeps(reader, record.header))
			continue;
		if (held >= lag) {
			const struct record *old = &waiting[held % lag];
			for (size_t i = 0; i < old->sample.stack.dyn_size; i += 4096)
				sum += old->sample.stack.bytes[i];
			reader_let_go(reader, old);
		}
		waiting[held++ % lag] = record;
		reader_hold(reader, &record);
		if (held % 100 == 0 && resident_file_kib() > most)
			most = resident_file_kib();
	}
	ok(err.status == STATUS_OK && sum > 0, "read to the end (%s)", err.text);
	reader_free(reader);
	*count = held;
	return most - before;
}

static void memory_is_bounded(size_t file_bytes)
{
	size_t count = 0;
	size_t most = read_all(1, &count);
	is_u64(count, SAMPLES, "each sample is kept");
	ok(most > 0 && most < 14 << 10 && file_bytes > 80 << 20, "%zu KiB of %zu MiB are resident at most", most, file_bytes >> 20);
	most = read_all(400, &count);
	ok(most > 8 << 10 && most < 34 << 10, "%zu KiB where 400 records wait, some 15 MB", most);
}

static void torn(const struct buf *body)
{
	struct err err;
	struct buf copy = { 0 };
	buf_add(&copy, body->data, body->size);
	size_t at = 0;
	struct perf_event_header header;
	for (memcpy(&header, body->data, sizeof(header)); at < body->size / 4 * 3; at += header.size)
		memcpy(&header, body->data + at, sizeof(header));
	header.size = 4;
	memcpy(copy.data + at, &header, sizeof(header));
	ok(write_recording(scratch_path("torn"), -1, raw_attr(), &copy), "torn at %zu", at);
	ok(load(scratch_path("torn"), 1, SAMPLES, NODES_LEAST, &err) == 0 && strstr(err.text, "size 4 below 8") != NULL, "%s", err.text);
	buf_release(&copy);
}

// What is not there any more is read as zeros, not as SIGBUS.
static void cut_short_meanwhile(const struct buf *body)
{
	struct reader *reader;
	struct record record;
	struct err err = { 0 };
	size_t event, count = 0;
	uint64_t offset;
	enum reader_next next = READER_ERROR;
	ok(write_recording(scratch_path("cut"), -1, raw_attr(), body), "one to be cut");
	if (!ok(reader_open(&reader, scratch_path("cut"), false, &err), "opened (%s)", err.text))
		return;
	for (; (next = reader_next(reader, &record, &event, &offset, &err)) == READER_RECORD; count++)
		if (count == 1000 && truncate(scratch_path("cut"), (off_t)offset + 1000000) != 0)
			break;
	ok(next == READER_ERROR && count > 1000 && count < 1200, "%zu records, then: %s", count, err.text);
	reader_free(reader);
}

int main(void)
{
	struct buf body = { 0 };
	scratch_make();
	make_body(&body);
	ok(write_recording(scratch_path("file"), -1, raw_attr(), &body), "a recording of %zu bytes", body.size);
	same_as_a_stream(&body);
	memory_is_bounded(body.size);
	torn(&body);
	cut_short_meanwhile(&body);
	buf_release(&body);
	return tap_done();
}
