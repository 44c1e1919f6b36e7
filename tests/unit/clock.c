// The records' clock, in a time namespace too.
#include "perf/clock.h"

#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/tap.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static uint64_t monotonic_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

// In a child whose CLOCK_MONOTONIC is 1000 s ahead of this one's: 0 if what it says of the records' clock fits.
static int in_namespace(int64_t ahead_ns)
{
	struct perf_clock clock;
	perf_clock_find(&clock);
	int64_t wrong = clock.ahead_ns - (ahead_ns + INT64_C(1000000000000));
	uint64_t now = perf_clock_ns(&clock), shifted = monotonic_ns();
	return wrong > -5000000 && wrong < 5000000 && (int64_t)(shifted - now) - clock.ahead_ns < 1000000000 ? 0 : 1;
}

static void namespaces(void)
{
	struct perf_clock clock;
	perf_clock_find(&clock);
	int status = -1;
	pid_t pid = fork();
	if (pid == 0) { // only what is born after unshare(2) is in it
		FILE *offsets = unshare(CLONE_NEWTIME) == 0 ? fopen("/proc/self/timens_offsets", "w") : NULL;
		if (offsets == NULL || fputs("monotonic 1000 0\n", offsets) < 0 || fclose(offsets) != 0)
			_exit(77);
		pid_t inner = fork();
		if (inner == 0)
			_exit(in_namespace(clock.ahead_ns));
		waitpid(inner, &status, 0);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip("no time namespace may be made here", "in a time namespace 1000 s ahead");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0, "in a time namespace 1000 s ahead the records' clock is found");
}

int main(void)
{
	is_u64((uint64_t)perf_clock_ahead(150, 100, 200), 0, "a record between two readings of the same clock");
	is_u64((uint64_t)perf_clock_ahead(100, 100, 200), 0, "at the first one");
	ok(perf_clock_ahead(150, 1100, 1200) == 1000, "of a clock that is behind");
	ok(perf_clock_ahead(5150, 1100, 1200) == -4000, "of one that is ahead");
	struct perf_clock clock = { .ahead_ns = -5000000000 };
	uint64_t before = monotonic_ns(), now = perf_clock_ns(&clock), after = monotonic_ns();
	ok(now >= before + 5000000000u && now <= after + 5000000000u, "now");
	namespaces();
	return tap_done();
}
