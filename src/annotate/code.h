// The instructions of an annotated function, from its image. Inside annotate/ only.
#ifndef PERFSAMPLE_ANNOTATE_CODE_H
#define PERFSAMPLE_ANNOTATE_CODE_H

#include "annotate/annotate.h"

struct annotate_addr { // a sampled address
	uint64_t start; // of the function that it is in, image address; 0 for an inlined one, over all its places
	uint64_t image_addr, samples;
	double weight; // of the samples, as annotation.weight
	const char *file, *inlined; // as in annotate_instruction
	uint32_t line;
};

struct annotate_code {
	const struct profile *profile;
	const struct annotate_options *options;
	uint32_t dso;
	uint64_t start; // as its addresses have it
	const struct annotate_addr *addrs; // ascending
	size_t count;
};

// Appends to instructions, and fills image_file, is_capped and note.
void annotate_instructions(struct annotation *out, const struct annotate_code *code);
// Of the event's samples in `whole`.
struct annotate_count annotate_count(const struct annotate_options *options, uint64_t samples, double weight, const struct annotation *whole); // annotate.c

#endif
