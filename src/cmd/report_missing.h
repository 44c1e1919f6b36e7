// `perfsample report --missing`: which images keep samples without names, why, and what would help.
#ifndef PERFSAMPLE_CMD_REPORT_MISSING_H
#define PERFSAMPLE_CMD_REPORT_MISSING_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"
#include "report/report.h"

// `format`: "text", "json" (perfsample-missing/1) or "tsv".
void report_missing(const struct profile *profile, const struct report_filter *filter, const char *format, struct buf *out);

#endif
