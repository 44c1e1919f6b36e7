#include "report/left_out.h"

#include <stdlib.h>

#include "profile/weights.h"

size_t report_left_out(const struct profile *p, uint32_t event, struct buf *out)
{
	uint64_t *counts = mem_zero(p->events.count + 1, sizeof(*counts));
	size_t others = 0;
	if (p->events.count > 1)
		profile_count_events(p, counts);
	for (uint32_t i = 0; i < p->events.count; i++) {
		if (i == event || counts[i] == 0)
			continue;
		buf_printf(out, "%s%s (", others++ > 0 ? ", " : "", profile_text(p, p->events.data[i].name));
		buf_grouped(out, counts[i]);
		buf_string(out, counts[i] == 1 ? " sample)" : " samples)");
	}
	free(counts);
	return others;
}
