// Names of what was sampled, for the file: looked up once, after the session has ended.
#ifndef PERFSAMPLE_CMD_RECORD_NAMES_H
#define PERFSAMPLE_CMD_RECORD_NAMES_H

#include "perfdata/names.h"
#include "record/session.h"
#include "symbols/symbolizer.h"

struct record_names_options {
	double time_limit_s;
	bool no_cache;                 // of decompressed debug sections
	struct debuginfod *debuginfod; // or NULL
	const char *const *debug_dirs; // NULL-terminated, before the usual ones; or NULL
};

// Fills names->images; `roots`: how many call chains that the kernel walked end in a function known to be a root. Strings live as long as the symbolizer, which the caller frees after the names were written.
struct symbolizer *record_names(struct names *names, const struct session *session, const struct record_names_options *how, uint64_t *roots);

#endif
