// perfsample inject: a recording into a recording. Raw stack copies become call chains, as if they had been unwound while recording; samples
// are selected; what should not leave the host is stripped. Records stay in the order of time within their rounds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/plural.h"
#include "base/size_text.h"
#include "cli/command.h"
#include "cmd/inject_join.h"
#include "cmd/inject_names.h"
#include "cmd/select.h"
#include "perfdata/reader.h"
#include "perfdata/writer.h"
#include "record/sample.h"

enum { ID_OUTPUT = 1, ID_STRIP, ID_JOIN, ID_EVENT, ID_IGNORED, ID_REFUSED };
enum { FLUSH_BYTES = 1 << 20 };

struct choices {
	struct selection selection;
	const char *output, *event;
	VEC(const char *) joined; // beside the selection's input
	unsigned strip;
};

struct inject {
	const struct choices *choices;
	struct profile *profile;
	const char *path;                // of what is read now
	struct writer *writer;
	VEC(struct writer_event) events; // by the reader's
	struct join join;                // of several; sources 0: there is but one
	const struct join_source *source; // of the join, that is read now
	struct buf out;
	struct err err;                  // the first
	bool has_begun, is_filtered, has_event;
	uint64_t kept, dropped, unwound, stack_bytes;
};

// ---------------------------------------------------------------- the file's head

static struct writer_info info_of(const struct inject *in, struct reader *reader, const char *const *argv)
{
	const struct reader_features *f = reader_features(reader);
	struct writer_info info = {
		.arch = f->arch, .version = f->version, .cpus_online = f->cpus_online, .cpus_available = f->cpus_available, .argv = argv,
		.first_time_ns = f->first_time_ns, .last_time_ns = f->last_time_ns,
	};
	if (f->has_clock_data) {
		info.clockid = f->clockid;
		info.clockid_time_ns = f->clockid_time_ns;
		info.wall_time_ns = f->wall_time_ns;
	}
	if ((in->choices->strip & STRIP_HOST) == 0) {
		info.hostname = f->hostname;
		info.os_release = f->os_release;
		info.cpu_desc = f->cpu_desc;
		info.cpuid = f->cpuid;
		info.total_memory_kib = f->total_memory_kib;
	}
	return info;
}

// NULL-terminated; the caller frees the array.
static const char **argv_of(const struct inject *in, struct reader *reader)
{
	const struct reader_features *f = reader_features(reader);
	const char **argv = mem_zero(f->argv.count + 1, sizeof(*argv));
	for (size_t i = 0; i < f->argv.count && (in->choices->strip & STRIP_COMMAND) == 0; i++)
		argv[i] = f->argv.data[i];
	return argv;
}

static bool begin(struct inject *in, struct reader *reader)
{
	size_t count = reader_event_count(reader);
	for (size_t i = 0; i < count; i++) {
		const struct reader_event *e = reader_event_at(reader, i);
		struct writer_event event = { .attr = inject_live_attr(&e->attr), .name = e->name, .ids = e->ids.data, .id_count = e->ids.count,
		                              .group_leader = e->group_leader };
		if (inject_is_raw(&e->attr) && e->attr.sample_stack_user > in->stack_bytes)
			in->stack_bytes = e->attr.sample_stack_user;
		vec_push(&in->events, event);
	}
	inject_count_members(in->events.data, count);
	const char **argv = argv_of(in, reader);
	struct writer_info info = info_of(in, reader, argv);
	in->has_begun = writer_begin(in->writer, in->events.data, count, &info, &in->err);
	free(argv);
	return in->has_begun;
}

// ---------------------------------------------------------------- records

static void flush(struct inject *in)
{
	if (in->err.status == STATUS_OK && in->out.size > 0)
		writer_records(in->writer, in->out.data, in->out.size, &in->err);
	buf_clear(&in->out);
}

static bool is_outside(const struct report_filter *filter, const struct record *record)
{
	uint64_t time_ns = record->id.time_ns;
	return (record->id.has & PERF_SAMPLE_TIME) != 0 && (time_ns < filter->from_ns || (filter->to_ns != 0 && time_ns >= filter->to_ns));
}

// Of what is no sample, all that says what is mapped and who is who stays. Counters no longer tell what was due once samples are left out.
static bool keeps_record(const struct inject *in, const struct record *record)
{
	switch (record->type) {
	case PERF_RECORD_READ:
		return !in->is_filtered;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		return !is_outside(&in->choices->selection.filter, record);
	default:
		return true;
	}
}

