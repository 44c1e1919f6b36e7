#include "record/tails.h"

#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "perf/record.h"
#include "record/go_threads.h"
#include "record/still.h"
#include "unwind/unwind.h"

enum { RECORD_BYTES_MAX = 65536, TOPS = 4096, QUEUE_BYTES_MIN = 2 << 20 };

struct reader {
	struct tails *tails;
	struct ring ring;        // a view of the drain thread's: the same pages, a tail and a buffer of its own
	struct ring *drained;
	uint64_t seen;           // shared with ring_snapshot of the drain thread
	uint64_t *scanned;       // 64 KiB for still_stood
	uint8_t *window;         // 64 KiB: what was copied, read again
	pthread_t thread;
	bool is_running;
	int epoll_fd;                // while it runs
	int look_fd;                 // an eventfd: there may be something to see
	int waits_fd;                // the drain thread's: what of the event set wakes it; -1: nothing does
	_Atomic bool hung_up;        // the task of waits_fd has ended
	struct tail_queue queue;
	_Atomic uint64_t reads, exact, checked, refused, failed, no_room, bytes, others;
	_Atomic int error;
};

struct tails {
	struct tails_config config;
	struct record_layout *layouts; // per event, the side-band's behind them
	struct hash_map by_id;         // id of an event that wakes for each sample -> index; not changed while readers run
	struct unwind_regs regs;
	struct reader *readers;        // by ring
	size_t count;
	int stop_fd;
	// Stack tops by thread, as the drain thread learns them: a slot may be another thread's, which costs a useless read or misses one.
	_Atomic uint64_t tops[TOPS];
	_Atomic int32_t targets[TOPS]; // pids; one that another one's slot took is named again with its next sample
	struct still still;
	struct go_threads go;
};

// ---------------------------------------------------------------- reading
static _Atomic uint64_t *top_of(struct tails *tails, int32_t tid)
{
	return &tails->tops[(uint32_t)tid * UINT32_C(2654435761) % TOPS];
}

static _Atomic int32_t *target_of(struct tails *tails, int32_t pid)
{
	return &tails->targets[(uint32_t)pid * UINT32_C(2654435761) % TOPS];
}

static void count(_Atomic uint64_t *figure, uint64_t n)
{
	atomic_fetch_add_explicit(figure, n, memory_order_relaxed);
}

static void keep(struct reader *reader, const struct record *record, struct tail *tail, size_t size)
{
	tail->time_ns = record->id.time_ns;
	tail->tid = record->id.tid;
	if (tail_queue_commit(&reader->queue, tail, size))
		(void)!write(reader->tails->config.wake_fd, &(uint64_t){ 1 }, 8);
}

static void read_stack(struct reader *reader, const struct record *record, uint64_t sp)
{
	const struct record_sample *sample = &record->sample;
	uint64_t copied = sample->stack.dyn_size, end = sp + copied;
	uint64_t top = atomic_load_explicit(top_of(reader->tails, record->id.tid), memory_order_relaxed);
	if (top > sp && top <= end)
		return; // all of it was copied
	uint64_t more = top > end ? top - end : TAIL_UNKNOWN_BYTES;
	uint64_t most = reader->queue.capacity / 4 < TAIL_MOST_BYTES ? reader->queue.capacity / 4 : TAIL_MOST_BYTES;
	// Deeper than all that is read at once, as a read in vain has shown: another one would stop the program for as long again.
	if (top > end && top - end > most + most / 2) {
		count(&reader->no_room, 1);
		return;
	}
	if (more > most)
		more = most;
	struct tail *tail = tail_queue_reserve(&reader->queue, (size_t)more);
	if (tail == NULL) {
		count(&reader->no_room, 1);
		return;
	}
	struct iovec to[] = { { .iov_base = reader->window, .iov_len = (size_t)copied }, { .iov_base = tail->bytes, .iov_len = (size_t)more } };
	struct iovec from = { .iov_base = (void *)(uintptr_t)sp, .iov_len = (size_t)(copied + more) };
	count(&reader->reads, 1);
	ssize_t got = process_vm_readv(record->id.tid, to, 2, &from, 1, 0);
	if (got < 0) {
		int none = 0;
		atomic_compare_exchange_strong(&reader->error, &none, errno);
		count(&reader->failed, 1);
		return;
	}
	count(&reader->bytes, (uint64_t)got);
	size_t ring = (size_t)(reader - reader->tails->readers);
	bool stood = still_stood(&reader->tails->still, ring, reader->ring.tail + record->size, record, reader->scanned);
	enum stack_tail match = stack_tail_match(reader->window, (size_t)got, sample->stack.bytes, (size_t)copied, stood);
	count(match == STACK_TAIL_EXACT ? &reader->exact : match == STACK_TAIL_CHECKED ? &reader->checked : &reader->refused, 1);
	if (match == STACK_TAIL_NONE)
		return;
	tail->match = match;
	tail->is_other = false;
	keep(reader, record, tail, (size_t)got - (size_t)copied);
}

