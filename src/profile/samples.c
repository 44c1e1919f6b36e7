#include "profile/samples.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"

enum column { COLUMN_TIME, COLUMN_WEIGHT, COLUMN_STACK, COLUMN_CONTEXT, COLUMNS };
enum { READ_AHEAD = 8 }; // a value is read as a whole word, wherever it begins

struct sample_block {
	uint64_t base[COLUMNS];   // the smallest value of each column,
	uint8_t width[COLUMNS];   // how many bytes what lies above it takes: 0 to 8, little endian
	uint32_t starts[COLUMNS]; // and where the column begins
	uint32_t size;            // of the block in all, a multiple of 8
	uint32_t segment;         // of the spill that it lies in, + 1; 0: it is in memory of its own
	bool is_first;            // in its segment
	uint8_t bytes[];
};

static inline __attribute__((always_inline)) uint64_t value_of(const struct sample_point *point, enum column column)
{
	switch (column) {
	case COLUMN_TIME: return point->time_ns;
	case COLUMN_WEIGHT: return point->weight;
	case COLUMN_STACK: return point->stack;
	default: return point->context;
	}
}

static inline __attribute__((always_inline)) void set_value(struct sample_point *point, enum column column, uint64_t value)
{
	switch (column) {
	case COLUMN_TIME: point->time_ns = value; break;
	case COLUMN_WEIGHT: point->weight = value; break;
	case COLUMN_STACK: point->stack = (uint32_t)value; break;
	default: point->context = (uint32_t)value; break;
	}
}

// Calls CALL with each column as a constant: a loop of its own for each.
#define EACH_COLUMN(CALL) do { CALL(COLUMN_TIME); CALL(COLUMN_WEIGHT); CALL(COLUMN_STACK); CALL(COLUMN_CONTEXT); } while (0)
// Calls CALL with `width` as a constant where it is a usual one.
#define EACH_WIDTH(width, CALL) do { switch (width) { case 1: CALL(1); break; case 2: CALL(2); break; case 3: CALL(3); break; \
	case 4: CALL(4); break; case 5: CALL(5); break; default: CALL(width); } } while (0)

static inline void set_range(uint64_t least, uint64_t most, uint64_t *base, uint8_t *width)
{
	*base = least;
	*width = most == least ? 0 : (uint8_t)((71 - __builtin_clzll(most - least)) / 8);
}

static inline __attribute__((always_inline)) void find_range(const struct sample_point *points, enum column column, uint64_t *base, uint8_t *width)
{
	uint64_t least = UINT64_MAX, most = 0;
	for (size_t i = 0; i < SAMPLES_A_BLOCK; i++) {
		uint64_t value = value_of(&points[i], column);
		least = value < least ? value : least;
		most = value > most ? value : most;
	}
	set_range(least, most, base, width);
}

static inline __attribute__((always_inline)) void pack_column(struct sample_block *block, const struct sample_point *points, enum column column)
{
	uint8_t *to = block->bytes + block->starts[column];
	uint64_t base = block->base[column];
#define PACK(width) for (size_t i = 0; i < SAMPLES_A_BLOCK; i++) { \
		uint64_t above = value_of(&points[i], column) - base; \
		memcpy(to + i * (width), &above, width); }
	if (block->width[column] > 0)
		EACH_WIDTH(block->width[column], PACK);
#undef PACK
}

// `in_order`, `of_one_weight`: what the points are known to be.
static struct sample_block *pack(const struct sample_point *points, bool in_order, bool of_one_weight)
{
	struct sample_block head = { 0 };
	size_t bytes = 0;
	if (in_order)
		set_range(points[0].time_ns, points[SAMPLES_A_BLOCK - 1].time_ns, &head.base[COLUMN_TIME], &head.width[COLUMN_TIME]);
	else
		find_range(points, COLUMN_TIME, &head.base[COLUMN_TIME], &head.width[COLUMN_TIME]);
	if (of_one_weight)
		set_range(points->weight, points->weight, &head.base[COLUMN_WEIGHT], &head.width[COLUMN_WEIGHT]);
	else
		find_range(points, COLUMN_WEIGHT, &head.base[COLUMN_WEIGHT], &head.width[COLUMN_WEIGHT]);
	find_range(points, COLUMN_STACK, &head.base[COLUMN_STACK], &head.width[COLUMN_STACK]);
	find_range(points, COLUMN_CONTEXT, &head.base[COLUMN_CONTEXT], &head.width[COLUMN_CONTEXT]);
	for (size_t c = 0; c < COLUMNS; c++) {
		head.starts[c] = (uint32_t)bytes;
		bytes += (size_t)head.width[c] * SAMPLES_A_BLOCK;
	}
	head.size = (uint32_t)((sizeof(head) + bytes + READ_AHEAD + 7) & ~(size_t)7);
	struct sample_block *block = mem_alloc(head.size);
	*block = head;
	memset(block->bytes + bytes, 0, head.size - sizeof(head) - bytes);
#define PACK_COLUMN(column) pack_column(block, points, column)
	EACH_COLUMN(PACK_COLUMN);
#undef PACK_COLUMN
	return block;
}

