// The stacks of a thread of Go's beside the one that it was sampled on: its runtime does much on a stack of the thread's own (g0's), runs C code there, and C
// code that calls Go comes back to the goroutine's. What the copy of the one stack does not say, where the other was left, the runtime keeps in memory.
//
// Source: Go's src/runtime/asm_amd64.s (systemstack, morestack, asmcgocall, cgocallback) and runtime2.go (g, gobuf, m).
#ifndef PERFSAMPLE_UNWIND_OTHER_STACK_H
#define PERFSAMPLE_UNWIND_OTHER_STACK_H

#include <stddef.h>
#include <stdint.h>

enum { UNWIND_OTHER_STACKS = 2 };

struct unwind_other { // read while the thread stood still
	uint64_t g, low, high;   // the goroutine that it runs, and where its stack is
	uint64_t sp, pc, fp;     // where the goroutine's stack was left (its gobuf); sp 0: it was not
	uint64_t system_sp;      // where the thread's own was left for the goroutine's; 0: it was not
	struct unwind_other_part {
		const uint8_t *bytes;
		uint64_t start, size;
	} parts[UNWIND_OTHER_STACKS]; // of either stack; size 0: none
};

#endif
