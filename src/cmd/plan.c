// perfsample plan: how long to record for what one wants to know.
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/digest.h"
#include "cmd/select.h"
#include "export/plan.h"

enum id { ID_SHARE = 1, ID_WITHIN, ID_CHANGE, ID_SEEN, ID_FUNCTION, ID_PERIOD, ID_CPUS, ID_CONFIDENCE, ID_POWER, ID_RUNS, ID_FUNCTIONS, ID_FORMAT, ID_INPUT };

static const struct option options[] = {
	{ 0, "share", "PCT[,PCT]", "of a function, as far as it is known (default 5%); with two: to tell them apart", 0, ID_SHARE, "What is wanted", NULL },
	{ 0, "within", "POINTS", "to know it within +-POINTS of a per cent (default a tenth of the share)", 0, ID_WITHIN, NULL, NULL },
	{ 0, "change", "PCT", "to find by diff that the function became PCT % slower", 0, ID_CHANGE, NULL, NULL },
	{ 0, "runs", "N", "with --change: recordings a side, 3 or more (default 5)", 0, ID_RUNS, NULL, NULL },
	{ 0, "seen", "PCT", "to see a function of that share at all", 0, ID_SEEN, NULL, NULL },
	{ 'i', "input", "FILE", "a former recording: its rate, CPU use and design effect", 0, ID_INPUT, "What is known", "file" },
	{ 0, "function", "NAME[,NAME]", "of that recording: its share and design effect", 0, ID_FUNCTION, NULL, NULL },
	{ 0, "functions", "N", "with --change: how many functions diff tests (default 20, or as many as the recording has with\n5 samples)", 0, ID_FUNCTIONS, NULL, NULL },
	{ 'c', "count", "PERIOD", "time between samples (default 1.295295ms, or the recording's)", 0, ID_PERIOD, NULL, NULL },
	{ 0, "cpus-busy", "N", "CPUs that the program keeps busy (default 1, or the recording's)", 0, ID_CPUS, NULL, NULL },
	{ 0, "confidence", "C", "0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, "How sure", NULL },
	{ 0, "power", "P", "chance to find what is there, or that the range is as narrow as --within says (default 0.8)", 0, ID_POWER, NULL, NULL },
	{ 0, "format", "text|json", "how to write it (default text)", 0, ID_FORMAT, NULL, "text|json" },
	{ 0 },
};

struct choices {
	struct plan_input input;
	const char *path, *function, *format;
	bool has_share, has_goal;
};

static bool set_percent(const struct option_value *v, double most, double *out, struct err *err)
{
	char text[32];
	size_t length = strlen(v->value);
	if (length >= sizeof(text))
		return err_set(err, STATUS_USAGE, "%s: '%s' is no number", v->spelled, v->value);
	memcpy(text, v->value, length + 1);
	if (length > 0 && text[length - 1] == '%')
		text[length - 1] = '\0';
	if (!value_double(text, 1e-6, most, v->spelled, out, err))
		return false;
	*out /= 100;
	return true;
}

static bool set_shares(struct choices *c, const struct option_value *v, struct err *err)
{
	size_t count;
	char **words = value_words(v->value, ",", &count);
	double shares[2] = { 0, 0 };
	bool good = count == 1 || count == 2 || err_set(err, STATUS_USAGE, "%s: '%s' is not PCT or PCT,PCT", v->spelled, v->value);
	for (size_t i = 0; i < count && good; i++)
		good = set_percent(&(struct option_value){ .value = words[i], .spelled = v->spelled }, 99.9999, &shares[i], err);
	value_words_free(words, count);
	c->input.share = shares[0];
	c->input.other = shares[1];
	c->has_share = true;
	return good;
}

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t ns = 0, number = 0;
	enum id id = (enum id)v->id;
	if (id == ID_WITHIN || id == ID_CHANGE || id == ID_SEEN) {
		if (c->has_goal)
			return err_set(err, STATUS_USAGE, "%s: --within, --change and --seen are one question each", v->spelled);
		c->has_goal = true;
	}
	switch (id) {
	case ID_SHARE: return set_shares(c, v, err);
	case ID_WITHIN: return set_percent(v, 50, &c->input.half_width, err);
	case ID_CHANGE: return c->input.goal = PLAN_CHANGE, set_percent(v, 10000, &c->input.change, err);
	case ID_SEEN: return c->input.goal = PLAN_SEEN, set_percent(v, 99.9999, &c->input.share, err);
	case ID_INPUT: return c->path = v->value, true;
	case ID_FUNCTION: return c->function = v->value, true;
	case ID_PERIOD:
		if (!value_duration(v->value, 1, v->spelled, &ns, err))
			return false;
		c->input.period_s = (double)ns / 1e9;
		return ns > 0 || err_set(err, STATUS_USAGE, "%s: 0 is no period", v->spelled);
	case ID_CPUS: return value_double(v->value, 1e-6, 1e6, v->spelled, &c->input.cpus_busy, err);
	case ID_CONFIDENCE: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->input.confidence, err);
	case ID_POWER: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->input.power, err);
	case ID_RUNS:
	case ID_FUNCTIONS:
		if (!value_u64(v->value, id == ID_RUNS ? PLAN_MIN_RUNS : 1, 1000000, v->spelled, &number, err))
			return false;
		*(id == ID_RUNS ? &c->input.runs : &c->input.functions) = number;
		return true;
	case ID_FORMAT: return c->format = v->value, true;
	}
	return true;
}

