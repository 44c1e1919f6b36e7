// perfsample overhead: what recording costs a command, by trials with and without.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/trials.h"
#include "export/overhead.h"
#include "trial/metric.h"

enum id { ID_PAIRS = 1, ID_PRECISION, ID_MOST, ID_METRIC, ID_WARMUP, ID_ANY_STATUS, ID_DUMMY, ID_CONFIDENCE, ID_FORMAT };

static const struct option options[] = {
	{ 0, "metric", "METRIC", "what a trial is judged by: wall (the default), cpu, /REGEX/ (a number in the command's\noutput), .json.path (of JSON there), p99:FILE (of "
	  "latencies it writes, one a line);\nlower: or higher: in front says which is better", 0, ID_METRIC, "Trials", NULL },
	{ 0, "pairs", "N", "pairs of trials (default 10, at least 5)", 0, ID_PAIRS, NULL, NULL },
	{ 0, "precision", "PCT", "instead: as many pairs as five pilot ones say are needed to find PCT %", 0, ID_PRECISION, NULL, NULL },
	{ 0, "most", "N", "with --precision: not more than N pairs (default 100)", 0, ID_MOST, NULL, NULL },
	{ 0, "warmup", "N", "trials of each side before, dropped (default 1)", 0, ID_WARMUP, NULL, NULL },
	{ 0, "any-status", NULL, "the command may fail", 0, ID_ANY_STATUS, NULL, NULL },
	{ 0, "dummy", NULL, "record on neither side: what the trials themselves show", 0, ID_DUMMY, NULL, NULL },
	{ 0, "confidence", "C", "of the interval: 0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, NULL, NULL },
	{ 0, "format", "text|json", "how to write it (default text)", 0, ID_FORMAT, NULL, "text|json" },
	{ 0 },
};

struct choices {
	struct trial_options record;
	struct trials_config trials;
	struct metric metric;
	const char *metric_text, *format;
	bool any_status, is_dummy;
	char *const *argv;
	char *directory, *times, *data, *summary, *self; // owned
	struct trial_summary sums; // over the recorded trials
	size_t recorded;
};

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number = 0;
	switch ((enum id)v->id) {
	case ID_PAIRS:
	case ID_MOST:
		if (!value_u64(v->value, TRIALS_MIN_PAIRS, 100000, v->spelled, &number, err))
			return false;
		*((enum id)v->id == ID_PAIRS ? &c->trials.pairs : &c->trials.most_pairs) = number;
		return true;
	case ID_WARMUP:
		if (!value_u64(v->value, 0, 1000, v->spelled, &number, err))
			return false;
		c->trials.warmups = number;
		return true;
	case ID_PRECISION:
		if (!value_double(v->value, 0.001, 1000, v->spelled, &c->trials.precision, err))
			return false;
		c->trials.precision /= 100;
		return true;
	case ID_CONFIDENCE: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->trials.confidence, err);
	case ID_METRIC: return c->metric_text = v->value, true;
	case ID_ANY_STATUS: return c->any_status = true, true;
	case ID_DUMMY: return c->is_dummy = true, true;
	case ID_FORMAT: return c->format = v->value, true;
	}
	return true;
}

static bool parse(struct choices *c, int argc, char **argv, struct err *err)
{
	struct option_parser parser;
	struct option_value v;
	bool good = true;
	option_parser_init(&parser, c->record.table.data, argc, argv, true);
	while (good && option_next(&parser, &v, err))
		good = v.id >= RECORD_OPTION ? trial_options_pass(&c->record, &v, err) : set_option(c, &v, err);
	if (!good || err->status != STATUS_OK)
		return false;
	if (parser.next >= argc)
		return err_set(err, STATUS_USAGE, "no command: perfsample overhead [options] -- CMD");
	if (strcmp(c->format, "text") != 0 && strcmp(c->format, "json") != 0)
		return err_set(err, STATUS_USAGE, "--format: no format '%s'; there are text, json", c->format);
	c->argv = argv + parser.next;
	return metric_parse(&c->metric, c->metric_text, err);
}

static bool make_directory(struct choices *c, struct err *err)
{
	const char *parent = getenv("TMPDIR");
	char *directory = mem_printf("%s/perfsample-overhead-XXXXXX", parent != NULL && *parent != '\0' ? parent : "/tmp");
	if (mkdtemp(directory) == NULL) {
		err_errno(err, STATUS_FINISH, "%s", directory);
		free(directory);
		return false;
	}
	c->directory = directory;
	c->times = mem_printf("%s/times", c->directory);
	c->data = mem_printf("%s/on.data", c->directory);
	c->summary = mem_printf("%s/summary", c->directory);
	return true;
}

