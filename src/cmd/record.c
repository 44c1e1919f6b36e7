// perfsample record
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/size_text.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cmd/record_images.h"
#include "cmd/record_names.h"
#include "cmd/record_options.h"
#include "cmd/record_repeat.h"
#include "perfdata/note.h"
#include "record/summary.h"
#include "record/switches.h"
#include "symbols/debug_file.h"

static bool is_stream(const struct record_options *options)
{
	return strcmp(options->session.output, "-") == 0;
}

// ---------------------------------------------------------------- the summary
// The decision of an event set that says why its event is not the usual one: "this VM counts no cycles".
static bool is_about_cycles(const char *text)
{
	static const char end[] = " counts no cycles";
	size_t length = strlen(text);
	return length >= sizeof(end) - 1 && strcmp(text + length - (sizeof(end) - 1), end) == 0;
}

static const char *because(const struct event_set *set, uint32_t event)
{
	for (size_t i = 0; set->events.data[event].is_clock && i < set->decisions.count; i++)
		if (is_about_cycles(set->decisions.data[i].text))
			return set->decisions.data[i].text;
	return NULL;
}

// As a report has it: only events that need a counter of the hardware share one.
static double multiplexed(const struct session_facts *facts, uint32_t e, const struct event_reading *total)
{
	const struct event_opened *opened = &facts->set->events.data[e];
	bool needs_counter = opened->attr.type != PERF_TYPE_SOFTWARE && opened->attr.type != PERF_TYPE_TRACEPOINT;
	uint64_t enabled = total->enabled, most = 0;
	for (size_t c = 0; c < facts->ledger->cpu_count; c++) // one of a task is enabled on all CPUs while the task runs on one
		most = facts->ledger->events.data[e].cpus[c].enabled > most ? facts->ledger->events.data[e].cpus[c].enabled : most;
	if (facts->target->events.scope == SCOPE_TASK && most > 0)
		enabled = most;
	return needs_counter && total->running > 0 && enabled > total->running ? (double)total->running / (double)enabled : 1;
}

static void add_events(struct summary *summary, const struct session_facts *facts)
{
	for (uint32_t e = 0; e < facts->set->events.count; e++) {
		const struct event_opened *opened = &facts->set->events.data[e];
		const struct ledger_event *books = &facts->ledger->events.data[e];
		struct event_reading total = ledger_total(facts->ledger, e);
		double begun, expected = ledger_expected(facts->ledger, facts->set, e, &begun);
		bool is_per_cpu = facts->target->events.scope == SCOPE_CGROUP || facts->target->events.scope == SCOPE_CPU;
		if (opened->is_clock && !facts->target->filter && expected > 0 && total.running < opened->attr.sample_period &&
		    books->taken + books->others + books->dropped + total.lost == 0)
			expected = 0; // rounded up to one, which could not come within a period: as the report has it
		vec_push(&summary->events, (struct summary_event){
			.name = opened->name, .because = because(facts->set, e), .is_clock = opened->is_clock,
			.is_freq = opened->attr.freq, .samples = opened->samples, .period = opened->attr.sample_period,
			.multiplexed = multiplexed(facts, e, &total), .frequency = opened->attr.sample_freq, .taken = books->taken, .idle = books->idle, .idle_unsampled = books->idle_unsampled, .others = books->others, .lost = total.lost,
			.dropped = books->dropped, .expected = expected, .begun = is_per_cpu ? fmin(begun, expected) : 0, .running_ns = total.running,
		});
	}
}

