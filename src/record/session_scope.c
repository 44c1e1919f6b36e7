// Events of whole CPUs or of single tasks, for a target that both would do for: looked at once a second.
//
// Whole CPUs see the first period of each new task and lose nothing at a switch, but whatever else runs there is sampled as often. Single tasks cost nobody else
// anything. So where next to all samples are strangers' and the target starts nothing, events are opened anew per task; and back, once, if it then starts many tasks.
#include "proc/procfs.h"
#include "record/privilege.h"
#include "record/session_private.h"

enum { STRANGERS_LEAST = 200, STRANGERS_TIMES = 20, BIRTHS_FEW = 5, BIRTHS_MANY = 20, BIRTHS_ONE_IN = 20, SECONDS_IN_A_ROW = 2 };

// Idle time that CPU-wide events are on for, by /proc/stat, from now on.
void session_count_idle(struct session *session)
{
	struct ledger *ledger = &session->ledger;
	ledger->idle_ns = 0;
	ledger->counts_idle = session->target.events.scope == SCOPE_CPU &&
	                      procfs_idle_ns(session->cpu_numbers, session->target.cpu_count, &ledger->idle_before_ns);
}

static bool has_descriptors(struct session *session)
{
	uint64_t before, need = event_set_fd_need(session->config->specs, &session->target.events) + 256;
	return privilege_raise_files(need, &before) >= need;
}

// What the last second brought.
struct second { uint64_t taken, strangers, births; };

static struct second last_second(struct session *session)
{
	const struct ledger_event *books = &session->ledger.events.data[0];
	struct scope_watch *watch = &session->scope_watch;
	uint64_t strangers = books->others - books->others_idle;
	struct second second = { books->taken - watch->taken, strangers - watch->strangers, session->ledger.births - watch->births };
	watch->taken = books->taken;
	watch->strangers = strangers;
	watch->births_before = watch->births;
	watch->births = session->ledger.births;
	return second;
}

static bool go(struct session *session, bool per_task, struct err *err)
{
	struct target *target = &session->target;
	const struct target_config *config = &session->config->target;
	target_set_wide(target, config, !per_task);
	if (per_task) {
		target_collect_tids(target, session->spaces);
		if (!has_descriptors(session)) {
			target_set_wide(target, config, true);
			return err_set(err, STATUS_HOST, "too few file descriptors");
		}
	}
	if (session_reopen(session, err)) {
		session_count_idle(session);
		return event_set_enable(&session->set, err);
	}
	return false;
}

// false: the events could not be opened again, in either way.
static bool change(struct session *session, bool per_task, const char *why)
{
	struct err err = { 0 };
	double seconds = (double)(session->drain.now_ns - session->start_ns) / 1e9;
	const char *what = per_task ? "events per thread and CPU" : "CPU-wide events";
	session->scope_watch.changes++;
	session->scope_watch.in_a_row = 0;
	if (go(session, per_task, &err)) {
		decide(&session->decisions, "from +%.1f s on %s: %s", seconds, what, why);
		return true;
	}
	session->scope_watch.changes = SCOPE_CHANGES_MOST;
	decide(&session->decisions, "%s would be better (%s), and could not be had: %.100s", what, why, err.text);
	if (session->set.fds.count > 0 && session->target.filter == per_task)
		return true; // nothing was closed
	return go(session, !per_task, &err);
}

static bool counts_in_a_row(struct session *session, bool is_so)
{
	session->scope_watch.in_a_row = is_so ? session->scope_watch.in_a_row + 1 : 0;
	return session->scope_watch.in_a_row >= SECONDS_IN_A_ROW;
}

bool session_keep_scope(struct session *session, bool *reopened)
{
	struct second second = last_second(session);
	if (!session->target.is_chosen_wide || session->scope_watch.changes >= SCOPE_CHANGES_MOST)
		return true;
	if (session->target.filter) {
		bool are_strangers = second.strangers >= STRANGERS_LEAST && second.strangers > STRANGERS_TIMES * second.taken && second.births <= BIRTHS_FEW;
		if (!counts_in_a_row(session, are_strangers))
			return true;
		*reopened = true;
		return change(session, true, "next to all samples were of others, and the target starts no tasks that would be missed");
	}
	if (!counts_in_a_row(session, second.births >= BIRTHS_MANY && BIRTHS_ONE_IN * second.births > second.taken))
		return true;
	*reopened = true;
	return change(session, false, "the target starts many tasks, and of each new one the first period would be missed");
}

bool session_starts_many(const struct session *session)
{
	uint64_t births = session->ledger.births - session->scope_watch.births_before;
	return births >= BIRTHS_MANY;
}

bool session_spare_strangers(struct session *session, const char *why)
{
	if (!session->target.is_chosen_wide || !session->target.filter || session->scope_watch.changes >= SCOPE_CHANGES_MOST)
		return false;
	session->scope_watch.changes = SCOPE_CHANGES_MOST - 1; // and not back
	return change(session, true, why) && !session->target.filter;
}