static bool is_called(const char *text, const char *name, size_t length)
{
	return text != NULL && strlen(text) == length && memcmp(text, name, length) == 0;
}

// NULL with an error: none, or several that are told apart.
static const struct digest_row *find_row(const struct digest *digest, const char *name, size_t length, struct err *err)
{
	const struct digest_row *best = NULL, *plain = NULL, *other = NULL; // of that name in several files: the largest
	for (size_t i = 0; i < digest->rows.count; i++) {
		const struct digest_row *row = &digest->rows.data[i];
		if (is_called(row->name, name, length) && (best == NULL || row->k > best->k))
			best = row;
		if (!is_called(row->plain, name, length))
			continue;
		other = plain != NULL ? plain : other;
		plain = row;
	}
	if (best == NULL && other != NULL)
		err_set(err, STATUS_USAGE, "--function: several are called '%.*s': %s, %s", (int)(length < 100 ? length : 100), name, other->name, plain->name);
	else if (best == NULL && plain == NULL)
		err_set(err, STATUS_USAGE, "--function: no '%.*s' in %s", (int)(length < 100 ? length : 100), name, digest->path);
	return best != NULL ? best : other == NULL ? plain : NULL;
}

static void take_deff(struct plan_input *in, const struct digest_row *row)
{
	if (row->deff <= in->deff)
		return;
	in->deff = row->deff;
	in->deff_df = row->blocks > 1 ? (double)row->blocks - 1 : 0;
}

static bool take_functions(struct choices *c, const struct digest *digest, struct err *err)
{
	const char *name = c->function;
	for (int i = 0; i < 2; i++) {
		size_t length = strcspn(name, ",");
		const struct digest_row *row = find_row(digest, name, length, err);
		if (row == NULL)
			return false;
		*(i == 0 ? &c->input.share : &c->input.other) = row->k / digest->n;
		if (i == 0)
			c->input.share_n = digest->n / fmax(1, row->deff);
		take_deff(&c->input, row);
		if (name[length] == '\0')
			break;
		name += length + 1;
	}
	c->has_share = true;
	return true;
}

// Those that diff would test, if the other recording had as many samples.
static size_t count_tested(const struct digest *digest)
{
	size_t count = 0;
	for (size_t i = 0; i < digest->rows.count; i++)
		count += digest->rows.data[i].k >= 5;
	return count;
}

