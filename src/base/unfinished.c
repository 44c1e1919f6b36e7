#include "base/unfinished.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

// A slot is filled before its name is there, and whoever takes the name has it alone.
static struct slot { _Atomic(const char *) name; _Atomic int folder_fd; } slots[UNFINISHED_MOST];

void unfinished_remove(void)
{
	int before = errno;
	for (size_t i = 0; i < UNFINISHED_MOST; i++) {
		int folder_fd = atomic_load(&slots[i].folder_fd);
		const char *name = atomic_exchange(&slots[i].name, NULL);
		if (name != NULL && (uintptr_t)name != 1)
			(void)unlinkat(folder_fd, name, 0);
	}
	errno = before;
}

static void end_by(int signal_number)
{
	unfinished_remove();
	signal(signal_number, SIG_DFL);
	raise(signal_number); // comes when this handler returns, as the signal is blocked in it
}

static void take_signals(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction was, action = { .sa_handler = end_by };
		sigemptyset(&action.sa_mask);
		if (sigaction(signals[i], NULL, &was) == 0 && (was.sa_flags & SA_SIGINFO) == 0 && was.sa_handler == SIG_DFL)
			(void)sigaction(signals[i], &action, NULL);
	}
}

void unfinished_add(int folder_fd, const char *name)
{
	take_signals();
	for (size_t i = 0; i < UNFINISHED_MOST; i++) {
		const char *none = NULL;
		if (!atomic_compare_exchange_strong(&slots[i].name, &none, (const char *)1)) // taken, not filled
			continue;
		atomic_store(&slots[i].folder_fd, folder_fd);
		atomic_store(&slots[i].name, name);
		return;
	}
}

void unfinished_done(const char *name)
{
	for (size_t i = 0; i < UNFINISHED_MOST; i++) {
		const char *it = name;
		if (name != NULL && atomic_compare_exchange_strong(&slots[i].name, &it, NULL))
			return;
	}
}
