// One function's samples by source line and by instruction: the model behind `perfsample annotate`.
//
// A sample counts where it was taken: at its innermost frame. For a function that has code, lines are those the code comes from, inlined
// functions' among them. A name that was only ever inlined is annotated over all the places that it was inlined into: its own lines.
// Functions of a file that have one name (instances of a generic one, file-local ones of several sources) are one, as in a report: their lines
// together, their code one after another.
#ifndef PERFSAMPLE_ANNOTATE_ANNOTATE_H
#define PERFSAMPLE_ANNOTATE_ANNOTATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/vec.h"
#include "profile/profile.h"
#include "report/estimate.h"
#include "report/report.h"
#include "symbols/symbolizer.h"

struct annotate_options {
	const char *symbol;                // as shown, or as in the symbol table
	const struct report_filter *filter;
	uint32_t event;
	double confidence;
	double missing;                    // samples that loss and silence hide, where that is worth showing; else 0
	struct symbolizer_options where;   // how binaries are found
	bool no_instructions;
};

struct annotate_count {
	uint64_t samples;
	double share;          // of all samples of the event; of their periods where these differ, as in a report
	struct interval range; // in these seconds; the worst case where samples are missing
};

struct annotate_line {
	const char *file; // "" when unknown
	uint32_t line;    // 0: unknown
	struct annotate_count count;
};

struct annotate_instruction {
	uint64_t vaddr;      // link-time address; run time for code that has no file
	const char *text;    // "" when the code is not at hand
	const char *file;    // of the line it comes from; "" unknown
	uint32_t line;
	const char *inlined; // innermost function inlined there, or NULL
	struct annotate_count count;
};

struct annotation { // strings live in the arena or the profile
	struct arena arena;
	const char *symbol, *dso;
	const char *image_file;       // the code was read from; NULL: not found
	bool is_inlined;              // the name has no code of its own
	bool is_capped;               // the function is longer than what is shown
	struct annotate_count count;  // of the whole function
	uint64_t samples;             // of the event, all that the filter keeps
	double weight, n;             // their weights; how many samples of equal weight they are worth
	bool is_weighted;             // the weights differ
	VEC(struct annotate_line) lines;               // with samples; by file (the one with most samples first), then line
	VEC(struct annotate_instruction) instructions; // by address; all of the function's where its code is at hand
	size_t copies;                // functions of that name in the file that have samples; 1 for one that was only inlined
	VEC(const char *) others;     // of that name, not among these: "12 samples in libx.so (-d chooses)"
	char note[256];               // why there are no instructions; "" when there are
};

// STATUS_USAGE: no sample's innermost function has that name; names a close one. Release in any case.
bool annotate_build(struct annotation *out, const struct profile *profile, const struct annotate_options *options, struct err *err);
void annotation_release(struct annotation *annotation);

#endif
