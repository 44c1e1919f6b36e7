// The drain thread's life: passes until told to stop, the CPU budget, reopening at a coarser period.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "record/budget.h"
#include "record/session_private.h"

// src/DESIGN.md, Statistics, 3: periods that resonate with no usual loop, and the like rates of events that are no clocks.
static const struct { uint64_t period_ns, frequency; } steps[] = {
	{ 678744, 1473 }, { 1295295, 772 }, { 2606182, 384 }, { 10579380, 95 },
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]), COUNT_FACTOR = 4, COUNT_PERIOD_MOST = 1 << 30 };

static void want_end(struct session *session, enum session_end end)
{
	int none = 0;
	if (atomic_compare_exchange_strong(&session->drain_end, &none, (int)end + 1))
		(void)!write(session->wake_main_fd, &(uint64_t){ 1 }, 8);
}

// The event whose rate the command line sets, not its own terms; NULL: there is none.
static const struct event_opened *governed(const struct session *session)
{
	for (size_t e = 0; e < session->set.events.count; e++) {
		const struct event_opened *event = &session->set.events.data[e];
		if (event->samples && !session->config->specs->items.data[event->spec].has_period)
			return event;
	}
	return NULL;
}

// Counts (every page fault, say) have no clock's periods to go through: a quarter of the samples is next.
static bool coarser(const struct session *session, struct event_options *next)
{
	const struct event_opened *event = governed(session);
	*next = session->options;
	if (event == NULL)
		return false;
	if (!event->is_clock && event->attr.freq == 0) {
		next->period = event->attr.sample_period * COUNT_FACTOR;
		next->is_default_rate = false;
		return next->period <= COUNT_PERIOD_MOST;
	}
	for (size_t i = 0; i < STEPS; i++) {
		if (steps[i].period_ns <= session->options.period)
			continue;
		next->period = steps[i].period_ns;
		next->frequency = steps[i].frequency;
		return true;
	}
	return false;
}

// Of the events from `first_fd` on, into the file.
static void add_ids(struct session *session, size_t first_fd)
{
	size_t count = session->set.events.count;
	uint64_t *ids = mem_zero(session->set.fds.count + 1, sizeof(*ids));
	for (size_t e = 0; e < count + session->set.has_sideband; e++) {
		size_t n = 0;
		for (size_t i = first_fd; i < session->set.fds.count; i++)
			if (session->set.fds.data[i].event == (e < count ? (uint32_t)e : (uint32_t)EVENT_SIDEBAND))
				ids[n++] = session->set.fds.data[i].id;
		output_ids(session->output, e, ids, n);
	}
	free(ids);
}

// The readers' figures go into what is said at the end.
static void tails_end(struct session *session)
{
	if (session->tails == NULL)
		return;
	struct tails_figures figures = tails_figures(session->tails);
	decide_aside(&session->decisions, "stacks read on beyond the copy: %llu, the whole copy unchanged; %llu, its upper 4 KiB unchanged; %llu refused, %llu not read%s%s",
	       (unsigned long long)figures.exact, (unsigned long long)figures.checked, (unsigned long long)figures.refused,
	       (unsigned long long)(figures.failed + figures.no_room), figures.error != 0 ? ": " : "", figures.error != 0 ? strerror(figures.error) : "");
	if (figures.others > 0)
		decide_aside(&session->decisions, "of these, %llu on another stack of their thread", (unsigned long long)figures.others);
	session->drain.tails = NULL;
	tails_free(session->tails);
	session->tails = NULL;
	session->tails_rest = false;
}

bool session_is_by_task(const struct session *session)
{
	return session->target.events.scope == SCOPE_TASK || session->target.events.scope == SCOPE_THREAD;
}

bool session_add_late_threads(struct session *session, struct spaces *spaces, bool wakes, struct err *err)
{
	for (int scan = 0; session_is_by_task(session) && scan < 20; scan++) {
		size_t before = session->target.tids.count;
		if (target_rescan(&session->target, spaces) == 0)
			return true;
		for (size_t i = before; i < session->target.tids.count; i++)
			if (!event_set_add_thread(&session->set, &session->target.events, session->target.tids.data[i], wakes, err))
				return false;
	}
	return true;
}

