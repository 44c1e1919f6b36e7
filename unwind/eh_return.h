// Throwing functions, where they are about to go on in the frame that handles the exception.
#ifndef PERFSAMPLE_UNWIND_EH_RETURN_H
#define PERFSAMPLE_UNWIND_EH_RETURN_H

#include "unwind/walk.h"

// A frame whose row saves the registers in which a landing pad gets the exception: compilers have that in functions that use __builtin_eh_return alone.
struct eh_frame {
	uint64_t sp, cfa;
	uint64_t ra_slot; // where its return address is saved
	unsigned ra_column;
};

// Whether the registers that the frame would restore are, in part or all, those of the frame that handles the exception. Then `*to` and `*ra`, which are as the row
// tells, become that frame's: its return address is that of the call that it made, the callees between are left out. false: the row told the truth, or nobody knows.
bool eh_return_target(struct walk *walk, const struct eh_frame *frame, const struct cfi_row *row, struct register_set *to, uint64_t *ra);

#endif
