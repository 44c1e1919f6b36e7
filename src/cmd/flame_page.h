// A profile as the flame graph's page: frames with their files and kinds, every sample with its thread and time, and the numbers from which
// the page makes the intervals of any part of it.
#ifndef PERFSAMPLE_CMD_FLAME_PAGE_H
#define PERFSAMPLE_CMD_FLAME_PAGE_H

#include "cmd/flame_changes.h"
#include "contrib/flamegraph/page.h"
#include "export/exporter.h"
#include "report/report.h"

// `input` names profile, filter, event and inlines; `event` is the report's of the same. `changes` NULL: no comparison.
bool flame_page_write(const struct export_input *input, const struct report *report, const struct report_event *event,
                      const struct flame_changes *changes, const struct flamegraph_options *options, struct buf *out, struct err *err);
// Whether a JIT compiler made it.
bool flame_is_jit(const struct profile *profile, const struct profile_function *function);

#endif
