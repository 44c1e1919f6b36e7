// A plan as text and JSON (perfsample-plan/1).
#ifndef PERFSAMPLE_EXPORT_PLAN_H
#define PERFSAMPLE_EXPORT_PLAN_H

#include "base/buf.h"
#include "report/plan.h"

void plan_text(const struct plan_input *input, const struct plan *plan, struct buf *out);
void plan_json(const struct plan_input *input, const struct plan *plan, struct buf *out);

#endif
