#include "load/queue.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "perfdata/reader.h"

enum { CHUNK_BYTES = 144 * 1024 }; // two of the largest records fit; few pages, as each is written to again and again

struct queue_chunk {
	struct queue_chunk *next; // spare ones
	size_t used, live;        // bytes given out; pieces not yet let go
	_Alignas(16) uint8_t bytes[CHUNK_BYTES];
};

static void *chunk_alloc(struct queue *queue, size_t size)
{
	struct queue_chunk *chunk = queue->filling;
	size = (size + 15) & ~(size_t)15;
	if (chunk == NULL || CHUNK_BYTES - chunk->used < size) {
		chunk = queue->spare;
		if (chunk != NULL)
			queue->spare = chunk->next;
		else
			chunk = mem_alloc(sizeof(*chunk));
		chunk->next = NULL;
		chunk->used = chunk->live = 0;
		if (queue->filling != NULL && queue->filling->live == 0)
			free(queue->filling);
		queue->filling = chunk;
	}
	void *at = chunk->bytes + chunk->used;
	chunk->used += size;
	chunk->live++;
	return at;
}

static void let_go(struct queue *queue, struct queue_chunk *chunk)
{
	if (--chunk->live > 0)
		return;
	if (chunk == queue->filling) {
		chunk->used = 0;
	} else { // kept: what waits at one time comes again, and fresh pages cost more than the copies into them
		chunk->next = queue->spare;
		queue->spare = chunk;
	}
}

void queue_done(struct queue *queue, struct queued *queued)
{
	if (queued->is_kept)
		reader_let_go(queue->reader, &queued->record);
	let_go(queue, queued->chunk);
}

void queue_release(struct queue *queue)
{
	for (size_t i = queue->first; i < queue->items.count; i++) {
		const struct queue_item *item = &queue->items.data[i];
		if (item->chain == NULL)
			let_go(queue, item->queued->chunk);
	}
	vec_release(&queue->items);
	free(queue->filling);
	while (queue->spare != NULL) {
		struct queue_chunk *next = queue->spare->next;
		free(queue->spare);
		queue->spare = next;
	}
	*queue = (struct queue){ 0 };
}

// ---------------------------------------------------------------- copies

struct piece { const void **pointer; const void *from; size_t size; };

// Of a sample, what becomes of it: call chain, registers, the live part of the stack, raw data, the branches of an LBR call chain.
static size_t sample_pieces(struct record_sample *sample, struct piece *pieces)
{
	size_t count = 0;
	pieces[count++] = (struct piece){ (const void **)&sample->callchain, sample->callchain,
	                                  sample->callchain_count * sizeof(uint64_t) };
	pieces[count++] = (struct piece){ (const void **)&sample->raw, sample->raw, sample->raw_size };
	size_t registers = sample->user.words != NULL ? (size_t)__builtin_popcountll(sample->user.mask) : 0;
	pieces[count++] = (struct piece){ (const void **)&sample->user.words, sample->user.words, registers * sizeof(uint64_t) };
	pieces[count++] = (struct piece){ (const void **)&sample->branches, sample->branches,
	                                  sample->branch_count * sizeof(*sample->branches) };
	pieces[count++] = (struct piece){ (const void **)&sample->stack.bytes, sample->stack.bytes,
	                                  sample->stack.bytes != NULL ? sample->stack.dyn_size : 0 };
	return count;
}

static size_t other_pieces(struct record *record, struct piece *pieces)
{
	const char **text = NULL;
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		text = &record->mapping.path;
		break;
	case PERF_RECORD_COMM:
		text = &record->comm.comm;
		break;
	case PERF_RECORD_KSYMBOL:
		text = &record->ksymbol.name;
		break;
	case PERF_RECORD_READ: {
		const struct read_values *values = &record->read.values;
		size_t each = 1u + values->gap + values->has_id + values->has_lost;
		pieces[0] = (struct piece){ (const void **)&record->read.values.words, values->words,
		                            values->words != NULL ? values->count * each * sizeof(uint64_t) : 0 };
		return 1;
	}
	case RECORD_KERNEL_CALLCHAIN_DEFERRED:
		pieces[0] = (struct piece){ (const void **)&record->deferred.callchain, record->deferred.callchain,
		                            record->deferred.callchain_count * sizeof(uint64_t) };
		return 1;
	default:
		break;
	}
	if (text == NULL)
		return 0;
	pieces[0] = (struct piece){ (const void **)text, *text, strlen(*text) + 1 };
	return 1;
}

