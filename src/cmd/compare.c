// perfsample compare: two commands recorded in turn, then compared.
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cmd/diff.h"
#include "cmd/digest.h"
#include "cmd/trials.h"
#include "trial/metric.h"

enum id {
	ID_BASE = 1, ID_NEW, ID_DIRECTORY, ID_PAIRS, ID_PRECISION, ID_MOST, ID_WARMUP, ID_METRIC, ID_ANY_STATUS, ID_GATE, ID_STRICT, ID_FORMAT, ID_TOP,
	ID_CONFIDENCE, ID_FDR,
};

static const struct option options[] = {
	{ 0, "base-cmd", "CMD", "the old side: a command line for the shell", 0, ID_BASE, "Trials", NULL },
	{ 0, "new-cmd", "CMD", "the new side", 0, ID_NEW, NULL, NULL },
	{ 'o', NULL, "DIR", "where the recordings go: DIR/base.1.data, DIR/new.1.data, …", 0, ID_DIRECTORY, NULL, "file" },
	{ 0, "pairs", "N", "pairs of runs (default 10, at least 5)", 0, ID_PAIRS, NULL, NULL },
	{ 0, "precision", "PCT", "instead: as many pairs as five pilot ones say are needed to find PCT %", 0, ID_PRECISION, NULL, NULL },
	{ 0, "most", "N", "with --precision: not more than N pairs (default 100)", 0, ID_MOST, NULL, NULL },
	{ 0, "warmup", "N", "runs of each side before, dropped (default 1)", 0, ID_WARMUP, NULL, NULL },
	{ 0, "metric", "METRIC", "what pairs are judged by: cpu (the default), wall, /REGEX/, .json.path or p99:FILE,\nas in perfsample overhead", 0, ID_METRIC, NULL, NULL },
	{ 0, "any-status", NULL, "the commands may fail", 0, ID_ANY_STATUS, NULL, NULL },
	{ 0, "fail-over", "PCT[:FUNCTION]", "status 1 when the whole (or FUNCTION) has surely become more than PCT % slower", 0, ID_GATE, "What follows from it", NULL },
	{ 0, "strict", NULL, "status 5 when --fail-over cannot be decided", 0, ID_STRICT, NULL, NULL },
	{ 0, "confidence", "C", "of every interval: 0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, NULL, NULL },
	{ 0, "fdr", "Q", "share of false ones among the rows that differ (default 0.05)", 0, ID_FDR, NULL, NULL },
	{ 0, "format", "text|json|markdown", "how to write it (default text)", 0, ID_FORMAT, "What to show", "text|json|markdown" },
	{ 0, "top", "N", "N rows (default 20; with json all)", 0, ID_TOP, NULL, NULL },
	{ 0 },
};

struct choices {
	struct trial_options record;
	struct trials_config trials;
	struct diff_choices diff;
	struct metric metric;
	const char *metric_text, *commands[2], *directory;
	bool any_status;
};

static bool set_count(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number = 0;
	uint64_t least = v->id == ID_WARMUP ? 0 : v->id == ID_TOP ? 1 : TRIALS_MIN_PAIRS;
	if (!value_u64(v->value, least, 100000, v->spelled, &number, err))
		return false;
	*(v->id == ID_PAIRS ? &c->trials.pairs : v->id == ID_MOST ? &c->trials.most_pairs : v->id == ID_WARMUP ? &c->trials.warmups : &c->diff.top) = number;
	return true;
}

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	switch ((enum id)v->id) {
	case ID_BASE: return c->commands[0] = v->value, true;
	case ID_NEW: return c->commands[1] = v->value, true;
	case ID_DIRECTORY: return c->directory = v->value, true;
	case ID_PAIRS:
	case ID_MOST:
	case ID_WARMUP:
	case ID_TOP: return set_count(c, v, err);
	case ID_PRECISION:
		if (!value_double(v->value, 0.001, 1000, v->spelled, &c->trials.precision, err))
			return false;
		c->trials.precision /= 100;
		return true;
	case ID_METRIC: return c->metric_text = v->value, true;
	case ID_ANY_STATUS: return c->any_status = true, true;
	case ID_GATE: return diff_set_gate(&c->diff, v->value, v->spelled, err);
	case ID_STRICT: return c->diff.strict = true, true;
	case ID_FORMAT: return c->diff.format = v->value, true;
	case ID_CONFIDENCE: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->diff.options.confidence, err);
	case ID_FDR: return value_share(v->value, 1e-6, 0.5, v->spelled, &c->diff.options.fdr, err);
	}
	return true;
}

static bool parse(struct choices *c, int argc, char **argv, struct err *err)
{
	struct option_parser parser;
	struct option_value v;
	bool good = true;
	option_parser_init(&parser, c->record.table.data, argc, argv, false);
	while (good && option_next(&parser, &v, err))
		good = v.id >= RECORD_OPTION ? trial_options_pass(&c->record, &v, err) : set_option(c, &v, err);
	if (!good || err->status != STATUS_OK)
		return false;
	if (parser.next < argc)
		return err_set(err, STATUS_USAGE, "'%s': the commands are given by --base-cmd and --new-cmd", argv[parser.next]);
	if (c->commands[0] == NULL || c->commands[1] == NULL || c->directory == NULL)
		return err_set(err, STATUS_USAGE, "needed: --base-cmd 'A' --new-cmd 'B' -o DIR");
	return metric_parse(&c->metric, c->metric_text, err);
}

