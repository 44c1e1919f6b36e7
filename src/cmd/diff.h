// What diff and compare share: how a comparison is chosen, written and judged.
#ifndef PERFSAMPLE_CMD_DIFF_H
#define PERFSAMPLE_CMD_DIFF_H

#include "base/err.h"
#include "report/diff.h"
#include "report/trials.h"

struct diff_choices {
	struct diff_options options;
	const char *format, *gate_function;
	bool has_gate, strict;
	double gate_limit;
	size_t top;
};
void diff_choices_init(struct diff_choices *choices);
// Writes it on standard output. `status`: STATUS_NO where the gate fails; an undecided gate with `strict` is STATUS_STRICT.
struct diff_names { const char *base, *new_, *paired_metric; const struct trials *paired; /* of compare */ };
bool diff_write(const struct diff_choices *choices, const struct diff *diff, const struct diff_names *names, int *status, struct err *err);
// --fail-over's value.
bool diff_set_gate(struct diff_choices *choices, const char *text, const char *spelled, struct err *err);

#endif
