// Rings that stand still are told from rings that are full, idle, or short of tasks with a whole period.
#include "record/stuck.h"

#include "tests/fake_ring.h"
#include "tests/tap.h"

static const uint64_t SECOND_NS = 1000000000;

// A pass: all there is has been read.
static void pass(struct fake_ring *fake, uint64_t time_ns)
{
	ring_snapshot(&fake->ring);
	if (fake->ring.head > fake->ring.tail)
		fake->ring.last_time_ns = time_ns;
	fake->ring.tail = fake->ring.head;
	ring_release_read(&fake->ring);
}

static bool look(struct stuck *stuck, struct fake_ring *fake, unsigned second, double due, uint64_t lost, double spare, struct stuck_span *span)
{
	return stuck_look(stuck, 0, &fake->ring, &(struct stuck_counters){ second * SECOND_NS, lost, due, spare }, span);
}

static void test_loss(void)
{
	struct fake_ring fake;
	struct stuck stuck = { 0 };
	struct stuck_span span;
	fake_ring_init(&fake, 4096);
	fake.ring.cpu = 3;
	stuck_reset(&stuck, 1, 0);
	fake_ring_write(&fake, 9, 0, 0, 64);
	pass(&fake, SECOND_NS / 2);
	ok(!look(&stuck, &fake, 1, 700, 0, 1, &span), "it moves");
	fake_ring_write(&fake, 9, 0, 0, 64);
	pass(&fake, 3 * SECOND_NS / 2);
	ok(!look(&stuck, &fake, 2, 1400, 40, 1, &span), "full for a while, and read again: lost, not stuck");
	pass(&fake, 0);
	ok(!look(&stuck, &fake, 3, 1450, 40, 1, &span), "nothing ran to speak of");
	ok(look(&stuck, &fake, 4, 1460, 41, 1, &span), "one was lost, of a ring that was read to its head");
	ok(span.from_ns == 3 * SECOND_NS / 2 && span.to_ns == 4 * SECOND_NS && span.lost == 1 && span.cpu == 3 && !span.was_empty,
	   "since its last record, with what was lost since then");
	ok(look(&stuck, &fake, 5, 2200, 640, 1, &span) && span.from_ns == 3 * SECOND_NS / 2 && span.lost == 600, "and still does");
	fake_ring_write(&fake, 9, 0, 0, 64);
	ok(!look(&stuck, &fake, 6, 3000, 800, 1, &span), "records that wait to be read: it moves");
	pass(&fake, 6 * SECOND_NS);
	ok(!look(&stuck, &fake, 7, 3000, 800, 1, &span), "what was lost before is no loss since");
	stuck_release(&stuck);
	fake_ring_release(&fake);
}

static void test_due(void)
{
	struct fake_ring fake;
	struct stuck stuck = { 0 };
	struct stuck_span span;
	fake_ring_init(&fake, 4096);
	stuck_reset(&stuck, 1, 7);
	ok(!look(&stuck, &fake, 1, STUCK_PERIODS, 0, 1, &span), "a hundred periods");
	ok(look(&stuck, &fake, 2, STUCK_PERIODS + 2, 0, 1, &span), "more than that were due, and no record ever came");
	ok(span.was_empty && span.from_ns == 7 && span.lost == 0, "since it was opened");
	ok(!look(&stuck, &fake, 2, 5000, 0, 6000, &span), "6,000 tasks may owe 5,000 samples");
	ok(!look(&stuck, &fake, 3, -1, 0, 1, &span), "where it is not known what was due, that tells nothing");
	ok(look(&stuck, &fake, 4, -1, 5, 1, &span), "what was lost does");
	stuck.places.data[0].due = -1;
	ok(!look(&stuck, &fake, 4, 5000, 0, 1, &span), "nor where it was not known before");
	fake.ring.tail = 64; // a reader ahead of us holds something back
	ok(!look(&stuck, &fake, 5, -1, 9, 1, &span), "not while something is to be read");
	stuck_reset(&stuck, 1, 5 * SECOND_NS);
	fake.ring.tail = 0;
	ok(!look(&stuck, &fake, 6, 20, 0, 1, &span), "opened again: counters begin anew");
	stuck_release(&stuck);
	fake_ring_release(&fake);
}

static void test_text(void)
{
	struct buf text = { 0 };
	struct stuck_span spans[5];
	for (unsigned i = 0; i < 5; i++)
		spans[i] = (struct stuck_span){ .from_ns = (2 * i + 1) * SECOND_NS, .to_ns = (2 * i + 2) * SECOND_NS, .lost = 100, .cpu = i == 1 ? UINT32_MAX : i };
	stuck_text(spans, 0, 0, &text);
	is_u64(text.size, 0, "nothing to say");
	stuck_text(spans, 1, SECOND_NS / 2, &text);
	is_str(buf_text(&text), "a ring of the kernel stood still from +0.5 s to +1.5 s (CPU 0): its events ran, no record came, and 100 samples are known to be lost; "
	       "they were closed and opened again", "once");
	buf_clear(&text);
	stuck_text(spans, 5, 0, &text);
	ok(strstr(buf_text(&text), ", from +3.0 s to +4.0 s, from +5.0 s to +6.0 s (CPU 2) and 2 times more: ") != NULL && strstr(buf_text(&text), " 500 samples") != NULL,
	   "several times: %s", buf_text(&text));
	spans[4].to_the_end = true;
	buf_clear(&text);
	stuck_text(spans, 5, 0, &text);
	ok(strstr(buf_text(&text), "; but for the last time they were closed and opened again") != NULL, "the last one lasts to the end");
	buf_clear(&text);
	stuck_text(spans + 4, 1, 0, &text);
	ok(strstr(buf_text(&text), "opened again") == NULL, "nothing was opened again");
	buf_clear(&text);
	stuck_text(spans, 5, 0, &text);
	ok(text.size < 320, "as much as a decision holds");
	buf_release(&text);
}

int main(void)
{
	test_loss();
	test_due();
	test_text();
	return tap_done();
}
