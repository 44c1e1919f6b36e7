// The zstd stream inside COMPRESSED records: one stream a file, whose records may be cut anywhere. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_INFLATE_H
#define PERFSAMPLE_PERFDATA_INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct inflate;
struct inflate *inflate_new(void);
void inflate_free(struct inflate *inflate);
// Hands over the body of one COMPRESSED record (copied, below 64 KiB). Everything before must have been drained.
void inflate_feed(struct inflate *inflate, const void *bytes, size_t size);
// As input_peek. NULL: not zstd, or more than 1000 times what was fed; what is left of the record is dropped then.
uint8_t *inflate_peek(struct inflate *inflate, size_t need, size_t *available, struct err *err);
void inflate_skip(struct inflate *inflate, size_t size);

// All of a recording: what was fed, and what came of it.
struct inflate_work { uint64_t fed, bytes, records; };
// One more record of that size. false: so little cannot hold so much by honest means, and to read on may take for ever.
bool inflate_count(struct inflate_work *work, size_t size, struct err *err);

#endif
