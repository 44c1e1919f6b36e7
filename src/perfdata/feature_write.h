// The bodies of perf.data's standard features, as bytes to be written. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_FEATURE_WRITE_H
#define PERFSAMPLE_PERFDATA_FEATURE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "perfdata/writer.h"

enum { WRITTEN_ATTR_BYTES = PERF_ATTR_SIZE_VER7 }; // the largest that perf 6.1 reads

struct feature_input { // an event and all its ids
	const struct perf_event_attr *attr;
	const char *name;
	const uint64_t *ids;
	size_t id_count;
	int32_t group_leader;
	uint32_t group_members;
};

// The attr as written: cut or zero-extended to WRITTEN_ATTR_BYTES, its size member telling so.
void feature_attr(struct buf *out, const struct perf_event_attr *attr);
// Appends the body of standard feature `feature`; false: there is nothing to say, so leave the feature out.
bool feature_write(struct buf *out, unsigned feature, const struct writer_info *info, const struct feature_input *events, size_t count);
// One build ID: an entry of the BUILD_ID feature (type 0) or a record of a pipe (RECORD_USER_BUILD_ID).
void feature_build_id(struct buf *out, const struct writer_build_id *build_id, uint32_t type);

#endif
