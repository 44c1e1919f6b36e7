// Unwinding a user stack from registers and a copy of its top, by DWARF CFI compiled into rules.
//
// The unwinder gets registers, stack bytes and a callback that answers "which image is at this address, with what bias"; it
// returns addresses and a reason. It knows no pids, names or files and never prints. So live, replayed and
// foreign-architecture stacks take one path. Method: DWARF 5 section 6.4, the x86-64 psABI, and the .eh_frame of the LSB.
#ifndef PERFSAMPLE_UNWIND_UNWIND_H
#define PERFSAMPLE_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "elf/image.h"
#include "unwind/other_stack.h"

enum unwind_end { // why a stack ends; stored in files as these numbers, so never renumbered
	UNWIND_ROOT = 0,       // return address undefined by CFI, or zero, or a function that its image's table says nothing calls
	UNWIND_TRUNCATED = 1,  // the next slot lies past all that was to be copied: the stack is deeper
	UNWIND_NO_CFI = 2,
	UNWIND_NO_MAPPING = 3, // the address is in no executable mapping
	UNWIND_BAD_READ = 4,   // a slot below the copy, misaligned or wrapped
	UNWIND_NO_PROGRESS = 5,
	UNWIND_BAD_RA = 6,
	UNWIND_DEPTH_LIMIT = 7,
	UNWIND_UPROBE_TRAMPOLINE = 8,
	UNWIND_NO_IMAGE = 9,   // mapped, but the image could not be opened
	UNWIND_UNSUPPORTED = 10,
	UNWIND_NOT_USER = 11,  // a kernel thread, or nothing of user space in the sample: complete by nature
	UNWIND_NO_REGISTERS = 12, // a user task, but the kernel copied no registers or stack
	UNWIND_DEFERRED = 13,  // internal: the image's rules are not there yet; set the sample aside
	UNWIND_ROOT_GUESSED = 14, // by signs, where no CFI tells: the initial stack above an entry frame, the end of a chain of frame pointers; by the
	                       // function's name in chains that others unwound
	UNWIND_CHAIN_MISSING = 15, // the kernel was to write the user part of its call chain later (Linux 6.18), and that record is not there
	UNWIND_ABSENT_PAGE = 16,  // the next slot would have been copied, but the copy stopped before it, at a page that was not in memory
	UNWIND_OTHER_STACK = 17, // the calls go on on another stack of the thread's, which was not read
	UNWIND_END_COUNT
};
const char *unwind_end_name(enum unwind_end end); // "root", "truncated", "no_cfi", …
static inline bool unwind_end_is_root(enum unwind_end end)
{
	return end == UNWIND_ROOT || end == UNWIND_ROOT_GUESSED;
}

// INTERRUPTED: by a signal; and the trampoline that its handler returns to, which nothing called.
enum frame_kind { FRAME_LEAF = 0, FRAME_RETURN = 1, FRAME_INTERRUPTED = 2 }; // 4-bit values in files
// How a frame was found from the one below it; in files in 4 bits. NONE: the leaf, and what others found without saying how.
enum frame_via {
	VIA_NONE = 0,
	VIA_CFI = 1,
	VIA_EXPR = 2,      // by CFI whose row is no plain rule: expressions, a CFA in another register
	VIA_FP = 3,        // by the frame pointer's pair
	VIA_LEAF_RULE = 4, // the return address where the call put it
	VIA_KERNEL = 5,    // by the kernel, of its own stack
	VIA_SIGNAL = 6,    // by the registers that the kernel saved for a signal
	VIA_BRANCHES = 7,  // by the processor's records of calls that have not returned
	VIA_LANDING = 8,   // by what a function that throws is about to install: the frame that handles the exception
	VIA_CODE = 9,      // without CFI: by the instructions from there to where the function is left
	VIA_SWITCHED = 10, // on another stack of the thread's, where the runtime that changed stacks says that it left it
	VIA_CALL_SITE = 11, // inferred: a return probe has replaced the address, and no other call can have led to the frame below; or, of a frame above one that is missing
	                    // there, all calls that can have led to the frame below come from there
	VIA_COUNT
};
const char *frame_via_name(unsigned via); // "none", "cfi", "expr", "fp", "leaf_rule", "kernel", "signal", "branches", "landing", "code", "switched", "call_site"; "unknown"
// Without CFI. FP and LEAF_RULE are most often right, but nothing says so. CODE is as good as the code that can be read: what instructions do is exact, but that
// a call returns, that a way is ever taken and that the bytes are those that ran is assumed; so it counts as guessed, too.
static inline bool frame_via_is_guessed(unsigned via)
{
	return via == VIA_FP || via == VIA_LEAF_RULE || via == VIA_CODE || via == VIA_CALL_SITE;
}

// Whether user space of a machine (EM_*) has return probes return there if no mapping says otherwise: the trampoline is where the kernel puts it unless something
// else is there, and no record tells of it.
bool unwind_is_probe_return(uint16_t machine, uint64_t addr);

struct frame {
	uint64_t addr; // run time, as the kernel writes callchains: a return address is not reduced
	uint8_t kind;  // enum frame_kind: RETURN looks up at addr - 1, the others at addr
	uint8_t via;   // enum frame_via: how this frame was found from the one below it
};

static inline uint64_t frame_lookup_addr(const struct frame *frame)
{
	return frame->kind == FRAME_RETURN && frame->addr > 0 ? frame->addr - 1 : frame->addr;
}