static inline uint64_t unpack_value(const struct sample_block *block, enum column column, size_t index)
{
	uint8_t width = block->width[column];
	if (width == 0)
		return block->base[column];
	uint64_t word;
	memcpy(&word, block->bytes + block->starts[column] + index * width, sizeof(word));
	return block->base[column] + (word & (UINT64_MAX >> (64 - 8 * width)));
}

static struct sample_point unpack(const struct sample_block *block, size_t index)
{
	return (struct sample_point){ .time_ns = unpack_value(block, COLUMN_TIME, index), .weight = unpack_value(block, COLUMN_WEIGHT, index),
	                              .stack = (uint32_t)unpack_value(block, COLUMN_STACK, index),
	                              .context = (uint32_t)unpack_value(block, COLUMN_CONTEXT, index) };
}

// ---------------------------------------------------------------- blocks in memory and in a file

// What is set down is not looked at: it would come into memory all at once.
static void free_block(const struct samples *samples, struct sample_block *block)
{
	if (!spill_holds(&samples->spill, block))
		free(block);
}

// All blocks that are in memory become a segment. Where that fails they stay.
static void set_down(struct samples *samples)
{
	struct spill *spill = &samples->spill;
	struct sample_block **blocks = samples->blocks.data + samples->set_down;
	size_t count = samples->blocks.count - samples->set_down;
	struct iovec *pieces = mem_alloc(count * sizeof(*pieces));
	for (size_t i = 0; i < count; i++) {
		blocks[i]->segment = (uint32_t)spill->segments.count + 1;
		blocks[i]->is_first = i == 0;
		pieces[i] = (struct iovec){ .iov_base = blocks[i], .iov_len = blocks[i]->size };
	}
	const uint8_t *at = spill_write(spill, pieces, count) ? spill_map(spill) : NULL;
	free(pieces);
	for (size_t i = 0; i < count; i++) {
		size_t size = blocks[i]->size;
		blocks[i]->segment = 0;
		if (at == NULL)
			continue;
		free(blocks[i]);
		blocks[i] = (struct sample_block *)(uintptr_t)at; // read-only: nobody writes to a block that is packed
		at += size;
	}
	samples->set_down = samples->blocks.count;
	samples->bytes = 0;
}

static void add_block(struct samples *samples, struct sample_block *block)
{
	vec_push(&samples->blocks, block);
	samples->bytes += block->size;
	if (samples->bytes > (samples->most_bytes > 0 ? samples->most_bytes : SAMPLES_BYTES_MOST) && !samples->spill.has_failed)
		set_down(samples);
}

// Who reads from front to back needs the segment before no longer.
static inline void passed(const struct samples *samples, const struct sample_block *block)
{
	if (block->is_first && block->segment > 1)
		spill_drop(&samples->spill, block->segment - 2);
}

void samples_release(struct samples *samples)
{
	for (size_t i = 0; i < samples->blocks.count; i++)
		free_block(samples, samples->blocks.data[i]);
	spill_release(&samples->spill);
	vec_release(&samples->blocks);
	vec_release(&samples->contexts);
	free(samples->open);
	if (samples->has_ids)
		intern_release(&samples->context_ids);
	*samples = (struct samples){ 0 };
}

uint32_t samples_context(struct samples *samples, const struct sample_context *context)
{
	uint64_t mixed = hash_u64((uint64_t)(uint32_t)context->tid << 32 | context->cpu << 16 | (uint32_t)context->is_kernel << 15 |
	                          (uint32_t)context->end << 8 | context->event);
	uint32_t *near = &samples->near[mixed % SAMPLE_CONTEXTS_NEAR];
	if (*near != 0 && memcmp(&samples->contexts.data[*near - 1], context, sizeof(*context)) == 0)
		return *near - 1;
	if (!samples->has_ids) {
		intern_init(&samples->context_ids);
		samples->has_ids = true;
	}
	uint32_t id = intern_bytes(&samples->context_ids, (const char *)context, sizeof(*context)) - 1;
	if (id == samples->contexts.count)
		vec_push(&samples->contexts, *context);
	*near = id + 1;
	return id;
}

