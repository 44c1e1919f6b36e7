#include "record/drain.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "record/jit_files.h"
#include "record/jit_objects.h"
#include "record/jit_pages.h"
#include "record/stack_pages.h"

static const uint64_t TICK_NS = 1000 * 1000 * 1000;
static const uint64_t REAP_NS = UINT64_C(5) * 1000 * 1000 * 1000;
static const uint64_t STACK_PAGE_SOON_NS = UINT64_C(1) * 1000 * 1000 * 1000; // what one thread's stack lacks, the next one's may
static const uint64_t JIT_SOON_NS = UINT64_C(1) * 1000 * 1000 * 1000;

static void settle(void *context)
{
	drain_walk_jobs(context);
}

void drain_init(struct drain *drain)
{
	drain->unwinder = unwinder_new();
	drain->frames = mem_alloc(STACK_JOBS * UNWIND_MAX_FRAMES * sizeof(*drain->frames)); // a page is touched when a stack is as deep
	drain->merge.settle = settle;
	aside_init(&drain->aside, ASIDE_BYTES);
	drain->code_waits = CODE_WAITS_MOST;
	sampled_init(&drain->sampled);
	drain->now_ns = drain->reap_ns = perf_clock_ns(&drain->clock);
	drain->tick_ns = drain->now_ns + TICK_NS;
	drain_reset_events(drain);
}

void drain_reset_events(struct drain *drain)
{
	size_t count = drain->set->events.count;
	free(drain->layouts);
	free(drain->heads);
	drain->layouts = mem_zero(count + 1, sizeof(*drain->layouts));
	drain->heads = mem_zero(drain->set->rings.count + 1, sizeof(*drain->heads));
	free(drain->periods);
	drain->periods = mem_zero(count + 1, sizeof(*drain->periods));
	for (size_t e = 0; e < count; e++) {
		struct perf_event_attr attr = drain->set->events.data[e].attr;
		if (drain->set->events.data[e].samples && (attr.sample_type & PERF_SAMPLE_PERIOD) == 0) {
			attr.sample_type |= PERF_SAMPLE_PERIOD;
			drain->periods[e] = attr.sample_period;
		}
		record_layout_init(&drain->layouts[e], &attr, false);
	}
	record_layout_init(&drain->layouts[count], drain->set->has_sideband ? &drain->set->sideband_attr : &drain->set->events.data[0].attr, false);
	hash_map_clear(&drain->fd_streams);
	hash_map_clear(&drain->doubtful);
	drain_learn_ids(drain);
}

void drain_learn_ids(struct drain *drain)
{
	uint32_t count = (uint32_t)drain->set->events.count;
	for (size_t i = 0; i < drain->set->fds.count; i++) {
		const struct event_fd *fd = &drain->set->fds.data[i];
		hash_map_put(&drain->by_id, fd->id, fd->event == EVENT_SIDEBAND ? count : fd->event, NULL);
	}
}

void drain_release(struct drain *drain)
{
	aside_release(&drain->aside);
	sampled_release(&drain->sampled);
	unwinder_free(drain->unwinder);
	free(drain->frames);
	free(drain->layouts);
	free(drain->heads);
	free(drain->periods);
	buf_release(&drain->completed);
	buf_release(&drain->joined);
	hash_map_release(&drain->by_id);
	hash_map_release(&drain->fd_streams);
	hash_map_release(&drain->doubtful);
	hash_map_release(&drain->threads);
	hash_map_release(&drain->pids);
	hash_map_release(&drain->seen);
	vec_release(&drain->tops);
	vec_release(&drain->throttled);
}

void drain_doubt(struct drain *drain, const int32_t *tids, size_t count, bool wakes)
{
	for (size_t i = 0; i < count; i++)
		hash_map_put(&drain->doubtful, drain_stream(tids[i], wakes), 1, NULL);
	for (size_t i = 0; count > 0 && i < drain->set->fds.count; i++) {
		const struct event_fd *fd = &drain->set->fds.data[i];
		hash_map_put(&drain->fd_streams, fd->id, drain_stream(fd->tid, fd->wakes), NULL);
	}
}