static void watch_rings(struct session *session)
{
	session->are_rings_wide = session->target.events.scope == SCOPE_CPU;
	stuck_reset(&session->stuck, session->set.rings.count, session_now_ns(session));
}

// A new stretch: what an open event does cannot be changed for its inherited children, so events are closed and opened again, as session->options say.
bool session_reopen(struct session *session, struct err *err)
{
	event_set_disable(&session->set);
	tails_stop(session->tails);
	drain_pass(&session->drain, true);
	session_note_stuck(session, false);
	tails_end(session);
	ledger_close_stretch(&session->ledger, &session->set);
	event_set_close(&session->set);
	session->drain.filter = session->target.filter; // the last samples of the stretch before are judged by then
	session->target.events.enable_on_exec = false;
	if (session_is_by_task(session))
		target_collect_tids(&session->target, session->spaces);
	if (!event_set_open(&session->set, session->config->specs, &session->target.events, &session->options, err) ||
	    !session_add_late_threads(session, session->spaces, false, err))
		return false;
	drain_reset_events(&session->drain);
	drain_doubt(&session->drain, session->target.doubtful.data, session->target.doubtful.count, false);
	add_ids(session, 0);
	watch_rings(session);
	return true;
}

static double seconds_now(const struct session *session)
{
	return (double)(session->drain.now_ns - session->start_ns) / 1e9;
}

static bool go_on_coarser(struct session *session, const struct event_options *next, double used_percent)
{
	struct err err = { 0 };
	char rate[64];
	const struct event_opened *event = governed(session);
	if (event == NULL || event->is_clock || event->attr.freq != 0)
		snprintf(rate, sizeof(rate), "%.6f ms", (double)next->period / 1e6);
	else
		snprintf(rate, sizeof(rate), "%llu %.40s", (unsigned long long)next->period, event->name);
	session->options = *next;
	if (!session_reopen(session, &err)) {
		decide(&session->decisions, "the recorder used %.1f%% of one CPU and could not go on at a coarser period: %.150s", used_percent, err.text);
		return false;
	}
	decide(&session->decisions, "from +%.1f s on one sample every %s: the recorder used %.1f%% of one CPU (--max-cpu %g)", seconds_now(session), rate,
	       used_percent, session->config->max_cpu_percent);
	return event_set_enable(&session->set, &err);
}

// false: they could not be opened again.
static bool mend_stuck(struct session *session, bool *reopened)
{
	struct err err = { 0 };
	if (session->drain.now_ns < session->stuck_until_ns || !session_find_stuck(session, NULL))
		return true;
	*reopened = true;
	if (session_reopen(session, &err) && event_set_enable(&session->set, &err))
		return true;
	decide(&session->decisions, "a ring of the kernel stood still at +%.1f s, and its events could not be opened again: %.150s", seconds_now(session), err.text);
	return false;
}

// ---------------------------------------------------------------- stacks beyond the kernel's cap
// Read on from 3% of the stacks on, and until fewer than 2% of them need it: what a program does comes in phases (g++'s and clang's deep stacks in a tenth of
// their time), and 19 of 20 wake-ups would be for nothing. A phase is all deep stacks from its first sample on: what is missed is how long it takes to be
// noticed. So for some seconds after a stack of more than half a copy the rings are glanced at more often than passes come. (Passes that came as often would find
// the unwinder's tables cold each time: 6 us a sample more on gcc, where glances take 2 to 3, all of it the wake-ups.) That is done for the first stacks,
// and from then on where one in 400 or more was cut. Where stacks are that large as a rule (clang's) that tells nothing, and passes notice most phases: there it takes
// one cut stack in 100 (Boost.Spirit's templates by clang++, rustc). Then phases follow each other closely, and reading on outlasts the gaps, too.
enum { TAILS_STACKS = 50, TAILS_LEAST = 2, TAILS_NEED_PERCENT = 3, TAILS_REST_PERCENT = 2, REST_STACKS_OFTEN = 400, GLANCE_MS = 20 };
enum { GUARD_FIRST = 5000, GUARD_HALF_PERCENT = 10, GUARD_CUT_LEAST = 8, GUARD_CUT_IN = 400, OFTEN_CUT_IN = 100 };
static const uint64_t GUARD_NS = UINT64_C(5000) * 1000 * 1000;
enum { TAIL_COST_NS = 35000 }; // a wake-up of 17 us, and a read of some 150 KiB

