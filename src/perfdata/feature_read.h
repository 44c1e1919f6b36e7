// The bodies of perf.data's features, read. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_FEATURE_READ_H
#define PERFSAMPLE_PERFDATA_FEATURE_READ_H

#include "base/arena.h"
#include "base/bytes.h"
#include "perfdata/event_table.h"
#include "perfdata/reader.h"

// Reads one feature (of a file's section or a stream's record) into `features`, or names and groups into `events`. Features not
// known here are left alone. STATUS_INPUT with the offset in the body and what was expected there.
bool feature_read(struct reader_features *features, struct event_table *events, struct arena *arena, unsigned feature, struct bytes body,
                  struct err *err);
// One build ID, as in the BUILD_ID feature and in BUILD_ID records. false: too short.
bool feature_read_build_id(struct reader_features *features, struct arena *arena, struct bytes *in);
void features_release(struct reader_features *features);

#endif