struct sample_point *samples_room(struct samples *samples, size_t *room)
{
	if (samples->open == NULL)
		samples->open = mem_alloc(SAMPLES_A_BLOCK * sizeof(*samples->open));
	*room = SAMPLES_A_BLOCK - samples->count % SAMPLES_A_BLOCK;
	return samples->open + samples->count % SAMPLES_A_BLOCK;
}

void samples_filled(struct samples *samples, size_t count)
{
	if (count == 0)
		return;
	const struct sample_point *points = samples->open + samples->count % SAMPLES_A_BLOCK;
	uint64_t newest_ns = samples->newest_ns, weight = samples->count > 0 ? samples->a_weight : points->weight;
	bool is_out_of_order = false, weights_differ = false;
	for (size_t i = 0; i < count; i++) {
		is_out_of_order |= points[i].time_ns < newest_ns;
		weights_differ |= points[i].weight != weight;
		newest_ns = points[i].time_ns;
	}
	samples->is_out_of_order |= is_out_of_order;
	samples->weights_differ |= weights_differ;
	samples->newest_ns = newest_ns;
	samples->a_weight = weight;
	samples->count += count;
	if (samples->count % SAMPLES_A_BLOCK == 0)
		add_block(samples, pack(samples->open, !samples->is_out_of_order, !samples->weights_differ));
}

void samples_add_points(struct samples *samples, const struct sample_point *points, size_t count)
{
	for (size_t room, some; count > 0; points += some, count -= some) {
		struct sample_point *to = samples_room(samples, &room);
		some = count < room ? count : room;
		memcpy(to, points, some * sizeof(*points));
		samples_filled(samples, some);
	}
}

static struct sample_point point_of(struct samples *samples, const struct profile_sample *s)
{
	struct sample_context context = { .pid = s->pid, .tid = s->tid, .cpu = s->cpu, .comm = s->comm, .event = s->event, .end = s->end,
	                                  .splice = s->splice, .comb = s->comb, .is_kernel = s->is_kernel, .is_idle = s->is_idle };
	return (struct sample_point){ .time_ns = s->time_ns, .weight = s->weight, .stack = s->stack, .context = samples_context(samples, &context) };
}

void samples_add(struct samples *samples, const struct profile_sample *sample)
{
	struct sample_point point = point_of(samples, sample);
	samples_add_points(samples, &point, 1);
}

static struct sample_point point_at(const struct samples *samples, size_t index)
{
	size_t block = index / SAMPLES_A_BLOCK, at = index % SAMPLES_A_BLOCK;
	if (block >= samples->blocks.count)
		return samples->open[at];
	if (at == 0)
		passed(samples, samples->blocks.data[block]);
	return unpack(samples->blocks.data[block], at);
}

struct profile_sample samples_row(const struct samples *samples, const struct sample_point *point)
{
	const struct sample_context *c = &samples->contexts.data[point->context];
	return (struct profile_sample){ .time_ns = point->time_ns, .weight = point->weight, .pid = c->pid, .tid = c->tid, .cpu = c->cpu, .comm = c->comm,
	                                .event = c->event, .stack = point->stack, .end = c->end, .splice = c->splice, .comb = c->comb,
	                                .is_kernel = c->is_kernel != 0, .is_idle = c->is_idle != 0 };
}

const struct profile_sample *samples_get(const struct samples *samples, size_t index, struct profile_sample *out)
{
	struct sample_point point = point_at(samples, index);
	*out = samples_row(samples, &point);
	return out;
}

static inline __attribute__((always_inline)) void unpack_column(const struct sample_block *block, enum column column, size_t first,
                                                                struct sample_point *out, size_t count)
{
	uint8_t own_width = block->width[column];
	const uint8_t *from = block->bytes + block->starts[column] + first * own_width;
	uint64_t base = block->base[column];
#define UNPACK(width) for (size_t i = 0; i < count; i++) { \
		uint64_t word; \
		memcpy(&word, from + i * (width), sizeof(word)); \
		set_value(&out[i], column, base + (word & (UINT64_MAX >> (64 - 8 * (width))))); }
	if (own_width == 0)
		for (size_t i = 0; i < count; i++)
			set_value(&out[i], column, base);
	else
		EACH_WIDTH(own_width, UNPACK);
#undef UNPACK
}

size_t samples_points(const struct samples *samples, size_t first, struct sample_point *out, size_t capacity)
{
	if (first >= samples->count)
		return 0;
	size_t block = first / SAMPLES_A_BLOCK, at = first % SAMPLES_A_BLOCK, count = SAMPLES_A_BLOCK - at;
	if (count > samples->count - first)
		count = samples->count - first;
	if (count > capacity)
		count = capacity;
	if (block >= samples->blocks.count) {
		memcpy(out, samples->open + at, count * sizeof(*out));
		return count;
	}
	if (at == 0)
		passed(samples, samples->blocks.data[block]);
#define UNPACK_COLUMN(column) unpack_column(samples->blocks.data[block], column, at, out, count)
	EACH_COLUMN(UNPACK_COLUMN);
#undef UNPACK_COLUMN
	return count;
}