// Without a function: the largest design effect of the rows that matter, those with 10 samples.
static bool take_recording(struct choices *c, struct err *err)
{
	struct load_options load = load_defaults();
	struct digest_options options_of = { .confidence = c->input.confidence };
	struct digest digest;
	bool good = digest_load(&digest, c->path, &load, &options_of, err);
	if (good && !(c->input.period_s > 0))
		c->input.period_s = digest.is_clock ? (double)digest.period / 1e9 : digest.seconds / digest.n;
	if (good && !(c->input.cpus_busy > 0))
		c->input.cpus_busy = digest.is_clock && digest.seconds > 0 ? digest.amount / digest.seconds : 1;
	if (good && c->input.functions == 0)
		c->input.functions = count_tested(&digest);
	if (good && c->function != NULL)
		good = take_functions(c, &digest, err);
	else
		for (size_t i = 0; good && i < digest.rows.count; i++)
			if (digest.rows.data[i].k >= 10)
				take_deff(&c->input, &digest.rows.data[i]);
	digest_release(&digest);
	return good;
}

static bool complete(struct choices *c, struct err *err)
{
	struct plan_input *in = &c->input;
	if (c->function != NULL && c->path == NULL)
		return err_set(err, STATUS_USAGE, "--function needs a recording: -i FILE");
	if (c->path != NULL && !take_recording(c, err))
		return false;
	if (!(in->period_s > 0))
		in->period_s = 1.295295e-3;
	if (!(in->cpus_busy > 0))
		in->cpus_busy = 1;
	if (!c->has_share && in->goal != PLAN_SEEN)
		in->share = 0.05;
	if (in->other > 0 && c->has_goal)
		return err_set(err, STATUS_USAGE, "two functions are told apart; --within, --change and --seen are of one");
	if (in->other > 0)
		in->goal = PLAN_RANK;
	if (in->goal == PLAN_RANK && (in->share == in->other || in->share + in->other > 1))
		return err_set(err, STATUS_USAGE, "two equal shares cannot be told apart, and two add up to 100%% at most");
	if (in->runs == 0)
		in->runs = 5;
	if (in->functions == 0)
		in->functions = 20;
	if (in->goal == PLAN_WITHIN && !(in->half_width > 0))
		in->half_width = in->share / 10;
	return true;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { .input = { .goal = PLAN_WITHIN, .confidence = 0.95, .power = 0.8 }, .format = "text" };
	struct option_parser parser;
	struct option_value v;
	bool good = true;
	option_parser_init(&parser, options, argc, argv, false);
	while (good && option_next(&parser, &v, &err))
		good = set_option(&c, &v, &err);
	good = good && err.status == STATUS_OK;
	if (good && parser.next < argc)
		good = err_set(&err, STATUS_USAGE, "'%s': a recording is given by -i", argv[parser.next]);
	if (good && strcmp(c.format, "text") != 0 && strcmp(c.format, "json") != 0)
		good = err_set(&err, STATUS_USAGE, "--format: no format '%s'; there are text, json", c.format);
	good = good && complete(&c, &err);
	if (good) {
		struct plan plan = plan_for(&c.input);
		struct buf out = { 0 };
		if (strcmp(c.format, "json") == 0)
			plan_json(&c.input, &plan, &out);
		else
			plan_text(&c.input, &plan, &out);
		good = output_write(out.data, out.size, &err);
		buf_release(&out);
	}
	if (!good)
		log_error("%s", err.text);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample plan [options]", NULL };

const struct command command_plan = {
	.name = "plan",
	.summary = "how long to record for what one wants to know",
	.usages = usages,
	.description = "Says how many samples, and how much time, it takes to know a share within given points, to tell two functions apart, to find a change between "
	               "two recordings, or to see a function at all. With a former recording of the load its design effect counts, which says how much more that is "
	               "than for samples that have nothing to do with each other; without one the answer is \"at least\".",
	.options = options,
	.run = run,
};
