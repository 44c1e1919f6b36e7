#include "record/stack_pages.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/vec.h"

enum { PLACE_PAGES_MOST = 17 }; // of 4 KiB, that a copy of 64 KiB may touch
enum { DOUBLINGS_MOST = 6 };
enum batch_state { BATCH_IDLE, BATCH_RUNNING, BATCH_DONE };

struct place {
	uint32_t thread;
	int32_t tid;
	uint64_t from, to;
	uint64_t end; // read: where nothing is mapped; 0: it goes on
	unsigned pages;
	int error;
};

struct thread {
	uint64_t asked_from, asked_ns;
	uint64_t end;
	uint8_t times;   // that place was asked for
	bool is_waiting;
};

struct stack_pages {
	// Drain thread.
	struct hash_map by_tid;
	VEC(struct thread) threads;
	VEC(struct place) asked;
	struct stack_pages_figures figures;
	uint64_t page_bytes;
	// Whose `state` says.
	_Atomic int state;
	VEC(struct place) batch;
};

struct stack_pages *stack_pages_new(void)
{
	struct stack_pages *pages = NEW(struct stack_pages);
	long page = sysconf(_SC_PAGESIZE);
	pages->page_bytes = page > 0 ? (uint64_t)page : 4096;
	return pages;
}

void stack_pages_free(struct stack_pages *pages)
{
	if (pages == NULL || atomic_load_explicit(&pages->state, memory_order_acquire) == BATCH_RUNNING)
		return;
	hash_map_release(&pages->by_tid);
	vec_release(&pages->threads);
	vec_release(&pages->asked);
	vec_release(&pages->batch);
	free(pages);
}

static uint64_t page_of(const struct stack_pages *pages, uint64_t addr)
{
	return addr - addr % pages->page_bytes;
}

static void forget(struct stack_pages *pages)
{
	hash_map_clear(&pages->by_tid);
	vec_clear(&pages->threads);
	vec_clear(&pages->asked);
}

bool stack_pages_want(struct stack_pages *pages, int32_t tid, uint64_t from, uint64_t to, uint64_t now_ns)
{
	bool is_new;
	if (tid <= 0 || to <= from)
		return false;
	if (pages->threads.count >= STACK_PAGES_THREADS_MOST && atomic_load_explicit(&pages->state, memory_order_acquire) == BATCH_IDLE)
		forget(pages);
	uint32_t index = *hash_map_put(&pages->by_tid, (uint32_t)tid, (uint32_t)pages->threads.count, &is_new);
	if (is_new)
		(void)vec_add(&pages->threads);
	struct thread *thread = &pages->threads.data[index];
	if (thread->is_waiting || (thread->end != 0 && thread->end == page_of(pages, from)))
		return false;
	// The same again: the page is gone once more, or reading does not bring it in.
	bool is_again = thread->asked_from == from;
	if (is_again && now_ns - thread->asked_ns < (uint64_t)STACK_PAGES_AGAIN_NS << (thread->times < DOUBLINGS_MOST ? thread->times : DOUBLINGS_MOST))
		return false;
	if (pages->asked.count >= STACK_PAGES_A_BATCH) {
		pages->figures.late++;
		return false;
	}
	thread->times = is_again && thread->times < UINT8_MAX ? (uint8_t)(thread->times + 1) : 0;
	thread->asked_from = from;
	thread->asked_ns = now_ns;
	thread->is_waiting = true;
	vec_push(&pages->asked, (struct place){ .thread = index, .tid = tid, .from = from, .to = to });
	return true;
}

bool stack_pages_is_end(const struct stack_pages *pages, int32_t tid, uint64_t from)
{
	const uint32_t *index = hash_map_get(&pages->by_tid, (uint32_t)tid);
	return index != NULL && pages->threads.data[*index].end != 0 && pages->threads.data[*index].end == page_of(pages, from);
}

bool stack_pages_hand(struct stack_pages *pages)
{
	if (pages->asked.count == 0 || atomic_load_explicit(&pages->state, memory_order_acquire) != BATCH_IDLE)
		return false;
	vec_clear(&pages->batch);
	for (size_t i = 0; i < pages->asked.count; i++)
		vec_push(&pages->batch, pages->asked.data[i]);
	vec_clear(&pages->asked);
	atomic_store_explicit(&pages->state, BATCH_RUNNING, memory_order_release);
	return true;
}

// A byte of each page. The call ends at the first that cannot be had.
static void read_place(struct place *place, uint64_t page_bytes)
{
	uint8_t bytes[PLACE_PAGES_MOST];
	struct iovec from[PLACE_PAGES_MOST] = { { .iov_len = 0 } }, to = { .iov_base = bytes };
	unsigned long count = 0;
	for (uint64_t at = place->from; at < place->to && count < PLACE_PAGES_MOST; at = (at / page_bytes + 1) * page_bytes)
		from[count++] = (struct iovec){ .iov_base = (void *)(uintptr_t)at, .iov_len = 1 };
	to.iov_len = count;
	ssize_t got = process_vm_readv(place->tid, &to, 1, from, count, 0);
	if (got < 0 && errno != EFAULT) {
		place->error = errno;
		return;
	}
	place->pages = got > 0 ? (unsigned)got : 0;
	if (place->pages < count)
		place->end = (uint64_t)(uintptr_t)from[place->pages].iov_base;
}

void stack_pages_read(struct stack_pages *pages)
{
	for (size_t i = 0; i < pages->batch.count; i++)
		read_place(&pages->batch.data[i], pages->page_bytes);
	atomic_store_explicit(&pages->state, BATCH_DONE, memory_order_release);
}

bool stack_pages_take(struct stack_pages *pages)
{
	bool any = false;
	if (atomic_load_explicit(&pages->state, memory_order_acquire) != BATCH_DONE)
		return false;
	for (size_t i = 0; i < pages->batch.count; i++) {
		const struct place *place = &pages->batch.data[i];
		struct thread *thread = &pages->threads.data[place->thread];
		thread->is_waiting = false;
		if (place->end != 0)
			thread->end = page_of(pages, place->end);
		else if (place->error == 0 && thread->end >= place->from && thread->end < place->to)
			thread->end = 0; // it is mapped now
		pages->figures.places += place->error == 0;
		pages->figures.pages += place->pages;
		any = any || place->pages > 0;
		pages->figures.ends += place->error == 0 && place->end == place->from;
		// A thread that has ended meanwhile is no refusal.
		pages->figures.failed += place->error != 0 && place->error != ESRCH;
		if (place->error != ESRCH && pages->figures.error == 0)
			pages->figures.error = place->error;
	}
	atomic_store_explicit(&pages->state, BATCH_IDLE, memory_order_release);
	return any;
}

struct stack_pages_figures stack_pages_figures(const struct stack_pages *pages)
{
	return pages->figures;
}
