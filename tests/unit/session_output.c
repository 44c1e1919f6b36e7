// Records on their way to a file: order, holding back, batches, rounds, failure of the disk.
#include "record/output.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "perfdata/reader.h"
#include "tests/tap.h"

static const uint64_t TYPE = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;

static struct writer *open_writer(const char *path)
{
	struct writer *writer;
	struct err err = { 0 };
	uint64_t id = 77;
	struct writer_event event = { .attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(event.attr), .sample_type = TYPE, .sample_id_all = 1,
	                                        .sample_period = 1000 }, .name = "cpu-clock", .ids = &id, .id_count = 1, .group_leader = -1 };
	const char *const argv[] = { "perfsample", NULL };
	struct writer_info info = { .hostname = "h", .os_release = "r", .arch = "x86_64", .version = "v", .argv = argv };
	if (!writer_open(&writer, path, -1, &err) || !writer_begin(writer, &event, 1, &info, &err)) {
		diag("%s", err.text);
		exit(1);
	}
	return writer;
}

static void add_sample(struct output *output, uint64_t time_ns)
{
	struct buf *out = output_buffer(output);
	size_t offset = out->size;
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE, .size = 40, .misc = PERF_RECORD_MISC_USER };
	buf_add(out, &header, sizeof(header));
	const uint64_t body[] = { 77, 0x401000, (uint64_t)1 << 32 | 1, time_ns };
	buf_add(out, body, sizeof(body));
	output_commit(output, offset, time_ns, true);
}

// Reads the file back: samples, whether they are in order, rounds.
static void read_back(const char *path, uint64_t *samples, bool *ordered, uint64_t *rounds)
{
	struct reader *reader;
	struct record record;
	struct err err = { 0 };
	uint64_t last = 0, offset;
	size_t event;
	*samples = *rounds = 0;
	*ordered = true;
	if (!reader_open(&reader, path, false, &err)) {
		diag("%s", err.text);
		return;
	}
	while (reader_next(reader, &record, &event, &offset, &err) == READER_RECORD) {
		*rounds += record.type == RECORD_USER_FINISHED_ROUND;
		if (record.type != PERF_RECORD_SAMPLE)
			continue;
		++*samples;
		*ordered &= record.id.time_ns >= last;
		last = record.id.time_ns;
	}
	reader_free(reader);
}

static void order(const char *path)
{
	struct writer *writer = open_writer(path);
	struct output *output = output_new(writer, &(struct output_limits){ 0 });
	struct err err = { 0 };
	ok(output_start(output, &err), "the writer thread runs");
	// A sample of time 150 waits for its image while newer ones go by.
	for (uint64_t t = 100; t < 10000; t += 10)
		if (t != 150)
			add_sample(output, t);
	output_release(output, 149);
	add_sample(output, 150);
	output_release(output, 5000);
	output_hand(output, 1, true);
	output_release(output, UINT64_MAX);
	ok(output_finish(output, &err), "finished");
	const char *argv[] = { NULL };
	struct writer_info info = { .hostname = "h", .os_release = "r", .arch = "a", .version = "v", .argv = argv };
	ok(writer_finish(writer, &info, NULL, 0, NULL, &err), "the file is whole: %s", err.text);
	uint64_t samples, rounds;
	bool ordered;
	read_back(path, &samples, &ordered, &rounds);
	is_u64(samples, 990, "every sample is there");
	ok(ordered, "in the order of time, the one that waited among them");
	ok(rounds >= 2, "%d rounds", (int)rounds);
	output_free(output);
	writer_free(writer);
	unlink(path);
}

