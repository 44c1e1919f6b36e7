// A comparison as text, JSON (perfsample-diff/1) and markdown.
#ifndef PERFSAMPLE_EXPORT_DIFF_H
#define PERFSAMPLE_EXPORT_DIFF_H

#include <stdbool.h>

#include "base/buf.h"
#include "report/diff.h"
#include "report/trials.h"

struct diff_output {
	const struct diff *diff;
	const char *base, *new_;        // what the sides are called: paths
	size_t rows;                    // of functions; 0: all
	size_t columns;
	const struct gate_result *gate; // NULL: none asked for
	double gate_limit;
	const struct trials *paired;    // of compare: the whole, by pairs; NULL: no pairs
	const char *paired_metric;
};

void diff_text(const struct diff_output *output, struct buf *out);
void diff_markdown(const struct diff_output *output, struct buf *out);
void diff_json(const struct diff_output *output, struct buf *out);

// "CPU ms/req", and what a value of the metric is multiplied with for it.
double diff_unit(const struct diff *diff, char *text, size_t size);

#endif
