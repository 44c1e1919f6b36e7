// The forms of --time, for report, script, fold and flame.
#ifndef PERFSAMPLE_REPORT_TIME_RANGE_H
#define PERFSAMPLE_REPORT_TIME_RANGE_H

#include "base/err.h"
#include "profile/profile.h"

// "+14,+16" (seconds from the start), "1234.5,1240" (the recording's clock, as script prints it), "14:02:25,14:03" or
// "2026-11-29T14:02:25Z,…" (wall clock, UTC), "10%,20%" or "10%-20%" (of the recording), "10%/2" (the second tenth). Either end may be left out. Sets the filter's from_ns and
// to_ns (0: no limit). STATUS_USAGE.
bool time_range_parse(const char *text, const struct profile *profile, uint64_t *from_ns, uint64_t *to_ns, struct err *err);

#endif