// Closes the direct events of threads that turned out to have inherited ones: their time_running must not count twice either.
static void close_second_streams(struct drain *drain)
{
	size_t kept = 0;
	for (size_t i = 0; i < drain->set->fds.count; i++) {
		struct event_fd *fd = &drain->set->fds.data[i];
		const uint32_t *state = hash_map_get(&drain->doubtful, drain_stream(fd->tid, fd->wakes));
		bool goes = state != NULL && *state == 2;
		for (size_t r = 0; goes && r < drain->set->rings.count; r++)
			goes = drain->set->rings.data[r].fd != fd->fd;
		if (!goes) {
			drain->set->fds.data[kept++] = *fd;
			continue;
		}
		tails_closing(drain->tails, fd->fd);
		close(fd->fd);
	}
	bool some_went = kept < drain->set->fds.count;
	drain->set->fds.count = kept;
	if (some_went)
		tails_look(drain->tails);
}

// ---------------------------------------------------------------- records
// Every event of a set has the same fields up to the time, so any layout tells where id and time stand (asked for by the session).
static uint64_t time_of(void *context, size_t ring, const struct perf_event_header *header)
{
	const struct drain *drain = context;
	uint64_t time_ns = 0;
	(void)ring;
	size_t layout = header->type == PERF_RECORD_SAMPLE ? 0 : drain->set->events.count;
	return record_peek_time(&drain->layouts[layout], header, &time_ns) ? time_ns : 0;
}

uint32_t drain_event_of(const struct drain *drain, const struct perf_event_header *header)
{
	uint64_t id;
	uint32_t count = (uint32_t)drain->set->events.count;
	if (!record_peek_id(&drain->layouts[header->type == PERF_RECORD_SAMPLE ? 0 : count], header, &id))
		return header->type == PERF_RECORD_SAMPLE ? 0 : count;
	const uint32_t *event = hash_map_get(&drain->by_id, id);
	return event != NULL ? *event : header->type == PERF_RECORD_SAMPLE ? 0 : count;
}

static struct jit_program program_of(const struct drain *drain, int32_t pid)
{
	const struct process *process = spaces_find_process(drain->spaces, pid);
	return (struct jit_program){ pid, process != NULL ? process->program_ns : 0 };
}

// The image of a mapping is wanted as soon as it is mapped: the process may be gone in a millisecond.
static void mapped(struct drain *drain, const struct record *record)
{
	if ((int32_t)record->mapping.pid < 0)
		return;
	const struct mapping *mapping = spaces_find(drain->spaces, (int32_t)record->mapping.pid, record->mapping.start);
	if (mapping == NULL || mapping->start != record->mapping.start)
		return;
	const struct dso *dso = dso_get(spaces_dsos(drain->spaces), mapping->dso);
	if (drain->pages != NULL && dso->kind == DSO_ANON)
		jit_pages_mapped(drain->pages, (int32_t)record->mapping.pid, mapping->start, record->mapping.start + record->mapping.length, record->id.time_ns);
	if (drain->want_names && (dso->kind == DSO_ANON || dso->kind == DSO_FILE))
		jit_objects_mapped(drain->objects, program_of(drain, (int32_t)record->mapping.pid), mapping->start,
		                   record->mapping.start + record->mapping.length, dso->kind == DSO_FILE, record->id.time_ns);
	// Raw stacks need what no other host has.
	bool is_in_memory = dso->kind == DSO_ANON || dso->kind == DSO_VDSO;
	if (drain->mode != CHAIN_LIVE && (drain->mode == CHAIN_POST ? !is_in_memory && !drain->want_names : dso->kind == DSO_ANON || !drain->want_names))
		return;
	if (dso->kind == DSO_ANON && images_has_jit(drain->images, (int32_t)record->mapping.pid)) { // a query's code where the last one's was
		spaces_renew(drain->spaces, (int32_t)record->mapping.pid, mapping->start);
		mapping = spaces_find(drain->spaces, (int32_t)record->mapping.pid, record->mapping.start);
	}
	if (dso_is_jitdump(dso))
		jit_files_want_dump(drain->files, program_of(drain, (int32_t)record->mapping.pid), dso->path);
	else if (images_want(drain->images, spaces_dsos(drain->spaces), mapping, (int32_t)record->mapping.pid, record->id.time_ns))
		drain->jit_ns = drain->now_ns;
}