static uint64_t user_register(const struct record_sample *sample, unsigned number)
{
	if ((sample->user.mask >> number & 1) == 0)
		return 0;
	return sample->user.words[__builtin_popcountll(sample->user.mask & ((UINT64_C(1) << number) - 1))];
}

// A thread of Go's: what lies on its other stacks. true: no more is to be read of the one that was copied.
static bool read_other(struct reader *reader, const struct record *record, uint64_t sp)
{
	enum { RBX = 1, RBP = 6, R12 = 20, R14 = 22 }; // asm/perf_regs.h, x86-64
	const struct record_sample *sample = &record->sample;
	struct go_sample go = { .tid = record->id.tid, .sp = sp, .g = user_register(sample, R14), .copy = sample->stack.bytes, .copied = (size_t)sample->stack.dyn_size,
				.kept = { user_register(sample, RBX), user_register(sample, RBP) } };
	for (unsigned i = 0; i < 4; i++)
		go.kept[2 + i] = user_register(sample, R12 + i);
	struct go_plan plan;
	enum go_found found = go_threads_find(&reader->tails->go, &go, &plan);
	if (found == GO_SAME && plan.top != 0)
		atomic_store_explicit(top_of(reader->tails, record->id.tid), plan.top, memory_order_relaxed);
	if (found != GO_OTHER)
		return found == GO_SAME && plan.top == 0; // a thread that is none of Go's has its stack as everywhere
	struct tail *tail = tail_queue_reserve(&reader->queue, plan.size);
	if (tail == NULL) {
		count(&reader->no_room, 1);
		return true;
	}
	count(&reader->reads, 1);
	count(&reader->others, 1);
	count(&reader->bytes, plan.size);
	size_t ring = (size_t)(reader - reader->tails->readers);
	bool stood = go_threads_read(&go, &plan, tail->bytes) &&
		     still_stood(&reader->tails->still, ring, reader->ring.tail + record->size, record, reader->scanned);
	count(stood ? &reader->exact : &reader->refused, 1);
	if (stood) {
		tail->match = STACK_TAIL_EXACT;
		tail->is_other = true;
		keep(reader, record, tail, plan.size);
	}
	return true;
}

static void look_at(struct reader *reader, struct perf_event_header *header)
{
	struct tails *tails = reader->tails;
	uint64_t id;
	if (header->type != PERF_RECORD_SAMPLE || !record_peek_id(&tails->layouts[0], header, &id))
		return;
	const uint32_t *event = hash_map_get(&tails->by_id, id);
	struct record record;
	if (event == NULL || !record_decode(&tails->layouts[*event], header, header->size, &record, NULL))
		return;
	const struct record_sample *sample = &record.sample;
	if (sample->stack.bytes == NULL || sample->stack.dyn_size == 0 || record.id.tid <= 0 || sample->user.abi != PERF_SAMPLE_REGS_ABI_64 ||
	    (sample->user.mask >> tails->regs.sp & 1) == 0)
		return;
	if (tails->config.filter && atomic_load_explicit(target_of(tails, record.id.pid), memory_order_relaxed) != record.id.pid)
		return;
	uint64_t sp = user_register(sample, tails->regs.sp);
	if (tails->config.machine == EM_X86_64 && go_threads_has(&tails->go, record.id.pid) && read_other(reader, &record, sp))
		return;
	if (sample->stack.dyn_size >= sample->stack.size) // a copy that is not full ends where the stack's mapping does
		read_stack(reader, &record, sp);
}

