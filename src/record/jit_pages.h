// The bytes of code that a JIT compiler made: pages of anonymous memory in which samples stand, read from the process while it runs, and again as time goes on.
//
// The drain thread asks for pages, the helper thread of images.h reads them, a batch at a time, and the drain thread takes them: neither waits for the other, and a
// batch is one thread's at a time. A page that was read is read again when it is sampled where it was not before (code was added there), when it was mapped anew, and else
// after a while: JIT_PAGE_FIRST_NS, twice as long each time that it had not changed. Only what differs is kept: all of it for a raw recording, or, for a recorder
// that unwinds, the last reading of each page.
#ifndef PERFSAMPLE_RECORD_JIT_PAGES_H
#define PERFSAMPLE_RECORD_JIT_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perf/clock.h"
#include "perfdata/names.h"
#include "unwind/unwind.h"

enum {
	JIT_PAGE_BYTES = NAMES_PAGE_BYTES,
	JIT_PAGES_MOST = NAMES_PAGES_MOST,   // kept: 64 MiB
	JIT_PAGES_LIVE_MOST = 4096,          // of a recorder that unwinds: then all are forgotten
	JIT_PAGE_READINGS_MOST = 256,        // kept of one page
	JIT_PAGES_A_BATCH = 512,
	JIT_PAGES_A_SECOND = 4096,           // read: some 2 us each
	JIT_PAGE_FIRST_NS = 100 * 1000 * 1000,
	JIT_PAGE_DOUBLINGS = 3,              // at most 0.8 s
	JIT_STACK_NS = 20 * 1000 * 1000,     // between whole stacks that are looked at, of one process
};

struct jit_pages;
void jit_pages_use_clock(struct jit_pages *pages, const struct perf_clock *clock); // the records'; else it is taken for CLOCK_MONOTONIC
struct jit_pages *jit_pages_new(uint16_t machine, bool keeps_all); // EM_*; keeps_all: for jit_pages_names; else for jit_pages_code
void jit_pages_free(struct jit_pages *pages); // what the helper still waits for is never freed

// Drain thread. A sample of `pid` at `time_ns` stands at `pc`, in anonymous memory mapped from `start` to `end`: its page and those beside it are wanted.
void jit_pages_want(struct jit_pages *pages, int32_t pid, uint64_t pc, uint64_t start, uint64_t end, uint64_t time_ns);
// Drain thread. A word of its stack leads there: the page is wanted if a call ends at `addr`, and beside it whatever the call may lie across.
void jit_pages_want_return(struct jit_pages *pages, int32_t pid, uint64_t addr, uint64_t start, uint64_t time_ns);
// Drain thread. true: all of a stack may be looked at for such words; it was not for a while.
bool jit_pages_want_stack(struct jit_pages *pages, int32_t pid, uint64_t time_ns);
// Drain thread. What stands around `addr` for a sample, as struct unwind_code has it, in memory mapped from `start` to `end`; `*is_missing` is set if it may be had once
// what was asked for is read.
struct jit_sample { int32_t pid; uint64_t generation, time_ns; }; // generation: of its maps
struct unwind_code jit_pages_code(struct jit_pages *pages, const struct jit_sample *sample, uint64_t addr, uint64_t start, uint64_t end, bool *is_missing);
// Drain thread. The same where it was asked for lately; false: it was not.
bool jit_pages_recent(struct jit_pages *pages, const struct jit_sample *sample, uint64_t addr, struct unwind_code *out);
// Drain thread. Code was mapped, or became code again: what stood there may be gone.
void jit_pages_mapped(struct jit_pages *pages, int32_t pid, uint64_t start, uint64_t end, uint64_t time_ns);
// Drain thread. The process has ended, or executes another program: its memory is gone.
void jit_pages_ended(struct jit_pages *pages, int32_t pid, uint64_t time_ns);
// Drain thread. Takes what the helper has read. true: something was.
bool jit_pages_take(struct jit_pages *pages);
// Drain thread. true: there are pages to be read, and they are the helper's now, who is to be told.
bool jit_pages_hand(struct jit_pages *pages);
// Helper thread: reads what was handed over.
void jit_pages_read(struct jit_pages *pages);

// When drain and helper thread have ended.
void jit_pages_names(struct jit_pages *pages, struct names *names);
// read: with success; kept: of those, as they had changed; late: not asked for, as too many were read in that second; refused: not kept, as too many were.
struct jit_pages_figures { uint64_t read, failed, kept, late, refused; };
struct jit_pages_figures jit_pages_figures(const struct jit_pages *pages);

#endif
