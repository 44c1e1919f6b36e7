#include "record/switches.h"

#include "proc/procfs.h"

void switches_begin(struct switches *switches, const int32_t *tids, size_t count)
{
	vec_clear(&switches->threads);
	for (size_t i = 0; i < count && i < SWITCHES_THREADS; i++) {
		struct switches_thread thread = { .tid = tids[i] };
		if (procfs_switches(thread.tid, &thread.before))
			vec_push(&switches->threads, thread);
	}
}

uint64_t switches_since(const struct switches *switches)
{
	uint64_t sum = 0, now;
	for (size_t i = 0; i < switches->threads.count; i++) {
		const struct switches_thread *thread = &switches->threads.data[i];
		if (procfs_switches(thread->tid, &now) && now > thread->before) // less: another one has its number
			sum += now - thread->before;
	}
	return sum;
}

void switches_release(struct switches *switches)
{
	vec_release(&switches->threads);
}
