// Our part of PERF_SAMPLE_RAW: what a live-unwound call chain cannot say for itself.
//
// Layout, little endian: u8 version (1); u8 end reason (enum unwind_end); u8 splice; u8 reserved 0; then runs over the user frames,
// leaf first: uleb length, u8 kind << 4 | via (enum frame_kind, enum frame_via); padding; and in the last 8 bytes of the raw
// data u32 length of our part (these 8 bytes included) and u32 magic "PSn1". In a tracepoint's sample our part follows the
// tracepoint's own bytes; the length tells where it starts.
#ifndef PERFSAMPLE_PERFDATA_NOTE_H
#define PERFSAMPLE_PERFDATA_NOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "unwind/unwind.h" // enums and struct frame only

enum splice { SPLICE_NONE = 0, SPLICE_EXACT = 1, SPLICE_CHECKED = 2 };
const char *splice_name(unsigned splice); // "none", "exact", "checked"

struct note {
	enum unwind_end end;
	enum splice splice;
};

// Appends the u32 raw size, `raw` (a tracepoint's own bytes, or nothing), our part, padded so that size field and data are a
// multiple of 8 together, as the kernel keeps it.
void note_encode(struct buf *out, const struct note *note, const struct frame *frames, size_t count, const void *raw, size_t raw_size);
// false: no note of ours in there. kinds[i] gets kind << 4 | via of user frame i for i < capacity; frames the note does not cover are
// left alone. *raw_size becomes the size of the event's own bytes.
bool note_decode(const uint8_t *raw, size_t size, struct note *note, uint8_t *kinds, size_t capacity, size_t *covered, size_t *raw_size);

#endif
