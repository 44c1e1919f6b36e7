// How long to record (statistics, section 7): pure functions of numbers.
#ifndef PERFSAMPLE_REPORT_PLAN_H
#define PERFSAMPLE_REPORT_PLAN_H

#include <stdbool.h>
#include <stddef.h>

enum plan_goal { PLAN_WITHIN /* a share within +- */, PLAN_CHANGE /* a change between two recordings */, PLAN_RANK /* two rows told apart */,
	PLAN_SEEN /* a share that shows up at all */ };

enum { PLAN_MIN_RUNS = 3 }; // a side, below which diff discovers nothing
enum { PLAN_BLOCKS_DF = 19 }; // of the blocks that a recording's design effect is told by, less one

struct plan_input {
	enum plan_goal goal;
	double share, other;     // other: of the second row
	double share_n;          // samples of equal weight that the share was told by; 0: it is taken as it is
	double half_width;       // of the share
	double change;           // relative, of the function's time alone
	double confidence, power;
	size_t runs, functions;  // PLAN_CHANGE: runs a side, at least 3; functions that diff tests, as false discoveries are shared among them
	double deff, deff_df;    // 0: not known; how sure it is, in degrees of freedom: blocks of the recording - 1
	double period_s, cpus_busy;
};

struct plan {
	double samples;          // of one recording, worth as much as independent ones
	double recorded;         // samples to be taken: times deff, or somewhat more where the change makes samples cluster more, or for the width to be met with `power`
	bool is_assured;         // PLAN_WITHIN: so reckoned; false: the width is what is expected, if samples cluster no more than this
	double seconds;          // of wall time, a recording
	bool at_least;           // deff is not known
	bool longer;             // deff > 2: a higher rate will not help
	double changed_share;    // PLAN_CHANGE: the share after the change
};

struct plan plan_for(const struct plan_input *input);

#endif
