// Rings that stand still (record/stuck.h): looked for once a second; who finds one opens the events again.
#include "record/session_private.h"

// Of what writes to the ring of a CPU index. Events of whole CPUs run on while a CPU is idle, when some virtual CPUs are not run for their timer: there only what is lost tells.
static struct stuck_counters counters_of(const struct session *session, uint32_t slot)
{
	const struct ledger *ledger = &session->ledger;
	struct stuck_counters sum = { .time_ns = session->drain.now_ns };
	bool by_task = session_is_by_task(session);
	for (uint32_t e = 0; e < session->set.events.count && slot < ledger->cpu_count; e++) {
		double due = ledger_due(ledger, &session->set, e, slot);
		if (!session->set.events.data[e].samples)
			continue;
		sum.lost += ledger->events.data[e].cpus[slot].lost;
		sum.spare += by_task ? (double)session->target.tids.count + (double)ledger->births : 1;
		sum.due += due > 0 ? due : 0;
	}
	if (session->are_rings_wide)
		sum.due = -1;
	return sum;
}

bool session_find_stuck(struct session *session, stuck_spans *spans)
{
	bool found = false;
	for (size_t r = 0; r < session->set.rings.count && r < session->stuck.places.count; r++) {
		struct stuck_span span;
		struct stuck_counters now = counters_of(session, session->set.rings.data[r].slot);
		if (!stuck_look(&session->stuck, r, &session->set.rings.data[r], &now, &span))
			continue;
		found = true;
		if (spans != NULL)
			vec_push(spans, span);
	}
	return found;
}

void session_note_stuck(struct session *session, bool to_the_end)
{
	size_t before = session->stood_still.count;
	if (!session_find_stuck(session, &session->stood_still))
		return;
	session->drain.reread_wanted = true; // records of mappings and processes did not come either
	bool was_empty = true;
	for (size_t i = before; i < session->stood_still.count; i++) {
		session->stood_still.data[i].to_the_end = to_the_end;
		session->ledger.stuck_times++;
		session->ledger.stuck_lost += session->stood_still.data[i].lost;
		was_empty &= session->stood_still.data[i].was_empty;
	}
	// Where opening them again is of no use it is tried less and less often.
	enum { DOUBLED_MOST = 6 };
	session->stuck_in_vain = !was_empty ? 0 : session->stuck_in_vain < DOUBLED_MOST ? session->stuck_in_vain + 1 : DOUBLED_MOST;
	session->stuck_until_ns = session->drain.now_ns + (UINT64_C(1000000000) << session->stuck_in_vain);
}

void session_tell_stuck(struct session *session)
{
	struct buf text = { 0 };
	stuck_text(session->stood_still.data, session->stood_still.count, session->start_ns, &text);
	if (text.size > 0)
		decide_aside(&session->decisions, "%s", buf_text(&text));
	buf_release(&text);
}
