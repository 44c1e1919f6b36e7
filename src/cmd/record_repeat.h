// perfsample record --repeat N: the same recording several times, then what the runs differ by.
#ifndef PERFSAMPLE_CMD_RECORD_REPEAT_H
#define PERFSAMPLE_CMD_RECORD_REPEAT_H

#include "cmd/record_options.h"

// `argv` as given to record, not yet parsed. Returns the exit status: that of the first run that fails.
int record_repeat(const struct record_options *options, int argc, char *const *argv);

#endif
