// The perf map (/tmp/perf-PID.map) that stands here for code without a file, of recordings that bring no names. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_PERF_MAP_H
#define PERFSAMPLE_LOAD_PERF_MAP_H

#include "load/loader.h"

// The map for the code of `row`, below symfs or of this host; `path` gets its name. -1: none, or it says nothing of this code: it is another user's, or
// was written before the program that has the code began, or another program ran under that pid later (an exec, a pid that was given again).
int perf_map_open(struct loader *loader, const struct profile_dso *row, char *path, size_t size);
// The map that a process which still runs has written since it was recorded (jcmd PID Compiler.perfmap), for code that the recorder found no names for. -1: none.
// That it was written later is said.
int perf_map_open_late(struct loader *loader, const struct profile_dso *row);

#endif
