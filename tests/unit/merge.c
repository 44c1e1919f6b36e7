// Records of many rings in the order of time.
#include "perf/merge.h"

#include "base/mem.h"
#include "tests/fake_ring.h"
#include "tests/tap.h"

enum { MAX_RINGS = 300 };

struct taken {
	size_t count, per_ring[MAX_RINGS];
	uint64_t last, disorder;
	bool trims;
};

static uint64_t first_word(void *context, size_t ring, const struct perf_event_header *header)
{
	(void)context, (void)ring;
	uint64_t word;
	memcpy(&word, header + 1, sizeof(word));
	return word;
}

static void take(void *context, const struct merge_item *item)
{
	struct taken *taken = context;
	taken->disorder += item->time_ns < taken->last;
	taken->last = item->time_ns;
	taken->count++;
	taken->per_ring[item->ring]++;
	if (taken->trims)
		item->header->size = 8;
}

static void test_order(size_t count)
{
	static struct fake_ring fakes[MAX_RINGS];
	struct ring *rings = mem_zero(count, sizeof(*rings));
	struct merge merge = { 0 };
	struct taken taken = { .trims = true };
	uint64_t time_ns[MAX_RINGS] = { 0 };
	uint32_t random = 7;
	size_t written = 0, handed = 0;
	for (size_t i = 0; i < count; i++) {
		fake_ring_init(&fakes[i], 4096);
		rings[i] = fakes[i].ring;
	}
	for (unsigned pass = 1; pass <= 20; pass++) {
		for (size_t i = 0; i < count; i++)
			for (unsigned n = 0; n < 20; n++) {
				random = random * 1664525 + 1013904223;
				time_ns[i] = time_ns[i] + 1 > (pass - 1) * 1000u ? time_ns[i] + 1 + (random >> 26) : (pass - 1) * 1000u + (random >> 26);
				fake_ring_write(&fakes[i], PERF_RECORD_SAMPLE, 0, time_ns[i], 40);
				written++;
			}
		handed += merge_pass(&merge, rings, count, pass * 1000u - 1, first_word, take, &taken);
	}
	handed += merge_pass(&merge, rings, count, UINT64_MAX, first_word, take, &taken);
	is_u64(handed, written, "%zu rings: every record is handed on", count);
	is_u64(taken.count, written, "once");
	is_u64(taken.disorder, 0, "in the order of time");
	is_u64(merge.late, 0, "none late");
	is_u64(merge.broken, 0, "none broken, though the taker trims them in place");
	for (size_t i = 0; i < count; i++)
		if (rings[i].page->data_tail != rings[i].page->data_head) {
			ok(false, "ring %zu: tail published", i);
			break;
		}
	for (size_t i = 0; i < count; i++)
		fake_ring_release(&fakes[i]);
	free(rings);
}

static void test_horizon(void)
{
	static struct fake_ring fakes[2];
	struct merge merge = { 0 };
	struct taken taken = { 0 };
	fake_ring_init(&fakes[0], 4096);
	fake_ring_init(&fakes[1], 4096);
	fake_ring_write(&fakes[0], 9, 0, 10, 16);
	fake_ring_write(&fakes[0], 9, 0, 30, 16);
	fake_ring_write(&fakes[1], 9, 0, 20, 16);
	struct ring rings[2] = { fakes[0].ring, fakes[1].ring };
	is_u64(merge_pass(&merge, rings, 2, 20, first_word, take, &taken), 2, "up to and with the horizon");
	is_u64(ring_unread(&rings[0]), 16, "the later one stays in its ring");
	fake_ring_write(&fakes[1], 9, 0, 15, 16); // committed after its time was passed
	is_u64(merge_pass(&merge, rings, 2, 40, first_word, take, &taken), 2, "a late record is handed on");
	is_u64(merge.late, 1, "and counted");
	is_u64(taken.last, 30, "then the others");
	fake_ring_write(&fakes[0], 9, 0, 0, 16); // no time of its own
	is_u64(merge_pass(&merge, rings, 2, 40, first_word, take, &taken), 1, "a record without time");
	is_u64(taken.last, 30, "counts as the one before it in its ring");
	((struct perf_event_header *)(void *)(fakes[0].ring.data + 48))->size = 3;
	fake_ring_write(&fakes[0], 9, 0, 50, 16);
	((struct perf_event_header *)(void *)(fakes[0].ring.data + 48))->size = 3;
	is_u64(merge_pass(&merge, rings, 2, UINT64_MAX, first_word, take, &taken), 0, "nonsense is not handed on");
	is_u64(merge.broken, 1, "but counted");
	fake_ring_write(&fakes[0], 9, 0, 60, 16);
	is_u64(merge_pass(&merge, rings, 2, UINT64_MAX, first_word, take, &taken), 1, "and the ring goes on behind it");
	fake_ring_release(&fakes[0]);
	fake_ring_release(&fakes[1]);
}