static void read_ahead(struct reader *reader)
{
	bool broken;
	struct perf_event_header *header;
	ring_snapshot(&reader->ring);
	while ((header = ring_peek(&reader->ring, &broken)) != NULL) {
		look_at(reader, header);
		still_note(&reader->tails->still, header);
		ring_advance(&reader->ring, header);
		// What the drain thread does with the record comes after what was read of it.
		__atomic_store_n(&reader->seen, reader->ring.tail, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&reader->seen, reader->ring.tail, __ATOMIC_RELEASE); // a broken one ends the ring's contents
}

static bool wait_on(int epoll_fd, int fd)
{
	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){ .events = EPOLLIN | EPOLLET, .data.fd = fd }) == 0;
}

// The task that the descriptor belongs to has ended; others may write to the ring still. Which ones is the drain thread's to say: the event set is its own.
static void ask_for_another(struct reader *reader, int ended_fd)
{
	(void)epoll_ctl(reader->epoll_fd, EPOLL_CTL_DEL, ended_fd, NULL);
	atomic_store_explicit(&reader->hung_up, true, memory_order_release);
	(void)!write(reader->tails->config.wake_fd, &(uint64_t){ 1 }, 8);
}

// By epoll, each wake-up once: poll(2) would enter both in their lists of waiters and take them out again each time, a tenth of what a wake-up takes.
static void *reader_main(void *context)
{
	struct reader *reader = context;
	struct epoll_event event;
	for (;;) {
		int count = epoll_wait(reader->epoll_fd, &event, 1, -1);
		if ((count < 0 && errno != EINTR) || (count > 0 && event.data.fd == reader->tails->stop_fd))
			break;
		read_ahead(reader);
		if (count > 0 && (event.events & (EPOLLHUP | EPOLLERR)) != 0)
			ask_for_another(reader, event.data.fd);
	}
	__atomic_store_n(&reader->seen, UINT64_MAX, __ATOMIC_RELEASE);
	return NULL;
}

// ---------------------------------------------------------------- starting and stopping
static bool new_reader(struct tails *tails, size_t i, size_t capacity, struct err *err)
{
	struct reader *reader = &tails->readers[i];
	struct ring *ring = &tails->config.set->rings.data[i];
	*reader = (struct reader){ .tails = tails, .ring = *ring, .drained = ring, .seen = ring->tail, .epoll_fd = -1, .look_fd = -1, .waits_fd = -1 };
	reader->ring.wrapped = mem_alloc(RECORD_BYTES_MAX);
	reader->scanned = mem_alloc(RECORD_BYTES_MAX);
	reader->window = mem_alloc(RECORD_BYTES_MAX);
	reader->ring.seen = NULL;
	reader->look_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (reader->look_fd < 0)
		return err_errno(err, STATUS_HOST, "an eventfd");
	return tail_queue_init(&reader->queue, capacity, err);
}

static bool start_reader(struct reader *reader, struct err *err)
{
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	struct sched_param param = { .sched_priority = reader->tails->config.priority };
	pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
	pthread_attr_setschedparam(&attr, &param);
	size_t cpu = reader->drained->cpu, set_bytes = CPU_ALLOC_SIZE(cpu + 1);
	cpu_set_t *set = CPU_ALLOC(cpu + 1);
	CPU_ZERO_S(set_bytes, set);
	CPU_SET_S(cpu, set_bytes, set);
	pthread_attr_setaffinity_np(&attr, set_bytes, set);
	reader->drained->seen = &reader->seen;
	reader->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	bool waits = reader->epoll_fd >= 0 && wait_on(reader->epoll_fd, reader->tails->stop_fd) &&
	             wait_on(reader->epoll_fd, reader->look_fd) && wait_on(reader->epoll_fd, reader->drained->fd);
	reader->waits_fd = reader->drained->fd;
	atomic_store_explicit(&reader->hung_up, false, memory_order_relaxed);
	int error = waits ? pthread_create(&reader->thread, &attr, reader_main, reader) : errno;
	pthread_attr_destroy(&attr);
	CPU_FREE(set);
	reader->is_running = error == 0;
	if (error != 0)
		return err_set(err, STATUS_HOST, "a real-time thread on CPU %zu: %s", cpu, strerror(error));
	return true;
}

