#include "proc/space.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/vec.h"
#include "elf/vdso.h"
#include "proc/maps.h"

enum { KERNEL_PID = -1 };
#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)

struct process_entry;

struct thread_entry {
	struct thread thread; // first: what callers get
	struct process_entry *process;
	struct thread_entry *next, *previous; // of the same process
	uint64_t exit_ns;
	uint32_t slot; // in spaces->threads
};

struct process_entry {
	struct process process; // first: what callers get
	struct thread_entry *threads;
	uint32_t live_threads;
	uint64_t exit_ns;
	uint32_t slot; // in spaces->processes
};

// A death to be forgotten later. Reaping walks these, not every process and thread.
struct death {
	int32_t pid, tid;
	uint64_t time_ns;
};

// Tables of pointers with free slots, so that callers' pointers stay where they are; hash maps name the slots.
struct spaces {
	struct dso_table dsos;
	struct intern names;
	VEC(struct process_entry *) processes;
	VEC(struct thread_entry *) threads;
	VEC(uint32_t) free_processes, free_threads;
	struct hash_map by_pid, by_tid;
	VEC(struct death) deaths; // in the order of records
	struct maps_pool *pool;
	struct maps *empty;
	uint64_t refused;
	uint32_t serial; // the last one given
	bool fills_holes;
};

// ---------------------------------------------------------------- processes and threads

struct spaces *spaces_new(void)
{
	struct spaces *spaces = NEW(struct spaces);
	intern_init(&spaces->names);
	spaces->pool = maps_pool_new();
	spaces->empty = maps_new(spaces->pool, 0);
	return spaces;
}

static uint64_t tid_key(int32_t pid, int32_t tid)
{
	return (uint64_t)(uint32_t)pid << 32 | (uint32_t)tid;
}

static struct process_entry *find_process(const struct spaces *spaces, int32_t pid)
{
	const uint32_t *slot = hash_map_get(&spaces->by_pid, (uint32_t)pid);
	return slot != NULL ? spaces->processes.data[*slot] : NULL;
}

static struct thread_entry *find_thread(const struct spaces *spaces, int32_t pid, int32_t tid)
{
	const uint32_t *slot = hash_map_get(&spaces->by_tid, tid_key(pid, tid));
	return slot != NULL ? spaces->threads.data[*slot] : NULL;
}

static struct process_entry *get_process(struct spaces *spaces, int32_t pid)
{
	struct process_entry *entry = find_process(spaces, pid);
	if (entry != NULL)
		return entry;
	entry = NEW(struct process_entry);
	entry->process = (struct process){ .pid = pid, .parent_pid = -1, .maps = maps_retain(spaces->empty) };
	if (pid == 0) { // the idle tasks: no record ever tells their name
		entry->process.comm = intern_string(&spaces->names, "swapper");
		entry->process.maps_known = true;
	}
	if (spaces->free_processes.count > 0) {
		entry->slot = spaces->free_processes.data[--spaces->free_processes.count];
		spaces->processes.data[entry->slot] = entry;
	} else {
		entry->slot = (uint32_t)spaces->processes.count;
		vec_push(&spaces->processes, entry);
	}
	hash_map_put(&spaces->by_pid, (uint32_t)pid, entry->slot, NULL);
	return entry;
}

static struct thread_entry *get_thread(struct spaces *spaces, int32_t pid, int32_t tid)
{
	struct thread_entry *entry = find_thread(spaces, pid, tid);
	if (entry != NULL)
		return entry;
	struct process_entry *process = get_process(spaces, pid);
	entry = NEW(struct thread_entry);
	entry->thread = (struct thread){ .pid = pid, .tid = tid, .comm = process->process.comm };
	entry->process = process;
	entry->next = process->threads;
	if (entry->next != NULL)
		entry->next->previous = entry;
	process->threads = entry;
	process->live_threads++;
	process->process.exited = false;
	if (spaces->free_threads.count > 0) {
		entry->slot = spaces->free_threads.data[--spaces->free_threads.count];
		spaces->threads.data[entry->slot] = entry;
	} else {
		entry->slot = (uint32_t)spaces->threads.count;
		vec_push(&spaces->threads, entry);
	}
	hash_map_put(&spaces->by_tid, tid_key(pid, tid), entry->slot, NULL);
	return entry;
}