// What a decoded record borrows lies in its bytes: with those copied, the pointers move along.
void queue_move(struct record *record, uint8_t *bytes)
{
	struct piece pieces[5];
	size_t count = record->type == PERF_RECORD_SAMPLE ? sample_pieces(&record->sample, pieces) : other_pieces(record, pieces);
	memcpy(bytes, record->header, record->size);
	for (size_t i = 0; i < count; i++)
		*pieces[i].pointer = pieces[i].size > 0 ? bytes + ((const uint8_t *)pieces[i].from - (const uint8_t *)record->header) : NULL;
	record->header = (const struct perf_event_header *)(const void *)bytes;
}

static struct queued *copy_whole(struct queue *queue, const struct record *record, size_t event, bool synthesized)
{
	struct queued *queued = chunk_alloc(queue, sizeof(*queued) + record->size);
	*queued = (struct queued){ .record = *record, .event = event, .synthesized = synthesized, .chunk = queue->filling };
	queue_move(&queued->record, (uint8_t *)(queued + 1));
	return queued;
}

struct queued *queue_keep(struct queue *queue, const struct record *record, size_t event, bool synthesized)
{
	struct queued *queued = chunk_alloc(queue, sizeof(*queued));
	*queued = (struct queued){ .record = *record, .event = event, .synthesized = synthesized, .chunk = queue->filling, .is_kept = true };
	return queued;
}

struct queued *queue_copy(struct queue *queue, const struct record *record, size_t event, bool synthesized)
{
	if (queue->keeps_whole)
		return copy_whole(queue, record, event, synthesized);
	struct record copy = *record;
	struct piece pieces[5];
	size_t count = copy.type == PERF_RECORD_SAMPLE ? sample_pieces(&copy.sample, pieces) : other_pieces(&copy, pieces);
	size_t size = sizeof(struct queued);
	for (size_t i = 0; i < count; i++)
		size += (pieces[i].size + 7) & ~(size_t)7;
	struct queued *queued = chunk_alloc(queue, size);
	uint8_t *at = (uint8_t *)(queued + 1);
	for (size_t i = 0; i < count; i++) {
		if (pieces[i].size == 0) {
			*pieces[i].pointer = NULL;
			continue;
		}
		memcpy(at, pieces[i].from, pieces[i].size);
		*pieces[i].pointer = at;
		at += (pieces[i].size + 7) & ~(size_t)7;
	}
	copy.header = NULL;
	*queued = (struct queued){ .record = copy, .event = event, .synthesized = synthesized, .chunk = queue->filling };
	return queued;
}

// ---------------------------------------------------------------- order

static size_t bytes_of_record(const struct queue_item *item)
{
	return sizeof(*item->queued) + item->queued->record.size;
}

// What has been taken makes room for what comes.
static void close_up(struct queue *queue)
{
	size_t count = queue->items.count - queue->first;
	if (queue->first == 0 || queue->first < count)
		return;
	if (count > 0)
		memcpy(queue->items.data, queue->items.data + queue->first, count * sizeof(*queue->items.data));
	queue->items.count = count;
	queue->first = 0;
}

