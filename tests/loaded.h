// Recordings that a test makes, writes and loads again in different ways: the profile as one number, to be compared.
#ifndef PERFSAMPLE_TESTS_LOADED_H
#define PERFSAMPLE_TESTS_LOADED_H

#include <pthread.h>
#include <unistd.h>

#include "load/load.h"
#include "tests/recording.h"
#include "tests/tap.h"

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

// The records of a body, by the events of rec_ids, the first of which is `clock`. `fd`: a stream's, else -1.
static bool write_recording(const char *path, int fd, struct perf_event_attr clock, const struct buf *body)
{
	struct writer *writer;
	struct perf_event_attr dummy = rec_attr(true);
	struct writer_event events[2] = { { clock, "cpu-clock", REC_IDS, 2, -1, 0 }, { dummy, "dummy:HG", REC_SIDEBAND_IDS, 2, -1, 0 } };
	struct writer_info info = rec_info();
	struct err err = { 0 };
	bool good = writer_open(&writer, path, fd, &err) && writer_begin(writer, events, 2, &info, &err) &&
	            writer_records(writer, body->data, body->size, &err) && writer_finish(writer, &info, NULL, 0, NULL, &err);
	writer_free(writer);
	return good;
}

static uint64_t profile_hash(const struct profile *p)
{
	uint64_t hash = hash_pair(p->samples.count, p->nodes.count);
	for (size_t i = 0; i < p->samples.count; i++) {
		struct profile_sample s = samples_at(&p->samples, i);
		hash = hash_pair(hash_pair(hash, s.time_ns), hash_pair((uint64_t)s.pid, s.cpu));
		hash = hash_pair(hash_pair(hash, s.comm), s.end);
		for (uint32_t node = s.stack; node != PROFILE_NONE; node = p->nodes.data[node].parent) {
			const struct profile_frame *frame = &p->frames.data[p->nodes.data[node].frame];
			hash = hash_pair(hash, hash_pair(frame->addr, frame->image_addr));
		}
	}
	return hash;
}

// Fails the test where it has not so many samples, or fewer nodes. 0: an error, told in `err`.
static uint64_t load(const char *input, unsigned jobs, size_t samples, size_t nodes, struct err *err)
{
	struct load_options options = load_defaults();
	options.input = input;
	options.symbols = false;
	options.jobs = jobs;
	struct profile p;
	*err = (struct err){ 0 };
	uint64_t hash = load_profile(&p, &options, err) ? profile_hash(&p) : 0;
	if (hash != 0)
		ok(p.samples.count == samples && p.nodes.count >= nodes, "%u jobs: %zu samples, %zu nodes", jobs, p.samples.count, p.nodes.count);
	profile_release(&p);
	return hash;
}

struct feed { const void *of; int fd; }; // what a feeding thread is given; it closes the descriptor

// The same of standard input, which a thread writes.
static uint64_t load_fed(void *(*write_to)(void *feed), const void *of, unsigned jobs, size_t samples, size_t nodes, struct err *err)
{
	int ends[2], in = dup(0);
	pthread_t thread;
	if (pipe(ends) != 0)
		return 0;
	dup2(ends[0], 0);
	close(ends[0]);
	struct feed f = { of, ends[1] };
	pthread_create(&thread, NULL, write_to, &f);
	uint64_t hash = load("-", jobs, samples, nodes, err);
	dup2(in, 0);
	close(in);
	pthread_join(thread, NULL);
	return hash;
}

#endif