static const char *tails_refusal(const struct session *session, double percent)
{
	struct rlimit files;
	if (session->priority != PRIORITY_FIFO)
		return "needs real-time priority";
	if (session->target.events.scope == SCOPE_THREAD)
		return "needs rings by CPU";
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur / 2 < session->set.fds.count)
		return "needs twice the file descriptors (ulimit -n)";
	return percent > session->config->max_cpu_percent ? "would cost more than --max-cpu" : NULL;
}

enum tails_step { TAILS_AS_THEY_ARE, TAILS_BEGIN, TAILS_REST, TAILS_NEED_OWN_EVENTS };
enum { WAKE_COST_NS = 17000, STRANGERS_BORNE = 3 }; // strangers' samples to one of the target, each of which would wake a reader in vain

static bool reads_on(const struct session *session)
{
	return session->tails != NULL && !session->tails_rest;
}

static bool may_read_on(const struct session *session)
{
	if (session->no_tails || session->config->no_join || session->config->mode != CHAIN_LIVE)
		return false;
	// Who asked for small copies asked for cheap ones: a wake-up a sample would cost several times what they save.
	return session->config->stack_bytes == 0 || session->config->stack_bytes >= STACK_BYTES_MAX;
}

static bool are_cut(const struct drain *drain, uint64_t one_in)
{
	return drain->cut >= GUARD_CUT_LEAST && one_in * drain->cut >= drain->walked;
}

// Whether a phase of deep stacks may begin, and is to be noticed soon.
static bool is_on_guard(const struct session *session)
{
	const struct drain *drain = &session->drain;
	if (drain->half_ns == 0 || drain->now_ns - drain->half_ns > GUARD_NS || !may_read_on(session) || reads_on(session) || tails_refusal(session, 0) != NULL)
		return false;
	bool are_large = 100 * drain->half >= GUARD_HALF_PERCENT * drain->walked;
	return are_large ? are_cut(drain, OFTEN_CUT_IN) : drain->walked < GUARD_FIRST || are_cut(drain, GUARD_CUT_IN);
}

// Until a pass is due, or a phase of deep stacks seems to begin: true.
static bool wait_for_pass(struct session *session, struct drain_poll *poll, int wait_ms)
{
	size_t beyond = 0;
	if (is_on_guard(session)) {
		for (; wait_ms > GLANCE_MS && !atomic_load(&session->stop); wait_ms -= GLANCE_MS) {
			if (drain_poll_wait(poll, GLANCE_MS))
				return false;
			beyond += drain_glance(&session->drain);
			if (beyond >= TAILS_LEAST)
				return true;
		}
	}
	(void)drain_poll_wait(poll, wait_ms);
	return false;
}

