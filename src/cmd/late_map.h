// Names of generated code that a process which was recorded wrote down later: for struct load_options.
#ifndef PERFSAMPLE_CMD_LATE_MAP_H
#define PERFSAMPLE_CMD_LATE_MAP_H

#include "load/load.h"

// load_late_map_fn: by /proc.
int late_map_open(const struct load_process *process, uint64_t *written_wall_ns);

#endif