static void add_stacks(struct summary *summary, const struct ledger *ledger)
{
	_Static_assert(UNWIND_END_COUNT <= sizeof(summary->end_names) / sizeof(summary->end_names[0]), "room for every end");
	summary->complete = summary->truncated = summary->failed = 0;
	for (int end = 0; end < UNWIND_END_COUNT; end++) {
		enum stack_class class = stack_class_of((uint8_t)end, SPLICE_NONE);
		summary->end_names[end] = unwind_end_name((enum unwind_end)end);
		*(class == STACK_COMPLETE ? &summary->complete : class == STACK_TRUNCATED ? &summary->truncated : &summary->failed) += summary->ends[end];
	}
	summary->joined = ledger->splices[SPLICE_EXACT] + ledger->splices[SPLICE_CHECKED];
	summary->complete -= summary->joined;
	summary->splices_exact = ledger->splices[SPLICE_EXACT];
	summary->splices_checked = ledger->splices[SPLICE_CHECKED];
	if (ledger->ends[UNWIND_OTHER_STACK] > 0)
		summary->others_by_go = (double)ledger->others_by_go / (double)ledger->ends[UNWIND_OTHER_STACK];
	if (ledger->others_by_go > 0)
		summary->others_by_c = (double)ledger->others_by_c / (double)ledger->others_by_go;
	summary->end_count = UNWIND_END_COUNT;
}

static void add_loss(struct summary *summary, const struct session_facts *facts)
{
	summary->lost_span = ledger_loss_span(facts->ledger);
	summary->loss_reason = drain_priority_loss_text(facts->priority);
	summary->stuck_times = facts->ledger->stuck_times;
	summary->stuck_lost = facts->ledger->stuck_lost;
}

static void add_decisions(struct summary *summary, const struct session_facts *facts)
{
	for (size_t i = 0; i < facts->decisions->items.count; i++) {
		const struct decision *decision = &facts->decisions->items.data[i];
		vec_push(&summary->decisions, decision->text);
		summary->has_bad_decision |= decision->weight == DECISION_CARE;
		if (decision->weight != DECISION_USUAL && !is_about_cycles(decision->text)) // that is said with the event
			vec_push(&summary->notes, (struct summary_note){ decision->text, decision->weight == DECISION_BEARS, decision->weight == DECISION_CARE });
	}
}

// Where events are those of single tasks: at most one period a new task, and so much of each switch to one. What is beyond has another cause, and none is named
// that was not seen: NULL.
static const char *silent_reason(const struct summary *summary, const struct session_facts *facts)
{
	const struct summary_event *event = summary->events.count > 0 ? &summary->events.data[0] : NULL;
	if (facts->target->events.scope != SCOPE_TASK || event == NULL)
		return NULL;
	double silent = event->expected - (double)(event->taken + event->idle_unsampled + event->others + event->lost + event->dropped);
	double births = (double)facts->ledger->births, switched = event->is_clock ? (double)facts->switches * SWITCHES_NS / (double)event->period : 0;
	if (silent <= births)
		return "with per-task events each new task starts with one whole period, unsampled";
	if (silent > births + switched)
		return NULL;
	return births > switched ? "with per-task events each new task starts with one whole period, unsampled, and each switch to a task leaves some 0.5 us"
	       : "with per-task events each switch to a task leaves some 0.5 us unsampled, and each new task its first period";
}

