// Merged recordings as text and JSON (perfsample-merge/1).
#ifndef PERFSAMPLE_EXPORT_MERGE_H
#define PERFSAMPLE_EXPORT_MERGE_H

#include "base/buf.h"
#include "report/hosts.h"

void merge_text(const struct hosts *merge, size_t rows /* 0: all */, size_t columns, struct buf *out);
void merge_json(const struct hosts *merge, size_t rows, struct buf *out);

#endif
