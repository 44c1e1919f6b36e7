#include "load/ahead.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/queue.h"

enum {
	BATCHES = 8,
	LIGHTS_A_BATCH = 4096,       // where nothing borrows from a buffer, which ends a batch otherwise
	RUN = 64,                    // samples that are decoded together
	WORTH_WAKING = 6,            // batches for whom sleeps: waking costs as much as some tens of microseconds of work, on virtual machines above all
	RECORD_BYTES_MOST = 1 << 16,
	COPIES_BYTES = 5 << 16,
	HELD_A_BATCH = 64,
};

struct ahead {
	struct reader *reader;
	struct seen *seen;           // NULL: no sample is light
	bool may_start, has_thread;
	struct batch batches[BATCHES];
	struct { struct record record; size_t event; bool is_there; } carried; // the first of the next batch
	pthread_t thread;
	pthread_mutex_t lock;        // of what follows
	pthread_cond_t changed;
	uint64_t made, taken, done;  // batches so far; made - done <= BATCHES
	bool stops;
};

static bool is_used(const struct ahead *ahead, uint32_t type)
{
	switch (type) {
	case PERF_RECORD_MMAP: case PERF_RECORD_MMAP2: case PERF_RECORD_COMM: case PERF_RECORD_FORK: case PERF_RECORD_EXIT:
	case PERF_RECORD_KSYMBOL: case PERF_RECORD_SAMPLE: case PERF_RECORD_READ: case PERF_RECORD_LOST: case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE: case PERF_RECORD_UNTHROTTLE: case RECORD_KERNEL_CALLCHAIN_DEFERRED: case RECORD_USER_FINISHED_ROUND:
		return true;
	default:
		return ahead->seen == NULL && type < RECORD_USER_HEADER_ATTR;
	}
}

static bool is_light(const struct ahead *ahead, const struct record *record, size_t event)
{
	const uint64_t more = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER | PERF_SAMPLE_BRANCH_STACK;
	return record->type == PERF_RECORD_SAMPLE && ahead->seen != NULL && record_has_time(record) &&
	       !callchain_is_deferred(record->sample.callchain, record->sample.callchain_count) &&
	       (reader_event_at(ahead->reader, event)->attr.sample_type & more) == 0;
}

static void add_lights(struct batch *batch, const struct plain_sample *samples, size_t count)
{
	vec_reserve(&batch->lights, count);
	seen_find(batch->table, samples, count, batch->lights.data + batch->lights.count);
	batch->lights.count += count;
}

// Beside light samples other records are few and small: copied, they leave the buffer to the reader.
static bool borrows(const struct ahead *ahead, const struct record *record)
{
	return reader_keeps(ahead->reader, record->header) && (ahead->seen == NULL || record->type == PERF_RECORD_SAMPLE);
}

static void add(struct ahead *ahead, struct batch *batch, struct record *record, size_t event)
{
	if (!is_used(ahead, record->type))
		return;
	if (is_light(ahead, record, event)) {
		struct plain_sample sample = seen_sample_of(record, event);
		add_lights(batch, &sample, 1);
		return;
	}
	bool is_held = reader_is_mapped(ahead->reader) && reader_keeps(ahead->reader, record->header);
	if (is_held) {
		reader_hold(ahead->reader, record);
	} else if (borrows(ahead, record)) {
		batch->borrows = true;
	} else {
		if (batch->copies == NULL)
			batch->copies = mem_alloc(COPIES_BYTES);
		queue_move(record, batch->copies + batch->copied);
		batch->copied += (record->size + 7u) & ~7u;
	}
	vec_push(&batch->others, (struct ahead_other){ .after = batch->lights.count, .event = event, .is_held = is_held, .record = *record });
}

static bool is_full(const struct ahead *ahead, const struct batch *batch)
{
	if (reader_is_mapped(ahead->reader) && batch->others.count >= HELD_A_BATCH)
		return true;
	return batch->copied > COPIES_BYTES - RECORD_BYTES_MOST || (!batch->borrows && batch->lights.count >= LIGHTS_A_BATCH);
}

// Light samples that come one after the other.
static void add_runs(struct ahead *ahead, struct batch *batch)
{
	struct plain_sample samples[RUN];
	size_t count;
	while (ahead->seen != NULL && !is_full(ahead, batch) && (count = reader_samples(ahead->reader, samples, RUN)) > 0)
		add_lights(batch, samples, count);
}