static void forked(struct drain *drain, const struct record *record, bool synthesized)
{
	drain->ledger->births += !synthesized;
	if (record->task.pid == record->task.ppid)
		return; // a thread
	const struct process *parent = spaces_find_process(drain->spaces, (int32_t)record->task.ppid);
	bool is_target = parent != NULL && parent->is_target;
	struct procfs_birth birth;
	// /proc read again after a loss shows children that were there before, too.
	if (is_target && synthesized)
		is_target = procfs_birth((int32_t)record->task.pid, &birth) && family_is_new(&drain->since, (int32_t)record->task.pid, birth.ticks);
	// What /proc says adds to the descent, but a root stays one whoever its parent is.
	if (is_target || !synthesized)
		spaces_process(drain->spaces, (int32_t)record->task.pid)->is_target = is_target;
}

// Of strangers (CPU-wide events, filtered) only what makes them known is kept in mind; nothing of it goes into the file.
static bool is_ours(const struct drain *drain, int32_t pid)
{
	if (!drain->filter || pid < 0)
		return true;
	const struct process *process = spaces_find_process(drain->spaces, pid);
	return process != NULL && process->is_target;
}

static int32_t subject(const struct record *record)
{
	switch (record->type) {
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2: return (int32_t)record->mapping.pid;
	case PERF_RECORD_COMM: return (int32_t)record->comm.pid;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: return (int32_t)record->task.pid;
	default: return -1;
	}
}

// Records that lead to nothing of ours: a host that compiles says a lot. A child of ours is ours, and a number that one of ours had is another's now.
static bool is_of_strangers(const struct drain *drain, const struct record *record)
{
	int32_t pid = subject(record);
	if (is_ours(drain, pid))
		return false;
	return record->type != PERF_RECORD_FORK || (!is_ours(drain, (int32_t)record->task.ppid) && spaces_find_process(drain->spaces, pid) == NULL);
}

// The kernel ends a task's events when it executes a program that others may not look into (set-user-ID and the like, begin_new_exec in fs/exec.c): it says EXIT
// behind the exec, before anything of the program is mapped.
static bool ends_by_exec(const struct drain *drain, const struct record *record)
{
	if (record->type != PERF_RECORD_EXIT || record->task.pid != record->task.tid)
		return false;
	const struct process *process = spaces_find_process(drain->spaces, (int32_t)record->task.pid);
	return process != NULL && process->has_exec && process->maps->count == 0;
}

static void take_sideband(struct drain *drain, const struct record *record, uint64_t time_ns, bool synthesized)
{
	if (is_of_strangers(drain, record))
		return;
	const struct jit_program program = program_of(drain, subject(record)); // that there was before
	drain->unseen_execs += ends_by_exec(drain, record);
	enum space_change change = spaces_apply(drain->spaces, record, synthesized);
	drain->ledger->sideband_records++;
	if (change == SPACE_FORKED)
		forked(drain, record, synthesized);
	if (!is_ours(drain, subject(record)))
		return;
	if ((record->type == PERF_RECORD_FORK || record->type == PERF_RECORD_COMM) && subject(record) > 0)
		hash_map_put(&drain->seen, (uint32_t)subject(record), 1, NULL);
	if (change == SPACE_MAPPED && !synthesized) {
		drain->found_births = true;
		mapped(drain, record);
	}
	bool is_other = change == SPACE_EXECED || ((change == SPACE_EXITED || change == SPACE_FORKED) && record->task.pid == record->task.tid);
	if (drain->pages != NULL && is_other && !synthesized)
		jit_pages_ended(drain->pages, subject(record), time_ns);
	if (change == SPACE_EXITED && is_other)
		jit_files_exited(drain->files, program);
	else if (is_other && !synthesized)
		jit_files_over(drain->files, program, time_ns);
	output_add(drain->output, record->header, record->size, time_ns);
}

static void take_lost(struct drain *drain, const struct record *record, uint32_t event)
{
	ledger_record(drain->ledger, drain->ring_now, record->id.time_ns, record->id.cpu, record->lost.lost);
	if (drain->set->has_format_lost)
		return; // the counters say it better (PERF_RECORD_LOST is short by what was lost after the last success)
	if (event < drain->set->events.count)
		drain->ledger->events.data[event].lost_records += record->lost.lost;
	else
		drain->ledger->sideband_lost += record->lost.lost;
	drain->reread_wanted = true; // it names no kind of record
}

