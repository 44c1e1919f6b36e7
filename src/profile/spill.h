// Bytes that are set down in a temporary file and read where that is mapped, so that they need no memory of the process but what is being read: a
// segment after the other. Where the file cannot be made or the disk is full nothing is set down from then on.
#ifndef PERFSAMPLE_PROFILE_SPILL_H
#define PERFSAMPLE_PROFILE_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/vec.h"

struct spill_segment { void *at; size_t bytes; };
struct spill { // zeroed: empty
	int fd;
	bool is_open, has_failed;
	uint64_t from, end; // in the file, of the segment that is being written
	VEC(struct spill_segment) segments;
};

// Adds the pieces to the segment at hand, many at once: large writes cost half of small ones. false: that is lost, and so is what comes.
bool spill_write(struct spill *spill, const struct iovec *pieces, size_t count);
// Closes the segment at hand and returns where its bytes can be read until spill_release; NULL: nowhere.
const uint8_t *spill_map(struct spill *spill);
bool spill_holds(const struct spill *spill, const void *at); // without reading there
// A segment's memory goes, and comes again with who reads it.
void spill_drop(const struct spill *spill, size_t segment);
void spill_release(struct spill *spill);

#endif
