// Options that reading commands share: which recording, how names are found, which samples count.
//
// A command puts SELECT_…_OPTIONS into its table and hands every option it does not know to select_take.
#ifndef PERFSAMPLE_CMD_SELECT_H
#define PERFSAMPLE_CMD_SELECT_H

#include "cli/option.h"
#include "cmd/servers.h"
#include "load/load.h"
#include "report/report.h"

enum select_id {
	SELECT_INPUT = 1000, SELECT_SALVAGE, SELECT_INLINE, SELECT_DEMANGLE, SELECT_SYMFS, SELECT_JOBS, SELECT_COMMS, SELECT_DSOS, SELECT_SYMBOLS,
	SELECT_PIDS, SELECT_TIDS, SELECT_CPUS, SELECT_TIME, SELECT_FORCE, SELECT_CACHE, SELECT_DEBUG_DIR, SELECT_DEBUGINFOD, SELECT_CLONES,
	SELECT_UNWINDER,
};

#define SELECT_DEBUGINFOD_OPTION \
	{ 0, "debuginfod", NULL, "ask the servers in DEBUGINFOD_URLS for binaries and debug files that are missing here,\nof files with 1% of the samples or more", \
	  0, SELECT_DEBUGINFOD, NULL, NULL }
// From which recording, and how names are found.
#define SELECT_INPUT_OPTIONS \
	{ 'i', "input", "FILE", "the recording, ours or perf's, or text: folded stacks, perf script's output; - reads a stream (default perf.data)", 0, SELECT_INPUT, "Input", "file" }, \
	{ 0, "inline", NULL, "show inlined functions as frames of their own (the default)", OPTION_NEGATABLE, SELECT_INLINE, NULL, NULL }, \
	{ 0, "demangle", NULL, "show C++ and Rust names as they are written (the default)", OPTION_NEGATABLE, SELECT_DEMANGLE, NULL, NULL }, \
	{ 0, "clones", NULL, "foo.cold, foo.part.0, foo.constprop.0, foo.isra.0 as functions of their own (the default);\nwith --no-clones all of it is foo", \
	  OPTION_NEGATABLE | OPTION_EXPERT, SELECT_CLONES, NULL, NULL }, \
	{ 0, "salvage", NULL, "skip what is damaged instead of stopping there", 0, SELECT_SALVAGE, NULL, NULL }, \
	{ 0, "symfs", "DIR", "look for binaries, and for debug files in the usual places, below DIR", OPTION_EXPERT, SELECT_SYMFS, NULL, "file" }, \
	{ 0, "debug-dir", "DIR", "look for debug files (DIR/.build-id/..., DIR/PATH) there first; repeatable", OPTION_EXPERT, SELECT_DEBUG_DIR, NULL, "file" }, \
	SELECT_DEBUGINFOD_OPTION, \
	{ 0, "cache", NULL, "keep decompressed debug sections in the user's cache directory (the default)", OPTION_NEGATABLE | OPTION_EXPERT, \
	  SELECT_CACHE, NULL, NULL }, \
	{ 0, "jobs", "N", "threads that unwind raw stacks of perf's recordings (default 1) and read debug information (default: one a processor, at most 4)", OPTION_EXPERT, SELECT_JOBS, NULL, NULL }, \
	{ 0, "unwinder", "NAME", "what unwinds raw stacks: own (the default) or libunwind", OPTION_EXPERT, SELECT_UNWINDER, NULL, "own|libunwind" }, \
	{ 'f', "force", NULL, "accepted from perf without effect", OPTION_IGNORED, SELECT_FORCE, NULL, NULL }
// Which of its samples.
#define SELECT_SAMPLE_OPTIONS \
	{ 'c', "comms", "COMMS", "only these commands", 0, SELECT_COMMS, "Which samples", NULL }, \
	{ 'd', "dsos", "DSOS", "only where the innermost frame is in these files", 0, SELECT_DSOS, NULL, NULL }, \
	{ 'S', "symbols", "SYMBOLS", "only where the innermost frame is one of these functions", 0, SELECT_SYMBOLS, NULL, NULL }, \
	{ 'C', "cpu", "LIST", "only on these CPUs, like 0-3,7", 0, SELECT_CPUS, NULL, NULL }, \
	{ 0, "time", "A,B", "only between A and B: +14,+16 (seconds from the start), 10%,20%, wall-clock times (14:02:11, in UTC), or perf's " \
	  "timestamps; either may be left out", 0, SELECT_TIME, NULL, NULL }
// Where --pid and --tid are free (fold has flags of these names).
#define SELECT_ID_OPTIONS \
	{ 0, "pid", "LIST", "only these processes", 0, SELECT_PIDS, NULL, "pid" }, \
	{ 0, "tid", "LIST", "only these threads", 0, SELECT_TIDS, NULL, NULL }

struct selection {
	struct load_options load;
	struct report_filter filter; // borrows from the lists below
	VEC(const char *) debug_dirs; // ends with NULL once there is one
	struct servers *servers;      // --debuginfod, or NULL
	const char *time;            // not resolved yet: that needs the recording's start and end
	char **comms, **dsos, **symbols;
	size_t comm_count, dso_count, symbol_count;
};

void select_init(struct selection *selection);
void select_release(struct selection *selection);
// What a command without operands does with its options and then with the recording.
struct select_command {
	const char *name;                // for the message of an error
	const struct option *options;
	const char *no_operands;         // why a bare word is wrong: "a recording is named with -i"
	bool (*take)(void *choices, const struct option_value *value, struct err *err);
	bool (*run)(void *choices, struct profile *profile, struct err *err);
};
// Parses, runs, prints what went wrong; the exit status. `choices` are the command's own, `selection` among them.
int select_run(const struct select_command *command, int argc, char **argv, void *choices, struct selection *selection);
// false with STATUS_OK: not one of these options.
bool select_take(struct selection *selection, const struct option_value *value, struct err *err);
// Turns --time into the recording's clock. STATUS_USAGE names what cannot be understood.
bool select_resolve(struct selection *selection, const struct profile *profile, struct err *err);
// Loads and resolves; says on standard error what the loader found unusual. `profile` is released by the caller in any case.
bool select_load(struct selection *selection, struct profile *profile, struct err *err);
// The number of the event by that name, or (NULL) of the first that has samples. STATUS_USAGE lists the events of the recording.
bool select_event(const struct profile *profile, const char *name, uint32_t *event, struct err *err);
// Says on standard error which other events a command leaves out that was not told which one to take.
void select_say_left_out(const struct profile *profile, uint32_t event);

#endif