static void forget_thread(struct spaces *spaces, struct thread_entry *entry)
{
	if (entry->previous != NULL)
		entry->previous->next = entry->next;
	else
		entry->process->threads = entry->next;
	if (entry->next != NULL)
		entry->next->previous = entry->previous;
	if (!entry->thread.exited)
		entry->process->live_threads--;
	hash_map_remove(&spaces->by_tid, tid_key(entry->thread.pid, entry->thread.tid));
	spaces->threads.data[entry->slot] = NULL;
	vec_push(&spaces->free_threads, entry->slot);
	free(entry);
}

static void forget_threads(struct spaces *spaces, struct process_entry *entry)
{
	for (struct thread_entry *thread = entry->threads, *next; thread != NULL; thread = next) {
		next = thread->next;
		forget_thread(spaces, thread);
	}
}

static void forget_process(struct spaces *spaces, struct process_entry *entry)
{
	forget_threads(spaces, entry);
	hash_map_remove(&spaces->by_pid, (uint32_t)entry->process.pid);
	spaces->processes.data[entry->slot] = NULL;
	vec_push(&spaces->free_processes, entry->slot);
	maps_release(entry->process.maps);
	free(entry);
}

void spaces_free(struct spaces *spaces)
{
	if (spaces == NULL)
		return;
	for (size_t i = 0; i < spaces->processes.count; i++)
		if (spaces->processes.data[i] != NULL)
			forget_process(spaces, spaces->processes.data[i]);
	maps_release(spaces->empty);
	maps_pool_release(spaces->pool);
	vec_release(&spaces->processes);
	vec_release(&spaces->threads);
	vec_release(&spaces->free_processes);
	vec_release(&spaces->free_threads);
	vec_release(&spaces->deaths);
	hash_map_release(&spaces->by_pid);
	hash_map_release(&spaces->by_tid);
	dso_table_release(&spaces->dsos);
	intern_release(&spaces->names);
	free(spaces);
}

struct dso_table *spaces_dsos(struct spaces *spaces)
{
	return &spaces->dsos;
}

struct intern *spaces_names(struct spaces *spaces)
{
	return &spaces->names;
}

static struct maps *change(struct spaces *spaces, struct maps *maps, uint64_t start, uint64_t end, const struct mapping *put)
{
	bool refused = false;
	maps = maps_replace(maps, start, end, put, &refused);
	spaces->refused += refused;
	return maps;
}

static void set_maps(struct process_entry *entry, struct maps *maps)
{
	struct maps *old = entry->process.maps;
	entry->process.maps = maps_retain(maps);
	maps_release(old);
}

// A task that was thought dead does something: its number was given again and the FORK was lost, or it is late on its way out. Or it never died: exec of a
// set-user-ID program ends the events of the task, for which the kernel says EXIT (begin_new_exec in fs/exec.c, perf_event_exit_task). What is mapped next
// says that it lives.
static void revive(struct thread_entry *thread)
{
	if (!thread->thread.exited)
		return;
	thread->thread.exited = false;
	thread->process->live_threads++;
	thread->process->process.exited = false;
}

static void kill_thread(struct spaces *spaces, struct thread_entry *thread, uint64_t time_ns)
{
	struct process_entry *process = thread->process;

	if (thread->thread.exited)
		return;
	thread->thread.exited = true;
	thread->exit_ns = time_ns;
	process->live_threads--;
	// The main thread may end before the others do; the process ends with the last that we know of.
	struct thread_entry *main = find_thread(spaces, process->process.pid, process->process.pid);
	if (process->live_threads == 0 && main != NULL && main->thread.exited) {
		process->process.exited = true;
		process->exit_ns = time_ns;
	}
	vec_push(&spaces->deaths, (struct death){ .pid = thread->thread.pid, .tid = thread->thread.tid, .time_ns = time_ns });
}