// CFI of one image, compiled on first touch; shared by all processes that map it. Made and freed by anyone; looked up by one
// thread at a time (each drain or reader thread's cache holds what it compiled).
struct unwind_image;
// Finds .eh_frame (with or without .eh_frame_hdr) and .debug_frame; an image without CFI is fine (frame pointers remain).
// Keeps a reference on `image`. Touches (faults in) the pages of the CFI when `populate`.
bool unwind_image_new(struct unwind_image **out, struct image *image, bool populate, struct err *err);
// The .debug_frame that stripping moved into the image's debug file, believed as the image's own would be. Before the first stack; keeps a reference on
// `debug` where it has any. Nothing happens where the image has one itself, or where its code is not at the debug file's addresses (it was prelinked).
void unwind_image_add_debug(struct unwind_image *image, struct image *debug);
void unwind_image_free(struct unwind_image *image);
size_t unwind_image_bytes(const struct unwind_image *image); // heap in use

// What stands at an address.
struct unwind_map {
	uint64_t start, end; // the mapping that holds the address
	uint64_t bias;       // run-time address - link-time address
	struct unwind_image *image; // NULL: see `missing`
	enum unwind_end missing;    // with image NULL: UNWIND_NO_MAPPING, _NO_IMAGE, _DEFERRED, _UPROBE_TRAMPOLINE, or _NO_CFI for
	                            // anonymous (JIT) code, where frame pointers are tried
};
typedef struct unwind_map unwind_map_fn(void *context, uint64_t addr);
// Memory beside the copy, as a core file has it: the word of `bytes` (4 or 8) at an aligned address. false: not there.
typedef bool unwind_read_fn(void *context, uint64_t addr, unsigned bytes, uint64_t *out);

// Code that is in no image, as of a JIT compiler: the bytes [start, end) around an address as they were when the registers were taken, as far as somebody has
// them. They are there until the same callback is asked again. `id` is that of these bytes and of no others, for ever; 0: nobody has any.
struct unwind_code {
	const uint8_t *bytes;
	uint64_t start, end, id;
};
typedef struct unwind_code unwind_code_fn(void *context, uint64_t addr);

enum { UNWIND_MAX_FRAMES = 8000 }; // a record of 65,535 bytes holds them, the mark of a gap among them

struct unwind_input {
	uint16_t machine;        // EM_X86_64, EM_AARCH64, EM_386
	const uint64_t *regs;    // one per set bit of `regs_mask`, from the lowest: PERF_SAMPLE_REGS_USER
	uint64_t regs_mask;
	const uint8_t *stack;    // the copy, from sp upwards
	size_t stack_size;       // valid bytes
	size_t stack_asked;      // bytes that were to be copied; 0: no more than there are. The kernel copies with page faults off, and stops at the first page that
	                         // is not in memory (perf_output_sample_ustack in kernel/events/core.c), be it the mapping's end or one that nobody touched yet
	uint64_t stack_top;      // end of the thread's stack if known, else 0
	uint64_t generation;     // of the address space: what the map callback answers is stable while it is the same
	unwind_map_fn *map;
	void *map_context;
	unwind_read_fn *read;    // NULL: there is nothing but the copy
	void *read_context;
	const struct unwind_other *other; // other stacks of the thread's; NULL: none are known
	unwind_code_fn *code;    // NULL: nobody has code but images
	void *code_context;
};

// Leaf first; the frames are the caller's buffer. Of a stack with more frames than `capacity` (or UNWIND_MAX_FRAMES, N of them) the leaf's N / 2 and the
// root's N / 2 - 1 are kept: those that were left out stood before frame `gap`, and the end is
// UNWIND_DEPTH_LIMIT, whatever it would be else.
struct unwind_stack {
	struct frame *frames;
	size_t capacity, count;
	size_t gap; // 0: none
	enum unwind_end end;
	uint64_t last_cfa; // of the outermost frame found: for a root, where the thread's stack begins, if it is the one that was copied
	unsigned switches; // how often it went on on another stack
	// With UNWIND_OTHER_STACK, what would be needed of the thread, as far as its stack tells: that it is one of Go's (else a signal's handler has a stack of its own);
	// the goroutine's g, 0: not told; its own stack, not a goroutine's.
	bool lacks_goroutine;
	uint64_t lacks_g;
	bool lacks_system;
};

struct unwinder; // one per thread: the rule cache
struct unwinder *unwinder_new(void);
struct unwinder *unwinder_new_in_heap(void); // its tables lie where mem_expect_much has put what comes from malloc
void unwinder_free(struct unwinder *unwinder);
// Never fails, never allocates on the hot path (only when an FDE is compiled): what could not be done is in out->end.
void unwind_stack(struct unwinder *unwinder, const struct unwind_input *input, struct unwind_stack *out);
// The same for many: a frame of each in turn, so that what one waits for of memory comes while the others go on.
void unwind_stacks(struct unwinder *unwinder, const struct unwind_input *inputs, struct unwind_stack *outs, size_t count);

struct unwind_counters {
	uint64_t samples, frames, cache_hits, cache_misses, fdes_compiled, rows_compiled, slow_rows;
};
struct unwind_counters unwinder_counters(const struct unwinder *unwinder);

// Registers to ask the kernel for (perf_event_attr.sample_regs_user) and where pc, sp stand, for a machine; false: not supported.
struct unwind_regs { uint64_t mask; unsigned pc, sp; }; // pc, sp: perf register numbers
bool unwind_regs_for(uint16_t machine, struct unwind_regs *out);

#endif
