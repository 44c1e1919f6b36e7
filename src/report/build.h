// Inside the room: the steps by which report_build makes one event's part of the model, in this order.
#ifndef PERFSAMPLE_REPORT_BUILD_H
#define PERFSAMPLE_REPORT_BUILD_H

#include "report/report.h"
#include "report/tally.h"

struct build {
	struct report *report;
	const struct profile *profile;
	const struct report_options *options; // the report's own
	uint32_t event_id;
	struct report_event *event;           // filled
	struct tally tally;
	struct tie *ties;                     // by row of the tally; NULL: no loss, or none that can be placed
	double confidence;                    // of a row's intervals: all rows share the error with `simultaneous`
	bool *aliased;                        // by row of the tally, where aliasing is suspected; else NULL
	bool off[TALLY_BLOCKS];               // blocks of time in which a multiplexed event never ran
};
// The loss and a row: BH-adjusted p of the test in windows with loss against those without, and the share if loss struck each window alike.
struct tie { double z, q, imputed; };

bool build_keeps_cpu(const struct report_filter *filter, uint32_t cpu);
double build_located_loss(const struct build *b);
bool build_counts_loss(const struct build *b, const struct profile_loss *loss);

// What was due, what came, what did not, what it cost (sections 5 and 6).
void account_event(struct build *b);
// Where the loss lies: worst second, span, burst test, and which rows it is tied to. After the tally, before the rows.
void place_losses(struct build *b);
// Whether two combs agree.
void test_aliasing(struct build *b);
// Whether a loop keeps step with the sampling period.
void test_lockstep(struct build *b);
// Rows with measures, sorted, ranked (sections 2, 4, 7), with intervals where they are asked for.
void build_rows(struct build *b);
void find_ranges(struct build *b);
// Caveats and verdict.
void judge_event(struct build *b);
// Those that the options ask for.
void choose_rows(struct build *b);
// Callers or callees of the rows kept.
void build_calls(struct build *b);

const char *report_printf(struct report *report, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
