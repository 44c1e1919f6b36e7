#include "elf/guard.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"

// The one piece of mutable state of the process in this room, and why it is one: a signal's disposition belongs to the process, and
// the handler gets no context but the faulting address. So what it may repair has to be found from a global. It reads only
// atomics, takes no lock and allocates nothing; blocks are added and never freed, so that the walk needs no care.
enum { BLOCK_RANGES = 256 };
struct guard_block {
	struct {
		_Atomic uintptr_t start, end; // start 0: free
	} ranges[BLOCK_RANGES];
	struct guard_block *_Atomic next;
};
static struct guard_block first_block;
static pthread_mutex_t writers = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct sigaction previous;
static uintptr_t page_bytes;

static bool is_guarded(uintptr_t addr)
{
	for (struct guard_block *block = &first_block; block != NULL; block = atomic_load(&block->next)) {
		for (size_t i = 0; i < BLOCK_RANGES; i++) {
			uintptr_t start = atomic_load(&block->ranges[i].start);
			if (start != 0 && addr >= start && addr < atomic_load(&block->ranges[i].end))
				return true;
		}
	}
	return false;
}

static void pass_on(int number, siginfo_t *info, void *context)
{
	if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != NULL) {
		previous.sa_sigaction(number, info, context);
	} else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
		previous.sa_handler(number);
	} else {
		// The access is repeated on return and then ends the process with the right signal; a SIGBUS that
		// somebody sent is sent again.
		signal(SIGBUS, SIG_DFL);
		if (info->si_code <= 0)
			raise(SIGBUS);
	}
}

static void on_sigbus(int number, siginfo_t *info, void *context)
{
	int saved = errno;
	uintptr_t addr = (uintptr_t)info->si_addr;

	if (info->si_code != BUS_ADRERR || !is_guarded(addr) ||
	    mmap((void *)(addr & ~(page_bytes - 1)), page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		pass_on(number, info, context);
	errno = saved;
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	sigemptyset(&action.sa_mask);
	sigaction(SIGBUS, &action, &previous);
}

static void remember(uintptr_t start, uintptr_t end)
{
	pthread_mutex_lock(&writers);
	for (struct guard_block *block = &first_block;; block = atomic_load(&block->next)) {
		for (size_t i = 0; i < BLOCK_RANGES; i++) {
			if (atomic_load(&block->ranges[i].start) != 0)
				continue;
			atomic_store(&block->ranges[i].end, end); // before start, which makes the range valid
			atomic_store(&block->ranges[i].start, start);
			pthread_mutex_unlock(&writers);
			return;
		}
		if (atomic_load(&block->next) == NULL)
			atomic_store(&block->next, NEW(struct guard_block));
	}
}

static void forget(uintptr_t start)
{
	pthread_mutex_lock(&writers);
	for (struct guard_block *block = &first_block; block != NULL; block = atomic_load(&block->next))
		for (size_t i = 0; i < BLOCK_RANGES; i++)
			if (atomic_load(&block->ranges[i].start) == start)
				atomic_store(&block->ranges[i].start, 0);
	pthread_mutex_unlock(&writers);
}

const void *guard_map(int fd, size_t size)
{
	pthread_once(&installed, install);
	void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return NULL;
	remember((uintptr_t)data, (uintptr_t)data + size);
	return data;
}

void guard_unmap(const void *data, size_t size)
{
	forget((uintptr_t)data);
	munmap((void *)(uintptr_t)data, size);
}