static void remove_directory(struct choices *c)
{
	if (c->directory != NULL) {
		unlink(c->times);
		unlink(c->data);
		unlink(c->summary);
		if (rmdir(c->directory) != 0)
			log_warn("%s is left behind", c->directory);
	}
	free(c->times);
	free(c->data);
	free(c->summary);
	free(c->directory);
}

// The recorder's start and end are not the command's: its own times count.
static bool read_times(const char *path, struct trial_run *run, struct err *err)
{
	FILE *file = fopen(path, "re");
	bool good = file != NULL && fscanf(file, "%lf %lf", &run->wall_s, &run->cpu_s) == 2;
	if (file != NULL)
		fclose(file);
	return good || err_set(err, STATUS_FINISH, "the command's times are not in %s", path);
}

static bool run_trial(void *context, bool on, size_t pair, double *value, struct err *err)
{
	struct choices *c = context;
	struct trial_run run = { 0 };
	struct trial_summary summary = { 0 };
	VEC(char *) argv = { 0 };
	vec_push(&argv, c->self);
	vec_push(&argv, (char *)(uintptr_t)"timed");
	vec_push(&argv, c->times);
	for (size_t i = 0; c->argv[i] != NULL; i++)
		vec_push(&argv, c->argv[i]);
	vec_push(&argv, NULL);
	unlink(c->times);
	unlink(c->data);
	metric_prepare(&c->metric);
	bool good, records = on && !c->is_dummy;
	if (records) {
		struct recorded_trial trial = { &c->record, c->data, c->summary, argv.data, c->any_status };
		good = trial_record(&trial, &run, &summary, err);
	} else {
		good = trial_run(&run, argv.data, err) && (c->any_status || trial_succeeded(&run, c->argv[0], err));
	}
	good = good && read_times(c->times, &run, err) && metric_value(&c->metric, &run, value, err);
	if (good && records && pair != SIZE_MAX) {
		c->recorded++;
		c->sums.recorder_share += summary.recorder_share;
		c->sums.lost_share += summary.lost_share;
	}
	trial_run_release(&run);
	vec_release(&argv);
	return good;
}

static bool measure(struct choices *c, struct err *err)
{
	struct trials_done done;
	c->trials.higher_is_better = c->metric.higher_is_better;
	c->trials.run = run_trial;
	c->trials.context = c;
	if (!trials_run(&c->trials, &done, err)) {
		trials_done_release(&done);
		return false;
	}
	struct trials trials = trials_estimate(done.off.data, done.on.data, done.on.count, c->metric.higher_is_better, c->trials.confidence);
	double n = c->recorded > 0 ? (double)c->recorded : 1;
	struct overhead_output output = { .trials = &trials, .off = done.off.data, .on = done.on.data, .metric = c->metric_text,
		.higher_is_better = c->metric.higher_is_better, .is_time = c->metric.source == METRIC_WALL || c->metric.source == METRIC_CPU,
		.warmups = c->trials.warmups, .confidence = c->trials.confidence, .is_dummy = c->is_dummy,
		.recorder_share = c->sums.recorder_share / n, .lost_share = c->sums.lost_share / n, .argv = (const char *const *)c->argv };
	struct buf out = { 0 };
	if (strcmp(c->format, "json") == 0)
		overhead_json(&output, &out);
	else
		overhead_text(&output, &out);
	bool good = output_write(out.data, out.size, err);
	buf_release(&out);
	trials_done_release(&done);
	return good;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { .format = "text", .metric_text = "wall",
		.trials = { .pairs = 10, .most_pairs = 100, .warmups = 1, .confidence = 0.95 } };
	trial_options_init(&c.record, options);
	bool good = parse(&c, argc, argv, &err);
	c.self = trial_self();
	good = good && make_directory(&c, &err) && measure(&c, &err);
	if (!good)
		log_error("%s", err.text);
	remove_directory(&c);
	metric_release(&c.metric);
	trial_options_release(&c.record);
	free(c.self);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample overhead [options] [options of record] [--] CMD [ARG...]", NULL };

const struct command command_overhead = {
	.name = "overhead",
	.summary = "what recording costs a command, by trials with and without",
	.usages = usages,
	.description = "Runs CMD in pairs, once without and once with perfsample record, in the order off, on, on, off, and so on, after a warm-up of each. Says what "
	               "recording costs with the interval, and the most it can be. What cannot be told from nothing is said to be so.\n"
	               "Options of perfsample record are handed on to it.",
	.options = options,
	.run = run,
};
