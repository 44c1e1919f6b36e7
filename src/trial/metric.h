// What a trial is judged by: its time, or a number it prints.
//
//   [higher:|lower:]SOURCE    SOURCE: wall, cpu, /REGEX/ (its first group, or all of it, of standard output), .member.list[0] (of JSON there),
//                             pQ:FILE (the quantile Q % of the latencies that the command writes into FILE, one a line)
// Times and latencies are better lower, numbers that are printed higher (throughput), unless said.
#ifndef PERFSAMPLE_TRIAL_METRIC_H
#define PERFSAMPLE_TRIAL_METRIC_H

#include <regex.h>
#include <stdbool.h>

#include "base/err.h"
#include "trial/run.h"

enum metric_source { METRIC_WALL, METRIC_CPU, METRIC_REGEX, METRIC_JSON, METRIC_QUANTILE };

struct metric {
	enum metric_source source;
	bool higher_is_better;
	const char *text;    // as given, borrowed
	regex_t regex;
	const char *path;    // of JSON, or of the file
	double quantile;
};

// STATUS_USAGE names what is wrong. On success the caller releases.
bool metric_parse(struct metric *metric, const char *text, struct err *err);
void metric_release(struct metric *metric);
// Before a trial: takes away the file that the command is to write anew.
void metric_prepare(const struct metric *metric);
// STATUS_FINISH: the output holds no such number, or one that is not above 0; too few latencies for the quantile (p99 needs 368).
bool metric_value(const struct metric *metric, const struct trial_run *run, double *value, struct err *err);

#endif
