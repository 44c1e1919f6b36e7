// Records read ahead: a recording of several buffers gives the same profile by one thread and by two, from a file, a stream in dribs and drabs
// and compressed records, and the same error where it is torn.
#include "load/ahead.h"

#include <fcntl.h>
#include <zstd.h>

#include "tests/loaded.h"
#include "tests/scratch.h"

enum { SAMPLES = 30000, PROCESSES = 3, FRAMES_MOST = 40 };

// Samples of several depths in times that go back and forth within a round, and mappings that change under them.
static void make_body(struct buf *body)
{
	uint64_t random = 1, chain[FRAMES_MOST + 1] = { PERF_CONTEXT_USER };
	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint64_t time_ns = 1000000 + (uint64_t)i * 1000 + next_random(&random) % 50000;
		uint32_t pid = 7 + i % PROCESSES;
		if (i % 1000 == 0)
			rec_mmap2(body, pid, 0x400000, 0x100000, i / 1000 * 0x1000, "/usr/bin/app", time_ns);
		if (i % 700 == 0)
			rec_comm(body, pid, pid, i % 1400 == 0 ? "even" : "odd", false, time_ns);
		size_t count = 1 + next_random(&random) % FRAMES_MOST;
		for (size_t f = 0; f < count; f++)
			chain[1 + f] = 0x400000 + next_random(&random) % 16 * (f + 1);
		rec_sample(body, &(struct rec_sample){ .pid = pid, .tid = pid, .cpu = i % 2, .time_ns = time_ns, .chain = chain, .chain_count = count + 1 });
		if (i % 300 == 299)
			rec_round(body);
	}
}

// The same records in zstd, a record of 32 KiB after the other: one stream, as perf makes it.
static void compress(struct buf *out, const struct buf *body)
{
	enum { PIECE = 32768 };
	ZSTD_CStream *stream = ZSTD_createCStream();
	ZSTD_initCStream(stream, 1);
	static uint8_t packed[PIECE + 4096];
	for (size_t at = 0; at < body->size; at += PIECE) {
		ZSTD_inBuffer in = { body->data + at, body->size - at < PIECE ? body->size - at : PIECE, 0 };
		ZSTD_outBuffer to = { packed, sizeof(packed), 0 };
		while (in.pos < in.size)
			ZSTD_compressStream(stream, &to, &in);
		ZSTD_flushStream(stream, &to);
		size_t record = rec_start(out, RECORD_USER_COMPRESSED2, 0);
		buf_u64(out, to.pos);
		buf_add(out, packed, to.pos);
		rec_end(out, record);
	}
	ZSTD_freeCStream(stream);
}

// The same stream as perf 6.16 to 6.18 writes it: cut into pushes, each into records of at most 65,535 bytes, and then the size of the whole push, modulo
// 64 KiB, in the first one. A push that fits is right, and padded; of the others' further records data_size is whatever stood in the buffer.
static void compress_as_616(struct buf *out, const struct buf *body)
{
	enum { FRONT = 16, MOST = 65535 - FRONT };
	static const size_t pushes[] = { 100, MOST, MOST - 6, MOST + 1, 200000, 65536, 2 * MOST, 2 * MOST + 7, 65507, 1000 };
	struct buf stream = { 0 };
	buf_reserve(&stream, ZSTD_compressBound(body->size));
	stream.size = ZSTD_compress(stream.data, stream.capacity, body->data, body->size, 1);
	ok(stream.size > 500000, "%zu compressed bytes", stream.size);
	for (size_t at = 0, push = 0, size; at < stream.size; at += size, push++) {
		size = pushes[push % (sizeof(pushes) / sizeof(pushes[0]))];
		size = size < stream.size - at ? size : stream.size - at;
		size_t first = out->size, total = 0;
		for (size_t done = 0, part; done < size; done += part, total += FRONT + part) {
			part = size - done < MOST ? size - done : MOST;
			struct perf_event_header header = { .type = RECORD_USER_COMPRESSED2, .size = (uint16_t)(FRONT + part) };
			buf_add(out, &header, sizeof(header));
			buf_u64(out, 0xdeadbeefcafe0000u + done);
			buf_add(out, stream.data + at + done, part);
		}
		uint16_t whole = (uint16_t)((total + 7) & ~(size_t)7);
		uint64_t data_size = total - FRONT;
		memcpy(out->data + first + 6, &whole, sizeof(whole));
		memcpy(out->data + first + 8, &data_size, sizeof(data_size));
		while (total <= 65528 && out->size - first < whole)
			buf_add(out, "", 1);
	}
	buf_release(&stream);
}

