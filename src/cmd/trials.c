#include "cmd/trials.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/record_options.h"

// ---------------------------------------------------------------- options of record

static bool is_taken(const struct option *own, char letter, const char *name)
{
	for (; !option_is_end(own); own++)
		if ((letter != 0 && own->letter == letter) || (name != NULL && own->name != NULL && strcmp(own->name, name) == 0))
			return true;
	return false;
}

void trial_options_init(struct trial_options *options, const struct option *own)
{
	*options = (struct trial_options){ { 0 }, { 0 } };
	for (const struct option *o = own; !option_is_end(o); o++)
		vec_push(&options->table, *o);
	for (const struct option *o = record_option_table; !option_is_end(o); o++) {
		struct option copy = *o;
		copy.id += RECORD_OPTION;
		if (is_taken(own, copy.letter, NULL))
			copy.letter = 0;
		if (copy.name != NULL && is_taken(own, 0, copy.name))
			copy.name = NULL;
		if (copy.letter != 0 || copy.name != NULL)
			vec_push(&options->table, copy);
	}
	vec_push(&options->table, (struct option){ 0 });
}

void trial_options_release(struct trial_options *options)
{
	for (size_t i = 0; i < options->passed.count; i++)
		free(options->passed.data[i]);
	vec_release(&options->passed);
	vec_release(&options->table);
}

bool trial_options_pass(struct trial_options *options, const struct option_value *v, struct err *err)
{
	static const char *const targets[] = { "-p", "--pid", "-t", "--tid", "-a", "--all-cpus", "--cgroup", "--container", "-o", "--output", "--summary", "-n",
		"--dry-run", "--repeat" };
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		if (strcmp(v->spelled, targets[i]) == 0)
			return err_set(err, STATUS_USAGE, "%s: the trials record the command, into files of their own", v->spelled);
	if (v->value == NULL)
		vec_push(&options->passed, mem_string(v->spelled));
	else
		vec_push(&options->passed, mem_printf(v->spelled[1] == '-' ? "%s=%s" : "%s%s", v->spelled, v->value));
	return true;
}

// ---------------------------------------------------------------- a recording as a trial

char *trial_self(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	return length > 0 ? mem_string_n(path, (size_t)length) : mem_string("perfsample");
}

static double number_at(const json_t *object, const char *a, const char *b)
{
	const json_t *inner = json_object_get(object, a);
	return json_number_value(b != NULL ? json_object_get(inner, b) : inner);
}

static bool read_summary(const char *path, struct trial_summary *summary, struct err *err)
{
	json_error_t why;
	json_t *root = json_load_file(path, 0, &why);
	if (root == NULL)
		return err_set(err, STATUS_FINISH, "%s: %s", path, why.text);
	// Of clocks the target's own: their running time may be that of whole CPUs.
	const json_t *own = json_object_get(root, "cpu_seconds"), *event = json_array_get(json_object_get(root, "events"), 0);
	double cpu_s = json_is_number(own) ? json_number_value(own) : number_at(event, "time_running_ns", NULL) / 1e9;
	*summary = (struct trial_summary){ .cpu_s = cpu_s, .wall_s = number_at(root, "window", "seconds"),
		.recorder_share = number_at(root, "overhead", "share_of_one_cpu"), .lost_share = number_at(root, "lost_share", NULL) };
	json_decref(root);
	return true;
}

bool trial_succeeded(const struct trial_run *run, const char *what, struct err *err)
{
	if (run->status == 0)
		return true;
	struct buf said = { 0 };
	buf_add(&said, run->errors.data, run->errors.size);
	while (said.size > 0 && said.data[said.size - 1] == '\n')
		said.size--;
	const char *text = buf_text(&said);
	size_t from = said.size > 300 ? said.size - 300 : 0;
	err_set(err, run->status == STATUS_NOT_FOUND || run->status == STATUS_CANNOT_RUN ? (enum status)run->status : STATUS_FINISH,
	        "%s ended with status %d%s%s", what, run->status, said.size > 0 ? ": " : "", text + from);
	buf_release(&said);
	return false;
}

bool trial_record(const struct recorded_trial *trial, struct trial_run *run, struct trial_summary *summary, struct err *err)
{
	char *self = trial_self();
	const char *fixed[] = { self, "record", "-q", "-o", trial->path, "--summary", trial->summary_path };
	VEC(char *) argv = { 0 };
	for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
		vec_push(&argv, (char *)(uintptr_t)fixed[i]);
	for (size_t i = 0; i < trial->options->passed.count; i++)
		vec_push(&argv, trial->options->passed.data[i]);
	vec_push(&argv, (char *)(uintptr_t)"--");
	for (size_t i = 0; trial->argv[i] != NULL; i++)
		vec_push(&argv, trial->argv[i]);
	vec_push(&argv, NULL);
	unlink(trial->summary_path);
	bool good = trial_run(run, argv.data, err);
	if (good && !trial->any_status)
		good = trial_succeeded(run, "the recorded command", err);
	good = good && read_summary(trial->summary_path, summary, err);
	vec_release(&argv);
	free(self);
	return good;
}

// ---------------------------------------------------------------- pairs

static bool run_one(const struct trials_config *c, bool on, size_t pair, struct trials_done *done, struct err *err)
{
	double value = 0;
	if (!c->run(c->context, on, pair, &value, err))
		return false;
	if (pair != SIZE_MAX && on)
		vec_push(&done->on, value);
	else if (pair != SIZE_MAX)
		vec_push(&done->off, value);
	return true;
}

bool trials_run(const struct trials_config *c, struct trials_done *done, struct err *err)
{
	size_t pairs = c->precision > 0 ? TRIALS_PILOT_PAIRS : c->pairs;
	*done = (struct trials_done){ { 0 }, { 0 } };
	for (size_t i = 0; i < 2 * c->warmups; i++)
		if (!run_one(c, i % 2 == 1, SIZE_MAX, done, err))
			return false;
	for (size_t pair = 0; pair < pairs; pair++) {
		bool on_first = trials_on_first(pair);
		if (!run_one(c, on_first, pair, done, err) || !run_one(c, !on_first, pair, done, err))
			return false;
		log_line(LOG_DEBUG, "pair %zu of %zu: %g and %g", pair + 1, pairs, done->off.data[pair], done->on.data[pair]);
		if (c->precision > 0 && pair + 1 == TRIALS_PILOT_PAIRS) {
			struct trials pilot = trials_estimate(done->off.data, done->on.data, pair + 1, c->higher_is_better, c->confidence);
			size_t needed = trials_pairs_needed(pilot.deviation, c->precision, c->confidence, 0.8);
			pairs = needed < c->most_pairs ? needed : c->most_pairs;
			log_line(LOG_INFO, "%d pilot pairs deviate by %.2g%%: %zu pairs to find %.2g%%%s", TRIALS_PILOT_PAIRS, 100 * pilot.deviation, needed,
			         100 * c->precision, needed > c->most_pairs ? ", more than --most allows" : "");
		}
	}
	return true;
}

void trials_done_release(struct trials_done *done)
{
	vec_release(&done->off);
	vec_release(&done->on);
}