bool tails_resume(struct tails *tails, struct err *err)
{
	uint64_t stops;
	(void)!read(tails->stop_fd, &stops, sizeof(stops));
	for (size_t i = 0; i < tails->count; i++) { // all, before one looks where the others stand
		struct reader *reader = &tails->readers[i];
		if (reader->ring.tail < reader->drained->tail)
			reader->ring.tail = reader->drained->tail;
		__atomic_store_n(&reader->seen, reader->ring.tail, __ATOMIC_RELEASE);
	}
	for (size_t i = 0; i < tails->count; i++)
		if (!start_reader(&tails->readers[i], err)) {
			tails_stop(tails);
			return false;
		}
	return true;
}

bool tails_start(struct tails **out, const struct tails_config *config, struct err *err)
{
	struct tails *tails = NEW(struct tails);
	struct event_set *set = config->set;
	size_t capacity = TAIL_QUEUE_BYTES;
	*out = NULL;
	tails->config = *config;
	tails->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	tails->count = set->rings.count;
	tails->readers = mem_zero(tails->count + 1, sizeof(*tails->readers));
	tails->layouts = mem_zero(set->events.count + 1, sizeof(*tails->layouts));
	for (size_t e = 0; e < set->events.count; e++)
		record_layout_init(&tails->layouts[e], &set->events.data[e].attr, false);
	record_layout_init(&tails->layouts[set->events.count], &set->sideband_attr, false);
	tails->still.layout = &tails->layouts[set->events.count];
	tails->still.count = tails->count;
	tails->still.rings = mem_zero(tails->count + 1, sizeof(*tails->still.rings));
	for (size_t i = 0; i < tails->count; i++) {
		tails->still.rings[i] = (struct still_ring){ .ring = set->rings.data[i], .seen = &tails->readers[i].seen };
		tails->still.rings[i].ring.seen = NULL;
		tails->readers[i].seen = set->rings.data[i].tail;
	}
	for (size_t i = 0; i < set->fds.count; i++)
		if (set->fds.data[i].wakes && set->fds.data[i].event != EVENT_SIDEBAND)
			hash_map_put(&tails->by_id, set->fds.data[i].id, set->fds.data[i].event, NULL);
	while (capacity * tails->count > TAIL_QUEUES_BYTES && capacity > QUEUE_BYTES_MIN)
		capacity /= 2;
	bool good = tails->stop_fd >= 0 && unwind_regs_for(config->machine, &tails->regs);
	if (!good)
		err_set(err, STATUS_HOST, "no eventfd, or stacks of an unknown machine");
	for (size_t i = 0; good && i < tails->count; i++)
		good = new_reader(tails, i, capacity, err);
	if (!good || !tails_resume(tails, err)) {
		tails_free(tails);
		return false;
	}
	*out = tails;
	return true;
}

void tails_stop(struct tails *tails)
{
	if (tails == NULL)
		return;
	if (tails->stop_fd >= 0)
		(void)!write(tails->stop_fd, &(uint64_t){ 1 }, 8);
	for (size_t i = 0; i < tails->count; i++) {
		struct reader *reader = &tails->readers[i];
		if (reader->is_running)
			pthread_join(reader->thread, NULL);
		reader->is_running = false;
		if (reader->epoll_fd >= 0)
			close(reader->epoll_fd);
		reader->epoll_fd = -1;
		if (reader->drained != NULL)
			reader->drained->seen = NULL;
	}
}

