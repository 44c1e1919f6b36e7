// How a snapshot's texts are read (debug_snapshot_text.c); for debug_snapshot.c and the fuzz target.
#ifndef PERFSAMPLE_CMD_DEBUG_SNAPSHOT_H
#define PERFSAMPLE_CMD_DEBUG_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct snapshot_registers {
	uint16_t machine;
	uint64_t by_number[64]; // as in asm/perf_regs.h
	uint64_t mask;
};
// Lines "NAME: HEX", in any order; which machine they are of is told by their names. The text is changed. STATUS_INPUT.
bool snapshot_parse_registers(char *text, struct snapshot_registers *out, struct err *err);

struct snapshot_map {
	uint64_t start, end, pgoff;
	bool is_executable;
	const char *name; // inside the line; "" when there is none
};
// A line as of proc_pid_maps(5), with or without device and inode; the file name may contain blanks. The line may be changed. false: not such a line.
bool snapshot_parse_map(char *line, struct snapshot_map *out);

#endif
