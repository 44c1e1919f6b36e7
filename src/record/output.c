#include "record/output.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>

#include "base/sort.h"
#include "base/vec.h"
#include "perf/record.h"
#include "record/spsc.h"

enum {
	BATCH_BYTES = 1 << 20, BATCH_COUNT = 64, // 64 MiB in all
	HAND_BYTES = 256 * 1024,
	HELD_BYTES_MAX = 16 << 20,
};
static const uint64_t HAND_NS = 250 * 1000 * 1000;

struct batch {
	uint8_t *data;
	size_t size;
	bool has_sample, is_checkpoint;
	size_t counters_end;  // behind the last record of the counters that end in it; 0: none do
	uint64_t counters_ns;
	uint64_t *ids; // to be added before the records; freed by the drain thread when the batch comes back
	size_t id_count, id_event;
};

struct held {
	uint64_t time_ns;
	size_t offset;
	uint32_t bytes;
	bool is_sample, ends_counters;
};

struct output {
	struct writer *writer;
	struct output_limits limits;
	// drain thread
	struct buf held, spare;
	VEC(struct held) index;
	size_t first;        // index entries before this are released
	uint64_t newest_ns;
	bool unsorted, stalled;
	struct batch batches[BATCH_COUNT];
	size_t made;
	struct batch *open;
	uint64_t handed_ns;
	// both
	struct spsc full, empty;
	sem_t wake;
	_Atomic bool closing;
	_Atomic int state;
	_Atomic uint64_t counted_ns;
	// writer thread
	pthread_t thread;
	bool running, published;
	char *folder; // of the file, for statvfs; NULL for streams
	struct err err;
	bool broken_pipe;
};

struct output *output_new(struct writer *writer, const struct output_limits *limits)
{
	struct output *output = NEW(struct output);
	output->writer = writer;
	output->limits = *limits;
	sem_init(&output->wake, 0, 0);
	const char *path = writer_path(writer);
	const char *slash = path != NULL ? strrchr(path, '/') : NULL;
	if (slash != NULL)
		output->folder = mem_string_n(path, slash > path ? (size_t)(slash - path) : 1);
	return output;
}

// ---------------------------------------------------------------- the writer thread
static void set_state(struct output *output, enum output_state state)
{
	int fine = OUTPUT_FINE;
	atomic_compare_exchange_strong(&output->state, &fine, (int)state);
	if (state == OUTPUT_FAILED)
		atomic_store(&output->state, (int)OUTPUT_FAILED);
}

static void check_limits(struct output *output)
{
	struct statvfs fs;
	if (output->limits.max_bytes > 0 && writer_bytes(output->writer) >= output->limits.max_bytes)
		set_state(output, OUTPUT_SIZE_REACHED);
	if (output->limits.min_free_bytes == 0 || output->folder == NULL || statvfs(output->folder, &fs) != 0)
		return;
	uint64_t least = output->limits.min_free_bytes, share = (uint64_t)(output->limits.min_free_share * (double)fs.f_blocks * (double)fs.f_frsize);
	if (output->limits.min_free_share > 0 && share < least)
		least = share;
	if ((uint64_t)fs.f_bavail * fs.f_frsize < least)
		set_state(output, OUTPUT_DISK_LOW);
}

static bool write_batch(struct output *output, const struct batch *batch)
{
	if (batch->ids != NULL)
		writer_add_ids(output->writer, batch->id_event, batch->ids, batch->id_count);
	size_t counted = batch->counters_end;
	if (counted > 0) {
		if (!writer_records(output->writer, batch->data, counted, &output->err))
			return false;
		writer_mark(output->writer, batch->counters_ns);
	}
	if (batch->size > counted && !writer_records(output->writer, batch->data + counted, batch->size - counted, &output->err))
		return false;
	if (batch->has_sample && !output->published) {
		output->published = true;
		if (!writer_publish(output->writer, &output->err))
			return false;
	}
	if (batch->is_checkpoint && !writer_checkpoint(output->writer, &output->err))
		return false;
	return true;
}

