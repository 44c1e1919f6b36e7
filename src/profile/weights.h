// What samples weigh. One recording gives one share of a function, whichever command shows it: so every one of them asks here.
#ifndef PERFSAMPLE_PROFILE_WEIGHTS_H
#define PERFSAMPLE_PROFILE_WEIGHTS_H

#include "profile/profile.h"

// Whether the samples of an event weigh unlike: those of a frequency of a hardware event, whose period the kernel adapts, of a clock that was opened anew at
// a coarser period, of two combs that were not pooled. Then shares are of their periods, else of their number, which comes to the same. False for
// stacks that were counted elsewhere (counts_by_weight), where not all samples tell a period (lacks_periods), and with an event that is not there.
bool profile_weights_differ(const struct profile *profile, uint32_t event);
// The samples of each event that are not idle, as many as `counts` has room for: one for each event.
void profile_count_events(const struct profile *profile, uint64_t *counts);

#endif