// ---------------------------------------------------------------- mappings

static bool is_kernel_mapping(const struct record *record)
{
	return (int32_t)record->mapping.pid == KERNEL_PID || (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
}

static bool is_guest(const struct record *record)
{
	unsigned mode = record->misc & PERF_RECORD_MISC_CPUMODE_MASK;
	return mode == PERF_RECORD_MISC_GUEST_KERNEL || mode == PERF_RECORD_MISC_GUEST_USER;
}

// Whether an anonymous executable mapping over [start, end) is the file `m` itself, copied into huge pages. Programs that do this
// (node --use-largepages, MySQL, HHVM, iodlr and others) copy the whole 2 MiB pages of their text, map anonymous memory over them at the
// same addresses and make it executable; only that last step is reported. Code that a JIT makes has no reason to lie at whole
// huge pages strictly inside one file's text: an address of unmapped text is given again by its first page, not by its first
// huge page. So the rule asks for both: 2 MiB bounds at both ends, and one file mapping that holds the whole range.
static bool is_remapped_text(const struct dso_table *dsos, const struct mapping *m, uint64_t start, uint64_t end)
{
	return m->start <= start && end <= m->end && start % HUGE_PAGE_BYTES == 0 && end % HUGE_PAGE_BYTES == 0 &&
	       dso_get(dsos, m->dso)->kind == DSO_FILE;
}

// Text that was moved before anybody saw it: records that describe /proc have two mappings of one file, as far apart as in the file, and between them
// executable anonymous memory of whole huge pages. Only an unmapped part of a text leaves such a hole, and what fills all of it is that text.
static struct maps *fill_hole(struct spaces *spaces, struct maps *maps, const struct mapping *above)
{
	uint32_t i = maps_lower_bound(maps, above->start), first = i;
	while (first > 0 && maps->items[first - 1].end == (first < i ? maps->items[first].start : above->start) &&
	       dso_get(&spaces->dsos, maps->items[first - 1].dso)->kind == DSO_ANON)
		first--;
	if (first == i || first == 0)
		return maps;
	const struct mapping *below = &maps->items[first - 1];
	struct mapping put = mapping_from(below, maps->items[first].start);
	put.end = above->start;
	if (below->end != put.start || below->dso != above->dso || above->pgoff - below->pgoff != above->start - below->start ||
	    put.start % HUGE_PAGE_BYTES != 0 || put.end % HUGE_PAGE_BYTES != 0)
		return maps;
	return change(spaces, maps, put.start, put.end, &put);
}

// Anonymous code goes around what must not be hidden: text in huge pages, and the code of a jitdump that lies in it.
static struct maps *map_anonymous(struct spaces *spaces, struct maps *maps, struct mapping put)
{
	for (uint64_t at = put.start; at < put.end;) {
		uint32_t i = maps_lower_bound(maps, at);
		uint64_t gap_end = put.end, next = put.end;
		for (; i < maps->count && maps->items[i].start < put.end; i++) {
			const struct mapping *m = &maps->items[i];
			if (!is_remapped_text(&spaces->dsos, m, put.start, put.end) && !dso_is_jitdump(dso_get(&spaces->dsos, m->dso)))
				continue;
			gap_end = m->start > at ? m->start : at;
			next = m->end;
			break;
		}
		if (at < gap_end) {
			struct mapping piece = mapping_from(&put, at);
			piece.end = gap_end;
			maps = change(spaces, maps, at, gap_end, &piece);
		}
		at = next;
	}
	return maps;
}

static enum space_change apply_mapping(struct spaces *spaces, const struct record *record, bool synthesized)
{
	const struct record_mapping *m = &record->mapping;
	bool kernel = is_kernel_mapping(record);

	if (is_guest(record) || m->length == 0)
		return SPACE_NONE; // addresses of a guest are not ours to look up
	struct process_entry *process = get_process(spaces, kernel ? KERNEL_PID : (int32_t)m->pid);
	struct thread_entry *by = kernel ? NULL : find_thread(spaces, (int32_t)m->pid, (int32_t)m->tid);
	if (by != NULL)
		revive(by);
	uint64_t end = m->length > UINT64_MAX - m->start ? UINT64_MAX : m->start + m->length;
	if (kernel || synthesized)
		process->process.maps_known = true;
	if ((m->protection & PROT_EXEC) == 0 && !kernel) {
		process->process.maps = change(spaces, process->process.maps, m->start, end, NULL);
		return SPACE_MAPPED;
	}
	enum dso_kind kind = dso_kind_of(m->path, kernel);
	// A memfd that has a build ID is a program or a library that was never in a folder (runc's copy of itself), not a JIT compiler's code.
	if (kind == DSO_ANON && m->build_id.size > 0)
		kind = DSO_FILE;
	bool is_vdso32 = strcmp(m->path, VDSO_NAME) == 0 && end <= UINT64_C(1) << 32; // the kernel has one name for both
	struct dso key = {
		.path = is_vdso32 ? VDSO32_NAME : m->path, .kind = kind, .build_id = m->build_id, .major = m->major, .minor = m->minor,
		.inode = m->inode, .inode_generation = m->inode_generation, .pid = (uint32_t)m->pid, .since_ns = process->process.program_ns,
	};
	struct mapping put = { .start = m->start, .end = end, .pgoff = m->pgoff, .dso = dso_intern(&spaces->dsos, &key), .protection = m->protection & 0xff };
	if (key.kind == DSO_ANON)
		process->process.maps = map_anonymous(spaces, process->process.maps, put);
	else
		process->process.maps = change(spaces, process->process.maps, put.start, put.end, &put);
	if (spaces->fills_holes && key.kind == DSO_FILE)
		process->process.maps = fill_hole(spaces, process->process.maps, &put);
	return SPACE_MAPPED;
}

void spaces_fill_holes(struct spaces *spaces)
{
	spaces->fills_holes = true;
}

void spaces_renew(struct spaces *spaces, int32_t pid, uint64_t start)
{
	struct process_entry *process = get_process(spaces, pid);
	const struct mapping *m = maps_find(process->process.maps, start);
	if (m == NULL)
		return;
	struct mapping put = *m;
	put.serial = ++spaces->serial & 0xffffff;
	process->process.maps = change(spaces, process->process.maps, put.start, put.end, &put);
}

static enum space_change apply_ksymbol(struct spaces *spaces, const struct record_ksymbol *symbol)
{
	struct process_entry *kernel = get_process(spaces, KERNEL_PID);
	uint64_t end = symbol->length > UINT64_MAX - symbol->addr ? UINT64_MAX : symbol->addr + symbol->length;

	if (symbol->length == 0)
		return SPACE_NONE;
	if (symbol->flags & PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER) {
		const struct mapping *m = maps_find(kernel->process.maps, symbol->addr);
		// Only what a KSYMBOL put there: the end of a symbol inside the kernel's own text must not tear it.
		if (m == NULL || m->start != symbol->addr || dso_get(&spaces->dsos, m->dso)->kind != DSO_SPECIAL)
			return SPACE_NONE;
		kernel->process.maps = change(spaces, kernel->process.maps, m->start, m->end, NULL);
		return SPACE_MAPPED;
	}
	struct dso key = { .path = symbol->name, .kind = DSO_SPECIAL };
	struct mapping put = { .start = symbol->addr, .end = end, .pgoff = symbol->addr, .dso = dso_intern(&spaces->dsos, &key),
		.protection = PROT_READ | PROT_EXEC };
	kernel->process.maps = change(spaces, kernel->process.maps, put.start, put.end, &put);
	return SPACE_MAPPED;
}

// ---------------------------------------------------------------- tasks

// A process under a number that was in use before: nothing of the old one is left.
static void start_over(struct spaces *spaces, struct process_entry *entry)
{
	forget_threads(spaces, entry);
	struct maps *old = entry->process.maps;
	entry->process = (struct process){ .pid = entry->process.pid, .parent_pid = -1, .maps = maps_retain(spaces->empty) };
	maps_release(old);
	entry->exit_ns = 0;
}

static enum space_change apply_fork(struct spaces *spaces, const struct record *record, bool synthesized)
{
	const struct record_task *task = &record->task;
	int32_t pid = (int32_t)task->pid, parent_pid = (int32_t)task->ppid, tid = (int32_t)task->tid;
	uint64_t time_ns = record->id.time_ns != 0 ? record->id.time_ns : task->time_ns;
	const struct thread_entry *by = find_thread(spaces, parent_pid, (int32_t)task->ptid);

	if (pid == parent_pid) { // a thread: it shares everything
		struct process_entry *process = get_process(spaces, pid);
		uint32_t comm = by != NULL ? by->thread.comm : process->process.comm;
		struct thread_entry *thread = get_thread(spaces, pid, tid);
		if (!synthesized || thread->thread.comm == 0)
			thread->thread.comm = comm;
		revive(thread);
		return SPACE_FORKED;
	}
	if (synthesized) { // who is whose child, as /proc says: the maps follow as records of their own
		struct process_entry *process = get_process(spaces, pid);
		process->process.parent_pid = parent_pid;
		process->process.maps_known = true;
		if (process->process.start_ns == 0)
			process->process.start_ns = time_ns;
		(void)get_thread(spaces, pid, tid);
		return SPACE_FORKED;
	}
	struct process_entry *parent = get_process(spaces, parent_pid);
	uint32_t comm = by != NULL ? by->thread.comm : parent->process.comm;
	struct process_entry *child = get_process(spaces, pid);
	start_over(spaces, child);
	child->process.parent_pid = parent_pid;
	child->process.start_ns = child->process.program_ns = time_ns;
	child->process.comm = comm;
	child->process.is_target = parent->process.is_target;
	child->process.maps_known = parent->process.maps_known;
	set_maps(child, parent->process.maps);
	struct thread_entry *thread = get_thread(spaces, pid, tid);
	thread->thread.comm = comm;
	return SPACE_FORKED;
}

static enum space_change apply_comm(struct spaces *spaces, const struct record *record, bool synthesized)
{
	int32_t pid = (int32_t)record->comm.pid, tid = (int32_t)record->comm.tid;
	struct process_entry *process = get_process(spaces, pid);
	struct thread_entry *thread = get_thread(spaces, pid, tid);
	uint32_t comm = intern_string(&spaces->names, record->comm.comm);

	revive(thread);
	thread->thread.comm = comm;
	if (tid == pid || process->process.comm == 0)
		process->process.comm = comm;
	if (process->process.start_ns == 0)
		process->process.start_ns = record->id.time_ns;
	if (synthesized)
		process->process.maps_known = true;
	if (!record->comm.is_exec)
		return SPACE_NONE;
	// exec(2) ends all other threads, and the one that calls it takes the number of the process.
	for (struct thread_entry *t = process->threads; t != NULL; t = t->next)
		if (t->thread.tid != pid)
			kill_thread(spaces, t, record->id.time_ns);
	process->process.comm = comm;
	process->process.has_exec = true;
	process->process.program_ns = record->id.time_ns;
	process->process.maps_known = true;
	set_maps(process, spaces->empty);
	return SPACE_EXECED;
}

static enum space_change apply_exit(struct spaces *spaces, const struct record *record)
{
	const struct record_task *task = &record->task;

	// Nothing is made just to die: a thread nobody knew leaves no trace, except the main one, on which the process hangs.
	if (find_process(spaces, (int32_t)task->pid) == NULL ||
	    (task->tid != task->pid && find_thread(spaces, (int32_t)task->pid, (int32_t)task->tid) == NULL))
		return SPACE_EXITED;
	struct thread_entry *thread = get_thread(spaces, (int32_t)task->pid, (int32_t)task->tid);
	kill_thread(spaces, thread, record->id.time_ns != 0 ? record->id.time_ns : task->time_ns);
	return SPACE_EXITED;
}

enum space_change spaces_apply(struct spaces *spaces, const struct record *record, bool synthesized)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
		return apply_mapping(spaces, record, synthesized);
	case PERF_RECORD_COMM:
		return apply_comm(spaces, record, synthesized);
	case PERF_RECORD_FORK:
		return apply_fork(spaces, record, synthesized);
	case PERF_RECORD_EXIT:
		return apply_exit(spaces, record);
	case PERF_RECORD_KSYMBOL:
		return apply_ksymbol(spaces, &record->ksymbol);
	default:
		return SPACE_NONE;
	}
}

