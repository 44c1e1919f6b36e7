// Samples as bytes: from the kernel's record to the one that goes into the file. No state, no system calls.
#ifndef PERFSAMPLE_RECORD_SAMPLE_H
#define PERFSAMPLE_RECORD_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "perf/record.h"
#include "perfdata/note.h"
#include "unwind/unwind.h"

// How the file's records of an event are laid out when its stacks are unwound while recording: registers and stack copy give way to a call
// chain and our note in RAW.
uint64_t sample_type_live(uint64_t sample_type);

// Bytes of a sample record from its header to where the call chain stands (or would stand); 0 when the record is too short for them.
size_t sample_prefix_bytes(const struct record_layout *layout, const struct perf_event_header *header);

// Appends the sample with the stack's frames as the user part of its call chain: the kernel's part as it was, PERF_CONTEXT_USER, the addresses, a
// second PERF_CONTEXT_USER at the gap, where frames were left out; then the note, whose runs cover the frames alone. Of frames that a record
// (65,528 bytes) cannot hold those in the middle are left out, and note->end becomes UNWIND_DEPTH_LIMIT. false: the record makes no sense
// (nothing was appended).
bool sample_encode_live(struct buf *out, const struct record_layout *layout, const struct record *record, const struct unwind_stack *stack,
                        struct note *note);

// Appends the sample with only the first `keep` bytes of its stack copy (rounded down to a multiple of 8; never more than dyn_size): size, dyn_size and
// header.size rewritten.
void sample_copy_trimmed(struct buf *out, const struct record *record, uint64_t keep);

#endif
