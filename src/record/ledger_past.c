// The books as they were: what is written of a recording may end before what was taken.
#include <stdlib.h>
#include <string.h>

#include "record/ledger.h"

// All but where losses lie: of these each knows its own time.
static struct ledger *copy_of(const struct ledger *ledger)
{
	struct ledger *copy = mem_copy(ledger, sizeof(*ledger));
	memset(&copy->gaps, 0, sizeof(copy->gaps));
	memset(&copy->lost, 0, sizeof(copy->lost));
	memset(&copy->ring_ns, 0, sizeof(copy->ring_ns));
	memset(&copy->past, 0, sizeof(copy->past));
	memset(&copy->restarts, 0, sizeof(copy->restarts)); // those are in the file
	memset(&copy->events, 0, sizeof(copy->events));
	for (size_t i = 0; i < ledger->events.count; i++) {
		struct ledger_event event = ledger->events.data[i];
		event.cpus = mem_copy(event.cpus, ledger->cpu_count * sizeof(*event.cpus));
		event.cut = mem_copy(event.cut, ledger->cpu_count * sizeof(*event.cut));
		vec_push(&copy->events, event);
	}
	return copy;
}

static void forget_first(struct ledger *ledger, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		ledger_release(ledger->past.data[i]);
		free(ledger->past.data[i]);
	}
	for (size_t i = count; i < ledger->past.count; i++)
		ledger->past.data[i - count] = ledger->past.data[i];
	ledger->past.count -= count;
}

void ledger_remember(struct ledger *ledger, uint64_t written_ns)
{
	size_t old = 0;
	while (old + 1 < ledger->past.count && ledger->past.data[old + 1]->read_ns <= written_ns)
		old++;
	forget_first(ledger, old);
	vec_push(&ledger->past, copy_of(ledger));
}

bool ledger_go_back(struct ledger *ledger, uint64_t time_ns)
{
	size_t at = 0;
	while (at < ledger->past.count && ledger->past.data[at]->read_ns != time_ns)
		at++;
	if (at == ledger->past.count)
		return false;
	struct ledger *then = ledger->past.data[at];
	for (size_t i = 0; i < ledger->gaps.items.count; i++)
		if (ledger->gaps.items.data[i].to_ns <= time_ns)
			vec_push(&then->gaps.items, ledger->gaps.items.data[i]);
	for (size_t i = 0; i < ledger->lost.items.count; i++)
		if (ledger->lost.items.data[i].to_ns <= time_ns)
			vec_push(&then->lost.items, ledger->lost.items.data[i]);
	ledger->past.data[at] = ledger->past.data[--ledger->past.count];
	struct ledger now = *ledger;
	*ledger = *then;
	free(then);
	ledger_release(&now);
	return true;
}

void ledger_forget(struct ledger *ledger)
{
	forget_first(ledger, ledger->past.count);
	vec_release(&ledger->past);
}
