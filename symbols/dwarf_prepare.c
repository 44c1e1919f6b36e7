// Units read for addresses that are known beforehand: a unit's lines in one pass over its line program, and each function met in one over its
// DIEs, keeping only what those addresses need. Many units are read by several threads. Each unit is one thread's; what units share (the list
// of them, abbreviations, sections, other files) is ready before the threads start, and names, which lead from one unit to another, are looked
// for afterwards.
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/sort.h"
#include "symbols/dwarf_internal.h"

enum { JOBS_LIMIT = 64, BYTES_A_JOB = 256 * 1024 /* what a thread costs is a third of the time that so many take */ };
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

struct asked {
	uint64_t vaddr;
	size_t next; // of the same unit: index + 1, or 0
};

struct task {
	struct dwarf_unit *unit, *dies; // with the lines, and with the functions: another where split
	size_t first, last;             // of its addresses: index + 1
	size_t count;
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

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

// A unit's DIEs are nearly all read: one call maps its pages for less than it takes to find one after the other missing. Older kernels (before 5.14)
// refuse, and nothing is lost.
static void map_pages(struct dwarf_unit *unit)
{
	struct bytes b = dwarf_unit_bytes(unit, unit->offset);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)b.at / page * page;
	(void)madvise((void *)from, (uintptr_t)b.end - from, MADV_POPULATE_READ);
}

static void read_unit(const struct prepare *p, const struct task *task)
{
	VEC(uint64_t) vaddrs = { 0 };
	bool is_sorted = true;
	vec_reserve(&vaddrs, task->count);
	for (size_t i = task->first; i != 0; i = p->asked.data[i - 1].next) {
		is_sorted &= vaddrs.count == 0 || vaddrs.data[vaddrs.count - 1] < p->asked.data[i - 1].vaddr;
		vec_push(&vaddrs, p->asked.data[i - 1].vaddr);
	}
	if (!is_sorted)
		sort_stable(vaddrs.data, vaddrs.count, sizeof(vaddrs.data[0]), compare);
	if (task->dies != NULL) {
		map_pages(task->dies);
		dwarf_functions_ask(task->dies, vaddrs.data, vaddrs.count);
	}
	if (task->unit->dwarf->with_lines)
		dwarf_lines_ask(task->unit, vaddrs.data, vaddrs.count);
	vec_release(&vaddrs);
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
		if (unit->task == 0 || unit->task > p->tasks.count) {
			struct dwarf_unit *dies = unit->dwo_name != NULL ? dwarf_unit_split(unit) : unit;
			if (dies != NULL && !dwarf_unit_root(dies))
				dies = NULL;
			vec_push(&p->tasks, (struct task){ .unit = unit, .dies = dies });
			unit->task = (uint32_t)p->tasks.count;
			bytes += dies != NULL ? dies->end - dies->offset : 0;
		}
		struct task *task = &p->tasks.data[unit->task - 1];
		vec_push(&p->asked, (struct asked){ .vaddr = vaddrs[i] });
		if (task->count++ == 0)
			task->first = p->asked.count;
		else
			p->asked.data[task->last - 1].next = p->asked.count;
		task->last = p->asked.count;
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
	if (wanted > 1)
		dwarf_sections_load(dwarf);
	while (started + 1 < wanted && pthread_create(&threads[started], NULL, work, &p) == 0)
		started++;
	(void)work(&p);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	vec_release(&p.tasks);
	vec_release(&p.asked);
}
