// What Go's runtime keeps of a thread in memory: the goroutine that it runs, that one's stack, and where it was left for the thread's own (g0's). Read while the thread
// stands still, for stacks that begin on one of the two and go on on the other (unwind/other_stack.h).
//
// Nothing tells where a thread's m is but its registers, which C code has for other things; once found, an m is the thread's for good. Everything read is held
// to what must be so: an m's goroutines point back to it, and the thread's stack pointer is on a stack of theirs.
// Source: Go's src/runtime/runtime2.go: g, gobuf and m, whose first fields were the same from Go 1.9 to 1.24, as assembly and debuggers have them.
#ifndef PERFSAMPLE_RECORD_GO_THREADS_H
#define PERFSAMPLE_RECORD_GO_THREADS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "unwind/other_stack.h"

enum { GO_THREADS = 4096, GO_PROCESSES = 256, GO_STACK_MOST = 1 << 20, GO_SYSTEM_MOST = 1 << 16, GO_CHECKED = 4096, GO_KEPT = 6 };
struct go_threads { // a zeroed one knows nothing. A slot may be another thread's: that costs a useless read
	_Atomic int32_t pids[GO_PROCESSES];  // processes some of whose stacks went on elsewhere
	_Atomic uint64_t hints[GO_THREADS];  // by thread: its m; or, with GO_HINT_IS_G, a goroutine that it ran
	_Atomic uint8_t systems[GO_THREADS]; // C code that calls Go: of these threads their own stacks are wanted, too
};

// Drain thread: a stack of the process ended on another one (UNWIND_OTHER_STACK), and what it told.
void go_threads_note(struct go_threads *threads, int32_t pid, int32_t tid, uint64_t g, bool wants_system);
bool go_threads_has(const struct go_threads *threads, int32_t pid);

struct go_sample {
	int32_t tid;
	uint64_t sp, g;           // g: what is where compiled code has it (r14)
	uint64_t kept[GO_KEPT];   // registers that C code leaves as they are: the stack pointer may be in one
	const uint8_t *copy;      // of the stack
	size_t copied;
};
enum go_found {
	GO_NOTHING, // no m, or none that can be this thread's
	GO_SAME,    // all is on the stack that was copied
	GO_OTHER,
};
struct go_plan { // what there is to be read
	struct unwind_other other; // its parts' bytes are not there yet
	size_t count, size; // parts; bytes of all, with `other` before them
	uint64_t top;       // end of the stack that was copied, where that is the goroutine's; else 0
};
// A reader, of a thread that it has preempted.
enum go_found go_threads_find(struct go_threads *threads, const struct go_sample *sample, struct go_plan *plan);
// Reads it into `out`, `plan->size` bytes. false: it could not be had, or the copied stack is another by now.
bool go_threads_read(const struct go_sample *sample, const struct go_plan *plan, uint8_t *out);
// What go_threads_read made, wherever it is by now: its parts point behind it. NULL: it is not whole.
const struct unwind_other *go_threads_open(void *bytes, size_t size);

#endif
