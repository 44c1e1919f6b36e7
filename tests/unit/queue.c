// The order of time: runs that interleave, equals, rounds, and the bound where there are no rounds.
#include "load/queue.h"

#include <stdlib.h>

#include "tests/tap.h"

struct taken { struct queue_item all[4096]; size_t count; };

static void take(void *context, const struct queue_item *items, size_t count)
{
	struct taken *taken = context;
	for (size_t i = 0; i < count && taken->count < sizeof(taken->all) / sizeof(*taken->all); i++)
		taken->all[taken->count++] = items[i];
}

// A sample, told by its period.
static struct queue_item item(uint64_t time_ns, uint64_t number)
{
	static uint64_t chain; // never looked into
	return (struct queue_item){ .time_ns = time_ns, .period = number, .chain = (struct seen_chain *)&chain };
}

static bool is_in_order(const struct taken *taken)
{
	for (size_t i = 1; i < taken->count; i++) {
		const struct queue_item *a = &taken->all[i - 1], *b = &taken->all[i];
		if (a->time_ns > b->time_ns || (a->time_ns == b->time_ns && a->period > b->period))
			return false;
	}
	return true;
}

// So many runs of so many items, each in order, as rings leave them; times come several times.
static void runs(size_t run_count, size_t each)
{
	static struct taken taken;
	struct queue queue = { 0 };
	uint64_t number = 0;
	taken.count = 0;
	for (size_t run = 0; run < run_count; run++) {
		for (size_t i = 0; i < each; i++) {
			struct queue_item one = item(1000 + i * 10 / (1 + run % 3) + run * 7 % 5, number++);
			queue_add(&queue, &one, 1);
		}
	}
	ok(queue.bytes == run_count * each * sizeof(struct queue_item), "%zu runs of %zu wait", run_count, each);
	queue_flush(&queue, UINT64_MAX, take, &taken);
	ok(taken.count == run_count * each && is_in_order(&taken) && queue.items.count == queue.first && queue.bytes == 0, "all come, in the order of time, equals as they came");
	queue_release(&queue);
}

static void rounds(void)
{
	static struct taken taken;
	struct queue queue = { 0 };
	struct queue_item first[] = { item(30, 0), item(10, 1), item(20, 2) }, second[] = { item(25, 3), item(50, 4), item(40, 5) };
	queue_add(&queue, first, 3);
	queue_round(&queue, take, &taken);
	ok(taken.count == 0, "the first round holds back what a second may come before");
	queue_add(&queue, second, 3);
	queue_round(&queue, take, &taken);
	ok(taken.count == 4 && is_in_order(&taken) && taken.all[2].time_ns == 25, "which hands on what is not newer than the round before");
	ok(queue.items.count - queue.first == 2 && queue.items.data[queue.first].time_ns == 40, "the rest waits");
	struct queue_item late = item(5, 6);
	queue_add(&queue, &late, 1);
	queue_flush(&queue, UINT64_MAX, take, &taken);
	ok(taken.count == 7 && taken.all[4].time_ns == 5 && taken.all[6].time_ns == 50, "what is late comes at once");
	queue_release(&queue);
}

static void bound(void)
{
	enum { MOST = 100 * sizeof(struct queue_item) };
	static struct taken taken;
	struct queue queue = { 0 };
	for (uint64_t i = 0; i < 300; i++) {
		struct queue_item one = item(1000 + i, i);
		queue_add(&queue, &one, queue_room(&queue, MOST, 1));
		queue_bound(&queue, MOST, take, &taken);
		if (queue.bytes > MOST)
			break;
	}
	ok(queue.bytes <= MOST && taken.count + queue.items.count - queue.first == 300 && is_in_order(&taken), "past the bound the older half goes");
	queue_release(&queue);
}

int main(void)
{
	runs(1, 100);
	runs(2, 500);
	runs(7, 333);
	runs(500, 3);
	runs(1000, 1);
	rounds();
	bound();
	return tap_done();
}
