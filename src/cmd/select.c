#include "cmd/select.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "cmd/late_map.h"
#include "profile/core_events.h"
#include "report/left_out.h"

void select_init(struct selection *selection)
{
	*selection = (struct selection){ .load = load_defaults() };
	selection->load.input = "perf.data";
	selection->load.late_map = late_map_open;
}

void select_release(struct selection *selection)
{
	value_words_free(selection->comms, selection->comm_count);
	value_words_free(selection->dsos, selection->dso_count);
	value_words_free(selection->symbols, selection->symbol_count);
	vec_release(&selection->debug_dirs);
	servers_close(selection->servers);
	vec_release(&selection->filter.pids);
	vec_release(&selection->filter.tids);
	vec_release(&selection->filter.cpus);
}

// A list given twice: the last one holds.
static bool take_words(const struct option_value *value, const char *separators, char ***words, size_t *count, const char *const **filter,
                       struct err *err)
{
	value_words_free(*words, *count);
	*words = value_words(value->value, separators, count);
	*filter = (const char *const *)*words;
	if (*count == 0)
		return err_set(err, STATUS_USAGE, "%s: the list is empty", value->spelled);
	return true;
}

#define TAKE_NUMBERS(value, list, most, err) ({ \
	uint32_t *numbers_ = NULL; \
	size_t count_ = 0; \
	bool good_ = value_list((value)->value, (most), (value)->spelled, &numbers_, &count_, (err)); \
	vec_clear(list); \
	for (size_t i_ = 0; good_ && i_ < count_; i_++) \
		vec_push((list), (__typeof__(*(list)->data))numbers_[i_]); \
	free(numbers_); \
	good_; })

bool select_take(struct selection *s, const struct option_value *value, struct err *err)
{
	uint64_t jobs;
	switch (value->id) {
	case SELECT_INPUT:
		s->load.input = value->value;
		return true;
	case SELECT_SALVAGE:
		s->load.salvage = true;
		return true;
	case SELECT_INLINE:
		s->load.inlines = !value->negated;
		return true;
	case SELECT_DEMANGLE:
		s->load.demangle = !value->negated;
		return true;
	case SELECT_CLONES:
		s->load.no_clones = value->negated;
		return true;
	case SELECT_SYMFS:
		s->load.symfs = value->value;
		return true;
	case SELECT_CACHE:
		s->load.no_cache = value->negated;
		return true;
	case SELECT_DEBUG_DIR:
		s->debug_dirs.count -= s->debug_dirs.count > 0; // its NULL
		vec_push(&s->debug_dirs, value->value);
		vec_push(&s->debug_dirs, NULL);
		s->load.debug_dirs = s->debug_dirs.data;
		return true;
	case SELECT_DEBUGINFOD:
		if (s->servers == NULL && !servers_open(&s->servers, value->spelled, err))
			return false;
		s->load.debuginfod = servers_client(s->servers);
		return true;
	case SELECT_UNWINDER:
		s->load.libunwind = strcmp(value->value, "libunwind") == 0;
		if (!s->load.libunwind && strcmp(value->value, "own") != 0)
			return err_set(err, STATUS_USAGE, "--unwinder %s: expected own or libunwind", value->value);
		return true;
	case SELECT_JOBS:
		if (!value_u64(value->value, 1, 1024, value->spelled, &jobs, err))
			return false;
		s->load.jobs = (unsigned)jobs;
		return true;
	case SELECT_COMMS:
		return take_words(value, ",", &s->comms, &s->comm_count, &s->filter.comms, err);
	case SELECT_DSOS:
		return take_words(value, ",", &s->dsos, &s->dso_count, &s->filter.dsos, err);
	case SELECT_SYMBOLS:
		return take_words(value, ",", &s->symbols, &s->symbol_count, &s->filter.symbols, err);
	case SELECT_PIDS:
		return TAKE_NUMBERS(value, &s->filter.pids, INT32_MAX, err);
	case SELECT_TIDS:
		return TAKE_NUMBERS(value, &s->filter.tids, INT32_MAX, err);
	case SELECT_CPUS:
		return TAKE_NUMBERS(value, &s->filter.cpus, 1 << 20, err);
	case SELECT_TIME:
		s->time = value->value;
		return true;
	default:
		return false;
	}
}

enum { NS_PER_S = 1000000000 };

// "14:02:11.5" or "2026-11-29T14:02:11Z" (or a blank for the T) as the recording's clock; false: it is neither, or the recording does not say
// what the time was.
static bool wall_clock(const char *text, const struct profile_meta *meta, double *ns)
{
	struct tm utc = { 0 };
	time_t start = (time_t)(meta->start_wall_ns / NS_PER_S);
	double seconds = 0;
	int hour, minute, length = 0, year, month, day;
	bool has_date = sscanf(text, "%4d-%2d-%2d%*1[T ]%n", &year, &month, &day, &length) == 3 && length > 0;
	if (meta->start_wall_ns == 0 || gmtime_r(&start, &utc) == NULL)
		return false;
	const char *clock = has_date ? text + length : text;
	length = 0;
	if (sscanf(clock, "%2d:%2d%n", &hour, &minute, &length) != 2 || length == 0 || hour > 23 || minute > 59 || hour < 0 || minute < 0)
		return false;
	clock += length;
	if (*clock == ':') {
		char *end;
		seconds = strtod(clock + 1, &end);
		if (end == clock + 1 || !(seconds >= 0) || seconds >= 61)
			return false;
		clock = end;
	}
	if (strcmp(clock, "Z") != 0 && *clock != '\0')
		return false;
	if (has_date)
		utc.tm_year = year - 1900, utc.tm_mon = month - 1, utc.tm_mday = day;
	utc.tm_hour = hour, utc.tm_min = minute, utc.tm_sec = 0;
	double since = difftime(timegm(&utc), start) - (double)(meta->start_wall_ns % NS_PER_S) / NS_PER_S + seconds;
	if (!has_date && since < -12 * 3600)
		since += 24 * 3600; // past midnight
	*ns = (double)meta->start_ns + since * NS_PER_S;
	return true;
}