// By whether so many stacks go on beyond a full copy that reading on is worth its price. `seen`: a glance saw them.
static enum tails_step next_tails(struct session *session, bool seen)
{
	struct drain *drain = &session->drain;
	uint64_t unwound = drain->unwound, beyond = drain->beyond, others = drain->others;
	bool is_on = reads_on(session), is_enough = unwound >= TAILS_STACKS;
	// A program with a runtime that changes stacks does so all the time, there is no phase to be sure of.
	bool is_sure = seen || others >= TAILS_LEAST || is_enough;
	session->is_for_others = 2 * others > beyond;
	bool begins = !is_on && beyond >= TAILS_LEAST && is_sure && (seen || 100 * beyond > TAILS_NEED_PERCENT * unwound);
	if (!may_read_on(session) || (!is_enough && !begins))
		return TAILS_AS_THEY_ARE;
	drain->unwound = drain->beyond = drain->others = 0;
	session->tails_calm = is_on && 100 * beyond < TAILS_REST_PERCENT * unwound ? session->tails_calm + unwound : 0;
	if (!begins)
		return session->tails_calm >= (are_cut(drain, OFTEN_CUT_IN) ? REST_STACKS_OFTEN : TAILS_STACKS) ? TAILS_REST : TAILS_AS_THEY_ARE;
	double seconds = (double)(drain->now_ns - session->rate_since_ns) / 1e9;
	double rate = (double)(drain->walked - session->rate_from) / seconds;
	double strangers = drain->filter ? (double)(session->ledger.events.data[0].others - session->others_from) / seconds : 0;
	const char *refusal = tails_refusal(session, session->cpu_percent + (rate * TAIL_COST_NS + strangers * WAKE_COST_NS) / 1e7);
	bool needs_wide = session_starts_many(session);
	if (refusal == NULL && strangers > STRANGERS_BORNE * rate && !needs_wide)
		refusal = "would cost others more than it does the target";
	if (refusal == NULL)
		return TAILS_BEGIN;
	if (drain->filter && !needs_wide && tails_refusal(session, session->cpu_percent + rate * TAIL_COST_NS / 1e7) == NULL && !session->needed_own_events)
		return TAILS_NEED_OWN_EVENTS;
	session->no_tails = true;
	decide_aside(&session->decisions, "%.0f%% of the stacks %s: reading on while the program is stopped %s", 100.0 * (double)beyond / (double)unwound,
	       2 * others > beyond ? "go on on another stack of their thread (Go) and end there" : "are deeper than the copy and stay truncated", refusal);
	return TAILS_AS_THEY_ARE;
}

static void pause_tails(struct session *session)
{
	event_set_wake_each(&session->set, false);
	tails_stop(session->tails);
	session->tails_rest = true;
}

static void rest_tails(struct session *session)
{
	pause_tails(session);
	if (++session->tails_rests == 1)
		decide_aside(&session->decisions, "from +%.1f s on they are read on only while more than %d%% of the stacks need it", seconds_now(session), TAILS_NEED_PERCENT);
}

static void resume_tails(struct session *session)
{
	struct err err = { 0 };
	session->tails_rest = !tails_resume(session->tails, &err);
	if (!session->tails_rest) {
		event_set_wake_each(&session->set, true);
		return;
	}
	session->no_tails = true;
	decide_aside(&session->decisions, "from +%.1f s on stacks deeper than the copy stay truncated: %.150s", seconds_now(session), err.text);
}

static void start_tails(struct session *session, bool others)
{
	struct err err = { 0 };
	size_t first_fd = session->set.fds.count;
	if (session_is_by_task(session))
		target_collect_tids(&session->target, session->spaces);
	if (!event_set_add_waking(&session->set, &session->target.events, &err) || !session_add_late_threads(session, session->spaces, true, &err)) {
		session->no_tails = true;
		decide_aside(&session->decisions, "stacks deeper than the copy stay truncated: no events that wake for each sample: %.150s", err.text);
		return;
	}
	drain_learn_ids(&session->drain);
	drain_doubt(&session->drain, session->target.doubtful.data, session->target.doubtful.count, true);
	add_ids(session, first_fd);
	const struct tails_config config = {
		.set = &session->set, .machine = session->host.machine, .filter = session->drain.filter, .wake_fd = session->wake_drain_fd,
		.priority = (session->config->realtime > 0 ? session->config->realtime : 1) + 1,
	};
	if (!tails_start(&session->tails, &config, &err)) {
		session->no_tails = true; // their events stay off
		decide_aside(&session->decisions, "stacks deeper than the copy stay truncated: %.150s", err.text);
		return;
	}
	session->drain.tails = session->tails;
	event_set_wake_each(&session->set, true);
	decide_aside(&session->decisions, "from +%.1f s on stacks %s are read on while the program is stopped", seconds_now(session),
	       others ? "that go on on another one of their thread (Go)" : "deeper than the copy");
}