static void many(const char *path)
{
	struct writer *writer = open_writer(path);
	struct output *output = output_new(writer, &(struct output_limits){ 0 });
	struct err err = { 0 };
	output_start(output, &err);
	uint64_t refused = 0, x = 1;
	for (uint64_t pass = 0; pass < 500; pass++) {
		for (uint64_t i = 0; i < 400; i++) {
			x = x * 6364136223846793005u + 1442695040888963407u;
			if (output_has_room(output))
				add_sample(output, pass * 1000 + 1 + (x >> 33) % 1000);
			else
				refused++;
		}
		output_release(output, pass * 1000);
		output_hand(output, pass * 10000000, pass % 100 == 0);
	}
	ok(output_finish(output, &err), "200,000 samples in disorder");
	is_u64(refused, 0, "none was refused");
	uint64_t samples, rounds;
	bool ordered;
	const char *argv[] = { NULL };
	struct writer_info info = { .hostname = "h", .os_release = "r", .arch = "a", .version = "v", .argv = argv };
	writer_finish(writer, &info, NULL, 0, NULL, &err);
	read_back(path, &samples, &ordered, &rounds);
	ok(samples == 200000 && ordered, "all there, in order");
	output_free(output);
	writer_free(writer);
	unlink(path);
}

static void full_disk(void)
{
	if (access("/dev/full", W_OK) != 0) {
		skip("no /dev/full", "a disk that is full");
		return;
	}
	struct writer *writer;
	struct err err = { 0 };
	FILE *full = fopen("/dev/full", "w");
	struct writer_event event = { .attr = { .size = sizeof(event.attr), .sample_type = TYPE, .sample_id_all = 1 }, .name = "e", .group_leader = -1 };
	struct writer_info info = { .hostname = "h", .os_release = "r", .arch = "a", .version = "v" };
	const char *argv[] = { NULL };
	info.argv = argv;
	if (!writer_open(&writer, "-", fileno(full), &err)) {
		ok(false, "a stream opens: %s", err.text);
		return;
	}
	(void)writer_begin(writer, &event, 1, &info, &err);
	struct output *output = output_new(writer, &(struct output_limits){ 0 });
	output_start(output, &err);
	add_sample(output, 5);
	output_release(output, 10);
	output_hand(output, 1, true);
	err_clear(&err);
	ok(!output_finish(output, &err), "the end says that writing failed");
	is_u64(err.status, STATUS_FINISH, "status 6");
	ok(output_state(output) == OUTPUT_FAILED, "and so does the state");
	output_free(output);
	writer_free(writer);
	fclose(full);
}

// The disk is full between two readings of the counters: the file ends behind the last ones that it has.
static void counted(const char *path)
{
	struct writer *writer = open_writer(path);
	struct output *output = output_new(writer, &(struct output_limits){ 0 });
	struct err err = { 0 };
	struct rlimit old, low;
	getrlimit(RLIMIT_FSIZE, &old);
	signal(SIGXFSZ, SIG_IGN);
	low = (struct rlimit){ 200000, old.rlim_max };
	setrlimit(RLIMIT_FSIZE, &low);
	output_start(output, &err);
	ok(output_counted_ns(output) == 0, "no counters yet");
	uint64_t time_ns = 0;
	for (uint64_t second = 1; second <= 10; second++) {
		for (int i = 0; i < 1000; i++)
			add_sample(output, time_ns += 10);
		add_sample(output, time_ns += 10); // stands for the counters
		output_end_counters(output, time_ns);
		add_sample(output, time_ns + 5); // what comes in the same pass behind them
		output_release(output, UINT64_MAX);
		output_hand(output, time_ns, true);
	}
	ok(!output_finish(output, &err), "it fails in the fifth second: %s", err.text);
	setrlimit(RLIMIT_FSIZE, &old);
	is_u64(output_counted_ns(output), 4 * 10010, "the file has the counters of the fourth");
	const char *argv[] = { NULL };
	struct writer_info info = { .hostname = "h", .os_release = "r", .arch = "a", .version = "v", .argv = argv };
	(void)writer_finish(writer, &info, NULL, 0, NULL, &err);
	uint64_t samples, rounds;
	bool ordered;
	read_back(path, &samples, &ordered, &rounds);
	is_u64(samples, 4 * 1002 - 1, "and ends with them");
	output_free(output);
	writer_free(writer);
	unlink(path);
}

int main(void)
{
	char path[] = "/tmp/session_output.XXXXXX";
	int fd = mkstemp(path);
	close(fd);
	unlink(path);
	order(path);
	many(path);
	full_disk();
	counted(path);
	return tap_done();
}
