// `perfsample debug unwind FILE`: our unwinder and libunwind over the same stacks.
#ifndef PERFSAMPLE_CMD_DEBUG_UNWIND_H
#define PERFSAMPLE_CMD_DEBUG_UNWIND_H

int debug_unwind(const char *path); // the exit status

#endif