static bool moment(const char *text, const struct profile_meta *meta, double *ns)
{
	char *end;
	if (strchr(text, ':') != NULL)
		return wall_clock(text, meta, ns);
	bool is_relative = text[0] == '+';
	double value = strtod(text + is_relative, &end);
	if (end == text + is_relative || !isfinite(value) || value < 0)
		return false;
	if (strcmp(end, "%") == 0 && !is_relative) {
		// The end itself is still in: 100 % lies behind the last sample.
		*ns = (double)meta->start_ns + value / 100 * (double)(meta->end_ns - meta->start_ns + 1);
		return value <= 100;
	}
	if (strcmp(end, "s") == 0 && is_relative)
		end++;
	*ns = value * NS_PER_S + (is_relative ? (double)meta->start_ns : 0);
	return *end == '\0' && *ns < 9e18;
}

bool select_resolve(struct selection *selection, const struct profile *profile, struct err *err)
{
	size_t count;
	if (selection->time == NULL)
		return true;
	const char *comma = strchr(selection->time, ',');
	if (comma == NULL || strchr(comma + 1, ',') != NULL)
		return err_set(err, STATUS_USAGE, "--time: '%s' is not A,B (either may be empty)", selection->time);
	char *words[2] = { mem_string_n(selection->time, (size_t)(comma - selection->time)), mem_string(comma + 1) };
	double ns[2] = { 0, 0 };
	bool is_good = true;
	for (count = 0; count < 2 && is_good; count++)
		if (*words[count] != '\0' && !moment(words[count], &profile->meta, &ns[count]))
			is_good = err_set(err, STATUS_USAGE, "--time: '%s' is no time: +14 (seconds from the start), 10%%, 14:02:11 (UTC%s) or perf's "
			                  "timestamp in seconds", words[count], profile->meta.start_wall_ns == 0 ? "; this recording does not hold it" : "");
	if (is_good && *words[1] != '\0' && ns[1] <= ns[0])
		is_good = err_set(err, STATUS_USAGE, "--time: '%s' ends before it begins", selection->time);
	selection->filter.from_ns = ns[0] > 0 ? (uint64_t)llround(ns[0]) : 0;
	selection->filter.to_ns = ns[1] > 0 ? (uint64_t)llround(ns[1]) : 0;
	free(words[0]);
	free(words[1]);
	return is_good;
}

bool select_load(struct selection *selection, struct profile *profile, struct err *err)
{
	if (!load_profile(profile, &selection->load, err))
		return false;
	for (size_t i = 0; i < profile->meta.caveats.count; i++)
		log_warn("%s", profile_text(profile, profile->meta.caveats.data[i]));
	return select_resolve(selection, profile, err);
}

static bool has_samples(const struct profile *profile, size_t event)
{
	for (size_t i = 0; i < profile->samples.count; i++)
		if (samples_at(&profile->samples, i).event == event)
			return true;
	return false;
}

bool select_event(const struct profile *profile, const char *name, uint32_t *event, struct err *err)
{
	struct buf names = { 0 };
	for (size_t i = 0; i < profile->events.count; i++) {
		const struct profile_event *e = &profile->events.data[i];
		const char *text = profile_text(profile, e->name);
		if (e->is_sampling && (name == NULL ? has_samples(profile, i) : strcmp(name, text) == 0 || profile_event_has_part(profile, e, name))) {
			*event = (uint32_t)i;
			buf_release(&names);
			return true;
		}
		if (e->is_sampling)
			buf_printf(&names, "%s%s", names.size > 0 ? ", " : "", text);
	}
	*event = 0;
	if (name != NULL)
		err_set(err, STATUS_USAGE, "--event: no event '%s' in this recording; it has %s", name, names.size > 0 ? names.data : "none");
	buf_release(&names);
	return name == NULL; // a recording without samples has nothing to choose from
}

void select_say_left_out(const struct profile *profile, uint32_t event)
{
	struct buf others = { 0 };
	if (log_level() >= LOG_WARN && event < profile->events.count && report_left_out(profile, event, &others) > 0)
		log_warn("this is %s alone; left out: %s (--event takes another)", profile_text(profile, profile->events.data[event].name), buf_text(&others));
	buf_release(&others);
}

int select_run(const struct select_command *command, int argc, char **argv, void *choices, struct selection *selection)
{
	struct profile profile = { 0 };
	struct option_parser parser;
	struct option_value value;
	struct err err = { 0 };
	select_init(selection);
	option_parser_init(&parser, command->options, argc, argv, false);
	while (option_next(&parser, &value, &err))
		if (!command->take(choices, &value, &err))
			break;
	if (err.status == STATUS_OK && parser.next < argc)
		err_set(&err, STATUS_USAGE, "unexpected word %s (%s)", argv[parser.next], command->no_operands);
	bool is_done = err.status == STATUS_OK && command->run(choices, &profile, &err);
	if (!is_done)
		log_error("%s: %s", command->name, err.text);
	profile_release(&profile);
	select_release(selection);
	return is_done ? STATUS_OK : (int)err.status;
}
