// libunwind behind the walk's interface: slower, made by others, hence an oracle. Where the library or its header is missing, or for another machine
// than this one's, libunwind_new answers false and says why.
#ifndef PERFSAMPLE_UNWIND_LIBUNWIND_BACKEND_H
#define PERFSAMPLE_UNWIND_LIBUNWIND_BACKEND_H

#include "unwind/unwind.h"

struct libunwind;
// Loads the library. STATUS_HOST: not to be had.
bool libunwind_new(struct libunwind **out, struct err *err);
void libunwind_free(struct libunwind *peer); // NULL is allowed
// As unwind_stack. It reads .eh_frame_hdr only; `gap` is never set: a stack of more frames than `capacity` ends there. A machine other than
// this host's is UNWIND_UNSUPPORTED.
void libunwind_stack(struct libunwind *peer, const struct unwind_input *input, struct unwind_stack *out);

#endif
