// Pages of a stack that copies stopped at: what is asked for, what reading them does, and what it tells.
#include "record/stack_pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

enum { PAGES = 12 };
static const uint64_t MS = 1000 * 1000;

static struct stack_pages *pages;
static uint64_t page, start;

static bool is_in_memory(unsigned n)
{
	unsigned char there = 0;
	return mincore((void *)(uintptr_t)(start + n * page), page, &there) == 0 && (there & 1) != 0;
}

// As the kernel's copy does it: with page faults off.
static size_t resident(unsigned from)
{
	size_t n = 0;
	while (from + n < PAGES && is_in_memory((unsigned)(from + n)))
		n++;
	return n;
}

static bool serve(void)
{
	if (!stack_pages_hand(pages))
		return false;
	stack_pages_read(pages);
	return stack_pages_take(pages);
}

int main(void)
{
	page = (uint64_t)sysconf(_SC_PAGESIZE);
	start = (uint64_t)(uintptr_t)mmap(NULL, (PAGES + 1) * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t end = start + PAGES * page;
	munmap((void *)(uintptr_t)end, page); // nothing is mapped above
	volatile uint8_t *bytes = (volatile uint8_t *)(uintptr_t)start;
	bytes[0] = 1;
	bytes[6 * page] = 7;
	bytes[(PAGES - 1) * page] = 9;
	pages = stack_pages_new();
	int32_t self = (int32_t)getpid();

	ok(!serve(), "nothing was asked for");
	is_u64(resident(0), 1, "a copy stops behind the first page");
	ok(stack_pages_want(pages, self, start + page, end + 4 * page, MS), "the page behind it is asked for");
	ok(!stack_pages_want(pages, self, start + page, end, 2 * MS), "not twice while it is");
	ok(stack_pages_hand(pages) && !stack_pages_hand(pages), "the helper's, once");
	ok(!stack_pages_take(pages), "not yet read");
	stack_pages_read(pages);
	ok(stack_pages_take(pages) && !stack_pages_take(pages), "pages came, as is told once");
	is_u64(resident(0), PAGES, "copies go through to the end");
	ok(bytes[0] == 1 && bytes[page] == 0 && bytes[6 * page] == 7 && bytes[(PAGES - 1) * page] == 9, "and what stands there is as it was");
	ok(stack_pages_is_end(pages, self, end) && !stack_pages_is_end(pages, self, end - page) && !stack_pages_is_end(pages, self + 1, end), "where it ends is known");
	ok(!stack_pages_want(pages, self, end, end + page, 5000 * MS), "and not asked for");
	struct stack_pages_figures figures = stack_pages_figures(pages);
	ok(figures.places == 1 && figures.pages == PAGES - 1 && figures.ends == 0 && figures.failed == 0, "the figures");

	madvise((void *)(uintptr_t)(start + page), 3 * page, MADV_DONTNEED);
	is_u64(resident(0), 1, "they are gone again");
	ok(!stack_pages_want(pages, self, start + page, end, 50 * MS), "the same place so soon: not again");
	ok(stack_pages_want(pages, self, start + 2 * page, start + 3 * page, 50 * MS) && serve(), "another one is");
	ok(!is_in_memory(1) && is_in_memory(2) && !is_in_memory(3), "no more than was asked for");
	ok(stack_pages_want(pages, self, start + page, end, 51 * MS) && serve(), "the first one, then");
	ok(!stack_pages_want(pages, self, start + page, end, 52 * MS), "again: after a while only");
	ok(stack_pages_want(pages, self, start + page, end, 200 * MS) && serve(), "as now");
	ok(!stack_pages_want(pages, self, start + page, end, 350 * MS) && stack_pages_want(pages, self, start + page, end, 500 * MS), "and then after a longer one");
	(void)serve();

	ok(!stack_pages_want(pages, 0, start, end, 0) && !stack_pages_want(pages, self, end, start, 0), "no thread, or no bytes: nothing");
	munmap((void *)(uintptr_t)(end - page), page);
	ok(stack_pages_want(pages, self, end - page, end, 900 * MS) && !serve() && stack_pages_is_end(pages, self, end - page), "a place where nothing is mapped");
	is_u64(stack_pages_figures(pages).ends, 1, "is an end");
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	waitpid(child, NULL, 0);
	ok(stack_pages_want(pages, child, start, end, MS) && !serve() && stack_pages_figures(pages).failed == 0, "a thread that is gone: no refusal");
	ok(stack_pages_want(pages, child, start + page, end, 2 * MS), "nor is it waited for");

	unsigned taken = 0;
	for (int32_t tid = 100000; tid < 100000 + STACK_PAGES_A_BATCH + 10; tid++)
		taken += stack_pages_want(pages, tid, start, end, MS);
	ok(taken == STACK_PAGES_A_BATCH - 1 && stack_pages_figures(pages).late == 11, "a batch has its bound");
	stack_pages_free(pages);
	stack_pages_free(NULL);
	return tap_done();
}
