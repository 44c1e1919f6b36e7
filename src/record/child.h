// The recorded command: forked (into its cgroup), held before exec until the events are on, then released.
#ifndef PERFSAMPLE_RECORD_CHILD_H
#define PERFSAMPLE_RECORD_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "record/cgroup.h"

struct child {
	pid_t pid;
	int pidfd;       // polls readable at its end; -1 where pidfd_open is missing (then child_poll is asked)
	int go_fd;       // written to release it
	int error_fd;    // its exec's errno arrives here; closed by a successful exec
	bool exited;
	int wait_status;
	uint64_t switches; // of their threads, by rusage
	uint64_t cpu_ns; // of it and of what it waited for, by rusage; 0 until it was reaped, or where the kernel reaps
	const char *name; // argv[0], the caller's
};

// clone3(CLONE_INTO_CGROUP) where allowed, else fork and cgroup.procs. `cgroup` may be NULL. `stdout_to_stderr`: our output is a stream.
// The child resets signal masks and dispositions, and its RLIMIT_NOFILE if ours was raised (old limit given), scheduling and niceness.
bool child_start(struct child *child, char *const *argv, const struct cgroup *cgroup, bool stdout_to_stderr, uint64_t nofile_limit, struct err *err);
// Lets it exec. false: exec failed; err says why, status STATUS_NOT_FOUND or STATUS_CANNOT_RUN.
bool child_release(struct child *child, struct err *err);
bool child_poll(struct child *child);          // true once it has ended (and was reaped)
int child_exit_status(const struct child *child); // its status, 128 + N for a signal
void child_kill(struct child *child, int sig);
void child_free(struct child *child);          // one still held is killed and reaped

#endif
