// Code without CFI: where a function's caller is, read from the instructions that are still to come until the function is left. From the registers and the
// stack as they are at a pc each way leads to a return (or to a jump to another function), where the return address must be at sp; what stands there then is
// said by what it is now. That depends on the bytes of the code alone.
//
// All ways that end must say the same. Ways that end without a call in between are asked first, then those with one, and so on: a call may never return, and
// what stands behind it be another function. What callees pop is looked up in their own code.
#ifndef PERFSAMPLE_UNWIND_CODE_RULE_H
#define PERFSAMPLE_UNWIND_CODE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

// A value, as a function of the registers at pc: register `reg` (as instructions number it), or with `is_indirect` the word at `reg` + `inner`; plus `offset`. With
// PLACE_AT it is the word at that address.
enum code_place_kind { PLACE_NOWHERE, PLACE_VALUE, PLACE_AT };
struct code_place {
	uint8_t kind, reg;
	bool is_indirect;
	int32_t offset, inner;
};

struct code_rule {
	bool is_known; // false: nothing is said
	bool is_unsure; // not known, but so it is if what was called pops nothing, as in C: `ra`, `fp` and `sp` are set
	bool is_plain; // as if nothing had been done since the call: the return address at sp, nothing to be popped but it, and fp the caller's
	bool leaves_sp; // behind the return sp is right above where the return address is now
	struct code_place ra, fp;
	struct code_place sp; // of a return address in a register: the caller's sp; PLACE_NOWHERE: not known, at or above ours
};

// Code that one stretch of memory has. `addr` are those of that stretch, at will.
struct code_source {
	struct bytes code;
	uint64_t addr; // of its first byte
	// Whether a function that is known to leave its caller's sp alone begins at an address. NULL: nothing is known.
	bool (*begins)(void *context, uint64_t addr);
	// Whether an address outside of `code` is another function's; NULL: no.
	bool (*is_elsewhere)(void *context, uint64_t addr);
	void *context;
	// One compiler has made it, at run time: what returns with sp where it was calls others that do.
	bool is_generated;
};

enum code_when {
	CODE_AT,      // the instruction at pc is to run
	CODE_BEHIND,  // a call has returned there, and sp is above its return address
	CODE_BEHIND_ANY, // and sp is that or further above
};

// What a function has done to the stack from its beginning to a pc, which is met by one way at least; calls pop nothing.
struct code_entered {
	int64_t depth;  // the return address is so many bytes above sp
	bool is_same;   // the frame pointer is the caller's
	bool is_saved;  // or that is at sp + `saved`
	int64_t saved;
};
// Where the function begins is not known: of all beginnings that may be, from the nearest one on, what differs; at most `most`. How many were found. It takes up to 150 us.
typedef size_t code_enter_fn(const struct code_source *source, uint64_t pc, struct code_entered *out, size_t most);
code_enter_fn x86_enter;

struct code_follower; // room for its work, so that none is allocated later
struct code_follower *code_follower_new(void);
void code_follower_free(struct code_follower *follower);
// The rule at an address. It takes 5 us, at most some 30.
typedef void code_follow_fn(struct code_follower *follower, const struct code_source *source, uint64_t pc, enum code_when when, struct code_rule *out);
code_follow_fn x86_follow;

#endif
