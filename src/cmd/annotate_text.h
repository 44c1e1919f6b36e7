// An annotation as text and as JSON.
#ifndef PERFSAMPLE_CMD_ANNOTATE_TEXT_H
#define PERFSAMPLE_CMD_ANNOTATE_TEXT_H

#include "annotate/annotate.h"
#include "base/buf.h"

struct annotate_view {
	bool no_source, no_instructions;
	uint32_t context;          // source lines around those with samples
	const char *symfs;         // sources are looked for there first; or NULL
	uint64_t recorded_wall_ns; // when; 0: unknown
	bool is_worst_case;        // what the ranges are
};

void annotate_text(const struct annotation *annotation, const struct annotate_view *view, struct buf *out);
// perfsample-annotate/1
void annotate_json(const struct annotation *annotation, struct buf *out);

#endif
