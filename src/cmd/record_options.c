#include "cmd/record_options.h"

#include <errno.h>
#include <math.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proc/procfs.h"
#include "profile/combs.h"
#include "record/budget.h"
#include "report/resonance.h"

enum {
	OPT_EVENT = 1, OPT_FREQ, OPT_COUNT, OPT_G, OPT_CALL_GRAPH, OPT_UNWIND, OPT_OUTPUT, OPT_MMAP, OPT_DURATION, OPT_DELAY, OPT_FILTER, OPT_MAX_SIZE,
	OPT_MIN_FREE, OPT_MAX_CPU, OPT_MAX_LOSS, OPT_REPEAT, OPT_TWO_COMBS, OPT_STRICT, OPT_SYMBOL_TIME, OPT_SYMBOLS, OPT_UID, OPT_ALL_USER, OPT_ALL_KERNEL,
	OPT_INHERIT, OPT_DRY_RUN, OPT_COST,
	OPT_REALTIME, OPT_JOIN, OPT_PER_TASK, OPT_PID, OPT_TID, OPT_ALL_CPUS, OPT_CPU, OPT_CGROUP, OPT_CONTAINER, OPT_SUMMARY, OPT_CACHE, OPT_DEBUG_DIR, OPT_DEBUGINFOD, OPT_SAVE_IMAGES,
	OPT_NOTHING,
};