static void take_throttle(struct drain *drain, const struct record *record, uint64_t time_ns)
{
	size_t i = 0;
	while (i < drain->throttled.count && drain->throttled.data[i].id != record->throttle.id)
		i++;
	bool known = i < drain->throttled.count;
	if (record->type == PERF_RECORD_THROTTLE && !known) {
		vec_push(&drain->throttled, (struct drain_throttle){ .id = record->throttle.id, .since_ns = time_ns });
	} else if (record->type == PERF_RECORD_UNTHROTTLE && known) {
		drain->ledger->throttled_ns += time_ns - drain->throttled.data[i].since_ns;
		drain->throttled.data[i] = drain->throttled.data[--drain->throttled.count];
	}
}

// The sample with its period, behind the fields before it (perf_event_open(2), PERF_RECORD_SAMPLE). NULL: there is no room or it is broken.
static struct perf_event_header *with_period(struct drain *drain, const struct perf_event_header *header, uint32_t event)
{
	const uint64_t before = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR | PERF_SAMPLE_ID |
	                        PERF_SAMPLE_STREAM_ID | PERF_SAMPLE_CPU;
	size_t at = sizeof(*header) + 8 * (size_t)__builtin_popcountll(drain->layouts[event].sample_type & before);
	if (header->size < at || header->size > UINT16_MAX - 8)
		return NULL;
	buf_clear(&drain->completed);
	buf_add(&drain->completed, header, at);
	buf_u64(&drain->completed, drain->periods[event]);
	buf_add(&drain->completed, (const uint8_t *)header + at, header->size - at);
	struct perf_event_header *completed = (void *)drain->completed.data;
	completed->size = (uint16_t)drain->completed.size;
	return completed;
}

static void take(void *context, const struct merge_item *item)
{
	struct drain *drain = context;
	struct record record;
	uint32_t event = drain_event_of(drain, item->header);
	struct perf_event_header *header = item->header;
	drain->ring_now = item->ring;
	if (header->type == PERF_RECORD_SAMPLE && drain->periods[event] > 0)
		header = with_period(drain, header, event);
	if (header == NULL || !record_decode(&drain->layouts[event], header, header->size, &record, NULL)) {
		drain->ledger->broken++;
		if (item->header->type == PERF_RECORD_SAMPLE && event < drain->set->events.count)
			drain->ledger->events.data[event].dropped++;
		return;
	}
	if (record.type != PERF_RECORD_SAMPLE && record.type != PERF_RECORD_SWITCH && record.type != PERF_RECORD_SWITCH_CPU_WIDE)
		drain_walk_jobs(drain);
	if (record.type != PERF_RECORD_LOST)
		ledger_record(drain->ledger, item->ring, item->time_ns, 0, 0);
	switch (record.type) {
	case PERF_RECORD_SAMPLE:
		if (record.id.time_ns == 0)
			record.id.time_ns = item->time_ns;
		if (event < drain->set->events.count)
			drain_take_sample(drain, &record, event);
		if (header != item->header)
			drain_walk_jobs(drain); // the next sample's period comes to the same place
		return;
	case PERF_RECORD_LOST:
		take_lost(drain, &record, event);
		break;
	case PERF_RECORD_THROTTLE:
	case PERF_RECORD_UNTHROTTLE:
		take_throttle(drain, &record, item->time_ns);
		break;
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		return; // the readers' of stacks beyond the copy
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_COMM:
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
	case PERF_RECORD_KSYMBOL:
		take_sideband(drain, &record, item->time_ns, false);
		return;
	default:
		break;
	}
	output_add(drain->output, item->header, item->header->size, item->time_ns);
}

void drain_synthesized(struct drain *drain, const void *records, size_t bytes, bool starting)
{
	struct record_layout *layout = &drain->layouts[drain->set->events.count];
	for (size_t at = 0; at + sizeof(struct perf_event_header) <= bytes;) {
		struct perf_event_header *header = (void *)((uint8_t *)(uintptr_t)records + at);
		struct record record;
		if (header->size < sizeof(*header) || header->size > bytes - at)
			break;
		if (record_decode(layout, header, header->size, &record, NULL))
			take_sideband(drain, &record, starting ? 0 : drain->now_ns, true);
		at += header->size;
	}
}

// ---------------------------------------------------------------- passes
struct known { VEC(int32_t) pids; const struct drain *drain; };

