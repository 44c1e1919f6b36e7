// A recording whose file ends before it did.
#include "record/session_private.h"

// (Of a stream nothing can be taken back.)
void session_end_where_file_does(struct session *session, const char *why)
{
	uint64_t counted_ns = output_counted_ns(session->output), before = 0, left = 0;
	for (size_t e = 0; e + 1 < session->ledger.events.count; e++)
		before += session->ledger.events.data[e].taken;
	if (counted_ns == 0 || !ledger_go_back(&session->ledger, counted_ns))
		return;
	for (size_t e = 0; e + 1 < session->ledger.events.count; e++)
		left += session->ledger.events.data[e].taken;
	session->is_short = false;
	session->end_ns = session->ledger.end_ns = counted_ns;
	decide(&session->decisions, "the recording ends at +%.1f s, where its last counters could be written: %llu sample%s taken after that %s not in the file (%.150s)",
	       (double)(counted_ns - session->start_ns) / 1e9, (unsigned long long)(before - left), before - left == 1 ? "" : "s", before - left == 1 ? "is" : "are", why);
}