// A ring that another thread reads ahead: what it has not seen is not handed on, nor what came later in other rings.
static void test_seen(void)
{
	static struct fake_ring fakes[2];
	struct merge merge = { 0 };
	struct taken taken = { 0 };
	uint64_t seen = 16;
	fake_ring_init(&fakes[0], 4096);
	fake_ring_init(&fakes[1], 4096);
	fake_ring_write(&fakes[0], 9, 0, 10, 16);
	fake_ring_write(&fakes[0], 9, 0, 20, 16);
	fake_ring_write(&fakes[1], 9, 0, 15, 16);
	fake_ring_write(&fakes[1], 9, 0, 20, 16);
	fake_ring_write(&fakes[1], 9, 0, 30, 16);
	struct ring rings[2] = { fakes[0].ring, fakes[1].ring };
	rings[0].seen = &seen;
	is_u64(merge_pass(&merge, rings, 2, 40, first_word, take, &taken), 2, "what is older than the first record not seen");
	is_u64(taken.last, 15, "of any ring");
	is_u64(merge.reached_ns, 19, "how far that is");
	seen = 32;
	is_u64(merge_pass(&merge, rings, 2, 40, first_word, take, &taken), 3, "the rest, once it is seen");
	is_u64(merge.reached_ns, 40, "up to the horizon");
	is_u64(merge.late + taken.disorder, 0, "in the order of time");
	fake_ring_write(&fakes[0], 9, 0, 35, 16); // committed late
	fake_ring_write(&fakes[1], 9, 0, 50, 16);
	is_u64(merge_pass(&merge, rings, 2, 60, first_word, take, &taken), 0, "a late one that is not seen holds back the same");
	is_u64(merge.reached_ns, 40, "and takes nothing back");
	rings[0].seen = NULL;
	is_u64(merge_pass(&merge, rings, 2, UINT64_MAX, first_word, take, &taken), 2, "who reads ahead has stopped: all");
	fake_ring_release(&fakes[0]);
	fake_ring_release(&fakes[1]);
}

// Who keeps records until they have to be settled finds them as they were, in memory that the kernel does not have back yet.
enum { KEPT_MOST = 16 };
struct keeper {
	struct ring *rings;
	struct { struct merge_item item; uint64_t end; } kept[KEPT_MOST];
	uint64_t seen[2]; // bytes of each ring
	size_t count, settled, changed, given_back;
};

static void settle(void *context)
{
	struct keeper *keeper = context;
	for (size_t i = 0; i < keeper->count; i++) {
		const struct merge_item *item = &keeper->kept[i].item;
		uint64_t last = 0;
		memcpy(&last, (const uint8_t *)item->header + item->header->size - 8, sizeof(last));
		keeper->changed += first_word(NULL, item->ring, item->header) != item->time_ns || last != item->time_ns + item->header->size / 8 - 2;
		keeper->given_back += keeper->rings[item->ring].page->data_tail >= keeper->kept[i].end;
		keeper->settled++;
	}
	keeper->count = 0;
}

static void keep(void *context, const struct merge_item *item)
{
	struct keeper *keeper = context;
	keeper->seen[item->ring] += item->header->size;
	keeper->kept[keeper->count].item = *item;
	keeper->kept[keeper->count++].end = keeper->seen[item->ring];
	if (keeper->count == KEPT_MOST)
		settle(keeper);
}

static void test_settling(void)
{
	static struct fake_ring fakes[2];
	struct merge merge = { .settle = settle };
	size_t written = 0, wrapped = 0;
	fake_ring_init(&fakes[0], 4096);
	fake_ring_init(&fakes[1], 4096);
	struct ring rings[2] = { fakes[0].ring, fakes[1].ring };
	struct keeper keeper = { .rings = rings };
	for (uint64_t pass = 1; pass <= 50; pass++) {
		for (size_t r = 0; r < 2; r++) {
			for (unsigned n = 0; n < 11; n++, written++) // most of the ring: some room is given back on the way
				fake_ring_write(&fakes[r], 9, 0, pass * 1000 + 2 * n + r, 360);
			wrapped += rings[r].page->data_head / 4096 > (rings[r].page->data_head - 11 * 360) / 4096 && rings[r].page->data_head % 4096 % 360 != 0;
		}
		merge_pass(&merge, rings, 2, UINT64_MAX, first_word, keep, &keeper);
		if (keeper.count > 0)
			break;
	}
	is_u64(keeper.settled, written, "every record that was kept is settled");
	ok(wrapped > 50, "many of them wrap around (%zu)", wrapped);
	is_u64(keeper.changed, 0, "they are as they were");
	is_u64(keeper.given_back, 0, "and the kernel does not have their memory yet");
	fake_ring_release(&fakes[0]);
	fake_ring_release(&fakes[1]);
}

int main(void)
{
	test_order(1);
	test_order(2);
	test_order(7);
	test_order(MAX_RINGS);
	test_horizon();
	test_seen();
	test_settling();
	return tap_done();
}