static void stop_tails(struct session *session, double used_percent)
{
	pause_tails(session);
	session->no_tails = true;
	decide_aside(&session->decisions, "from +%.1f s on stacks deeper than the copy stay truncated: the recorder used %.1f%% of one CPU (--max-cpu %g)",
	       seconds_now(session), used_percent, session->config->max_cpu_percent);
}

// ---------------------------------------------------------------- the budget
// Two seconds in a row above the budget: the first may be the opening of images.
static bool keep_budget(struct session *session, bool *reopened)
{
	uint64_t cpu_ns = session->ledger.recorder_cpu_ns, now_ns = session->drain.now_ns;
	double wall = (double)(now_ns - session->cpu_before_at_ns);
	double percent = wall > 0 ? 100.0 * (double)(cpu_ns - session->cpu_before_ns) / wall : 0;
	session->rate_since_ns = session->cpu_before_at_ns;
	session->rate_from = session->walked_before;
	session->others_from = session->others_before;
	session->others_before = session->ledger.events.data[0].others;
	session->walked_before = session->drain.walked;
	session->cpu_before_ns = cpu_ns;
	session->cpu_before_at_ns = now_ns;
	*reopened = false;
	session->cpu_percent = percent;
	session->hot_seconds = percent > session->config->max_cpu_percent ? session->hot_seconds + 1 : 0;
	if (session->hot_seconds < 2)
		return true;
	session->hot_seconds = 0;
	if (reads_on(session)) {
		*reopened = true; // so far as polling goes
		stop_tails(session, percent);
		return true;
	}
	char why[96];
	snprintf(why, sizeof(why), "the recorder used %.1f%% of one CPU (--max-cpu %g), mostly for others' samples", percent, session->config->max_cpu_percent);
	const struct ledger_event *books = &session->ledger.events.data[0];
	if (session->drain.filter && books->others > books->taken && session_spare_strangers(session, why)) {
		*reopened = true;
		return true;
	}
	struct event_options next;
	if (!coarser(session, &next)) {
		decide(&session->decisions, "ended: the recorder used %.1f%% of one CPU at the coarsest period (--max-cpu %g)", percent,
		       session->config->max_cpu_percent);
		want_end(session, END_MAX_CPU);
		return true;
	}
	*reopened = true;
	return go_on_coarser(session, &next, percent);
}

// Once a second; false: the events could not be opened again.
static bool keep_up(struct session *session, bool *reopened)
{
	return keep_budget(session, reopened) && (*reopened || mend_stuck(session, reopened)) && (*reopened || session_keep_scope(session, reopened));
}

enum { PASS_MS_MIN = 10, PASS_MS_MAX = 100, PASS_MS_HUNG_UP = 20, WAKED_MS_MAX = 200 };

// What wakes the drain thread beside its timer.
enum wakes { WAKES_ALL_RINGS, WAKES_READERS, WAKES_SOME_RINGS };

// Milliseconds to the next pass. A wake-up costs 17 us whatever it finds, and as much again as caches are cold by then. A ring wakes us for each watermark's
// worth that was written, whenever we read it last: while the rings fill so fast, the timer waits for that, and a little longer. Else it is set so that the
// fullest ring is left to fill to a quarter. Never twice as long as the last time: a target that starts to run is met soon. Where processes are born and die
// their images are opened while they live, if at all.
static int next_pass_ms(const struct session *session, int last_ms, uint64_t elapsed_ns, enum wakes wakes)
{
	double per_ms = (double)session->drain.most_bytes / ((double)elapsed_ns / 1e6 + 1e-3), most = wakes == WAKES_SOME_RINGS ? PASS_MS_HUNG_UP : PASS_MS_MAX;
	double next = per_ms > 0 ? (double)session->set.ring_bytes / 4 / per_ms : most;
	double waked_ms = per_ms > 0 ? (double)session->set.sideband_attr.wakeup_watermark / per_ms : WAKED_MS_MAX + 1;
	if (wakes == WAKES_ALL_RINGS)
		next = waked_ms <= WAKED_MS_MAX ? most = 1.25 * waked_ms : most;
	next = session->drain.found_births ? PASS_MS_MIN : next > 2.0 * last_ms ? 2.0 * last_ms : next;
	return (int)(next < PASS_MS_MIN ? PASS_MS_MIN : next > most ? most : next);
}

