// perfsample merge: recordings of many hosts, or runs, as one.
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/digest.h"
#include "cmd/select.h"
#include "export/merge.h"

enum id { ID_RUNS = 1, ID_THESE, ID_FACTORS, ID_CHILDREN, ID_EVENT, ID_CONFIDENCE, ID_FORMAT, ID_TOP };

static const struct option options[] = {
	{ 0, "runs", NULL, "the recordings are runs of one command, not hosts", 0, ID_RUNS, "Input", NULL },
	{ 0, "these-only", NULL, "the hosts are all there are, no sample of more: intervals of sampling alone", 0, ID_THESE, NULL, NULL },
	{ 0, "factors", "F,F,…", "how many hosts of the fleet each recording stands for, in their order", 0, ID_FACTORS, NULL, NULL },
	{ 0, "event", "EVENT", "merge this event (default: the first with samples)", 0, ID_EVENT, NULL, NULL },
	{ 0, "salvage", NULL, "skip what is damaged instead of stopping there", 0, SELECT_SALVAGE, NULL, NULL },
	{ 0, "symfs", "DIR", "look for binaries below DIR", OPTION_EXPERT, SELECT_SYMFS, NULL, "file" },
	{ 0, "jobs", "N", "threads that unwind raw stacks of perf's recordings (default 1) and read debug information (default: one a processor, at most 4)", OPTION_EXPERT, SELECT_JOBS, NULL, NULL },
	{ 0, "children", NULL, "by total instead of self", OPTION_NEGATABLE, ID_CHILDREN, "What to show", NULL },
	{ 0, "confidence", "C", "of every interval: 0.95, or 95% (default 0.95)", 0, ID_CONFIDENCE, NULL, NULL },
	{ 0, "format", "text|json", "how to write it (default text)", 0, ID_FORMAT, NULL, "text|json" },
	{ 0, "top", "N", "N rows (default 20; with json all)", 0, ID_TOP, NULL, NULL },
	{ 0 },
};

struct choices {
	struct hosts_options merge;
	struct load_options load;
	struct digest_options digest;
	const char *format;
	size_t top;
	VEC(double) factors;
};

static bool set_factors(struct choices *c, const struct option_value *v, struct err *err)
{
	size_t count;
	char **words = value_words(v->value, ",", &count);
	bool good = true;
	double factor = 1;
	for (size_t i = 0; i < count && good; i++) {
		good = value_double(words[i], 1e-9, 1e9, v->spelled, &factor, err);
		vec_push(&c->factors, factor);
	}
	value_words_free(words, count);
	return good;
}

static bool set_option(struct choices *c, const struct option_value *v, struct err *err)
{
	uint64_t number;
	switch ((enum id)v->id) {
	case ID_RUNS: return c->merge.runs = true, true;
	case ID_THESE: return c->merge.these_only = true, true;
	case ID_FACTORS: return set_factors(c, v, err);
	case ID_CHILDREN: return c->digest.children = !v->negated, true;
	case ID_EVENT: return c->digest.event = v->value, true;
	case ID_CONFIDENCE: return value_share(v->value, 0.5, 0.9999, v->spelled, &c->merge.confidence, err);
	case ID_FORMAT: return c->format = v->value, true;
	case ID_TOP:
		if (!value_u64(v->value, 1, UINT32_MAX, v->spelled, &number, err))
			return false;
		c->top = number;
		return true;
	}
	return true;
}

static bool write_merge(const struct choices *c, const struct hosts *merge, struct err *err)
{
	struct buf out = { 0 };
	size_t columns, rows;
	terminal_size(&columns, &rows);
	if (strcmp(c->format, "json") == 0)
		merge_json(merge, c->top, &out);
	else
		merge_text(merge, c->top > 0 ? c->top : 20, columns, &out);
	bool good = output_write(out.data, out.size, err);
	buf_release(&out);
	return good;
}

// One recording at a time: of each only its counts stay.
static bool merge_files(struct choices *c, char *const *paths, size_t count, struct err *err)
{
	struct hosts merge;
	bool good = true;
	c->digest.confidence = c->merge.confidence;
	hosts_init(&merge, &c->merge);
	for (size_t i = 0; i < count && good; i++) {
		struct digest digest;
		good = digest_load(&digest, paths[i], &c->load, &c->digest, err)
			&& hosts_add(&merge, &digest, c->factors.count > 0 ? c->factors.data[i] : 1, err);
		digest_release(&digest);
	}
	if (good) {
		hosts_finish(&merge);
		good = write_merge(c, &merge, err);
	}
	hosts_release(&merge);
	return good;
}

static bool parse(struct choices *c, int argc, char **argv, int *first, struct err *err)
{
	struct option_parser parser;
	struct option_value v;
	struct selection selection;
	bool good = true;
	select_init(&selection);
	option_parser_init(&parser, options, argc, argv, false);
	while (good && option_next(&parser, &v, err))
		good = v.id >= SELECT_INPUT ? select_take(&selection, &v, err) : set_option(c, &v, err);
	c->load = selection.load;
	select_release(&selection);
	if (!good || err->status != STATUS_OK)
		return false;
	*first = parser.next;
	size_t count = (size_t)(argc - parser.next);
	if (count == 0)
		return err_set(err, STATUS_USAGE, "no recordings: perfsample merge [options] FILE...");
	if (c->factors.count > 0 && c->factors.count != count)
		return err_set(err, STATUS_USAGE, "--factors: %zu for %zu recordings", c->factors.count, count);
	if (strcmp(c->format, "text") != 0 && strcmp(c->format, "json") != 0)
		return err_set(err, STATUS_USAGE, "--format: no format '%s'; there are text, json", c->format);
	return true;
}

static int run(int argc, char **argv)
{
	struct err err = { 0 };
	struct choices c = { .merge = { .confidence = 0.95 }, .format = "text" };
	int first = argc;
	bool good = parse(&c, argc, argv, &first, &err) && merge_files(&c, argv + first, (size_t)(argc - first), &err);
	if (!good)
		log_error("%s", err.text);
	vec_release(&c.factors);
	return good ? STATUS_OK : (int)err.status;
}

static const char *const usages[] = { "perfsample merge [options] FILE...", NULL };

const struct command command_merge = {
	.name = "merge",
	.summary = "recordings of many hosts, or runs, taken together",
	.usages = usages,
	.description = "Weighs the recordings by the CPU time in them and shows each function's share of the whole, with the interval in which it would be for other "
	               "hosts of the kind: samples of one host are not independent, so hosts count, not samples. Functions that hosts differ in are marked, and "
	               "those that have surely more than twice their share on some host are listed, however small they are on the whole.",
	.options = options,
	.run = run,
};
