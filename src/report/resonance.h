// Whether a sampling period keeps step with loops of usual lengths.
#ifndef PERFSAMPLE_REPORT_RESONANCE_H
#define PERFSAMPLE_REPORT_RESONANCE_H

#include <stdbool.h>

// The worst error of a loop's part, in standard errors of as many independent samples, that a clock of this period makes: the root of the mean square over
// where sampling begins, at worst over loops of 1 to 50 ms, parts of 5 to 50% of them, and recordings of 100 samples (from which on a report
// ranks) to 1,000. Computed, not simulated. Of the periods that were chosen for it 0.8 to 2; of 999 Hz 13.7, of 99 Hz 2.4. `loop_ms`: that loop.
double resonance_worst(double period_ms, double *loop_ms);
// That is above 3: the error of a loop's part may be several times what its interval allows for.
bool resonance_is_bad(double period_ms, double *loop_ms);

#endif