struct process *spaces_process(struct spaces *spaces, int32_t pid)
{
	return &get_process(spaces, pid)->process;
}

struct process *spaces_find_process(const struct spaces *spaces, int32_t pid)
{
	struct process_entry *entry = find_process(spaces, pid);
	return entry != NULL ? &entry->process : NULL;
}

struct thread *spaces_thread(struct spaces *spaces, int32_t pid, int32_t tid)
{
	return &get_thread(spaces, pid, tid)->thread;
}

const struct mapping *spaces_find(const struct spaces *spaces, int32_t pid, uint64_t addr)
{
	const struct process_entry *entry = find_process(spaces, pid);
	return entry != NULL ? maps_find(entry->process.maps, addr) : NULL;
}

const struct mapping *spaces_find_kernel(const struct spaces *spaces, uint64_t addr)
{
	return spaces_find(spaces, KERNEL_PID, addr);
}

void spaces_forget_maps(struct spaces *spaces, int32_t pid)
{
	struct process_entry *entry = find_process(spaces, pid);
	if (entry == NULL)
		return;
	set_maps(entry, spaces->empty);
	entry->process.maps_known = false;
}

void spaces_forget_process(struct spaces *spaces, int32_t pid)
{
	struct process_entry *entry = find_process(spaces, pid);
	if (entry != NULL)
		forget_process(spaces, entry);
}