static struct summary summarize(const struct record_options *options, const struct session_facts *facts)
{
	const struct ledger *ledger = facts->ledger;
	struct summary summary = {
		.argv = (const char *const *)options->session.argv, .target_kind = target_kind_name(facts->target->kind), .comm = facts->target->comm,
		.threads = facts->threads, .processes = facts->processes, .processes_seen = facts->processes_seen, .seconds = (double)(facts->end_ns - facts->start_ns) / 1e9,
		.is_short = facts->is_short, .has_cpu_seconds = facts->target_cpu_ns > 0, .cpu_seconds = (double)facts->target_cpu_ns / 1e9,
		.uncopied = ledger->uncopied, .shortened = ledger->shortened, .set_aside = ledger->aside, .sideband_lost = ledger->sideband_lost, .throttled_seconds = (double)ledger->throttled_ns / 1e9,
		.longest_chain = ledger->longest_chain, .stack_bytes = facts->stack_bytes, .max_loss = options->max_loss,
		.host = facts->host->name, .kernel = facts->host->release, .end = session_end_text(facts->end),
		.path = is_stream(options) ? NULL : facts->path, .start_wall_ns = facts->start_wall_ns, .bytes = facts->bytes,
		.command_status = facts->command_status,
	};
	summary.recorder_cpu_seconds = (double)ledger->recorder_cpu_ns / 1e9;
	summary.recorder_share = summary.seconds > 0 ? summary.recorder_cpu_seconds / summary.seconds : 0;
	for (size_t i = 0; i < options->session.target.ids.count; i++)
		vec_push(&summary.ids, options->session.target.ids.data[i]);
	if (facts->target->is_command)
		vec_push(&summary.ids, (int32_t)facts->target->child.pid);
	add_events(&summary, facts);
	summary.ends = ledger->ends;
	summary.unjudged = ledger->by_name;
	add_stacks(&summary, ledger);
	add_loss(&summary, facts);
	summary.unseen_seconds = (double)facts->unseen_ns / 1e9;
	summary.cpus = (uint32_t)facts->target->cpu_count;
	for (size_t e = 0; ledger->counts_cpus && e < facts->set->events.count; e++)
		summary.strangers += ledger->events.data[e].others - ledger->events.data[e].others_idle;
	add_decisions(&summary, facts);
	summary.is_by_task = facts->target->events.scope == SCOPE_TASK;
	summary.silent_reason = silent_reason(&summary, facts);
	return summary;
}

static void release_summary(struct summary *summary)
{
	vec_release(&summary->events);
	vec_release(&summary->ids);
	vec_release(&summary->notes);
	vec_release(&summary->decisions);
}

static int say(const struct record_options *options, struct summary *summary, int status)
{
	struct buf text = { 0 };
	struct err err = { 0 };
	summary->own_status = status;
	if (log_level() >= LOG_INFO) {
		summary_text(summary, &text);
		fwrite(text.data, 1, text.size, stderr);
	}
	if (options->summary_path != NULL) {
		buf_clear(&text);
		summary_json(summary, &text);
		if (!output_file(options->summary_path, OUTPUT_NAMED, text.data, text.size, &err)) {
			log_error("record: %s", err.text);
			status = err.status;
		}
	}
	buf_release(&text);
	return status;
}

// ---------------------------------------------------------------- the run
static void dry_run(const struct session *session)
{
	struct session_facts facts = session_facts(session);
	log_info("would record %s: %s, %zu events, %zu file descriptors, rings of %zuK on %zu CPUs, stack copies of %u bytes, drain thread at %s",
	         facts.target->comm, event_scope_text(facts.target->events.scope), facts.set->events.count, facts.set->fds.count,
	         facts.ring_bytes / 1024, facts.target->cpu_count, facts.stack_bytes, drain_priority_text(facts.priority));
	for (size_t i = 0; i < facts.decisions->items.count; i++)
		log_info("%s", facts.decisions->items.data[i].text);
}

// The recorder's own status, then the command's.
static int status_of(const struct record_options *options, const struct session_facts *facts, const struct summary *summary)
{
	struct err why = { 0 };
	if (options->strict && !summary_is_honest(summary, &why)) {
		log_error("record: %s", why.text);
		return STATUS_STRICT;
	}
	if (facts->target->is_command && facts->command_status >= 0 && !facts->command_was_ended)
		return facts->command_status;
	return STATUS_OK;
}

// What cannot be kept is said; the recording itself is whole without.
static void save_images(const struct session *session)
{
	struct saved_images saved;
	struct err err = { 0 };
	const char *home = getenv("HOME");
	if (home == NULL || home[0] != '/') {
		log_warn("--save-images: there is no HOME to keep them below");
		return;
	}
	char size[SIZE_TEXT_BYTES];
	char *folder = mem_printf("%s/.debug", home);
	if (!record_save_images(session, folder, &saved, &err))
		log_warn("--save-images: %s", err.text);
	else
		log_info("kept %llu binar%s in %s, %s; %llu were there", (unsigned long long)saved.saved, saved.saved == 1 ? "y" : "ies", folder,
		         size_text(saved.bytes, size), (unsigned long long)saved.present);
	free(folder);
}

