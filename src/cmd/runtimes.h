// Runtimes that generate code, known by the files that a process has mapped, and how each is made to name its code.
#ifndef PERFSAMPLE_CMD_RUNTIMES_H
#define PERFSAMPLE_CMD_RUNTIMES_H

#include <stdint.h>

#include "base/buf.h"

struct runtime;
// By file names, one a line, folders or none; what a process is called says nothing: its threads have names of their own. NULL: none of those that are known.
const struct runtime *runtime_of(const char *files);
// How it is made to name its code: from its next start on, or at once as process `pid`, where it can. A NULL runtime: what holds for all.
void runtime_help(const struct runtime *runtime, uint32_t pid, struct buf *out);

#endif