void spaces_reap(struct spaces *spaces, uint64_t before_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < spaces->deaths.count; i++) {
		struct death death = spaces->deaths.data[i];
		struct thread_entry *thread = find_thread(spaces, death.pid, death.tid);
		// Gone already, or the number lives again.
		if (thread == NULL || !thread->thread.exited || thread->exit_ns != death.time_ns)
			continue;
		struct process_entry *process = thread->process;
		if (death.time_ns >= before_ns || (death.tid == death.pid && !process->process.exited)) {
			spaces->deaths.data[kept++] = death; // the main thread stays as long as the process
			continue;
		}
		if (process->process.exited && process->exit_ns < before_ns)
			forget_process(spaces, process);
		else if (death.tid != death.pid)
			forget_thread(spaces, thread);
		else
			spaces->deaths.data[kept++] = death;
	}
	spaces->deaths.count = kept;
}

uint64_t spaces_refused_mappings(const struct spaces *spaces)
{
	return spaces->refused;
}

void spaces_limit_bytes(struct spaces *spaces, uint64_t bytes)
{
	spaces->pool->limit_bytes = bytes;
}

static int by_pid(const void *a, const void *b)
{
	int32_t x = (*(struct process *const *)a)->pid, y = (*(struct process *const *)b)->pid;
	return (x > y) - (x < y);
}

void spaces_each_process(struct spaces *spaces, void (*visit)(struct process *process, void *context), void *context)
{
	VEC(struct process *) sorted = { 0 };
	for (size_t i = 0; i < spaces->processes.count; i++)
		if (spaces->processes.data[i] != NULL)
			vec_push(&sorted, &spaces->processes.data[i]->process);
	if (sorted.count > 1)
		sort_stable(sorted.data, sorted.count, sizeof(*sorted.data), by_pid);
	for (size_t i = 0; i < sorted.count; i++)
		visit(sorted.data[i], context);
	vec_release(&sorted);
}