static void *dribble(void *context)
{
	const struct feed *d = context;
	const struct buf *bytes = d->of;
	uint64_t random = 5;
	for (size_t at = 0; at < bytes->size;) {
		size_t left = bytes->size - at, some = 1 + next_random(&random) % 100000;
		ssize_t written = write(d->fd, bytes->data + at, some < left ? some : left);
		if (written <= 0)
			break;
		at += (size_t)written;
	}
	close(d->fd);
	return NULL;
}

static void read_file(const char *path, struct buf *out)
{
	static uint8_t piece[65536];
	int fd = open(path, O_RDONLY);
	for (ssize_t n; fd >= 0 && (n = read(fd, piece, sizeof(piece))) > 0;)
		buf_add(out, piece, (size_t)n);
	close(fd);
}

static void same_by_any_number_of_threads(const struct buf *body)
{
	struct err err;
	struct buf packed = { 0 }, stream = { 0 };
	ok(body->size > 4 << 20 && write_recording(scratch_path("file"), -1, rec_attr(false), body), "a recording of %zu bytes", body->size);
	uint64_t wanted = load(scratch_path("file"), 1, SAMPLES, 1, &err);
	ok(wanted != 0, "read by one thread (%s)", err.text);
	for (unsigned jobs = 2; jobs <= 3; jobs++)
		is_u64(load(scratch_path("file"), jobs, SAMPLES, 1, &err), wanted, "the same by %u (%s)", jobs, err.text);
	compress(&packed, body);
	ok(packed.size < body->size && write_recording(scratch_path("packed"), -1, rec_attr(false), &packed), "compressed to %zu bytes", packed.size);
	for (unsigned jobs = 1; jobs <= 2; jobs++)
		is_u64(load(scratch_path("packed"), jobs, SAMPLES, 1, &err), wanted, "the same out of compressed records by %u (%s)", jobs, err.text);
	buf_clear(&packed);
	compress_as_616(&packed, body);
	ok(write_recording(scratch_path("packed"), -1, rec_attr(false), &packed), "as perf 6.16 writes large pushes");
	is_u64(load(scratch_path("packed"), 1, SAMPLES, 1, &err), wanted, "the same out of records with a wrong size (%s)", err.text);
	int fd = open(scratch_path("stream"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ok(fd >= 0 && write_recording("-", fd, rec_attr(false), body), "as a stream");
	close(fd);
	read_file(scratch_path("stream"), &stream);
	for (unsigned jobs = 1; jobs <= 2; jobs++)
		is_u64(load_fed(dribble, &stream, jobs, SAMPLES, 1, &err), wanted, "the same out of a pipe by %u (%s)", jobs, err.text);
	buf_release(&stream);
	buf_release(&packed);
}

// A record in the last quarter that is shorter than its header.
static void same_error(const struct buf *body)
{
	struct err one, two;
	struct buf torn = { 0 };
	buf_add(&torn, body->data, body->size);
	size_t at = 0;
	struct perf_event_header header;
	for (memcpy(&header, body->data, sizeof(header)); at < body->size / 4 * 3; at += header.size)
		memcpy(&header, body->data + at, sizeof(header));
	header.size = 4;
	memcpy(torn.data + at, &header, sizeof(header));
	ok(write_recording(scratch_path("torn"), -1, rec_attr(false), &torn), "torn at %zu", at);
	ok(load(scratch_path("torn"), 1, SAMPLES, 1, &one) == 0 && strstr(one.text, "size 4 below 8") != NULL, "%s", one.text);
	ok(load(scratch_path("torn"), 2, SAMPLES, 1, &two) == 0, "and by two threads");
	is_str(two.text, one.text, "the same error");
	buf_release(&torn);
}

// Who reads gives up in the middle.
static void stops_early(void)
{
	struct reader *reader;
	struct err err = { 0 };
	if (!ok(reader_open(&reader, scratch_path("file"), false, &err), "opened (%s)", err.text))
		return;
	struct seen seen;
	seen_init(&seen);
	struct ahead *ahead = ahead_new(reader, &seen, 2);
	size_t lights = 0;
	for (int i = 0; i < 3; i++)
		lights += ahead_next(ahead)->lights.count;
	ok(lights > 1000 && lights < SAMPLES, "%zu samples in three batches", lights);
	ahead_free(ahead);
	seen_release(&seen);
	reader_free(reader);
}

int main(void)
{
	struct buf body = { 0 };
	scratch_make();
	make_body(&body);
	same_by_any_number_of_threads(&body);
	same_error(&body);
	stops_early();
	buf_release(&body);
	return tap_done();
}