void tails_free(struct tails *tails)
{
	if (tails == NULL)
		return;
	for (size_t i = 0; i < tails->count; i++) {
		tail_queue_release(&tails->readers[i].queue);
		free(tails->readers[i].ring.wrapped);
		free(tails->readers[i].scanned);
		free(tails->readers[i].window);
		if (tails->readers[i].tails != NULL && tails->readers[i].look_fd >= 0)
			close(tails->readers[i].look_fd);
	}
	if (tails->stop_fd >= 0)
		close(tails->stop_fd);
	hash_map_release(&tails->by_id);
	free(tails->still.rings);
	free(tails->layouts);
	free(tails->readers);
	free(tails);
}

// ---------------------------------------------------------------- drain thread
void tails_done(struct tails *tails)
{
	for (size_t i = 0; tails != NULL && i < tails->count; i++)
		tail_queue_done(&tails->readers[i].queue);
}

static void wait_anew(struct reader *reader)
{
	reader->waits_fd = event_set_poll_fd(reader->tails->config.set, reader->ring.slot);
	if (reader->waits_fd < 0)
		return; // all tasks of the ring have ended: what is left there is looked at
	(void)wait_on(reader->epoll_fd, reader->waits_fd);
	(void)!write(reader->look_fd, &(uint64_t){ 1 }, 8); // what came before it waited
}

void tails_closing(struct tails *tails, int fd)
{
	for (size_t i = 0; tails != NULL && i < tails->count; i++)
		if (tails->readers[i].is_running && tails->readers[i].waits_fd == fd)
			atomic_store_explicit(&tails->readers[i].hung_up, true, memory_order_relaxed);
}

void tails_look(struct tails *tails)
{
	for (size_t i = 0; tails != NULL && i < tails->count; i++) {
		struct reader *reader = &tails->readers[i];
		if (reader->is_running && atomic_exchange_explicit(&reader->hung_up, false, memory_order_acquire))
			wait_anew(reader);
		if (reader->is_running && __atomic_load_n(&reader->seen, __ATOMIC_RELAXED) < __atomic_load_n(&reader->ring.page->data_head, __ATOMIC_RELAXED))
			(void)!write(reader->look_fd, &(uint64_t){ 1 }, 8);
	}
}

const struct tail *tails_find(struct tails *tails, size_t ring, uint64_t time_ns, int32_t tid)
{
	return tail_queue_find(&tails->readers[ring].queue, time_ns, tid);
}

void tails_top(struct tails *tails, int32_t tid, uint64_t top)
{
	atomic_store_explicit(top_of(tails, tid), top, memory_order_relaxed);
}

void tails_note_go(struct tails *tails, int32_t pid, int32_t tid, uint64_t g, bool wants_system)
{
	go_threads_note(&tails->go, pid, tid, g, wants_system);
}

void tails_target(struct tails *tails, int32_t pid)
{
	atomic_store_explicit(target_of(tails, pid), pid, memory_order_relaxed);
}

struct tails_figures tails_figures(const struct tails *tails)
{
	struct tails_figures out = { 0 };
	for (size_t i = 0; i < tails->count; i++) {
		const struct reader *reader = &tails->readers[i];
		out.reads += atomic_load_explicit(&reader->reads, memory_order_relaxed);
		out.exact += atomic_load_explicit(&reader->exact, memory_order_relaxed);
		out.checked += atomic_load_explicit(&reader->checked, memory_order_relaxed);
		out.refused += atomic_load_explicit(&reader->refused, memory_order_relaxed);
		out.failed += atomic_load_explicit(&reader->failed, memory_order_relaxed);
		out.no_room += atomic_load_explicit(&reader->no_room, memory_order_relaxed);
		out.others += atomic_load_explicit(&reader->others, memory_order_relaxed);
		out.bytes += atomic_load_explicit(&reader->bytes, memory_order_relaxed);
		int error = atomic_load_explicit(&reader->error, memory_order_relaxed);
		out.error = out.error != 0 ? out.error : error;
	}
	return out;
}
