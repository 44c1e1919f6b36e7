// The samples that are kept, counted by what they have in common: a stack and a context. For who asks for no moments. In the order of the first of each.
#ifndef PERFSAMPLE_EXPORT_COUNTS_H
#define PERFSAMPLE_EXPORT_COUNTS_H

#include "base/vec.h"
#include "export/exporter.h"

struct export_count { uint32_t stack, context; uint64_t samples, weight; };
struct export_counts { VEC(struct export_count) rows; };

// As export_keeps keeps them (place.h). Released by vec_release(&rows).
void export_counts_read(struct export_counts *counts, const struct export_input *input);
// A sample of the row's, without a moment.
struct profile_sample export_count_sample(const struct profile *profile, const struct export_count *row);

#endif