// By the books of a recording that is over. `why`: room for the reason why not, which the summary borrows.
static void add_cost(struct summary *summary, const struct session_facts *facts, struct names *names, struct err *why)
{
	struct cost *cost = &summary->cost;
	const struct summary_event *event = &summary->events.data[0];
	summary->wants_cost = true;
	if (!event->is_clock)
		err_set(why, STATUS_HOST, "it is that of clocks, and this is %s", event->name);
	if (!event->is_clock || !cost_calibrate(&cost->unit, why)) {
		summary->cost_refusal = why->text;
		return;
	}
	for (size_t i = 0; i < summary->events.count; i++) {
		event = &summary->events.data[i];
		cost->ticks += event->taken + (facts->ledger->counts_cpus ? 0 : event->others) + event->lost + event->dropped;
	}
	cost->others_ticks = summary->strangers;
	cost->others_copied_kib = (double)facts->ledger->others_copied_bytes / 1024;
	cost->copied_kib = (double)facts->ledger->copied_bytes / 1024;
	cost->recorder_cpu_s = summary->recorder_cpu_seconds;
	cost->target_cpu_s = summary->cpu_seconds;
	names_meta(names, "cost.tick_ns", "%.1f", cost->unit.tick_ns);
	names_meta(names, "cost.copy_ns_per_kib", "%.2f", cost->unit.copy_ns_per_kib);
	names_meta(names, "cost.target_ns", "%.0f", 1e9 * cost_target_s(cost));
}

// Call chains that the kernel walked, now that names are known: as reports judge them.
static void judge_by_name(struct summary *summary, const struct ledger *ledger, uint64_t roots)
{
	memcpy(summary->ends_with_names, ledger->ends, sizeof(summary->ends_with_names));
	summary->ends_with_names[UNWIND_ROOT_GUESSED] += roots;
	summary->ends_with_names[UNWIND_NO_CFI] += ledger->by_name > roots ? ledger->by_name - roots : 0;
	summary->ends = summary->ends_with_names;
	summary->unjudged = 0;
	add_stacks(summary, ledger);
}

// `failed`: what was wrong with the output, or NULL.
static int finish(const struct record_options *options, struct session *session, const struct err *failed)
{
	struct names names = { 0 };
	struct err err = { 0 };
	struct symbolizer *symbolizer = NULL;
	struct session_facts facts = session_facts(session);
	struct summary summary = summarize(options, &facts);
	uint64_t roots = 0;
	if (failed == NULL && options->session.want_names && !is_stream(options) && options->session.mode != CHAIN_POST) {
		symbolizer = record_names(&names, session, &(struct record_names_options){
			.time_limit_s = options->symbol_time_s, .no_cache = options->no_cache, .debug_dirs = options->debug_dirs.data,
			.debuginfod = servers_client(options->servers) }, &roots);
		judge_by_name(&summary, facts.ledger, roots);
		summary.names_inside = names.images.count > 0;
		if (session_map_refusal(session) != NULL)
			vec_push(&summary.notes, (struct summary_note){ session_map_refusal(session), true, false });
	}
	names_meta(&names, "silent_reason", "%s", summary.silent_reason != NULL ? summary.silent_reason : "");
	struct err why = { 0 };
	if (options->cost && summary.events.count > 0)
		add_cost(&summary, &facts, &names, &why);
	if (options->save_images)
		save_images(session);
	int status = status_of(options, &facts, &summary);
	bool finished = session_finish(session, &names, &err);
	if (failed != NULL || !finished) {
		log_error("record: %s", failed != NULL ? failed->text : err.text);
		status = STATUS_FINISH;
	}
	facts = session_facts(session);
	summary.bytes = facts.bytes;
	summary.is_gone = facts.is_gone;
	status = say(options, &summary, status);
	names_release(&names);
	symbolizer_free(symbolizer);
	release_summary(&summary);
	return status;
}

