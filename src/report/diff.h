// Two sides of recordings compared (statistics, section 8): the whole first, then function by function. A pure model: exporters print it.
#ifndef PERFSAMPLE_REPORT_DIFF_H
#define PERFSAMPLE_REPORT_DIFF_H

#include "report/digest.h"
#include "report/estimate.h"

// What is compared. Shares come last: they sum to 1, so that one function made faster raises all others.
enum diff_metric { METRIC_UNIT /* amount per unit of work */, METRIC_SECOND /* per second of wall time */, METRIC_SHARE };

struct diff_options {
	double units[2];          // work done on each side, all its runs together; 0: not known
	const char *unit;         // its name, "request"
	double confidence, fdr;   // 0.95, 0.05
	bool children;
};

enum diff_state {
	DIFF_FOUND,               // differs, by q
	DIFF_OPEN,                // not distinguishable
	DIFF_LOSS,                // q small, but loss could turn the sign: not robust to loss
	DIFF_FEW,                 // q small, but too few visits
	DIFF_WITHIN,              // q small, but one run a side says nothing of the next
	DIFF_RARE,                // fewer than 10 samples: not tested
};
const char *diff_state_name(enum diff_state state); // "differs", "not distinguishable", …

struct diff_row {
	const char *name, *dso;
	double k[2], share[2], value[2], deff[2]; // value: of the metric
	uint64_t visits[2];
	bool has_ratio;
	double ratio;
	struct interval ratio_ci;
	double difference;        // of the shares, new - base
	struct interval difference_ci;
	double p, q;              // q -1: not tested
	double detectable;        // relative change that 8 of 10 such comparisons would find; 0: not known
	enum diff_state state;
	const char *note;         // "gone", "new", "new (inlined into f before)", or NULL
};

struct diff_side { double n, amount, seconds, units, lost_share; size_t runs; };

struct diff {
	struct arena arena;
	struct diff_options options;
	enum diff_metric metric;
	bool is_clock;
	bool is_within;           // fewer than 3 runs on a side: q is a within-run one and nothing is a discovery
	struct diff_side sides[2]; // base, new
	const char *event;
	struct { double value[2], ratio; struct interval ci; double p, detectable; bool has; } total; // has: false with METRIC_SHARE
	VEC(struct diff_row) rows; // found ones first, then by how far apart
	size_t tested, found, open, fragile; // fragile: not robust to loss
	VEC(const char *) caveats;
};

// Digests of each side's runs; all comparable with one another (STATUS_INPUT otherwise).
bool diff_build(struct diff *diff, const struct digest *const *base, size_t base_runs, const struct digest *const *new_, size_t new_runs,
                const struct diff_options *options, struct err *err);
void diff_release(struct diff *diff);

// The gate of --fail-over: is the whole (function NULL) or a function more than `limit` (0.05) slower than before?
enum gate { GATE_PASSES, GATE_FAILS, GATE_INCONCLUSIVE };
struct gate_result { enum gate gate; const struct diff_row *row /* NULL: the whole */; char text[300]; };
// STATUS_USAGE: no such function on either side.
bool diff_gate(const struct diff *diff, double limit, const char *function, struct gate_result *result, struct err *err);

#endif
