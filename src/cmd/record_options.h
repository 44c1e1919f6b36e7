// The command line of `perfsample record`.
#ifndef PERFSAMPLE_CMD_RECORD_OPTIONS_H
#define PERFSAMPLE_CMD_RECORD_OPTIONS_H

#include "base/err.h"
#include "base/vec.h"
#include "cli/option.h"
#include "cmd/servers.h"
#include "record/session.h"

struct record_options {
	struct session_config session;
	struct event_specs specs;
	bool inherit_asked;          // --inherit
	VEC(const char *) warnings;  // to be said once; static or owned by `owned`
	VEC(char *) owned;
	const char *summary_path;    // --summary
	double max_loss;             // 0.01
	double symbol_time_s;
	size_t repeat;               // --repeat; 0: once
	bool strict, dry_run, two_combs, cost;
	VEC(const char *) debug_dirs; // ends with NULL once there is one
	bool no_cache, save_images;
	struct servers *servers;      // --debuginfod, or NULL
};

extern const struct option record_option_table[];

// argv[0] is "record". `recorded`: the command line that goes into the file, NULL-terminated, the caller's.
bool record_options_parse(struct record_options *options, int argc, char **argv, char *const *recorded, struct err *err);
void record_options_release(struct record_options *options);

#endif
