// What two unwinders say of one stack, and which of them is right where they differ.
//
// Proven is only what the functions' instructions say (debug_witness.h): from the first frame on that the two differ in, they have to lead to the frames of one of
// them, to the stack's end. What else speaks for one of them, where instructions do not tell (code that is in no file), is called likely.
#ifndef PERFSAMPLE_CMD_DEBUG_KINDS_H
#define PERFSAMPLE_CMD_DEBUG_KINDS_H

#include <stddef.h>

#include "cmd/debug_witness.h"
#include "unwind/unwind.h"

enum kind {
	KIND_SAME,
	KIND_OTHER_END,    // the same frames
	KIND_PEER_WRONG,   // by the instructions: libunwind's frame is not the caller, ours is, and all further ones are right
	KIND_PEER_STOPS,   // by the instructions: it wants a register from below sp, which was popped already and is in no copy; ours goes on rightly
	KIND_LANDING,      // a throw is about to go on: ours has the frame that handles, libunwind those to be left before it as well, or it goes astray among them
	KIND_LEFT_OUT,     // likely: libunwind leaves a caller out, which stands behind a call that can have led here
	KIND_NO_CALL,      // likely: what libunwind finds stands behind no call; nothing tells whether ours is right
	KIND_OURS_LONGER,
	KIND_THEIRS_LONGER,
	KIND_DIVERGED,
	KIND_OURS_WRONG,   // by the instructions: the frame that ours has, or its end, is not the caller
	KIND_BOTH_WRONG,   // the same of frames that both have
	KIND_COUNT
};
const char *kind_text(enum kind kind);

// `third`: what the witness found; NULL, as `witness`: there is none. `*at`: the first frame in which they differ, or, where a kind is about ours, in which it is wrong.
enum kind kind_of(struct witness *witness, const struct unwind_input *input, const struct unwind_stack *ours, const struct unwind_stack *theirs,
                  const struct unwind_stack *third, size_t *at);

#endif
