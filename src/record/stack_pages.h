// Pages of a thread's stack at which the kernel's copies stop, as they are not in memory: a large array that is little used leaves such in the middle of a stack.
//
// The kernel copies with page faults off, so that all above such a page is missing from every sample until the program itself comes to use it, which may be never. One
// read brings it in: an anonymous page that nobody has touched becomes the shared page of zeros (do_anonymous_page in mm/memory.c), which takes no memory, and a write to
// it later faults once, as it would have done; one in swap comes back. Copies are whole from then on, so that it costs one system call for each place of a thread, not a
// wake-up for each sample (tails.h). A process is asked for that which is its own stack and no more: from sp, where a sample had it, upwards.
//
// The drain thread asks, the helper thread of images.h reads: a page in swap or under userfaultfd may be waited for. A batch is one thread's at a time.
#ifndef PERFSAMPLE_RECORD_STACK_PAGES_H
#define PERFSAMPLE_RECORD_STACK_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	STACK_PAGES_A_BATCH = 256,                // places asked for until the helper takes them
	STACK_PAGES_THREADS_MOST = 1 << 20,       // that are remembered; then all are forgotten
	STACK_PAGES_AGAIN_NS = 100 * 1000 * 1000, // between two reads of one place, twice as long each time
};

struct stack_pages;
struct stack_pages *stack_pages_new(void);
void stack_pages_free(struct stack_pages *pages); // what the helper still waits for is never freed

// Drain thread. A copy of `tid`'s stack ended at `from`, below `to`, up to where it might have gone. true: it is going to be read.
bool stack_pages_want(struct stack_pages *pages, int32_t tid, uint64_t from, uint64_t to, uint64_t now_ns);
// Drain thread. Whether nothing is mapped at `from`, where a copy of `tid`'s stack ended: there is no more of it. false: so far nobody knows.
bool stack_pages_is_end(const struct stack_pages *pages, int32_t tid, uint64_t from);
// Drain thread. true: there is something to be read, which is the helper's now, who is to be told.
bool stack_pages_hand(struct stack_pages *pages);
// Helper thread: reads what was handed over.
void stack_pages_read(struct stack_pages *pages);
// Drain thread. Takes what the helper found out. true: pages are there now at which copies had stopped.
bool stack_pages_take(struct stack_pages *pages);

// places: that were read; pages: brought in there, or there already; ends: places where nothing is mapped; failed: reads that were refused; late: not asked for, as the batch
// was full. error: errno of the first refusal.
struct stack_pages_figures { uint64_t places, pages, ends, failed, late; int error; };
struct stack_pages_figures stack_pages_figures(const struct stack_pages *pages);

#endif