static void add_known(struct process *process, void *context)
{
	struct known *known = context;
	if (process->pid > 0 && !process->exited && (!known->drain->filter || process->is_target))
		vec_push(&known->pids, process->pid);
}

// Side-band records were lost: what is mapped where is no longer known. /proc is read again, on the helper thread; until its answer is in, addresses
// are looked up in what was known.
static void ask_again(struct drain *drain)
{
	struct known known = { .drain = drain };
	struct buf trailer = { 0 };
	uint64_t id = 0;
	for (size_t i = 0; i < drain->set->fds.count && id == 0; i++)
		if (drain->set->fds.data[i].event == EVENT_SIDEBAND)
			id = drain->set->fds.data[i].id;
	ledger_trailer(&trailer, &drain->set->sideband_attr, 0, 0, drain->now_ns, id, 0);
	for (size_t i = 0; i < drain->root_count; i++)
		vec_push(&known.pids, drain->roots[i]);
	spaces_each_process(drain->spaces, add_known, &known);
	const struct images_reread what = {
		.pids = known.pids.data, .count = known.pids.count, .roots = drain->root_count, .everybody = drain->any_pid, .trailer = trailer.data,
		.trailer_bytes = trailer.size,
	};
	if (images_reread(drain->images, &what)) {
		drain->ledger->rereads++;
		drain->reread_wanted = false;
		drain->rereading = true;
	}
	vec_release(&known.pids);
	buf_release(&trailer);
}

static void forget_maps(struct process *process, void *context)
{
	struct drain *drain = context;
	if (process->pid > 0 && !process->exited && (!drain->filter || process->is_target))
		spaces_forget_maps(drain->spaces, process->pid);
}

static void take_answer(struct drain *drain)
{
	struct buf records = { 0 };
	if (!images_reread_done(drain->images, &records))
		return;
	drain->rereading = false;
	spaces_each_process(drain->spaces, forget_maps, drain);
	if (drain->held_pid >= 0 && atomic_load(&drain->held_runs)) // its exec may have been among what was lost
		spaces_process(drain->spaces, drain->held_pid)->has_exec = true;
	drain_synthesized(drain, records.data, records.size, false);
	buf_release(&records);
}

// Dated when they were read: the samples that they count stand before them in the file, whether they have come out of their rings by now or not.
static void tick(struct drain *drain)
{
	struct ledger_context context = {
		.set = drain->set, .attrs = drain->file_attrs, .cpus = drain->cpus, .output = drain->output, .now_ns = perf_clock_ns(&drain->clock),
	};
	drain->counters_ns = context.now_ns;
	drain->ledger->late = drain->merge.late;
	if (ledger_read(drain->ledger, &context))
		drain->reread_wanted = true;
}

// How to unwind code is known now, or no longer: what caches know of its mappings holds no more.
static void renew_code(void *context, struct jit_program program)
{
	struct drain *drain = context;
	const struct process *process = spaces_find_process(drain->spaces, program.pid);
	VEC(uint64_t) starts = { 0 };
	for (uint32_t i = 0; process != NULL && process->program_ns == program.since_ns && i < process->maps->count; i++)
		if (dso_get(spaces_dsos(drain->spaces), process->maps->items[i].dso)->kind == DSO_ANON)
			vec_push(&starts, process->maps->items[i].start);
	for (size_t i = 0; i < starts.count; i++)
		spaces_renew(drain->spaces, program.pid, starts.data[i]);
	vec_release(&starts);
}

