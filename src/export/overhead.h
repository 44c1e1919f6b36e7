// What trials say, as text and JSON (perfsample-overhead/1).
#ifndef PERFSAMPLE_EXPORT_OVERHEAD_H
#define PERFSAMPLE_EXPORT_OVERHEAD_H

#include <stdbool.h>

#include "base/buf.h"
#include "report/trials.h"

struct overhead_output {
	const struct trials *trials;
	const double *off, *on;      // of each pair
	const char *metric;
	bool higher_is_better, is_time, is_dummy;
	size_t warmups;
	double confidence;
	double recorder_share, lost_share; // means over the recorded trials
	const char *const *argv;     // the command, NULL-terminated
};
void overhead_text(const struct overhead_output *output, struct buf *out);
void overhead_json(const struct overhead_output *output, struct buf *out);

#endif
