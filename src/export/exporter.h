// An exporter: src/export/NAME.c defines `const struct exporter exporter_NAME`; the makefile lists the folder. Knows the model, not where bytes go.
#ifndef PERFSAMPLE_EXPORT_EXPORTER_H
#define PERFSAMPLE_EXPORT_EXPORTER_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"
#include "report/report.h"

struct export_input {
	const struct profile *profile;     // always there
	const struct report *report;       // for exporters of reports: text, json, tsv
	const struct report_filter *filter; // for exporters of samples: folded, script, …; NULL: everything
	size_t columns;                    // terminal width; 0: not a terminal (80)
	size_t rows;                       // of function rows to show; 0: all
	bool color, wide;
	bool inlines, kernel_marks, addrs, with_pid, with_tid; // folded
	bool guess_marks;                  // folded: "_[g]" behind functions whose frame was found without CFI
	bool inline_marks;                 // folded: "_[i]" behind inlined functions, for flame graphs
	const char *const *function_marks; // folded: by function of the profile, what stands behind its name, or NULL; for flame graphs
	bool idle;                         // folded: samples of pid 0 too
	bool by_period;                    // what is counted is periods, not samples: where the samples' differ, shares are of them (profile/weights.h)
	bool both_counts;                  // folded: behind each count the number of samples, for flame graphs
	uint32_t event;                    // folded: index of the event whose samples are counted
	bool header, hide_calls;           // script: --header, -G
	size_t first_sample, sample_count; // script: a slice, so that long outputs are written in pieces; count 0: all
	const char *explain;               // text: the row to explain, or NULL
	const char *fields;                // script's -F, or NULL
	bool merge_threads;                // speedscope: one profile instead of one a thread
	// folded: takes what is written so far and empties it, so that a long text is never there whole; false: no more is wanted. NULL: all stays.
	bool (*drain)(void *context, struct buf *out, struct err *err);
	void *drain_context;
};

struct exporter {
	const char *name;
	const char *extension;   // "svg", "json", …
	const char *description; // one line for --help
	bool needs_report;
	bool is_gzipped;         // its readers expect gzip whatever the file's name is; who writes the bytes packs them
	bool (*write)(const struct export_input *input, struct buf *out, struct err *err);
};
extern const struct exporter *const exporters[]; // NULL-terminated, generated
const struct exporter *exporter_find(const char *name); // export/find.h's only function; NULL: none of that name

#endif