// ---------------------------------------------------------------- changes

void samples_edit(struct samples *samples, samples_edit_fn *edit, void *context)
{
	struct samples old = *samples;
	struct sample_point *points = mem_alloc(SAMPLES_A_BLOCK * sizeof(*points));
	*samples = (struct samples){ .most_bytes = old.most_bytes };
	for (size_t first = 0, count; (count = samples_points(&old, first, points, SAMPLES_A_BLOCK)) > 0; first += count) {
		if (first / SAMPLES_A_BLOCK < old.blocks.count) {
			free_block(&old, old.blocks.data[first / SAMPLES_A_BLOCK]);
			old.blocks.data[first / SAMPLES_A_BLOCK] = NULL;
		}
		for (size_t i = 0; i < count; i++) {
			struct profile_sample row = samples_row(&old, &points[i]);
			edit(context, &row);
			samples_add(samples, &row);
		}
	}
	samples_release(&old);
	free(points);
}

// Block by block as samples_edit(), but nothing is looked up, and contexts keep their ids.
void samples_recontext(struct samples *samples, samples_recontext_fn *choose, void *context)
{
	struct samples old = *samples;
	struct sample_point *points = mem_alloc(SAMPLES_A_BLOCK * sizeof(*points));
	memset(&samples->blocks, 0, sizeof(samples->blocks));
	samples->spill = (struct spill){ 0 };
	samples->set_down = samples->bytes = 0;
	for (size_t first = 0, count; (count = samples_points(&old, first, points, SAMPLES_A_BLOCK)) > 0; first += count) {
		for (size_t i = 0; i < count; i++)
			points[i].context = choose(context, &points[i]);
		if (first / SAMPLES_A_BLOCK < old.blocks.count) {
			free_block(&old, old.blocks.data[first / SAMPLES_A_BLOCK]);
			old.blocks.data[first / SAMPLES_A_BLOCK] = NULL;
			add_block(samples, pack(points, false, false));
		} else {
			memcpy(samples->open, points, count * sizeof(*points));
		}
	}
	vec_release(&old.blocks);
	spill_release(&old.spill);
	free(points);
}

void samples_set(struct samples *samples, size_t index, const struct profile_sample *sample)
{
	samples->weights_differ |= sample->weight != samples->a_weight;
	samples->is_out_of_order = true; // perhaps
	if (index / SAMPLES_A_BLOCK >= samples->blocks.count) {
		samples->open[index % SAMPLES_A_BLOCK] = point_of(samples, sample);
		return;
	}
	struct sample_block **block = &samples->blocks.data[index / SAMPLES_A_BLOCK];
	struct sample_point *points = mem_alloc(SAMPLES_A_BLOCK * sizeof(*points));
	samples_points(samples, index / SAMPLES_A_BLOCK * SAMPLES_A_BLOCK, points, SAMPLES_A_BLOCK);
	points[index % SAMPLES_A_BLOCK] = point_of(samples, sample);
	free_block(samples, *block);
	*block = pack(points, false, false);
	free(points);
}

void samples_truncate(struct samples *samples, size_t count)
{
	if (count >= samples->count)
		return;
	size_t block = count / SAMPLES_A_BLOCK, rest = count % SAMPLES_A_BLOCK;
	if (block < samples->blocks.count && rest > 0)
		samples_points(samples, block * SAMPLES_A_BLOCK, samples->open, rest);
	while (samples->blocks.count > block)
		free_block(samples, samples->blocks.data[--samples->blocks.count]);
	if (samples->set_down > samples->blocks.count)
		samples->set_down = samples->blocks.count;
	if (samples->blocks.count == 0)
		spill_release(&samples->spill);
	samples->bytes = 0;
	for (size_t i = samples->set_down; i < samples->blocks.count; i++)
		samples->bytes += samples->blocks.data[i]->size;
	samples->count = count;
}

static int by_time(const void *a, const void *b)
{
	const struct sample_point *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void samples_sort(struct samples *samples)
{
	size_t count = samples->count;
	if (!samples->is_out_of_order)
		return;
	struct sample_point *points = mem_alloc(count * sizeof(*points));
	for (size_t first = 0, some; (some = samples_points(samples, first, points + first, count - first)) > 0; first += some)
		;
	sort_stable(points, count, sizeof(*points), by_time);
	samples_truncate(samples, 0);
	samples->is_out_of_order = false;
	samples->newest_ns = 0;
	samples_add_points(samples, points, count);
	free(points);
}
