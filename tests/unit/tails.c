// Live: readers of stacks beyond the copy go on being woken when what they wait on has ended or is closed, though none looks into the event set.
#include "record/tails.h"

#include <elf.h>
#include <sys/eventfd.h>

#include "tests/live.h"

#ifdef __aarch64__
enum { MACHINE = EM_AARCH64 };
#else
enum { MACHINE = EM_X86_64 };
#endif
enum { COPY = 8192, DEEP = 4 * COPY };

__attribute__((noinline)) static int burn_deep(int seconds)
{
	volatile char frame[DEEP];
	memset((char *)frame, 1, sizeof(frame));
	burn(seconds);
	return frame[1];
}

static void work(void)
{
	burn_deep(20);
}

static uint64_t tried(const struct tails *tails)
{
	struct tails_figures figures = tails_figures(tails);
	return figures.reads + figures.no_room;
}

// What the readers do by themselves: nobody tells them to look, and of the rings everything is taken, so that there is room.
static bool are_woken(struct tails *tails, struct event_set *set)
{
	uint64_t before = tried(tails);
	for (int i = 0; i < 200 && tried(tails) < before + 5; i++) {
		usleep(20000);
		for (size_t r = 0; r < set->rings.count; r++) {
			bool broken;
			struct ring *ring = &set->rings.data[r];
			ring_snapshot(ring);
			for (struct perf_event_header *header; (header = ring_peek(ring, &broken)) != NULL;)
				ring_advance(ring, header);
			ring_release_read(ring);
		}
	}
	return tried(tails) >= before + 5;
}

static void end(struct held *held)
{
	kill(held->pid, SIGKILL);
	wait_for_held(held);
}

// As the drain thread closes the second events of a thread that has inherited ones as well.
static void close_all_but_last(struct tails *tails, struct event_set *set, int32_t tid)
{
	size_t kept = 0;
	for (size_t i = 0; i < set->fds.count; i++) {
		struct event_fd fd = set->fds.data[i];
		bool goes = fd.tid == tid && (fd.event == EVENT_SIDEBAND || !fd.wakes);
		if (goes) {
			tails_closing(tails, fd.fd);
			close(fd.fd);
		} else {
			set->fds.data[kept++] = fd;
		}
	}
	set->fds.count = kept;
}

static void test_ends(void)
{
	struct held first = hold(work), second = hold(work);
	int32_t tids[] = { first.pid, second.pid };
	struct event_set set;
	struct event_options o = options();
	o.period = 2000000;
	o.stack_bytes = COPY;
	o.user_regs = true;
	struct event_target t = target(SCOPE_TASK, tids, 2);
	struct tails *tails = NULL;
	struct tails_config config = { .set = &set, .machine = MACHINE, .priority = 2, .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	bool opened = ok(open_set(&set, "cpu-clock:u", &t, &o) && event_set_add_waking(&set, &t, &err), "two processes, events that wake");
	if (!opened || !tails_start(&tails, &config, &err)) {
		skip(err.text, "readers on each CPU");
	} else {
		event_set_wake_each(&set, true);
		ok(event_set_enable(&set, &err) && write(first.go, "x", 1) == 1 && write(second.go, "x", 1) == 1, "they run");
		ok(are_woken(tails, &set), "samples wake the readers");
		end(&first); // the rings' descriptors are the first one's
		first.go = -1;
		uint64_t wakes;
		for (int i = 0; i < 100 && read(config.wake_fd, &wakes, 8) != 8; i++)
			usleep(20000);
		tails_look(tails);
		ok(are_woken(tails, &set), "those of the other one wake them, when what they waited on has ended");
		close_all_but_last(tails, &set, second.pid);
		tails_look(tails);
		ok(are_woken(tails, &set), "and when what they waited on is closed");
		event_set_disable(&set);
		tails_stop(tails);
		tails_free(tails);
	}
	if (first.go >= 0)
		end(&first);
	end(&second);
	if (opened)
		event_set_close(&set);
	close(config.wake_fd);
}

int main(void)
{
	if (live_begin())
		test_ends();
	return tap_done();
}
