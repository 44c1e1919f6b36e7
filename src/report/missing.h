// Which images keep samples without names, and how many: the model behind `report --missing`.
#ifndef PERFSAMPLE_REPORT_MISSING_H
#define PERFSAMPLE_REPORT_MISSING_H

#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"
#include "report/report.h"

struct missing_image {
	uint32_t dso;         // PROFILE_NONE: addresses in no mapping
	uint32_t comm;        // intern id: of the first sample concerned
	uint64_t self;        // samples whose innermost frame has no name
	uint64_t bounded;     // of those, in functions whose bounds are known: a row each
	uint64_t anywhere;    // samples with such a frame anywhere on the stack
	uint64_t addresses;   // distinct ones
	uint64_t seen;        // private: number of the sample that had it last, + 1
};

struct lineless_image { // its functions have names, but neither lines nor inlined functions are known
	uint32_t dso;
	uint64_t self; // samples in it
};

struct missing {
	VEC(struct missing_image) images;   // by `self`, then `anywhere`, largest first
	VEC(struct lineless_image) lineless; // by `self`, largest first
	uint64_t samples;                   // that the filter keeps, idle ones apart
	uint64_t self, anywhere;            // of them, with no name innermost; with one missing somewhere
	uint64_t bounded;                   // of `self`: in functions whose bounds are known
};

// Counts samples, not weights. A zeroed struct is an empty result; release it in any case.
void missing_build(struct missing *missing, const struct profile *profile, const struct report_filter *filter);
void missing_release(struct missing *missing);

#endif