const struct option record_option_table[] = {
	{ 'p', "pid", "PIDS", "record these processes: all their threads, and those born later", 0, OPT_PID, "Target", "pid" },
	{ 't', "tid", "TIDS", "record these threads (and not what they start, as perf)", 0, OPT_TID, NULL, NULL },
	{ 'a', "all-cpus", NULL, "record the whole system", 0, OPT_ALL_CPUS, NULL, NULL },
	{ 'C', "cpu", "CPUS", "record these CPUs (with -a, the default then)", 0, OPT_CPU, NULL, NULL },
	{ 0, "cgroup", "PATH", "record a cgroup and what is below it", 0, OPT_CGROUP, NULL, "file" },
	{ 0, "container", "ID", "record the container or pod whose ID starts so", 0, OPT_CONTAINER, NULL, NULL },
	{ 'u', "uid", "USER", "record the processes of a user", 0, OPT_UID, NULL, NULL },
	{ 'i', "inherit", NULL, "follow threads and processes born later (the default)", OPTION_NEGATABLE | OPTION_EXPERT, OPT_INHERIT, NULL, NULL },
	{ 0, "per-task", NULL, "per-task events even where better ones are allowed: they miss short processes", OPTION_EXPERT, OPT_PER_TASK, NULL, NULL },
	{ 'e', "event", "EVENT", "what to sample, repeatable; {a,b} a group, :u :k :p modifiers\n(default: cycles where a PMU counts it, else cpu-clock)", 0, OPT_EVENT,
	  "Sampling", "event" },
	{ 'F', "freq", "HZ", "samples a second: a number, or low, normal, high, max (95, 772, 1473, the kernel's limit)", 0, OPT_FREQ, NULL, "low|normal|high|max" },
	{ 'c', "count", "PERIOD", "one sample every PERIOD: ns for clocks (or 1.295295ms), else a count (default: 1.295295 ms)", 0, OPT_COUNT, NULL, NULL },
	{ 0, "filter", "EXPR", "kernel-side filter of the event before it", OPTION_EXPERT, OPT_FILTER, NULL, NULL },
	{ 0, "all-user", NULL, "user space only", 0, OPT_ALL_USER, NULL, NULL },
	{ 0, "all-kernel", NULL, "the kernel only", 0, OPT_ALL_KERNEL, NULL, NULL },
	{ 'g', NULL, NULL, "call graphs as by --call-graph dwarf,auto (the default)", 0, OPT_G, "Stacks", NULL },
	{ 0, "call-graph", "MODE", "dwarf[,BYTES|auto], fp, none", 0, OPT_CALL_GRAPH, NULL, "dwarf|fp|none" },
	{ 0, "unwind", "WHEN", "live: the recorder unwinds (the default); post: raw stack copies go into the file", 0, OPT_UNWIND, NULL, "live|post" },
	{ 0, "join", NULL, "read on stacks deeper than a sample holds, marked as joined (the default)", OPTION_NEGATABLE | OPTION_EXPERT, OPT_JOIN, NULL, NULL },
	{ 'o', "output", "FILE", "the recording (default perf.data); - streams to standard output", 0, OPT_OUTPUT, "Output", "file" },
	{ 0, "summary", "FILE", "the closing summary as JSON (perfsample-record/1)", 0, OPT_SUMMARY, NULL, "file" },
	{ 0, "symbols", NULL, "write names into the file when sampling has ended (the default)", OPTION_NEGATABLE, OPT_SYMBOLS, NULL, NULL },
	{ 0, "symbol-time", "S", "seconds that looking up names may take (default 10)", OPTION_EXPERT, OPT_SYMBOL_TIME, NULL, NULL },
	{ 0, "save-images", NULL, "keep the binaries that were sampled, as they ran, in the build-ID cache (~/.debug)", 0, OPT_SAVE_IMAGES, NULL, NULL },
	{ 0, "debug-dir", "DIR", "look for debug files (DIR/.build-id/..., DIR/PATH) there first; repeatable", OPTION_EXPERT, OPT_DEBUG_DIR, NULL, "file" },
	{ 0, "debuginfod", NULL, "ask the servers in DEBUGINFOD_URLS for debug files that are missing here, of files\nwith 1% of the sampled addresses or more", 0, OPT_DEBUGINFOD,
	  NULL, NULL },
	{ 0, "cache", NULL, "keep decompressed debug sections in the user's cache directory (the default)", OPTION_NEGATABLE | OPTION_EXPERT, OPT_CACHE, NULL, NULL },
	{ 0, "duration", "TIME", "stop after so long: 30s, 5m; a bare number is seconds", 0, OPT_DURATION, "Limits", NULL },
	{ 'D', "delay", "MS", "start sampling after so many milliseconds", 0, OPT_DELAY, NULL, NULL },
	{ 0, "max-size", "SIZE", "end cleanly when the file has this size", 0, OPT_MAX_SIZE, NULL, NULL },
	{ 0, "min-free", "SIZE", "end cleanly when the disk has this little left (default 512M, or 5% where that is less)", 0, OPT_MIN_FREE, NULL, NULL },
	{ 0, "max-cpu", "PCT", "of one CPU that the recorder may use (default 25); above it, it samples more coarsely", 0, OPT_MAX_CPU, NULL, NULL },
	{ 0, "max-loss", "PCT", "CARE, or with --strict status 5, where more is missing (default 1)", 0, OPT_MAX_LOSS, NULL, NULL },
	{ 0, "two-combs", NULL, "the clock at two periods, 2.341046 (or -c, -F) and 2.606182 ms, whose samples are\npooled: the report tests whether a loop kept in step with either", 0,
	  OPT_TWO_COMBS, NULL, NULL },
	{ 0, "repeat", "N", "run the command N times after a warm-up run, into FILE.1 … FILE.N, and say what the\nruns differ by: for programs shorter than their phases", 0,
	  OPT_REPEAT, NULL, NULL },
	{ 0, "strict", NULL, "status 5 when more than --max-loss is missing, or no ranking can be given", 0, OPT_STRICT, NULL, NULL },
	{ 0, "cost", NULL, "say what recording cost by its books: each sample's interrupt and stack copy, calibrated\non this host when it is over (0.3 s), and the recorder's own time", 0,
	  OPT_COST, NULL, NULL },
	{ 'm', "mmap-pages", "SIZE", "ring per CPU: pages, or with B, K, M, G; rounded up to a power of two", OPTION_EXPERT, OPT_MMAP, NULL, NULL },
	{ 'r', "realtime", "PRIO", "real-time priority of the drain thread (default 1, where allowed)", OPTION_EXPERT, OPT_REALTIME, NULL, NULL },
	{ 'n', "dry-run", NULL, "open everything, say what would be done, record nothing", OPTION_EXPERT, OPT_DRY_RUN, NULL, NULL },
	{ 'N', "no-buildid-cache", NULL, "the default: --save-images fills the build-ID cache", OPTION_IGNORED, OPT_NOTHING, "Accepted from perf without effect", NULL },
	{ 'B', "no-buildid", NULL, "build IDs cost nothing here", OPTION_IGNORED, OPT_NOTHING, NULL, NULL },
	{ 'T', "timestamp", NULL, "samples always have their time", OPTION_IGNORED, OPT_NOTHING, NULL, NULL },
	{ 'P', "period", NULL, "samples always have their period", OPTION_IGNORED, OPT_NOTHING, NULL, NULL },
	{ 0, "sample-cpu", NULL, "samples always have their CPU", OPTION_IGNORED, OPT_NOTHING, NULL, NULL },
	{ 'f', "force", NULL, "an existing file becomes .old anyway", OPTION_IGNORED, OPT_NOTHING, NULL, NULL },
	{ 'z', "compression-level", "LEVEL", "live-unwound recordings are small already; compress the finished file", OPTION_REFUSED | OPTION_OPTIONAL, OPT_NOTHING,
	  "Refused", NULL },
	{ 0, "switch-output", "WHEN", "record with --duration in a loop", OPTION_REFUSED | OPTION_OPTIONAL, OPT_NOTHING, NULL, NULL },
	{ 0, "overwrite", NULL, "every sample is written as it comes", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 0, "control", "FDS", "-D delays the start, SIGINT ends the recording", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 0, "snapshot", NULL, "there is no AUX area tracing", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'S', NULL, NULL, "there is no AUX area tracing", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'b', "branch-any", NULL, "branch stacks are not read", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'j', "branch-filter", "MASK", "branch stacks are not read", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'd', "data", NULL, "data addresses are not recorded", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'W', "weight", NULL, "weights are not recorded", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'k', "clockid", "CLOCK", "the clock is always CLOCK_MONOTONIC", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'I', "intr-regs", "REGS", "registers are used for unwinding only", OPTION_REFUSED | OPTION_OPTIONAL, OPT_NOTHING, NULL, NULL },
	{ 0, "user-regs", "REGS", "registers are used for unwinding only", OPTION_REFUSED | OPTION_OPTIONAL, OPT_NOTHING, NULL, NULL },
	{ 's', "stat", NULL, "counters are written once a second anyway", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'R', "raw-samples", NULL, "tracepoints always carry their fields", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 'G', NULL, "NAME", "use --cgroup PATH", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 0, "off-cpu", NULL, "waiting is not sampled", OPTION_REFUSED, OPT_NOTHING, NULL, NULL },
	{ 0 },
};