// A reader that went away ends us as SIGPIPE would have.
static void broken_pipe(struct session *session)
{
	sigset_t set;
	session_free(session);
	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	signal(SIGPIPE, SIG_DFL);
	raise(SIGPIPE);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int record_and_finish(const struct record_options *options, struct session *session)
{
	struct err err = { 0 };
	if (session_run(session, &err))
		return finish(options, session, NULL);
	struct session_facts facts = session_facts(session);
	if (facts.broken_pipe)
		broken_pipe(session);
	if (facts.has_run) // the disk is full, say: what was written before stays readable
		return finish(options, session, &err);
	log_error("record: %s", err.text);
	return err.status;
}

static void waits(int pid, int signal)
{
	log_warn("the command (PID %d) goes on after SIG%s, and is recorded until it ends; a second one kills it, and the file keeps what was sampled so far",
	         pid, sigabbrev_np(signal));
}

// By build ID alone, as root may be looking at anybody's programs.
static struct image *find_cfi(const struct image *image)
{
	const struct symbolizer_options where = { .use_host_files = true };

	return debug_file_find_cfi(&where, image, true);
}

static int record(struct record_options *options)
{
	struct session *session;
	struct err err = { 0 };
	options->session.waits = waits;
	options->session.find_cfi = find_cfi;
	if (!session_open(&session, &options->session, &err)) {
		log_error("record: %s", err.text);
		session_free(session);
		return err.status;
	}
	for (size_t i = 0; i < options->warnings.count; i++)
		log_warn("%s", options->warnings.data[i]);
	int status = STATUS_OK;
	if (options->dry_run)
		dry_run(session);
	else
		status = record_and_finish(options, session);
	session_free(session);
	return status;
}

static int run(int argc, char **argv)
{
	struct record_options options;
	struct err err = { 0 };
	// The recorded command line is taken before parsing: option_next moves words about.
	VEC(char *) recorded = { 0 };
	vec_push(&recorded, (char *)(uintptr_t)"perfsample");
	for (int i = 0; i < argc; i++)
		vec_push(&recorded, argv[i]);
	vec_push(&recorded, NULL);
	int status = STATUS_USAGE;
	if (!record_options_parse(&options, argc, argv, recorded.data, &err)) {
		log_error("record: %s", err.text);
		status = err.status;
	} else if (options.repeat > 0) {
		status = record_repeat(&options, argc, recorded.data + 1);
	} else {
		if (is_stream(&options))
			options.session.stream_fd = STDOUT_FILENO;
		status = record(&options);
	}
	record_options_release(&options);
	vec_release(&recorded);
	return status;
}

static const char *const usages[] = {
	"perfsample record [options] [--] CMD [ARG...]",
	"perfsample record [options] -p PIDS | -t TIDS | -a [-C CPUS] | --cgroup PATH | --container ID [-- CMD...]",
	NULL,
};
const struct command command_record = {
	.name = "record", .summary = "run a command, or watch what runs, and record where its CPU time goes", .usages = usages,
	.options = record_option_table, .run = run,
	.description =
		"Samples CMD, running processes, a cgroup or the whole system, unwinds every stack while it records, and writes a perf.data file that "
		"perfsample report, and also perf report and perf script, read.\n\n"
		"With a target given, CMD is not sampled: it bounds the time (record -p 4242 -- sleep 30). SIGINT, SIGTERM and SIGHUP end a recording "
		"cleanly: a command that was started gets it too, and is recorded until it ends. A second one aborts, and kills the command.\n\n"
		"The file takes its name at the first sample; an existing one becomes perf.data.old. It is flushed at least once a second, so it stays "
		"readable however the recorder ends.",
};
