// What the samples of a recording lack, for commands whose format has no place for it.
#ifndef PERFSAMPLE_CMD_LACKS_H
#define PERFSAMPLE_CMD_LACKS_H

#include "report/report.h"

// A report of what became of the samples, for commands that make no other: one row, whatever functions there are. STATUS_USAGE as report_build; it is
// released by the caller in any case.
bool lacks_find(struct report *report, const struct profile *profile, const struct report_filter *filter, bool idle, struct err *err);
// On standard error the report's verdict on the samples of `event`, in its words and on one line, where it is not sound (report_verdict_of_samples); of
// each event, by its name, with PROFILE_NONE. What the loader has to say, select_load has said.
void lacks_say(const struct report *report, uint32_t event);

#endif
