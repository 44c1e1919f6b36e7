// `perfsample debug WHAT`: one file each, and what they share.
#ifndef PERFSAMPLE_CMD_DEBUG_H
#define PERFSAMPLE_CMD_DEBUG_H

#include "base/buf.h"
#include "base/err.h"

// Each prints its own errors and returns the exit status.
int debug_vectors(char **paths, size_t count, double tolerance);
int debug_unwind(const char *recording, unsigned examples); // of each kind of difference
int debug_snapshot(const char *folder);
int debug_core(const char *core, const char *program);

// A regular file below the folder (AT_FDCWD, or one whose files are another's: then no link leads out of it), at most 64 MiB, whole.
// STATUS_INPUT.
bool debug_read_file(int folder, const char *path, struct buf *out, struct err *err);

#endif
