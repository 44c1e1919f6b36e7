#include "record/aside.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/sample.h"

void aside_init(struct aside *aside, size_t capacity)
{
	*aside = (struct aside){ .capacity = capacity / 8 * 8 };
}

static struct aside_entry *at(const struct aside *aside, size_t offset)
{
	return (struct aside_entry *)(void *)(aside->block + offset);
}

// Steps over done entries at the tail, giving their memory back.
static void reclaim(struct aside *aside)
{
	while (aside->used > 0) {
		if (aside->capacity - aside->tail < sizeof(struct aside_entry)) { // too little for an entry: skipped when the head went around
			aside->used -= aside->capacity - aside->tail;
			aside->tail = 0;
			continue;
		}
		struct aside_entry *entry = at(aside, aside->tail);
		if (!entry->is_done)
			return;
		aside->used -= entry->bytes;
		aside->tail += entry->bytes;
		if (aside->tail == aside->capacity)
			aside->tail = 0;
	}
	aside->head = aside->tail = 0;
}

// Room for `bytes` in one piece, or NULL.
static struct aside_entry *take_room(struct aside *aside, size_t bytes)
{
	if (aside->used > 0 && aside->head <= aside->tail) { // went around already
		if (aside->tail - aside->head < bytes)
			return NULL;
	} else if (aside->capacity - aside->head < bytes) {
		size_t rest = aside->capacity - aside->head;
		if (aside->tail < bytes)
			return NULL;
		if (rest >= sizeof(struct aside_entry))
			*at(aside, aside->head) = (struct aside_entry){ .bytes = (uint32_t)rest, .is_done = true };
		aside->used += rest;
		aside->head = 0;
	}
	struct aside_entry *entry = at(aside, aside->head);
	aside->head += bytes;
	aside->used += bytes;
	if (aside->head == aside->capacity)
		aside->head = 0;
	return entry;
}

enum aside_result aside_add(struct aside *aside, const struct record *record, uint64_t keep, struct maps *maps, uint32_t event,
                            uint64_t now_ns)
{
	if (aside->block == NULL)
		aside->block = mem_alloc(aside->capacity);
	uint64_t valid = record->sample.stack.dyn_size;
	if (keep > valid)
		keep = valid;
	reclaim(aside); // a pass does away with samples and brings new ones
	uint64_t most = aside->used > aside->capacity / 4 * 3 ? 2048 : aside->used > aside->capacity / 2 ? 8192 : keep;
	bool shorten = keep > most;
	buf_clear(&aside->scratch);
	sample_copy_trimmed(&aside->scratch, record, shorten ? most : keep);
	size_t bytes = (sizeof(struct aside_entry) + aside->scratch.size + 7) / 8 * 8;
	struct aside_entry *entry = take_room(aside, bytes);
	if (entry == NULL)
		return ASIDE_FULL;
	*entry = (struct aside_entry){
		.bytes = (uint32_t)bytes, .event = event, .time_ns = record->id.time_ns, .since_ns = now_ns,
		.maps = maps_retain(maps), .is_shortened = shorten,
		.asked = keep == valid && !shorten ? (uint32_t)record->sample.stack.size : 0,
	};
	memcpy(entry->record, aside->scratch.data, aside->scratch.size);
	aside->waiting++;
	return shorten ? ASIDE_SHORTENED : ASIDE_TAKEN;
}

static struct aside_entry *from(struct aside *aside, size_t offset, size_t left)
{
	while (left > 0) {
		if (aside->capacity - offset < sizeof(struct aside_entry)) {
			left -= aside->capacity - offset;
			offset = 0;
			continue;
		}
		struct aside_entry *entry = at(aside, offset);
		if (!entry->is_done)
			return entry;
		left -= entry->bytes;
		offset += entry->bytes;
		if (offset == aside->capacity)
			offset = 0;
	}
	return NULL;
}

struct aside_entry *aside_first(struct aside *aside)
{
	return aside->waiting > 0 ? from(aside, aside->tail, aside->used) : NULL;
}

struct aside_entry *aside_next(struct aside *aside, struct aside_entry *entry)
{
	size_t offset = (size_t)((uint8_t *)entry - aside->block);
	size_t passed = (offset >= aside->tail ? offset - aside->tail : aside->capacity - aside->tail + offset) + entry->bytes;
	offset += entry->bytes;
	if (offset == aside->capacity)
		offset = 0;
	return from(aside, offset, aside->used - passed);
}

// Memory is given back at the next aside_add or aside_oldest_ns, so that a walk by aside_next may mark entries done.
void aside_done(struct aside *aside, struct aside_entry *entry)
{
	maps_release(entry->maps);
	entry->maps = NULL;
	entry->is_done = true;
	aside->waiting--;
}

uint64_t aside_oldest_ns(struct aside *aside)
{
	reclaim(aside);
	uint64_t oldest = UINT64_MAX;
	// Entries stand in the order they were handed on, which is that of time but for records that came late: look at a few.
	struct aside_entry *entry = aside_first(aside);
	for (int i = 0; entry != NULL && i < 64; i++, entry = aside_next(aside, entry))
		if (entry->time_ns < oldest)
			oldest = entry->time_ns;
	return oldest;
}

void aside_release(struct aside *aside)
{
	for (struct aside_entry *entry = aside_first(aside); entry != NULL; entry = aside_next(aside, entry))
		aside_done(aside, entry);
	free(aside->block);
	buf_release(&aside->scratch);
	*aside = (struct aside){ 0 };
}
