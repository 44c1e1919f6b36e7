// Mappings of zip archives (Android's APK), out of which images are loaded where they are stored uncompressed: made mappings of those images. Inside load/ only.
#ifndef PERFSAMPLE_LOAD_ARCHIVES_H
#define PERFSAMPLE_LOAD_ARCHIVES_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/vec.h"
#include "perf/record.h"

struct archived { char *path; uint64_t start; }; // path NULL: nothing is there

struct archives {
	const char *symfs; // prefix for every path, or NULL
	VEC(struct archived) known;
	struct hash_map by_place; // hash of path and offset -> index into known
	struct buf rewritten;     // the last record that was changed
};

void archives_release(struct archives *archives);
// A MMAP or MMAP2 of an archive's bytes gets the name ARCHIVE!/ENTRY, as simpleperf names it, and the offset within that entry: also its bytes, for
// whom they are handed on to (`trailer_bytes` of them follow the name). Names are looked at first (.apk, .apex, .jar,
// .zip), so that no other file is opened. false: it is as it was. What it points to lives until the next call.
bool archives_enter(struct archives *archives, struct record *record, size_t trailer_bytes);

#endif
