// JIT code of a recording: what stood where, and when, applied to the address spaces as time goes on. It comes from inside the recording, or from
// the jitdump file that the recording names. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_JIT_H
#define PERFSAMPLE_LOAD_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "perf/record.h"
#include "load/jit_unwind.h"
#include "symbols/jitdump.h"

struct loader;

struct jit_load { uint64_t time_ns, addr, size, offset; };

struct jit_source { // one dump of one process
	char *path;
	int32_t pid;
	int fd;                     // of the file, which passed the rules for untrusted paths; -1: code from inside the recording
	VEC(struct jit_load) loads; // by time
	size_t next;                // first that is not applied yet
	VEC(struct jit_unwind) unwinds; // by offset: of the loads that brought any
	uint16_t machine;
};

struct jit {
	VEC(struct jit_source) sources;
	uint64_t next_ns; // when the next load is due; UINT64_MAX: none
};

void jit_init(struct jit *jit);
void jit_release(struct jit *jit);
// Before all records: code of which the recording knows without a mapping.
void jit_from_inside(struct loader *loader);
// A mapping was applied: is it of a dump, or code whose unwind information is inside the recording?
void jit_mapped(struct loader *loader, const struct record *record);
// Brings the address spaces up to `time_ns`.
void jit_advance(struct loader *loader, uint64_t time_ns);
// The descriptor of a dump by its path; -1: none is open.
int jit_fd(const struct jit *jit, const char *path);
// What stood at an address of a process at a time, by its dump, and the dump's descriptor. NULL: nothing that a dump has.
const struct jit_load *jit_code_at(const struct jit *jit, int32_t pid, uint64_t addr, uint64_t time_ns, int *fd);
// The unwind information of the code at `offset` in a dump, and the dump; NULL: it has none, or the dump is not open. Holds until the next jit_mapped.
const struct jit_unwind *jit_find_unwind(const struct jit *jit, const char *path, uint64_t offset, const struct jit_source **source);

#endif
