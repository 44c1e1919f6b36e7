// The queue of samples that wait: order, bounds, pressure, reuse of the block.
#include "record/aside.h"

#include "base/mem.h"
#include "tests/tap.h"

enum { STACK = 4096 };
static struct maps *maps;

static void make_sample(struct buf *out, uint64_t time_ns)
{
	struct perf_event_header header = { .type = PERF_RECORD_SAMPLE };
	buf_clear(out);
	buf_add(out, &header, sizeof(header));
	buf_u64(out, time_ns);
	buf_u64(out, STACK);
	for (int i = 0; i < STACK; i++)
		buf_byte(out, (uint8_t)(time_ns + (uint64_t)i));
	buf_u64(out, STACK);
	((struct perf_event_header *)(void *)out->data)->size = (uint16_t)out->size;
}

static void layout_of(struct record_layout *layout)
{
	struct perf_event_attr attr = { .sample_type = PERF_SAMPLE_TIME | PERF_SAMPLE_STACK_USER, .sample_stack_user = STACK };
	record_layout_init(layout, &attr, false);
}

static enum aside_result add(struct aside *aside, uint64_t time_ns, uint64_t keep)
{
	struct buf bytes = { 0 };
	struct record record;
	struct record_layout layout;
	layout_of(&layout);
	make_sample(&bytes, time_ns);
	bool good = record_decode(&layout, bytes.data, bytes.size, &record, NULL);
	enum aside_result result = good ? aside_add(aside, &record, keep, maps, 0, time_ns) : ASIDE_FULL;
	buf_release(&bytes);
	return result;
}

static bool is_intact(struct aside_entry *entry, uint64_t keep)
{
	struct record record;
	struct record_layout layout;
	layout_of(&layout);
	const struct perf_event_header *header = (const void *)entry->record;
	if (!record_decode(&layout, entry->record, header->size, &record, NULL) || record.sample.stack.size != keep)
		return false;
	for (uint64_t i = 0; i < keep; i++)
		if (record.sample.stack.bytes[i] != (uint8_t)(entry->time_ns + i))
			return false;
	return true;
}

static void in_and_out(void)
{
	struct aside aside;
	aside_init(&aside, 1 << 16);
	is_u64(aside_oldest_ns(&aside), UINT64_MAX, "nothing waits");
	for (uint64_t t = 1; t <= 3; t++)
		ok(add(&aside, 100 * t, 512) == ASIDE_TAKEN, "sample %d", (int)t);
	is_u64(maps->references, 4, "each retains its maps");
	is_u64(aside_oldest_ns(&aside), 100, "the first is the oldest");
	struct aside_entry *first = aside_first(&aside), *second = aside_next(&aside, first);
	ok(second != NULL && second->time_ns == 200 && is_intact(first, 512) && is_intact(second, 512), "walked in order, bytes whole");
	aside_done(&aside, second);
	is_u64(aside_oldest_ns(&aside), 100, "the middle one is done, the first still waits");
	aside_done(&aside, first);
	is_u64(aside_oldest_ns(&aside), 300, "now the third");
	is_u64(maps->references, 2, "maps were given back");
	aside_release(&aside);
	is_u64(maps->references, 1, "also by the end");
}

static void pressure(void)
{
	struct aside aside;
	aside_init(&aside, 64 * 1024);
	int taken = 0, shortened = 0;
	enum aside_result result;
	for (uint64_t t = 1; (result = add(&aside, t, STACK)) != ASIDE_FULL && t < 1000; t++) {
		taken += result == ASIDE_TAKEN;
		shortened += result == ASIDE_SHORTENED;
	}
	ok(result == ASIDE_FULL && taken > 0 && shortened > 0, "first whole (%d), then shortened (%d), then refused", taken, shortened);
	int intact = 0, walked = 0;
	for (struct aside_entry *entry = aside_first(&aside); entry != NULL; entry = aside_next(&aside, entry), walked++)
		intact += is_intact(entry, entry->is_shortened ? 2048 : STACK);
	is_u64(walked, taken + shortened, "all are there");
	is_u64(intact, taken + shortened, "and whole");
	aside_release(&aside);
}

// A long life with few at a time goes around the block many times.
static void around(void)
{
	struct aside aside;
	uint64_t next_out = 1, failed = 0;
	aside_init(&aside, 20000);
	for (uint64_t t = 1; t <= 5000; t++) {
		if (add(&aside, t, 64 + t * 37 % 900 / 8 * 8) == ASIDE_FULL)
			failed++;
		if (t >= 5) {
			struct aside_entry *entry = aside_first(&aside);
			if (entry == NULL || entry->time_ns != next_out || !is_intact(entry, 64 + next_out * 37 % 900 / 8 * 8))
				failed++;
			else
				aside_done(&aside, entry);
			(void)aside_oldest_ns(&aside);
			next_out++;
		}
	}
	is_u64(failed, 0, "5,000 samples through a block of 20,000 bytes");
	is_u64(aside.waiting, 4, "four are left");
	aside_release(&aside);
	is_u64(maps->references, 1, "all maps were given back");
}

// A pass tries again what waits, and then brings more, before it asks what is the oldest.
static void is_given_back_in_a_pass(void)
{
	struct aside aside;
	unsigned whole[3] = { 0 };
	aside_init(&aside, 1 << 18);
	for (unsigned pass = 0; pass < 3; pass++) {
		for (struct aside_entry *entry = aside_first(&aside); entry != NULL; entry = aside_next(&aside, entry))
			aside_done(&aside, entry);
		for (uint64_t i = 0; i < 30; i++)
			whole[pass] += add(&aside, 100 * pass + i, STACK) == ASIDE_TAKEN;
	}
	is_u64(whole[0], 30, "a first pass fits, half of the block");
	is_u64(whole[1], 30, "and a second one, where the first was");
	is_u64(whole[2], 30, "and a third");
	for (struct aside_entry *entry = aside_first(&aside); entry != NULL; entry = aside_next(&aside, entry))
		ok(entry->time_ns >= 200 && is_intact(entry, STACK), "sample %llu is what it was", (unsigned long long)entry->time_ns);
	aside_release(&aside);
}

int main(void)
{
	maps = mem_zero(1, sizeof(*maps));
	maps->references = 1;
	in_and_out();
	pressure();
	around();
	is_given_back_in_a_pass();
	free(maps);
	return tap_done();
}