static char *path_of(const struct choices *c, bool on, size_t pair)
{
	return pair == SIZE_MAX ? mem_printf("%s/warmup.data", c->directory) : mem_printf("%s/%s.%zu.data", c->directory, on ? "new" : "base", pair + 1);
}

// Recordings of before stay: a directory that has some is refused.
static bool prepare(const struct choices *c, struct err *err)
{
	if (mkdir(c->directory, 0700) != 0 && errno != EEXIST)
		return err_errno(err, STATUS_FINISH, "-o %s", c->directory);
	char *first = path_of(c, false, 0);
	bool good = access(first, F_OK) != 0 || err_set(err, STATUS_USAGE, "-o %s: recordings of another comparison are there", c->directory);
	free(first);
	return good;
}

static bool run_trial(void *context, bool on, size_t pair, double *value, struct err *err)
{
	struct choices *c = context;
	char *path = path_of(c, on, pair), *summary_path = mem_printf("%s/summary", c->directory);
	char *argv[] = { (char *)(uintptr_t)"sh", (char *)(uintptr_t)"-c", (char *)(uintptr_t)c->commands[on], NULL };
	struct recorded_trial trial = { &c->record, path, summary_path, argv, c->any_status };
	struct trial_run run = { 0 };
	struct trial_summary summary;
	metric_prepare(&c->metric);
	bool good = trial_record(&trial, &run, &summary, err);
	if (good) {
		run.cpu_s = summary.cpu_s; // the commands' own
		run.wall_s = summary.wall_s;
		good = metric_value(&c->metric, &run, value, err);
	}
	if (pair == SIZE_MAX)
		unlink(path);
	unlink(summary_path);
	trial_run_release(&run);
	free(path);
	free(summary_path);
	return good;
}

static bool compare_files(struct choices *c, const struct trials *paired, size_t pairs, int *status, struct err *err)
{
	struct digest *digests = mem_zero(2 * pairs, sizeof(*digests));
	const struct digest **sides = mem_zero(2 * pairs, sizeof(*sides));
	struct load_options load = load_defaults();
	struct digest_options digest = { .confidence = c->diff.options.confidence };
	struct diff diff = { 0 };
	bool good = true;
	for (size_t i = 0; i < 2 * pairs; i++) {
		char *path = path_of(c, i >= pairs, i >= pairs ? i - pairs : i);
		good = good && digest_load(&digests[i], path, &load, &digest, err);
		sides[i] = &digests[i];
		free(path);
	}
	c->diff.options.units[0] = c->diff.options.units[1] = (double)pairs;
	c->diff.options.unit = "run";
	struct diff_names names = { c->commands[0], c->commands[1], c->metric_text, paired };
	good = good && diff_build(&diff, sides, pairs, sides + pairs, pairs, &c->diff.options, err) && diff_write(&c->diff, &diff, &names, status, err);
	diff_release(&diff);
	for (size_t i = 0; i < 2 * pairs; i++)
		digest_release(&digests[i]);
	free(digests);
	free(sides);
	return good;
}

static bool run_choices(struct choices *c, int *status, struct err *err)
{
	struct trials_done done = { { 0 }, { 0 } };
	c->trials.higher_is_better = c->metric.higher_is_better;
	c->trials.confidence = c->diff.options.confidence;
	c->trials.run = run_trial;
	c->trials.context = c;
	bool good = prepare(c, err) && trials_run(&c->trials, &done, err);
	if (good) {
		struct trials paired = trials_estimate(done.off.data, done.on.data, done.on.count, c->metric.higher_is_better, c->diff.options.confidence);
		good = compare_files(c, &paired, done.on.count, status, err);
	}
	trials_done_release(&done);
	return good;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { .metric_text = "cpu", .trials = { .pairs = 10, .most_pairs = 100, .warmups = 1 } };
	int status = STATUS_OK;
	diff_choices_init(&c.diff);
	trial_options_init(&c.record, options);
	if (!parse(&c, argc, argv, &err) || !run_choices(&c, &status, &err)) {
		log_error("%s", err.text);
		status = (int)err.status;
	}
	metric_release(&c.metric);
	trial_options_release(&c.record);
	return status;
}

static const char *const usages[] = { "perfsample compare [options] [options of record] --base-cmd 'A' --new-cmd 'B' -o DIR", NULL };

const struct command command_compare = {
	.name = "compare",
	.summary = "record two commands in turn and say what differs",
	.usages = usages,
	.description = "Runs both commands in pairs, in the order A, B, B, A, and so on, after a warm-up of each; records every run into a file of its own; then "
	               "compares them as perfsample diff does, with runs as blocks.\n"
	               "Options of perfsample record are handed on to it.",
	.options = options,
	.run = run,
};
