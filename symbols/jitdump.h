// A jitdump file: what a JIT compiler made, when, where it stood and what it is called, with the code itself.
// (tools/perf/Documentation/jitdump-specification.txt of the kernel sources, version 1.)
//
// A place in JIT code is named by the offset of its byte in the dump, which needs no time: address a of code loaded at `addr` is offset
// a - addr + code offset. Which code stands at a run-time address is a matter of time: see jitdump_code.time_ns.
#ifndef PERFSAMPLE_SYMBOLS_JITDUMP_H
#define PERFSAMPLE_SYMBOLS_JITDUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

enum { JITDUMP_BYTES_MOST = 1 << 30, JITDUMP_CODES_MOST = 4 << 20 };

struct jitdump_code { // JIT_CODE_LOAD, or JIT_CODE_MOVE of what was loaded before
	uint64_t time_ns;     // in the clock that the compiler used (CLOCK_MONOTONIC where the dump is of use)
	uint64_t addr, size;  // run time, from then on
	uint64_t offset;      // of the code's first byte in the dump
	uint32_t name, name_length; // in the bytes
	uint32_t first_line, line_count; // JIT_CODE_DEBUG_INFO that went before it, in `lines`, by address
	uint64_t unwind_offset, unwind_size; // JIT_CODE_UNWINDING_INFO that went before it: the .eh_frame; size 0: none
	bool is_move;
};

struct jitdump_line { uint64_t addr; uint32_t line, file, file_length; }; // from `addr` on; file in the bytes

struct jitdump { // a zeroed struct is an empty dump
	const uint8_t *bytes; // borrowed
	size_t size;
	uint32_t machine, pid; // as the compiler knew itself
	uint64_t start, flags; // `start` in whatever clock: not all compilers keep to one
	bool is_closed, is_cut; // JIT_CODE_CLOSE was met; the last record ends early (it is being written, or broken)
	size_t cut_at; // where that record begins
	VEC(struct jitdump_code) codes; // in the order of the file
	VEC(uint32_t) by_offset;        // loads of `codes`, by offset
	VEC(struct jitdump_line) lines;
};

// Whether a path is that of a dump: its last part is jit-NUMBER.dump.
bool jitdump_is_path(const char *path);
// Opens one below `symfs` (NULL: none). It lies where its writer may put anything: no link, a regular file of root's or our own. -1: none such.
int jitdump_open(const char *symfs, const char *path, size_t *size);
// STATUS_INPUT names offset and expectation; what came before the fault stays readable in `out`, except where the header is wrong.
bool jitdump_parse(struct jitdump *out, const void *bytes, size_t size, struct err *err);
// The load whose code holds the byte at `offset`; NULL: none.
const struct jitdump_code *jitdump_find(const struct jitdump *dump, uint64_t offset);
// The line that the byte belongs to; NULL: none is known.
const struct jitdump_line *jitdump_line(const struct jitdump *dump, const struct jitdump_code *code, uint64_t offset);
void jitdump_release(struct jitdump *dump);

#endif
