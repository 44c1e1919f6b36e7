// Many units read by several threads. Each unit is one thread's; what units share (the list of them, abbreviations, sections, other files) is
// ready before the threads start, and names, which lead from one unit to another, are looked for afterwards.
#include <pthread.h>
#include <time.h>

#include "symbols/dwarf_internal.h"

enum { JOBS_LIMIT = 64, BYTES_A_JOB = 64 * 1024 };

struct asked {
	uint64_t vaddr;
	size_t next; // of the same unit: index + 1, or 0
};

struct task {
	struct dwarf_unit *unit, *dies; // with the lines, and with the functions: another where split
	size_t first;                   // of its addresses: index + 1
};

struct prepare {
	VEC(struct asked) asked;
	VEC(struct task) tasks;
	size_t next; // task; atomic
	double deadline_s;
};

static bool is_over(double deadline_s)
{
	struct timespec now;
	if (deadline_s <= 0)
		return false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9 > deadline_s;
}

static void read_unit(const struct prepare *p, const struct task *task)
{
	for (size_t i = task->first; i != 0 && task->dies != NULL; i = p->asked.data[i - 1].next) {
		struct dwarf_function *function = dwarf_function_find(task->dies, p->asked.data[i - 1].vaddr);
		if (function != NULL)
			(void)dwarf_function_inlines(task->dies, function);
	}
	if (task->unit->dwarf->with_lines)
		(void)dwarf_unit_lines(task->unit);
}

static void *work(void *argument)
{
	struct prepare *p = argument;
	for (;;) {
		size_t i = __atomic_fetch_add(&p->next, 1, __ATOMIC_RELAXED);
		if (i >= p->tasks.count || is_over(p->deadline_s))
			return NULL;
		read_unit(p, &p->tasks.data[i]);
	}
}

// The units that own the addresses, each once, and their addresses. Their size in bytes.
static uint64_t find_units(struct dwarf *dwarf, const uint64_t *vaddrs, size_t count, struct prepare *p)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		struct dwarf_unit *unit = dwarf_unit_for_address(dwarf, vaddrs[i]);
		if (unit == NULL || !dwarf_unit_root(unit))
			continue;
		if (unit->task == 0) {
			struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
			if (dies != NULL && !dwarf_unit_root(dies))
				dies = NULL;
			vec_push(&p->tasks, (struct task){ .unit = unit, .dies = dies });
			unit->task = (uint32_t)p->tasks.count;
			bytes += dies != NULL ? dies->end - dies->offset : 0;
		}
		struct task *task = &p->tasks.data[unit->task - 1];
		vec_push(&p->asked, (struct asked){ .vaddr = vaddrs[i], .next = task->first });
		task->first = p->asked.count;
	}
	return bytes;
}

void dwarf_prepare(struct dwarf *dwarf, const uint64_t *vaddrs, size_t count, unsigned jobs, double deadline_s)
{
	struct prepare p = { .deadline_s = deadline_s };
	uint64_t bytes = find_units(dwarf, vaddrs, count, &p);
	pthread_t threads[JOBS_LIMIT];
	unsigned started = 0, wanted = jobs < JOBS_LIMIT ? jobs : JOBS_LIMIT;
	if (wanted > p.tasks.count)
		wanted = (unsigned)p.tasks.count;
	if (wanted > bytes / BYTES_A_JOB)
		wanted = (unsigned)(bytes / BYTES_A_JOB);
	for (size_t i = 0; i < p.tasks.count; i++) {
		p.tasks.data[i].unit->task = 0;
		if (wanted > 1 && p.tasks.data[i].dies != NULL)
			dwarf_sections_load(p.tasks.data[i].dies->dwarf);
	}
	if (wanted > 1) {
		dwarf_sections_load(dwarf);
		while (started < wanted - 1 && pthread_create(&threads[started], NULL, work, &p) == 0)
			started++;
		(void)work(&p);
	}
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	vec_release(&p.tasks);
	vec_release(&p.asked);
}
