// What a command or a picture that is of one event leaves out of a recording of several.
#ifndef PERFSAMPLE_REPORT_LEFT_OUT_H
#define PERFSAMPLE_REPORT_LEFT_OUT_H

#include "base/buf.h"
#include "profile/profile.h"

// Appends "instructions (1,204 samples), page-faults (1 sample)": the other events that have samples. Names are not escaped. Returns how many there are.
size_t report_left_out(const struct profile *profile, uint32_t event, struct buf *out);

#endif