static void add_sample(struct inject *in, struct reader *reader, const struct record *record, size_t event, const struct profile_sample *sample,
                       const struct unwind_stack *stack)
{
	bool is_wanted = in->choices->event == NULL || strcmp(in->choices->event, reader_event_at(reader, event)->name) == 0;
	in->has_event |= is_wanted;
	if (!is_wanted || !filter_keeps(&in->choices->selection.filter, in->profile, sample)) {
		in->dropped++;
		return;
	}
	in->kept++;
	if (stack == NULL) {
		buf_add(&in->out, record->header, record->size);
		return;
	}
	struct note note = { .end = stack->end };
	struct record copy = *record;
	uint64_t leaf[] = { (uint64_t)PERF_CONTEXT_KERNEL, record->sample.ip };
	if (record->sample.callchain_count == 0 && (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) {
		copy.sample.callchain = leaf; // no kernel part, and the ip is there: the chain would begin in user space
		copy.sample.callchain_count = 2;
	}
	in->unwound++;
	if (!sample_encode_live(&in->out, &reader_event_at(reader, event)->layout, &copy, stack, &note))
		err_set(&in->err, STATUS_INPUT, "%s: a sample is shorter than its event says", in->path);
}

// What was there before a recording began has time 0. Joined, it is what was there before that one.
static void add_other(struct inject *in, struct reader *reader, const struct record *record, size_t event)
{
	const struct record_layout *layout = &reader_event_at(reader, event)->layout;
	char *copy = buf_add(&in->out, record->header, record->size);
	if (in->source == NULL || (record->id.has & PERF_SAMPLE_TIME) == 0 || record->id.time_ns != 0 || layout->trailer_bytes > record->size)
		return;
	size_t at = record->size - layout->trailer_bytes + ((record->id.has & PERF_SAMPLE_TID) != 0 ? 8 : 0);
	if (at + sizeof(in->source->first_ns) <= record->size)
		memcpy(copy + at, &in->source->first_ns, sizeof(in->source->first_ns));
}

static void take_record(void *context, struct reader *reader, const struct record *record, size_t event, const struct profile_sample *sample,
                        const struct unwind_stack *stack)
{
	struct inject *in = context;
	if (in->err.status != STATUS_OK || (!in->has_begun && !begin(in, reader)))
		return;
	if (event >= (in->source != NULL ? in->source->event_count : in->events.count)) {
		err_set(&in->err, STATUS_INPUT, "%s: event %zu is described after the first records", in->path, event);
		return;
	}
	if (sample != NULL)
		add_sample(in, reader, record, event, sample, stack);
	else if (keeps_record(in, record))
		add_other(in, reader, record, event);
	if (in->out.size >= FLUSH_BYTES)
		flush(in);
}

static void take_round(void *context, struct reader *reader)
{
	struct inject *in = context;
	struct perf_event_header round = { .type = RECORD_USER_FINISHED_ROUND, .size = sizeof(round) };
	if (in->err.status != STATUS_OK || (!in->has_begun && !begin(in, reader)))
		return;
	if (in->source == NULL || in->join.are_apart) // else all of it is sorted by who reads it
		buf_add(&in->out, &round, sizeof(round));
	flush(in);
}

static void say_what_was_done(const struct inject *in, struct names *names)
{
	if (in->stack_bytes > 0)
		inject_say(names, "stacks were unwound by perfsample inject, from copies of %llu bytes", (unsigned long long)in->stack_bytes);
	if (in->is_filtered)
		inject_say(names, "%llu of %llu samples were selected by perfsample inject: what was due is not known", (unsigned long long)in->kept,
		           (unsigned long long)(in->kept + in->dropped));
	if (in->join.sources.count > 0)
		inject_say(names, "%zu recordings were joined by perfsample inject", in->join.sources.count);
	if (in->stack_bytes > 0 && names_meta_get(names, "record.stack_bytes") == NULL)
		names_meta(names, "record.stack_bytes", "%llu", (unsigned long long)in->stack_bytes);
}

static void finish_one(struct inject *in, struct reader *reader, struct names *names)
{
	const struct reader_features *features = reader_features(reader);
	VEC(struct writer_build_id) build_ids = { 0 };
	for (size_t i = 0; i < features->build_ids.count; i++) {
		const struct reader_build_id *id = &features->build_ids.data[i];
		vec_push(&build_ids, (struct writer_build_id){ .build_id = id->build_id, .path = id->path, .misc = id->misc, .pid = id->pid });
	}
	const char **argv = argv_of(in, reader);
	struct writer_info info = info_of(in, reader, argv);
	say_what_was_done(in, names);
	writer_finish(in->writer, &info, build_ids.data, build_ids.count, names, &in->err);
	free(argv);
	vec_release(&build_ids);
}

static void take_finish(void *context, struct reader *reader, const struct profile *profile)
{
	struct inject *in = context;
	const struct reader_features *features = reader_features(reader);
	struct names names = { 0 };
	if (in->err.status != STATUS_OK || (!in->has_begun && !begin(in, reader)))
		return;
	flush(in);
	inject_meta(&names, features->names, (in->choices->strip & STRIP_HOST) == 0);
	if ((in->choices->strip & STRIP_NAMES) == 0)
		inject_names(&names, profile, features->names);
	if ((in->choices->strip & STRIP_HOST) == 0) // it tells the kernel
		inject_vdsos(&names, features->names);
	if (in->source != NULL)
		join_take(&in->join, features, &names, &in->err);
	else
		finish_one(in, reader, &names);
	names_release(&names);
}

// ---------------------------------------------------------------- whole

// --time may count from the recording's start: that is known once it was read.
static bool resolve_time(struct choices *c, struct err *err)
{
	struct profile profile = { 0 };
	if (c->selection.time == NULL)
		return true;
	if (strcmp(c->selection.load.input, "-") == 0)
		return err_set(err, STATUS_USAGE, "--time needs a file: a stream is read once");
	struct load_options options = c->selection.load;
	options.symbols = false;
	bool is_done = load_profile(&profile, &options, err) && select_resolve(&c->selection, &profile, err);
	profile_release(&profile);
	return is_done;
}

static bool has_filter(const struct report_filter *f)
{
	return f->comms != NULL || f->pids.count + f->tids.count + f->cpus.count > 0 || f->from_ns > 0 || f->to_ns > 0;
}

static void say(const struct inject *in)
{
	char size[SIZE_TEXT_BYTES];
	log_info("%llu sample%s%s, %llu of them with a raw stack that became a call chain; wrote %s, %s", (unsigned long long)in->kept,
	         plural((double)in->kept), in->is_filtered ? " selected" : "", (unsigned long long)in->unwound, writer_path(in->writer), size_text(writer_bytes(in->writer), size));
}

static bool read_one(struct inject *in, const char *path, struct profile *profile, struct err *err)
{
	struct load_sink sink = { .context = in, .record = take_record, .round = take_round, .finish = take_finish };
	struct load_options options = in->choices->selection.load;
	in->profile = profile;
	in->path = path;
	options.input = path;
	options.sink = &sink;
	options.symbols = (in->choices->strip & STRIP_NAMES) == 0 && strcmp(in->choices->output, "-") != 0; // a stream has no place for names
	bool is_done = load_profile(profile, &options, err);
	if (is_done && in->err.status != STATUS_OK) {
		*err = in->err;
		is_done = false;
	}
	return is_done;
}

static bool read_all(struct inject *in, struct err *err)
{
	struct join *join = &in->join;
	VEC(const char *) paths = { 0 };
	vec_push(&paths, in->choices->selection.load.input);
	for (size_t i = 0; i < in->choices->joined.count; i++)
		vec_push(&paths, in->choices->joined.data[i]);
	bool good = join_open(join, paths.data, paths.count, in->choices->selection.load.salvage, in->choices->strip, err);
	vec_release(&paths);
	in->has_begun = good && writer_begin(in->writer, join->events.data, join->events.count, &join->info, err);
	in->stack_bytes = join->stack_bytes;
	good = in->has_begun;
	for (size_t i = 0; i < join->sources.count && good; i++) {
		struct profile profile = { 0 };
		in->source = &join->sources.data[i];
		good = read_one(in, in->source->path, &profile, err);
		profile_release(&profile);
	}
	if (!good)
		return false;
	join_close(join);
	say_what_was_done(in, &join->names);
	return writer_finish(in->writer, &join->info, join->build_ids.data, join->build_ids.count, &join->names, err);
}

static bool check_choices(const struct choices *c, struct err *err)
{
	if (c->output == NULL)
		return err_set(err, STATUS_USAGE, "-o FILE is needed: inject never changes the recording it reads");
	if (c->joined.count == 0)
		return true;
	if (c->selection.time != NULL)
		return err_set(err, STATUS_USAGE, "--time counts within one recording: take the parts first, then join them");
	return strcmp(c->selection.load.input, "-") != 0 || err_set(err, STATUS_USAGE, "--join needs files: a stream is read once");
}

static bool inject(void *choices, struct profile *profile, struct err *err)
{
	struct choices *c = choices;
	struct inject in = { .choices = c };
	if (!check_choices(c, err) || !resolve_time(c, err) || !writer_open(&in.writer, c->output, STDOUT_FILENO, err))
		return false;
	in.is_filtered = has_filter(&c->selection.filter) || c->event != NULL;
	bool is_done = c->joined.count > 0 ? read_all(&in, err) : read_one(&in, c->selection.load.input, profile, err);
	if (is_done && c->event != NULL && !in.has_event)
		log_warn("no sample is of event %s", c->event);
	if (is_done && strcmp(c->output, "-") != 0)
		say(&in);
	writer_free(in.writer);
	join_release(&in.join);
	vec_release(&in.events);
	buf_release(&in.out);
	return is_done;
}

static bool take_strip(struct choices *c, const struct option_value *value, struct err *err)
{
	static const char *const words[] = { "names", "host", "command" };
	size_t count;
	char **given = value_words(value->value, ",", &count);
	bool is_good = count > 0 || err_set(err, STATUS_USAGE, "%s: the list is empty", value->spelled);
	for (size_t i = 0; is_good && i < count; i++) {
		size_t w = 0;
		while (w < 3 && strcmp(words[w], given[i]) != 0)
			w++;
		if (w == 3)
			is_good = err_set(err, STATUS_USAGE, "%s: '%s' is none of names, host, command", value->spelled, given[i]);
		else
			c->strip |= 1u << w;
	}
	value_words_free(given, count);
	return is_good;
}

static bool take(void *choices, const struct option_value *value, struct err *err)
{
	struct choices *c = choices;
	switch (value->id) {
	case ID_OUTPUT: c->output = value->value; return true;
	case ID_STRIP: return take_strip(c, value, err);
	case ID_JOIN: vec_push(&c->joined, value->value); return true;
	case ID_EVENT: c->event = value->value; return true;
	default: return select_take(&c->selection, value, err);
	}
}

static const struct option options[] = {
	{ 'i', "input", "FILE", "the recording, ours or perf's; - reads a stream (default perf.data)", 0, SELECT_INPUT, "Input", "file" },
	{ 0, "join", "FILE", "a further recording of the same host, into the same file; repeat for several", 0, ID_JOIN, NULL, "file" },
	{ 0, "salvage", NULL, "skip what is damaged instead of stopping there", 0, SELECT_SALVAGE, NULL, NULL },
	{ 0, "symfs", "DIR", "look for binaries below DIR", OPTION_EXPERT, SELECT_SYMFS, NULL, "file" },
	{ 0, "jobs", "N", "threads that unwind raw stacks of perf's recordings (default 1) and read debug information (default: one a processor, at most 4)", OPTION_EXPERT, SELECT_JOBS, NULL, NULL },
	{ 'f', "force", NULL, "accepted from perf without effect", OPTION_IGNORED, SELECT_FORCE, NULL, NULL },
	{ 'c', "comms", "COMMS", "only samples of these commands", 0, SELECT_COMMS, "Which samples", NULL },
	SELECT_ID_OPTIONS,
	{ 'e', "event", "EVENT", "only samples of this event", 0, ID_EVENT, NULL, NULL },
	{ 'C', "cpu", "LIST", "only on these CPUs, like 0-3,7", 0, SELECT_CPUS, NULL, NULL },
	{ 0, "time", "A,B", "only between A and B, as report takes them", 0, SELECT_TIME, NULL, NULL },
	{ 'o', "output", "FILE", "the recording to write (- streams it); an existing one becomes FILE.old", 0, ID_OUTPUT, "Output", "file" },
	{ 0, "strip", "LIST", "leave out: names (of functions), host (its name, kernel and processor), command (the recorder's command line)", 0,
	  ID_STRIP, NULL, "names|host|command" },
	{ 'b', "build-ids", NULL, "accepted from perf without effect: build IDs go along", OPTION_IGNORED, ID_IGNORED, NULL, NULL },
	{ 'j', "jit", NULL, "JIT maps and dumps are read by report, as they are", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 's', "sched-stat", NULL, "not supported: see perf inject", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 0, "itrace", "OPTS", "hardware traces are not decoded", OPTION_REFUSED, ID_REFUSED, NULL, NULL },
	{ 0 },
};

static int run(int argc, char **argv)
{
	struct choices c = { 0 };
	static const struct select_command command = {
		.name = "inject", .options = options, .no_operands = "a recording is named with -i", .take = take, .run = inject,
	};
	int status = select_run(&command, argc, argv, &c, &c.selection);
	vec_release(&c.joined);
	return status;
}

static const char *const usages[] = { "perfsample inject -o FILE [-i FILE] [options]", NULL };
const struct command command_inject = {
	.name = "inject", .summary = "a recording into a smaller one: raw stacks unwound, samples selected, names put in or stripped", .usages = usages,
	.options = options, .run = run,
	.description = "Writes a new recording of an old one. Raw stack copies (record --unwind post, perf record --call-graph dwarf) become call chains, as "
	               "perfsample record writes them: a smaller file (what perf wrote, 20 times), that holds no stack memory. The names of the sampled functions go in, "
	               "so that it reads the same on a host that has none of the binaries. Once samples were selected, what was due is not known any more.",
};