// What the reader leaves behind is the batch's for as long as that is used, and what was the batch's the reader goes on in.
static void fill(struct ahead *ahead, struct batch *batch)
{
	vec_clear(&batch->lights);
	vec_clear(&batch->others);
	batch->copied = 0;
	batch->borrows = batch->drains = false;
	batch->end = READER_RECORD;
	batch->table = ahead->seen != NULL ? seen_begin(ahead->seen) : NULL;
	if (ahead->carried.is_there)
		add(ahead, batch, &ahead->carried.record, ahead->carried.event);
	ahead->carried.is_there = false;
	if (batch->buffer == NULL && !reader_is_mapped(ahead->reader))
		batch->buffer = reader_buffer_new();
	if (batch->buffer != NULL && reader_lend(ahead->reader, batch->buffer))
		batch->buffer = NULL;
	while (!is_full(ahead, batch)) {
		struct record record;
		size_t event;
		uint64_t offset;
		add_runs(ahead, batch);
		enum reader_next next = reader_next(ahead->reader, &record, &event, &offset, &batch->err);
		void *left = reader_left(ahead->reader);
		if (left != NULL && !batch->borrows) {
			(void)reader_lend(ahead->reader, left);
			left = NULL;
		}
		if (left != NULL && batch->buffer != NULL)
			(void)reader_lend(ahead->reader, batch->buffer);
		if (left != NULL)
			batch->buffer = left;
		if (next != READER_RECORD) {
			batch->drains = next == READER_CHANGE;
			batch->end = next == READER_CHANGE ? READER_RECORD : next;
			return;
		}
		if (left != NULL) {
			ahead->carried.record = record;
			ahead->carried.event = event;
			ahead->carried.is_there = true;
			return;
		}
		add(ahead, batch, &record, event);
	}
	batch->drains = batch->borrows; // the reader is in that buffer still
}

// Until `condition` is true; false: the caller has had enough.
#define WAIT_FOR(ahead, condition) ({ \
	while (!(condition) && !(ahead)->stops) \
		pthread_cond_wait(&(ahead)->changed, &(ahead)->lock); \
	!(ahead)->stops; })

static void *read_ahead(void *context)
{
	struct ahead *ahead = context;
	bool drains = false, more = true;
	pthread_mutex_lock(&ahead->lock);
	while (more && WAIT_FOR(ahead, drains ? ahead->done == ahead->made : ahead->made - ahead->done < BATCHES)) {
		struct batch *batch = &ahead->batches[ahead->made % BATCHES];
		pthread_mutex_unlock(&ahead->lock);
		fill(ahead, batch);
		drains = batch->drains;
		more = batch->end == READER_RECORD;
		pthread_mutex_lock(&ahead->lock);
		ahead->made++;
		if (drains || !more || ahead->made - ahead->taken >= WORTH_WAKING)
			pthread_cond_signal(&ahead->changed);
	}
	pthread_mutex_unlock(&ahead->lock);
	return NULL;
}

const struct batch *ahead_next(struct ahead *ahead)
{
	if (!ahead->has_thread) {
		struct batch *batch = &ahead->batches[ahead->may_start ? ahead->made % BATCHES : 0];
		ahead->taken = ahead->done = ++ahead->made;
		fill(ahead, batch);
		// A file with more than a buffer's worth is worth a thread: the batch at hand is one that it has taken over as handed out.
		if (ahead->may_start && batch->end == READER_RECORD && !batch->drains) {
			ahead->done = ahead->taken - 1;
			ahead->has_thread = pthread_create(&ahead->thread, NULL, read_ahead, ahead) == 0;
			ahead->may_start = false;
		}
		return batch;
	}
	pthread_mutex_lock(&ahead->lock);
	ahead->done = ahead->taken;
	if (ahead->made - ahead->done <= BATCHES - WORTH_WAKING)
		pthread_cond_signal(&ahead->changed);
	while (ahead->taken == ahead->made)
		pthread_cond_wait(&ahead->changed, &ahead->lock);
	struct batch *batch = &ahead->batches[ahead->taken++ % BATCHES];
	pthread_mutex_unlock(&ahead->lock);
	return batch;
}

struct ahead *ahead_new(struct reader *reader, struct seen *seen, unsigned jobs)
{
	struct ahead *ahead = NEW(struct ahead);
	ahead->reader = reader;
	ahead->seen = seen;
	ahead->may_start = jobs > 1 && !reader_is_mapped(reader);
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	reader_announce_changes(reader);
	return ahead;
}

void ahead_free(struct ahead *ahead)
{
	if (ahead == NULL)
		return;
	if (ahead->has_thread) {
		pthread_mutex_lock(&ahead->lock);
		ahead->stops = true;
		pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
		pthread_join(ahead->thread, NULL);
	}
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->lock);
	for (size_t i = 0; i < BATCHES; i++) {
		vec_release(&ahead->batches[i].lights);
		vec_release(&ahead->batches[i].others);
		free(ahead->batches[i].buffer);
		free(ahead->batches[i].copies);
	}
	free(ahead);
}
