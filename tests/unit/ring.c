// Records that wrap around a ring's end, and rings that make no sense.
#include "perf/ring.h"

#include "tests/fake_ring.h"
#include "tests/tap.h"

static void test_wrap(void)
{
	struct fake_ring fake;
	fake_ring_init(&fake, 4096);
	unsigned good = 0, wrapped = 0;
	for (unsigned i = 0; i < 500; i++) { // 504-byte records pass the end of 4096 at every offset
		fake_ring_write(&fake, 100, 0, i, 504);
		ring_snapshot(&fake.ring);
		bool broken;
		struct perf_event_header *header = ring_peek(&fake.ring, &broken);
		if (header == NULL || broken)
			break;
		wrapped += (void *)header == (void *)fake.ring.wrapped;
		const uint64_t *words = (const uint64_t *)(const void *)(header + 1);
		bool same = header->size == 504 && words[0] == i;
		for (unsigned w = 1; w < 62; w++)
			same &= words[w] == i + w;
		good += same && ring_peek(&fake.ring, &broken) == header;
		ring_advance(&fake.ring, header);
		ring_release_read(&fake.ring);
	}
	is_u64(good, 500, "500 records of 504 bytes through 4096: each whole");
	ok(wrapped > 20, "%u of them wrapped", wrapped);
	is_u64(fake.ring.page->data_tail, 500 * 504, "the tail is given back");
	bool broken = true;
	ring_snapshot(&fake.ring);
	ok(ring_peek(&fake.ring, &broken) == NULL && !broken, "empty: NULL, not broken");
	fake_ring_release(&fake);
}

static void bad(const char *what, uint16_t size, uint64_t head)
{
	struct fake_ring fake;
	fake_ring_init(&fake, 4096);
	fake_ring_write(&fake, 100, 0, 1, 64);
	((struct perf_event_header *)(void *)fake.ring.data)->size = size;
	if (head != 0)
		fake.ring.page->data_head = head;
	ring_snapshot(&fake.ring);
	bool broken = false;
	ok(ring_peek(&fake.ring, &broken) == NULL && broken, "%s: broken", what);
	is_u64(fake.ring.tail, fake.ring.head, "and the tail is at the head");
	fake_ring_release(&fake);
}

int main(void)
{
	test_wrap();
	bad("size 0", 0, 0);
	bad("size 7", 7, 0);
	bad("size not a multiple of 8", 61, 0);
	bad("size past the head", 72, 0);
	bad("head a ring and more ahead", 64, 5000);
	bad("head inside a header", 64, 4);
	struct ring ring;
	struct err err = { 0 };
	ok(!ring_map(&ring, -1, 0, 5000, &err) && err.status == STATUS_USAGE, "a size that is no power of two: %s", err.text);
	ok(!ring_map(&ring, -1, 0, 4096, &err) && err.status == STATUS_HOST, "no fd: %s", err.text);
	ring_unmap(&ring);
	return tap_done();
}
