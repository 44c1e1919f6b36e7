// Recomputes a table of test vectors (TSV, one header line) and compares: how the implementation of the statistics is proved.
#ifndef PERFSAMPLE_REPORT_VECTORS_H
#define PERFSAMPLE_REPORT_VECTORS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

struct vectors_result {
	size_t rows, cells, wrong;
	double worst;      // largest relative difference of a cell, absolute at 0
	char where[160];   // row and column of it
};

// The table is known by its header line. `tolerance` is relative, 1e-12 absolute at 0; integers must agree exactly. Cells that differ
// more are described in `report`, one line each (at most 20). STATUS_INPUT: a header or row that is not understood.
bool vectors_check(const char *text, double tolerance, struct vectors_result *result, struct buf *report, struct err *err);

#endif