// -D: side-band events have been on all the time, so every mapping is known.
static bool start_late(struct session *session)
{
	if (session->drain.enable_ns == 0 || session->drain.now_ns < session->drain.enable_ns)
		return true;
	session->drain.enable_ns = 0;
	return event_set_enable(&session->set, NULL);
}

// Readers that wake for each sample poll the rings themselves, and wake us when there is much.
static struct drain_poll *new_poll(const struct session *session)
{
	static const struct event_set none;
	return drain_poll_new(reads_on(session) ? &none : &session->set, session->wake_drain_fd);
}

static enum wakes waked_by(const struct session *session, const struct drain_poll *poll)
{
	if (reads_on(session))
		return WAKES_READERS;
	return drain_poll_live(poll) < session->set.rings.count ? WAKES_SOME_RINGS : WAKES_ALL_RINGS;
}

static void drain_loop(struct session *session)
{
	struct drain_poll *poll = new_poll(session);
	int wait_ms = PASS_MS_MIN;
	uint64_t passed_ns = session->drain.now_ns;
	while (!atomic_load(&session->stop)) {
		bool seen = wait_for_pass(session, poll, wait_ms);
		drain_pass(&session->drain, false);
		if (!start_late(session)) {
			want_end(session, END_EVENTS);
			break;
		}
		if (session->drain.enable_ns == 0 && restarts_are_possible(&session->set, session_is_by_task(session)))
			restarts_step(&session->restarts, &session->set, &session->ledger, &session->clock);
		enum output_state state = output_state(session->output);
		if (state != OUTPUT_FINE)
			want_end(session, state == OUTPUT_FAILED ? END_OUTPUT : state == OUTPUT_SIZE_REACHED ? END_SIZE : END_DISK_LOW);
		bool reopened = false;
		if (session->drain.ticked && !keep_up(session, &reopened)) {
			want_end(session, END_EVENTS);
			break;
		}
		enum tails_step step = reopened ? TAILS_AS_THEY_ARE : next_tails(session, seen);
		if (step == TAILS_REST)
			rest_tails(session);
		else if (step == TAILS_BEGIN && session->tails != NULL)
			resume_tails(session);
		else if (step == TAILS_BEGIN)
			start_tails(session, session->is_for_others);
		else if (step == TAILS_NEED_OWN_EVENTS)
			(void)session_spare_strangers(session, "stacks deeper than the copy can be read on then without waking anybody for others' samples");
		session->needed_own_events |= step == TAILS_NEED_OWN_EVENTS;
		reopened = reopened || step != TAILS_AS_THEY_ARE;
		if (reopened) {
			drain_poll_free(poll);
			poll = new_poll(session);
		}
		wait_ms = next_pass_ms(session, wait_ms, session->drain.now_ns - passed_ns, waked_by(session, poll));
		passed_ns = session->drain.now_ns;
	}
	drain_poll_free(poll);
}

void *session_drain_main(void *context)
{
	struct session *session = context;
	session->priority = privilege_drain_priority(session->config->realtime);
	sem_post(&session->drain_ready);
	while (sem_wait(&session->drain_go) != 0)
		;
	if (atomic_load(&session->cancelled))
		return NULL;
	session->cpu_before_ns = ledger_cpu_ns(&session->ledger);
	session->cpu_before_at_ns = session_now_ns(session);
	session->rate_since_ns = session->cpu_before_at_ns;
	watch_rings(session);
	drain_loop(session);
	event_set_disable(&session->set);
	tails_stop(session->tails);
	drain_pass(&session->drain, true);
	session_note_stuck(session, true);
	tails_end(session);
	return NULL;
}