void drain_pass(struct drain *drain, bool last)
{
	jit_objects_news(drain->objects, renew_code, drain);
	drain->now_ns = perf_clock_ns(&drain->clock);
	tails_look(drain->tails);
	if (drain->rereading)
		take_answer(drain);
	if (drain->pages != NULL)
		(void)jit_pages_take(drain->pages);
	if (drain->stack_pages != NULL && stack_pages_take(drain->stack_pages))
		drain->stack_page_ns = drain->now_ns;
	if (drain->aside.waiting > 0)
		drain_retry_aside(drain, false);
	drain->found_births = false;
	drain->code_waits = drain->code_waits + CODE_WAITS_A_PASS < CODE_WAITS_MOST ? drain->code_waits + CODE_WAITS_A_PASS : CODE_WAITS_MOST;
	merge_pass(&drain->merge, drain->set->rings.data, drain->set->rings.count, last ? UINT64_MAX : drain->now_ns - DRAIN_SLACK_NS, time_of, take, drain);
	uint64_t horizon = drain->merge.reached_ns; // readers that lag behind kept back the rest
	tails_done(drain->tails);
	if (drain->pages != NULL)
		images_read_pages(drain->images, drain->pages);
	images_find_names(drain->images, drain->files, drain->objects, drain->now_ns, last);
	if (drain->stack_pages != NULL)
		images_read_stack_pages(drain->images, drain->stack_pages);
	drain->most_bytes = 0;
	for (size_t r = 0; r < drain->set->rings.count; r++) {
		size_t bytes = (size_t)(drain->set->rings.data[r].head - drain->heads[r]);
		drain->heads[r] = drain->set->rings.data[r].head;
		drain->most_bytes = bytes > drain->most_bytes ? bytes : drain->most_bytes;
	}
	drain->found_births |= drain->stack_page_ns > 0 && drain->now_ns - drain->stack_page_ns < STACK_PAGE_SOON_NS;
	drain->found_births |= drain->jit_ns > 0 && drain->now_ns - drain->jit_ns < JIT_SOON_NS;
	if (drain->doubtful.count > 0)
		close_second_streams(drain);
	drain->ticked = last || drain->now_ns >= drain->tick_ns;
	// The file is whole again when the counters can be handed on, which is in the next pass: what the kernel committed just now is not taken yet.
	bool is_whole = last || (drain->counters_ns > 0 && (horizon >= drain->counters_ns || drain->ticked));
	if (is_whole)
		drain->counters_ns = 0;
	bool is_early = drain->early_ns > 0 && drain->now_ns >= drain->early_ns;
	if (is_early) // a disk may be full, or the recorder be gone, before the first second is over
		drain->early_ns = drain->early_ns < drain->tick_ns - TICK_NS / 2 ? drain->tick_ns - TICK_NS / 2 : 0;
	if (drain->ticked || is_early)
		tick(drain);
	if (drain->ticked)
		drain->tick_ns = drain->now_ns + TICK_NS;
	if (drain->reread_wanted && !drain->rereading && !last)
		ask_again(drain);
	if (drain->now_ns - drain->reap_ns > REAP_NS) {
		spaces_reap(drain->spaces, drain->reap_ns);
		drain->reap_ns = drain->now_ns;
	}
	uint64_t oldest = aside_oldest_ns(&drain->aside);
	output_release(drain->output, oldest < horizon ? oldest : horizon);
	output_hand(drain->output, drain->now_ns, is_whole);
}

// ---------------------------------------------------------------- waiting
struct drain_poll {
	struct pollfd *fds; // [0]: the wake-up
	size_t count;
};

struct drain_poll *drain_poll_new(const struct event_set *set, int wake_fd)
{
	struct drain_poll *poll = NEW(struct drain_poll);
	poll->fds = mem_zero(set->rings.count + 1, sizeof(*poll->fds));
	poll->fds[0] = (struct pollfd){ .fd = wake_fd, .events = POLLIN };
	for (size_t i = 0; i < set->rings.count; i++)
		poll->fds[i + 1] = (struct pollfd){ .fd = set->rings.data[i].fd, .events = POLLIN };
	poll->count = set->rings.count + 1;
	return poll;
}

bool drain_poll_wait(struct drain_poll *set, int timeout_ms)
{
	uint64_t wakes;
	int ready = poll(set->fds, set->count, timeout_ms);
	if (ready <= 0)
		return ready < 0;
	if (set->fds[0].revents != 0)
		(void)!read(set->fds[0].fd, &wakes, sizeof(wakes)); // else it would be ready for ever
	// A ring whose tasks are all gone says POLLHUP for ever: a real-time thread that polls on would take the CPU.
	for (size_t i = 1; i < set->count;) {
		if (set->fds[i].revents & (POLLHUP | POLLERR | POLLNVAL))
			set->fds[i] = set->fds[--set->count];
		else
			i++;
	}
	return true;
}

size_t drain_poll_live(const struct drain_poll *poll)
{
	return poll->count - 1;
}

void drain_poll_free(struct drain_poll *poll)
{
	if (poll == NULL)
		return;
	free(poll->fds);
	free(poll);
}