static const struct { const char *word; uint64_t period_ns, frequency; } rates[] = {
	{ "low", 10579380, 95 }, { "normal", 1295295, 772 }, { "high", 678744, 1473 },
};

static void warn_owned(struct record_options *options, char *text)
{
	vec_push(&options->owned, text);
	vec_push(&options->warnings, text);
}

static void warn_resonance(struct record_options *options, const char *what, double period_ms)
{
	double loop_ms;
	if (resonance_is_bad(period_ms, &loop_ms))
		warn_owned(options, mem_printf("%s is in step with loops of %.3g ms, which are mis-measured: -F %s is not", what, loop_ms,
		                               period_ms < 1 ? "high (1473 Hz)" : "normal (772 Hz)"));
}

static void set_rate(struct record_options *options, uint64_t period_ns, uint64_t frequency, bool is_freq)
{
	options->session.period = period_ns;
	options->session.frequency = frequency;
	options->session.is_freq = is_freq;
	options->session.is_default_rate = false;
}

static bool take_frequency(struct record_options *options, const struct option_value *value, struct err *err)
{
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++)
		if (strcmp(value->value, rates[i].word) == 0) {
			set_rate(options, rates[i].period_ns, rates[i].frequency, true);
			return true;
		}
	uint64_t most = (uint64_t)procfs_number("/proc/sys/kernel/perf_event_max_sample_rate", 100000), hz = most;
	if (strcmp(value->value, "max") != 0) {
		if (!value_u64(value->value, 1, 1000000, value->spelled, &hz, err))
			return false;
		if (hz > most) {
			warn_owned(options, mem_printf("-F %llu is above the kernel's limit (kernel.perf_event_max_sample_rate): sampling at %llu Hz",
			                               (unsigned long long)hz, (unsigned long long)most));
			hz = most;
		}
	}
	set_rate(options, (uint64_t)llround(1e9 / (double)hz), hz, true);
	char what[32];
	snprintf(what, sizeof(what), "%llu Hz", (unsigned long long)hz);
	warn_resonance(options, what, 1e3 / (double)hz);
	return true;
}

