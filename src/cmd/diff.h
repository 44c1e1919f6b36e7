// What diff and compare share: how a comparison is chosen, written and judged.
#ifndef PERFSAMPLE_CMD_DIFF_H
#define PERFSAMPLE_CMD_DIFF_H

#include "report/diff.h"

struct diff_choices {
	struct diff_options options;
	const char *format, *gate_function;
	bool has_gate, strict;
	double gate_limit;
	size_t top;
};
void diff_choices_init(struct diff_choices *choices);
// Writes it on standard output. `status`: STATUS_NO where the gate fails; an undecided gate with `strict` is STATUS_STRICT.
bool diff_write(const struct diff_choices *choices, const struct diff *diff, const char *base, const char *new_, int *status, struct err *err);

#endif
