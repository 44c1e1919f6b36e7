// How often threads were switched to, by /proc.
#include "record/switches.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "tests/tap.h"

int main(void)
{
	struct switches switches = { 0 };
	uint64_t count = 0;
	pid_t child = fork();
	if (child == 0) {
		pause();
		_exit(0);
	}
	const int32_t tids[] = { (int32_t)getpid(), child, 1 << 30 };
	ok(procfs_switches(tids[0], &count) && !procfs_switches(tids[2], &count), "of one that lives, not of one that does not");
	switches_begin(&switches, tids, 3);
	is_u64(switches.threads.count, 2, "who is gone is not asked again");
	for (int i = 0; i < 20; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	uint64_t slept = switches_since(&switches);
	ok(slept >= 20, "20 naps: at least 20 times (%llu)", (unsigned long long)slept);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	ok(switches_since(&switches) >= slept, "who ended meanwhile tells nothing, and takes nothing away");
	switches.threads.data[0].before = UINT64_MAX;
	is_u64(switches_since(&switches), 0, "a number that another one has by now counts for nothing");
	switches_release(&switches);
	return tap_done();
}