static bool take_period(struct record_options *options, const struct option_value *value, struct err *err)
{
	static const struct { const char *suffix; double ns; } units[] = { { "", 1 }, { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	char *end;
	errno = 0;
	double number = strtod(value->value, &end);
	for (size_t i = 0; end != value->value && errno == 0 && i < sizeof(units) / sizeof(units[0]); i++) {
		double period = number * units[i].ns;
		if (strcmp(end, units[i].suffix) != 0 || !(period >= 1) || period > 1e15)
			continue;
		set_rate(options, (uint64_t)llround(period), 0, false);
		if (*end != '\0') // a time, so of a clock; a bare number may be a count of events
			warn_resonance(options, value->value, period / 1e6);
		return true;
	}
	return err_set(err, STATUS_USAGE, "%s: '%s' is no period (a number of ns or events, or 1.295295ms)", value->spelled, value->value);
}

static bool take_call_graph(struct record_options *options, const struct option_value *value, struct err *err)
{
	const char *text = value->value;
	options->session.stack_bytes = 0;
	if (strcmp(text, "fp") == 0 || strcmp(text, "none") == 0 || strcmp(text, "no") == 0) {
		options->session.mode = text[0] == 'f' ? CHAIN_FP : CHAIN_NONE;
		return true;
	}
	if (strcmp(text, "lbr") == 0)
		return err_set(err, STATUS_USAGE, "%s lbr: not supported: branch stacks are not read; dwarf, fp, none", value->spelled);
	if (strncmp(text, "dwarf", 5) != 0 || (text[5] != '\0' && text[5] != ','))
		return err_set(err, STATUS_USAGE, "%s: '%s' is none of dwarf[,BYTES|auto], fp, none", value->spelled, text);
	if (options->session.mode != CHAIN_POST)
		options->session.mode = CHAIN_LIVE;
	uint64_t bytes;
	if (text[5] == '\0' || strcmp(text + 6, "auto") == 0)
		return true;
	if (!value_u64(text + 6, 8, STACK_BYTES_MAX, value->spelled, &bytes, err))
		return false;
	options->session.stack_bytes = (uint32_t)(bytes / 8 * 8);
	return true;
}

// -p and -t: numbers split at commas, spaces and newlines.
static bool take_ids(struct target_config *target, enum target_kind kind, const struct option_value *value, struct err *err)
{
	size_t count;
	char **words = value_words(value->value, ", \n\t", &count);
	bool good = true;
	for (size_t i = 0; good && i < count; i++) {
		uint64_t id;
		good = value_u64(words[i], 1, INT32_MAX, value->spelled, &id, err);
		if (good)
			vec_push(&target->ids, (int32_t)id);
	}
	value_words_free(words, count);
	target->kind = kind;
	if (good && count == 0)
		return err_set(err, STATUS_USAGE, "%s: no number in '%s'", value->spelled, value->value);
	return good;
}

static bool take_cpus(struct target_config *target, const struct option_value *value, struct err *err)
{
	uint32_t *cpus = NULL;
	size_t count = 0;
	if (!value_list(value->value, 1 << 16, value->spelled, &cpus, &count, err))
		return false;
	for (size_t i = 0; i < count; i++)
		vec_push(&target->cpus, cpus[i]);
	free(cpus);
	if (target->kind == TARGET_COMMAND)
		target->kind = TARGET_SYSTEM;
	return true;
}

static bool take_user(struct target_config *target, const struct option_value *value, struct err *err)
{
	const struct passwd *user = getpwnam(value->value);
	uint64_t uid = user != NULL ? user->pw_uid : 0;
	if (user == NULL && !value_u64(value->value, 0, UINT32_MAX, value->spelled, &uid, NULL))
		return err_set(err, STATUS_USAGE, "%s: no user is called '%s'", value->spelled, value->value);
	target->kind = TARGET_USER;
	target->uid = (uid_t)uid;
	return true;
}

static bool take_target(struct record_options *options, const struct option_value *value, struct err *err)
{
	struct target_config *target = &options->session.target;
	switch (value->id) {
	case OPT_PID: return take_ids(target, TARGET_PIDS, value, err);
	case OPT_TID: return take_ids(target, TARGET_TIDS, value, err);
	case OPT_CPU: return take_cpus(target, value, err);
	case OPT_UID: return take_user(target, value, err);
	case OPT_ALL_CPUS: target->kind = TARGET_SYSTEM; return true;
	case OPT_CONTAINER:
	case OPT_CGROUP:
		target->kind = TARGET_CGROUP;
		target->cgroup = value->value;
		target->is_container = value->id == OPT_CONTAINER;
		return true;
	// perf: -i is --no-inherit.
	case OPT_INHERIT:
		target->inherit = options->inherit_asked = value->spelled[1] != 'i' && !value->negated;
		return true;
	default: target->per_task = true; return true;
	}
}

static bool take_percent(const struct option_value *value, double most, double *out, struct err *err)
{
	return value_double(value->value, 0, most, value->spelled, out, err);
}

static bool take_limit(struct record_options *options, const struct option_value *value, struct err *err)
{
	struct session_config *session = &options->session;
	switch (value->id) {
	case OPT_DURATION:
		return value_duration(value->value, 1000000000, value->spelled, &session->duration_ns, err) && (session->duration_ns > 0 ||
		       err_set(err, STATUS_USAGE, "%s: %s is out of range: more than 0; without it Ctrl-C ends the recording", value->spelled, value->value));
	case OPT_DELAY: return value_duration(value->value, 1000000, value->spelled, &session->delay_ns, err);
	case OPT_MAX_SIZE: return value_size(value->value, false, value->spelled, &session->limits.max_bytes, err);
	case OPT_MIN_FREE:
		session->limits.min_free_share = 0;
		return value_size(value->value, false, value->spelled, &session->limits.min_free_bytes, err);
	case OPT_MAX_CPU: return take_percent(value, 100000, &session->max_cpu_percent, err);
	case OPT_MAX_LOSS:
		if (!take_percent(value, 100, &options->max_loss, err))
			return false;
		options->max_loss /= 100;
		return true;
	default: return value_double(value->value, 0, 1e6, value->spelled, &options->symbol_time_s, err);
	}
}

static bool take_mmap(struct session_config *session, const struct option_value *value, struct err *err)
{
	uint64_t bytes;
	if (!value_size(value->value, true, value->spelled, &bytes, err))
		return false;
	if (bytes == 0 || bytes > UINT64_C(1) << 30)
		return err_set(err, STATUS_USAGE, "%s: '%s' is not between one page and 1G", value->spelled, value->value);
	session->ring_bytes = budget_power_of_two(bytes);
	return true;
}

static bool take_filter(struct record_options *options, const struct option_value *value, struct err *err)
{
	if (options->specs.items.count == 0)
		return err_set(err, STATUS_USAGE, "--filter: no -e before it");
	struct event_spec *spec = &options->specs.items.data[options->specs.items.count - 1];
	free(spec->filter);
	spec->filter = mem_string(value->value);
	return true;
}

static bool take_unwind(struct session_config *session, const struct option_value *value, struct err *err)
{
	if (strcmp(value->value, "live") == 0)
		session->mode = session->mode == CHAIN_POST ? CHAIN_LIVE : session->mode;
	else if (strcmp(value->value, "post") == 0)
		session->mode = CHAIN_POST;
	else
		return err_set(err, STATUS_USAGE, "%s: '%s' is neither live nor post", value->spelled, value->value);
	return true;
}

static bool take(struct record_options *options, const struct option_value *value, struct err *err)
{
	struct session_config *session = &options->session;
	uint64_t number;
	switch (value->id) {
	case OPT_EVENT: return event_specs_parse(&options->specs, value->value, err);
	case OPT_FILTER: return take_filter(options, value, err);
	case OPT_FREQ: return take_frequency(options, value, err);
	case OPT_COUNT: return take_period(options, value, err);
	case OPT_G: return take_call_graph(options, &(struct option_value){ .value = "dwarf,auto", .spelled = "-g" }, err);
	case OPT_CALL_GRAPH: return take_call_graph(options, value, err);
	case OPT_UNWIND: return take_unwind(session, value, err);
	case OPT_OUTPUT: session->output = value->value, session->is_default_output = false; return true;
	case OPT_SUMMARY: options->summary_path = value->value; return true;
	case OPT_MMAP: return take_mmap(session, value, err);
	case OPT_REPEAT:
		if (!value_u64(value->value, 1, 10000, value->spelled, &number, err))
			return false;
		options->repeat = number;
		return true;
	case OPT_TWO_COMBS: options->two_combs = true; return true;
	case OPT_STRICT: options->strict = true; return true;
	case OPT_SYMBOLS: session->want_names = !value->negated; return true;
	case OPT_SAVE_IMAGES: options->save_images = true; return true;
	case OPT_CACHE: options->no_cache = value->negated; return true;
	case OPT_DEBUG_DIR:
		options->debug_dirs.count -= options->debug_dirs.count > 0; // its NULL
		vec_push(&options->debug_dirs, value->value);
		vec_push(&options->debug_dirs, NULL);
		return true;
	case OPT_ALL_USER: session->all_user = true; return true;
	case OPT_ALL_KERNEL: session->all_kernel = true; return true;
	case OPT_DEBUGINFOD: return options->servers != NULL || servers_open(&options->servers, value->spelled, err);
	case OPT_COST: options->cost = true; return true;
	case OPT_DRY_RUN: options->dry_run = true; return true;
	case OPT_JOIN: session->no_join = value->negated; return true;
	case OPT_NOTHING: return true;
	case OPT_REALTIME:
		if (!value_u64(value->value, 1, 99, value->spelled, &number, err))
			return false;
		session->realtime = (int)number;
		return true;
	case OPT_DURATION:
	case OPT_DELAY:
	case OPT_MAX_SIZE:
	case OPT_MIN_FREE:
	case OPT_MAX_CPU:
	case OPT_MAX_LOSS:
	case OPT_SYMBOL_TIME: return take_limit(options, value, err);
	default: return take_target(options, value, err);
	}
}

// The same clock twice, each event with a period of its own; the first may be the one that is to be tested (-c, -F).
static bool make_combs(struct record_options *options, struct err *err)
{
	const uint64_t periods_ns[2] = { options->session.is_default_rate ? COMB_FIRST_NS : options->session.period, COMB_SECOND_NS };
	struct event_specs *specs = &options->specs;
	if (periods_ns[0] == periods_ns[1])
		return err_set(err, STATUS_USAGE, "--two-combs: 2.606182 ms is the second comb's own period: another one for the first");
	char *name = mem_string(specs->items.count > 0 ? specs->items.data[0].name : "cpu-clock");
	bool good = specs->items.count <= 1 || err_set(err, STATUS_USAGE, "--two-combs samples one clock twice: one -e at most");
	for (size_t i = specs->items.count; good && i < 2; i++)
		good = event_specs_parse(specs, name, err);
	for (size_t i = 0; good && i < 2; i++) {
		struct event_spec *spec = &specs->items.data[i];
		if (!spec->is_clock)
			good = err_set(err, STATUS_USAGE, "--two-combs: %s is no clock; cpu-clock, task-clock", name);
		spec->has_period = true;
		spec->period = periods_ns[i];
		spec->frequency = 0;
	}
	free(name);
	return good;
}

static bool check_whole(struct record_options *options, struct err *err)
{
	struct session_config *session = &options->session;
	struct target_config *target = &session->target;
	if (target->kind == TARGET_COMMAND && target->command == NULL)
		return err_set(err, STATUS_USAGE, "nothing to record: give a command (record -- CMD), -p PID, -a, --cgroup or --container");
	if (session->all_user && session->all_kernel)
		return err_set(err, STATUS_USAGE, "--all-user and --all-kernel exclude each other");
	if (session->all_kernel && session->mode == CHAIN_LIVE)
		session->mode = CHAIN_FP; // the kernel walks its own stack; there is nothing of user space to unwind
	if (session->mode == CHAIN_POST)
		vec_push(&options->warnings, "--unwind post: the file holds copies of stack memory, whatever is in them");
	if (options->two_combs && !make_combs(options, err))
		return false;
	if (options->specs.items.count == 0) {
		if (!event_specs_parse(&options->specs, "cycles", err))
			return false;
		options->specs.items.data[0].is_default = true;
	}
	// As with perf, whose -t is --no-inherit: threads were named, not what they start.
	if (target->kind == TARGET_TIDS && options->inherit_asked)
		return err_set(err, STATUS_USAGE, "--inherit: -t records the threads that it names; -p follows what they start");
	target->inherit = target->inherit && target->kind != TARGET_TIDS;
	session->specs = &options->specs;
	target->delayed = session->delay_ns > 0;
	target->stdout_to_stderr = strcmp(session->output, "-") == 0;
	return true;
}

bool record_options_parse(struct record_options *options, int argc, char **argv, char *const *recorded, struct err *err)
{
	*options = (struct record_options){
		.session = { .period = 1295295, .frequency = 772, .is_default_rate = true, .mode = CHAIN_LIVE, .output = "perf.data", .is_default_output = true, .stream_fd = -1,
		             .limits = { .min_free_bytes = UINT64_C(512) << 20, .min_free_share = 0.05 }, .max_cpu_percent = 25, .want_names = true, .argv = recorded,
		             .target = { .kind = TARGET_COMMAND, .inherit = true } },
		.max_loss = 0.01, .symbol_time_s = 10,
	};
	struct option_parser parser;
	struct option_value value;
	option_parser_init(&parser, record_option_table, argc, argv, true);
	while (option_next(&parser, &value, err))
		if (!take(options, &value, err))
			return false;
	if (err->status != STATUS_OK)
		return false;
	if (parser.next < argc)
		options->session.target.command = argv + parser.next;
	return check_whole(options, err);
}

void record_options_release(struct record_options *options)
{
	event_specs_release(&options->specs);
	vec_release(&options->session.target.ids);
	vec_release(&options->session.target.cpus);
	for (size_t i = 0; i < options->owned.count; i++)
		free(options->owned.data[i]);
	vec_release(&options->owned);
	vec_release(&options->warnings);
	vec_release(&options->debug_dirs);
	servers_close(options->servers);
}