static void *writer_main(void *context)
{
	struct output *output = context;
	bool failed = false;
	for (;;) {
		while (sem_wait(&output->wake) != 0 && errno == EINTR)
			;
		struct batch *batch = spsc_pop(&output->full);
		if (batch == NULL) {
			if (atomic_load(&output->closing))
				return NULL;
			continue;
		}
		bool good = failed || write_batch(output, batch);
		atomic_store(&output->counted_ns, writer_marked_ns(output->writer));
		if (!good) {
			output->broken_pipe = errno == EPIPE;
			(void)writer_checkpoint(output->writer, NULL); // the header covers what is whole
			failed = true; // what comes now is thrown away; the session ends as soon as it sees the state
			set_state(output, OUTPUT_FAILED);
		}
		if (!failed && batch->is_checkpoint)
			check_limits(output);
		spsc_push(&output->empty, batch);
	}
}

bool output_start(struct output *output, struct err *err)
{
	int error = pthread_create(&output->thread, NULL, writer_main, output);
	if (error != 0)
		return err_set(err, STATUS_FINISH, "starting the writer thread: %s", strerror(error));
	output->running = true;
	return true;
}

// ---------------------------------------------------------------- the drain thread's side
struct buf *output_buffer(struct output *output)
{
	return &output->held;
}

void output_commit(struct output *output, size_t offset, uint64_t time_ns, bool is_sample)
{
	if (time_ns < output->newest_ns)
		output->unsorted = true;
	else
		output->newest_ns = time_ns;
	vec_push(&output->index, (struct held){ .time_ns = time_ns, .offset = offset, .bytes = (uint32_t)(output->held.size - offset),
	                                        .is_sample = is_sample });
}

void output_add(struct output *output, const void *record, size_t bytes, uint64_t time_ns)
{
	size_t offset = output->held.size;
	buf_add(&output->held, record, bytes);
	output_commit(output, offset, time_ns, false);
}

void output_end_counters(struct output *output, uint64_t time_ns)
{
	struct held *last = output->index.count > 0 ? &output->index.data[output->index.count - 1] : NULL;
	if (last != NULL)
		last->ends_counters = last->time_ns == time_ns;
}

bool output_has_room(const struct output *output)
{
	return !output->stalled || output->held.size < HELD_BYTES_MAX;
}

static int by_time(const void *a, const void *b)
{
	const struct held *x = a, *y = b;
	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset; // as they came
}

static bool open_batch(struct output *output)
{
	if (output->open != NULL)
		return true;
	struct batch *batch = spsc_pop(&output->empty);
	if (batch == NULL && output->made < BATCH_COUNT) {
		batch = &output->batches[output->made++];
		batch->data = mem_alloc(BATCH_BYTES);
	}
	if (batch == NULL)
		return false;
	free(batch->ids);
	*batch = (struct batch){ .data = batch->data };
	output->open = batch;
	return true;
}

static void hand_over(struct output *output, uint64_t now_ns)
{
	struct batch *batch = output->open;
	if (batch->size > 0) {
		struct perf_event_header round = { .type = RECORD_USER_FINISHED_ROUND, .size = sizeof(round) };
		memcpy(batch->data + batch->size, &round, sizeof(round));
		batch->size += sizeof(round);
	}
	spsc_push(&output->full, batch); // never full: there are fewer batches than places
	sem_post(&output->wake);
	output->open = NULL;
	output->handed_ns = now_ns;
}

static bool release_one(struct output *output, const struct held *held)
{
	if (output->open != NULL && output->open->size + held->bytes + sizeof(struct perf_event_header) > BATCH_BYTES)
		hand_over(output, output->handed_ns);
	if (!open_batch(output))
		return false;
	memcpy(output->open->data + output->open->size, output->held.data + held->offset, held->bytes);
	output->open->size += held->bytes;
	output->open->has_sample |= held->is_sample;
	if (held->ends_counters) {
		output->open->counters_end = output->open->size;
		output->open->counters_ns = held->time_ns;
	}
	return true;
}

