// What overhead, compare and record --repeat share: options handed on to record, recordings as trials, pairs in ABBA order.
#ifndef PERFSAMPLE_CMD_TRIALS_H
#define PERFSAMPLE_CMD_TRIALS_H

#include "base/err.h"
#include "base/vec.h"
#include "cli/option.h"
#include "report/trials.h"
#include "trial/run.h"

// A command's own options and behind them record's, as one table for parsing. Own letters and names win.
struct trial_options {
	VEC(struct option) table;
	VEC(char *) passed;      // record's options as words; owned
};
enum { RECORD_OPTION = 100000 }; // ids of record's options in the table are from here
void trial_options_init(struct trial_options *options, const struct option *own);
void trial_options_release(struct trial_options *options);
// Keeps one of record's. STATUS_USAGE: a target, since the trials run the command themselves.
bool trial_options_pass(struct trial_options *options, const struct option_value *value, struct err *err);

// What a recording as a trial says of itself (--summary).
struct trial_summary { double cpu_s, wall_s, recorder_share, lost_share; };
// Runs `perfsample record -q -o PATH … -- argv`; `summary_path` is written and read. The command must end with 0 unless `any_status`.
struct recorded_trial { const struct trial_options *options; const char *path, *summary_path; char *const *argv; bool any_status; };
bool trial_record(const struct recorded_trial *trial, struct trial_run *run, struct trial_summary *summary, struct err *err);
// STATUS_FINISH: the command failed, with the end of what it said.
bool trial_succeeded(const struct trial_run *run, const char *what, struct err *err);
char *trial_self(void); // this program; owned by the caller

typedef bool trial_function(void *context, bool on, size_t pair, double *value, struct err *err); // pair SIZE_MAX: a warm-up
struct trials_config { size_t pairs; double precision; size_t most_pairs, warmups; bool higher_is_better; double confidence; trial_function *run; void *context; };
struct trials_done { VEC(double) off, on; };
// Warm-ups of both sides, then pairs; with a precision, as many as five pilot pairs say are needed. SIGINT ends with an error.
bool trials_run(const struct trials_config *config, struct trials_done *done, struct err *err);
void trials_done_release(struct trials_done *done);

#endif
