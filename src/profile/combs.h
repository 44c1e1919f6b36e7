// Two events that sample the same clock at two badly approximable periods, so that each can be held against the other (src/DESIGN.md, Statistics, 3).
#ifndef PERFSAMPLE_PROFILE_COMBS_H
#define PERFSAMPLE_PROFILE_COMBS_H

#include "profile/profile.h"

enum { COMB_FIRST_NS = 2341046, COMB_SECOND_NS = 2606182 };

// Two clock events that are alike but for their periods, one at the second of these, the other at the first or at one that is to be tested,
// become one: its samples are those of both (profile_sample.comb says whose), each worth the CPU time that lies between two of either comb; what
// was due, lost and idle adds up. Others stay as they are. Returns whether there were such.
bool profile_pool_combs(struct profile *profile);

#endif