void queue_add(struct queue *queue, const struct queue_item *items, size_t count)
{
	close_up(queue);
	vec_reserve(&queue->items, count);
	struct queue_item *to = queue->items.data + queue->items.count;
	bool is_empty = queue->items.count == queue->first, unsorted = !is_empty && queue->unsorted;
	uint64_t last_ns = is_empty ? 0 : to[-1].time_ns, newest_ns = queue->newest_ns, oldest_ns = queue->oldest_ns != 0 ? queue->oldest_ns : UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		to[i] = items[i];
		unsorted |= items[i].time_ns < last_ns;
		last_ns = items[i].time_ns;
		newest_ns = last_ns > newest_ns ? last_ns : newest_ns;
		oldest_ns = last_ns < oldest_ns ? last_ns : oldest_ns;
		if (items[i].chain == NULL) {
			queue->records++;
			queue->bytes += bytes_of_record(&items[i]);
		}
	}
	queue->items.count += count;
	queue->bytes += count * sizeof(*items);
	queue->unsorted = unsorted;
	queue->newest_ns = newest_ns;
	queue->oldest_ns = oldest_ns;
}

// Where the ascending run that begins at `from` ends.
static size_t end_of_run(const struct queue_item *items, size_t from, size_t count)
{
	size_t end = from + 1;
	while (end < count && items[end - 1].time_ns <= items[end].time_ns)
		end++;
	return end;
}

static void merge(const struct queue_item *a, size_t a_count, const struct queue_item *b, size_t b_count, struct queue_item *out)
{
	while (a_count > 0 && b_count > 0) {
		bool is_b = b->time_ns < a->time_ns;
		*out++ = *(is_b ? b : a);
		a += !is_b;
		a_count -= !is_b;
		b += is_b;
		b_count -= is_b;
	}
	memcpy(out, a_count > 0 ? a : b, (a_count + b_count) * sizeof(*out));
}

// What comes out of order comes in runs, one of each ring: neighbours are merged until there is one.
static void sort(struct queue *queue)
{
	struct queue_item *items = queue->items.data + queue->first;
	size_t count = queue->items.count - queue->first, runs = 2;
	if (!queue->unsorted || count < 2)
		return;
	struct queue_item *from = items, *to = mem_alloc(count * sizeof(*to));
	struct queue_item *const second = to;
	while (runs > 1) {
		runs = 0;
		for (size_t at = 0, middle, end; at < count; at = end, runs++) {
			middle = end = end_of_run(from, at, count);
			if (middle < count)
				end = end_of_run(from, middle, count);
			merge(from + at, middle - at, from + middle, end - middle, to + at);
		}
		struct queue_item *turn = from;
		from = to;
		to = turn;
	}
	if (from == second)
		memcpy(items, second, count * sizeof(*second));
	free(second);
	queue->unsorted = false;
}

// How many of the waiting items, which are in order, are not newer.
static size_t not_newer(const struct queue *queue, uint64_t time_ns)
{
	const struct queue_item *items = queue->items.data + queue->first;
	size_t low = 0, high = queue->items.count - queue->first;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (items[middle].time_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void queue_flush(struct queue *queue, uint64_t up_to_ns, queue_take_fn *take, void *context)
{
	sort(queue);
	for (size_t left = not_newer(queue, up_to_ns), count; left > 0; left -= count) {
		const struct queue_item *items = queue->items.data + queue->first;
		for (count = queue->records == 0 ? left : 0; count < left && items[count].chain != NULL;)
			count++;
		if (count == 0) {
			count = 1;
			queue->records--;
			queue->bytes -= bytes_of_record(items);
		}
		queue->bytes -= count * sizeof(*items);
		queue->first += count;
		take(context, items, count);
	}
}

void queue_round(struct queue *queue, queue_take_fn *take, void *context)
{
	queue_flush(queue, queue->last_round_ns, take, context);
	queue->last_round_ns = queue->newest_ns;
}

size_t queue_room(const struct queue *queue, size_t most_bytes, size_t count)
{
	size_t room = queue->bytes <= most_bytes ? (most_bytes - queue->bytes) / sizeof(struct queue_item) + 1 : 1;
	return count < room ? count : room;
}

void queue_bound(struct queue *queue, size_t most_bytes, queue_take_fn *take, void *context)
{
	size_t count = queue->items.count - queue->first;
	if (queue->bytes <= most_bytes || count < 2)
		return;
	sort(queue);
	queue_flush(queue, queue->items.data[queue->first + count / 2].time_ns, take, context);
}
