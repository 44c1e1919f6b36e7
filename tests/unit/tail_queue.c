// The queue of stacks between a reader and the drain thread: order, room, what it touches, and two threads at once.
#include "record/tail_queue.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/tap.h"

enum { CAPACITY = 1 << 20, BYTES = 100000, TID = 7 };

static struct tail *put(struct tail_queue *queue, uint64_t time_ns, size_t bytes, bool *half)
{
	struct tail *tail = tail_queue_reserve(queue, bytes);
	if (tail == NULL)
		return NULL;
	tail->time_ns = time_ns;
	tail->tid = TID;
	tail->match = STACK_TAIL_EXACT;
	memset(tail->bytes, (int)(time_ns & 0xff), bytes);
	bool is_half = tail_queue_commit(queue, tail, bytes);
	if (half != NULL)
		*half = is_half;
	return tail;
}

static bool found(struct tail_queue *queue, uint64_t time_ns, size_t bytes)
{
	const struct tail *tail = tail_queue_find(queue, time_ns, TID);
	return tail != NULL && tail->time_ns == time_ns && tail->size == bytes && tail->bytes[0] == (uint8_t)time_ns && tail->bytes[bytes - 1] == (uint8_t)time_ns;
}

static size_t fill(struct tail_queue *queue, uint64_t time_ns)
{
	size_t count = 0;
	while (count < 100 && put(queue, time_ns + count, BYTES, NULL) != NULL)
		count++;
	return count;
}

static void one_thread(void)
{
	struct tail_queue queue;
	struct err err = { 0 };
	bool half = true;

	if (!ok(tail_queue_init(&queue, CAPACITY, &err), "a queue"))
		return;
	ok(tail_queue_find(&queue, 1, TID) == NULL, "nothing is found in an empty one");
	ok(tail_queue_reserve(&queue, CAPACITY) == NULL, "there is no room for what is larger than it");
	put(&queue, 10, 1000, &half);
	put(&queue, 20, 2000, NULL);
	put(&queue, 30, 3000, NULL);
	ok(!half, "far from half full");
	ok(tail_queue_find(&queue, 5, TID) == NULL, "of an older sample nothing was read");
	ok(found(&queue, 10, 1000), "the first");
	ok(tail_queue_find(&queue, 20, TID + 1) == NULL, "of that time, but another thread");
	ok(found(&queue, 30, 3000), "the third; the second is passed over");
	ok(tail_queue_find(&queue, 40, TID) == NULL, "and no more");

	// Emptied, it begins anew, with all of its room.
	const struct tail *first = put(&queue, 100, BYTES, NULL);
	ok(found(&queue, 100, BYTES), "one");
	tail_queue_done(&queue);
	size_t count = fill(&queue, 200);
	is_u64(count, CAPACITY / BYTES, "a queue that begins anew takes as many as an empty one");
	for (size_t i = 0; i < count; i++)
		if (!found(&queue, 200 + i, BYTES))
			ok(false, "number %zu of them", i);
	tail_queue_done(&queue);
	ok(put(&queue, 400, BYTES, NULL) == first, "and again at the same place");

	// One that is never empty goes round.
	size_t good = 0, halves = 0;
	for (uint64_t time = 401; time < 1000; time++) {
		put(&queue, time, BYTES, &half);
		halves += half;
		good += found(&queue, time - 1, BYTES);
	}
	is_u64(good, 599, "one waiting all the time, all found");
	is_u64(halves, 0, "never half full");
	put(&queue, 1000, BYTES, &half);
	for (uint64_t time = 1001; time < 1006; time++) {
		put(&queue, time, BYTES, &half);
		halves += half;
	}
	is_u64(halves, 1, "it becomes half full once");
	tail_queue_release(&queue);
}

// The drain thread comes when it is told, and leaves the two youngest.
static void told(size_t bytes)
{
	struct tail_queue queue;
	struct err err = { 0 };
	uint64_t taken = 0;
	size_t refused = 0;

	if (!tail_queue_init(&queue, CAPACITY, &err))
		return;
	for (uint64_t time = 1; time < 300; time++) {
		bool half = false;
		refused += put(&queue, time, bytes, &half) == NULL;
		while (half && taken + 2 < time)
			(void)found(&queue, ++taken, bytes);
		tail_queue_done(&queue);
	}
	is_u64(refused, 0, "%zu bytes each: all find room, as the drain thread is told in time", bytes);
	tail_queue_release(&queue);
}

static void memory(void)
{
	struct tail_queue queue;
	struct err err = { 0 };
	size_t page = (size_t)sysconf(_SC_PAGESIZE), touched = 0, good = 0;
	unsigned char resident[(8 << 20) / 4096];

	if (!ok(tail_queue_init(&queue, 8 << 20, &err), "a queue of 8 MiB"))
		return;
	for (uint64_t time = 1; time < 1000; time++) {
		put(&queue, time, BYTES + (time * 7919) % BYTES, NULL);
		good += found(&queue, time, BYTES + (time * 7919) % BYTES);
		tail_queue_done(&queue);
	}
	is_u64(good, 999, "one at a time");
	if (mincore(queue.block, queue.capacity, resident) == 0)
		for (size_t i = 0; i < queue.capacity / page; i++)
			touched += resident[i] & 1;
	ok(touched > 0 && touched * page <= 2 * BYTES + 2 * page, "touches what one takes: %zu bytes", touched * page);
	tail_queue_release(&queue);
}

enum { MANY = 60000 };

static size_t bytes_at(uint64_t time)
{
	return 64 + time * 2654435761u % 60000;
}

static void *writer(void *context)
{
	struct tail_queue *queue = context;
	for (uint64_t time = 1; time <= MANY;)
		if (put(queue, time, bytes_at(time), NULL) != NULL)
			time++;
		else
			usleep(50);
	return NULL;
}

static void two_threads(void)
{
	struct tail_queue queue;
	struct err err = { 0 };
	pthread_t thread;
	size_t wrong = 0;

	if (!ok(tail_queue_init(&queue, CAPACITY / 4, &err), "a queue"))
		return;
	pthread_create(&thread, NULL, writer, &queue);
	for (uint64_t time = 1; time <= MANY;) {
		const struct tail *tail = tail_queue_find(&queue, time, TID);
		if (tail == NULL) {
			usleep(20);
			continue;
		}
		size_t bytes = bytes_at(time);
		wrong += tail->size != bytes || tail->bytes[0] != (uint8_t)time || tail->bytes[bytes / 2] != (uint8_t)time || tail->bytes[bytes - 1] != (uint8_t)time;
		if (time++ % 3 == 0)
			tail_queue_done(&queue);
	}
	pthread_join(thread, NULL);
	is_u64(wrong, 0, "%d stacks from one thread to another", MANY);
	tail_queue_release(&queue);
}

int main(void)
{
	one_thread();
	told(BYTES);
	told(60000);
	told(150000);
	told(230000);
	memory();
	two_threads();
	return tap_done();
}
