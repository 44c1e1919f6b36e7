// Running commands to measure them: one trial at a time, its output kept for a metric. Knows no recordings.
//
// A room of its own because neither neighbour fits: src/record holds a child inside a cgroup until its events are on, and src/cmd only parses and prints.
#ifndef PERFSAMPLE_TRIAL_RUN_H
#define PERFSAMPLE_TRIAL_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct trial_run {
	double wall_s, cpu_s;  // CPU: user and system, of the command and everything it waited for
	int status;            // as a shell says it: 128 + N for a signal
	struct buf output;     // of standard output, at most TRIAL_OUTPUT_MOST bytes; what is more is read and let go
	struct buf errors;     // the last of standard error
};
enum { TRIAL_OUTPUT_MOST = 64 << 20, TRIAL_ERRORS_MOST = 2000 };

// argv NULL-terminated, found along PATH. STATUS_NOT_FOUND, STATUS_CANNOT_RUN; a command that fails is no error here.
bool trial_run(struct trial_run *run, char *const *argv, struct err *err);
void trial_run_release(struct trial_run *run);

#endif