// Moves what is still held to the front, when at least half of the bytes are released already (so each byte moves at most a few times).
static void compact(struct output *output)
{
	if (output->first == output->index.count) {
		vec_clear(&output->index);
		buf_clear(&output->held);
		output->first = 0;
		return;
	}
	if (output->first * 2 < output->index.count)
		return;
	buf_clear(&output->spare);
	size_t kept = 0;
	for (size_t i = output->first; i < output->index.count; i++) {
		struct held held = output->index.data[i];
		size_t offset = output->spare.size;
		buf_add(&output->spare, output->held.data + held.offset, held.bytes);
		held.offset = offset;
		output->index.data[kept++] = held;
	}
	output->index.count = kept;
	output->first = 0;
	struct buf swap = output->held;
	output->held = output->spare;
	output->spare = swap;
}

void output_release(struct output *output, uint64_t up_to_ns)
{
	if (output->unsorted) {
		sort_stable(output->index.data + output->first, output->index.count - output->first, sizeof(struct held), by_time);
		output->unsorted = false;
		output->newest_ns = output->index.data[output->index.count - 1].time_ns;
	}
	output->stalled = false;
	while (output->first < output->index.count && output->index.data[output->first].time_ns <= up_to_ns) {
		if (!release_one(output, &output->index.data[output->first])) {
			output->stalled = true;
			break;
		}
		output->first++;
	}
	compact(output);
}

void output_hand(struct output *output, uint64_t now_ns, bool checkpoint)
{
	if (checkpoint && open_batch(output))
		output->open->is_checkpoint = true;
	if (output->open == NULL)
		return;
	if (checkpoint || output->open->size >= HAND_BYTES || now_ns - output->handed_ns >= HAND_NS)
		hand_over(output, now_ns);
}

void output_ids(struct output *output, size_t event, const uint64_t *ids, size_t count)
{
	if (output->open != NULL)
		hand_over(output, output->handed_ns);
	if (count == 0 || !open_batch(output))
		return; // a stalled disk: the ids are missing until the end, where the file's attrs are written anyway
	output->open->ids = mem_copy(ids, count * sizeof(*ids));
	output->open->id_count = count;
	output->open->id_event = event;
	hand_over(output, output->handed_ns);
}

enum output_state output_state(const struct output *output)
{
	return (enum output_state)atomic_load(&output->state);
}

uint64_t output_counted_ns(const struct output *output)
{
	return atomic_load(&output->counted_ns);
}

bool output_is_broken_pipe(const struct output *output)
{
	return output->broken_pipe;
}

bool output_finish(struct output *output, struct err *err)
{
	if (output->running) {
		// The writer may be behind: now there is time to wait for it.
		for (;;) {
			output_release(output, UINT64_MAX);
			if (!output->stalled)
				break;
			if (output->open != NULL)
				hand_over(output, 0);
			struct timespec pause = { .tv_nsec = 5 * 1000 * 1000 };
			nanosleep(&pause, NULL);
		}
		output_hand(output, 0, true);
		atomic_store(&output->closing, true);
		sem_post(&output->wake);
		pthread_join(output->thread, NULL);
		output->running = false;
	}
	if (output_state(output) != OUTPUT_FAILED)
		return true;
	if (err != NULL)
		*err = output->err;
	return false;
}

void output_free(struct output *output)
{
	if (output == NULL)
		return;
	if (output->running) {
		atomic_store(&output->closing, true);
		sem_post(&output->wake);
		pthread_join(output->thread, NULL);
	}
	for (size_t i = 0; i < output->made; i++) {
		free(output->batches[i].data);
		free(output->batches[i].ids);
	}
	buf_release(&output->held);
	buf_release(&output->spare);
	vec_release(&output->index);
	sem_destroy(&output->wake);
	free(output->folder);
	free(output);
}
