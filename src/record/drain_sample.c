// One sample: whose it is, its stack, its way into the output.
#include <elf.h>

#include "record/budget.h"
#include "record/drain.h"
#include "record/go_threads.h"
#include "record/jit_files.h"
#include "record/jit_objects.h"
#include "record/jit_pages.h"
#include "record/sample.h"
#include "record/stack_pages.h"

static const uint64_t ASIDE_MAX_NS = 1000 * 1000 * 1000, CODE_MAX_NS = 250 * 1000 * 1000;

struct lookup {
	struct drain *drain;
	const struct maps *maps;
	int32_t pid;
	uint64_t time_ns;
	bool give_up; // an image that is not there yet counts as missing
	bool lacks_code; // bytes of JIT code were asked for that are about to be read
};

static struct unwind_map map_at(void *context, uint64_t addr)
{
	struct lookup *lookup = context;
	const struct mapping *mapping = maps_find(lookup->maps, addr);
	if (mapping == NULL)
		return (struct unwind_map){ .missing = UNWIND_NO_MAPPING };
	const struct dso *dso = dso_get(spaces_dsos(lookup->drain->spaces), mapping->dso);
	struct unwind_map map;
	if (dso->kind == DSO_ANON && jit_objects_map(lookup->drain->objects, (struct jit_program){ (int32_t)dso->pid, dso->since_ns }, addr, &map))
		return map;
	return images_map(lookup->drain->images, spaces_dsos(lookup->drain->spaces), mapping, lookup->pid, lookup->give_up);
}

static struct unwind_code code_at(void *context, uint64_t addr)
{
	struct lookup *lookup = context;
	struct drain *drain = lookup->drain;
	const struct jit_sample sample = { lookup->pid, lookup->maps->generation, lookup->time_ns };
	struct unwind_code code;
	if (jit_pages_recent(drain->pages, &sample, addr, &code))
		return code;
	const struct mapping *mapping = maps_find(lookup->maps, addr);
	if (mapping == NULL || dso_get(spaces_dsos(drain->spaces), mapping->dso)->kind != DSO_ANON)
		return (struct unwind_code){ 0 };
	return jit_pages_code(drain->pages, &sample, addr, mapping->start, mapping->end, &lookup->lacks_code);
}

static uint64_t *stack_top_of(struct drain *drain, int32_t tid)
{
	bool is_new;
	uint32_t *index = hash_map_put(&drain->threads, (uint32_t)tid, (uint32_t)drain->tops.count, &is_new);
	if (is_new)
		vec_push(&drain->tops, 0);
	return &drain->tops.data[*index];
}

// ---------------------------------------------------------------- names to look up later
// A process that was there before has mapped its dump already.
static void want_jitdump(struct drain *drain, const struct maps *maps, struct jit_program program)
{
	for (uint32_t i = 0; i < maps->count; i++) {
		const struct dso *dso = dso_get(spaces_dsos(drain->spaces), maps->items[i].dso);
		if (dso_is_jitdump(dso)) {
			jit_files_want_dump(drain->files, program, dso->path);
			return;
		}
	}
}

static void want_files(struct drain *drain, const struct maps *maps, const struct dso *dso)
{
	// Of a process that was forked since, it is its parent's code.
	const struct jit_program program = { (int32_t)dso->pid, dso->since_ns };
	if (dso->kind != DSO_ANON)
		return;
	jit_objects_sampled(drain->objects, program);
	if (jit_files_want_map(drain->files, program))
		want_jitdump(drain, maps, program);
}

static void collect_user(struct drain *drain, const struct maps *maps, const struct frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t addr = frame_lookup_addr(&frames[i]);
		if (sampled_is_known(&drain->sampled, maps->generation, addr))
			continue;
		const struct mapping *mapping = maps_find(maps, addr);
		if (mapping == NULL)
			continue;
		const struct dso *dso = dso_get(spaces_dsos(drain->spaces), mapping->dso);
		want_files(drain, maps, dso);
		sampled_user(&drain->sampled, dso, mapping, maps->generation, addr);
	}
}

static void collect_kernel(struct drain *drain, const uint64_t *chain, uint64_t count)
{
	bool first = true;
	for (uint64_t i = 0; i < count && chain[i] != (uint64_t)PERF_CONTEXT_USER; i++) {
		if (chain[i] >= (uint64_t)PERF_CONTEXT_MAX)
			continue;
		uint64_t addr = first ? chain[i] : chain[i] - 1; // a return address belongs to the call before it
		first = false;
		if (sampled_is_known(&drain->sampled, SAMPLED_KERNEL_GENERATION, addr))
			continue;
		const struct mapping *mapping = spaces_find_kernel(drain->spaces, addr);
		sampled_kernel(&drain->sampled, mapping != NULL ? mapping->dso : DSO_NONE, addr);
	}
}

// The user part of a chain that the kernel walked by frame pointers.
static void collect_chain(struct drain *drain, const struct record *record, const struct maps *maps)
{
	const uint64_t *chain = record->sample.callchain;
	uint64_t count = record->sample.callchain_count, i = 0;
	collect_kernel(drain, chain, count);
	while (i < count && chain[i] != (uint64_t)PERF_CONTEXT_USER)
		i++;
	for (uint64_t first = ++i; i < count; i++) {
		struct frame frame = { .addr = chain[i], .kind = i == first ? FRAME_LEAF : FRAME_RETURN };
		collect_user(drain, maps, &frame, 1);
	}
}

// ---------------------------------------------------------------- into the output
// `note`: of a stack that was unwound; NULL: it was not.
static void keep_books(struct drain *drain, const struct record *record, uint32_t event, const struct note *note)
{
	ledger_take(drain->ledger, &(struct ledger_taken){ .event = event, .weight = drain->set->events.data[event].attr.sample_period, .time_ns = record->id.time_ns, .is_idle = record->id.pid == 0,
	                                                   .is_unwound = note != NULL, .end = note != NULL ? note->end : 0,
	                                                   .splice = note != NULL ? note->splice : 0 });
}

// How a call chain ends that the kernel walked, as readers of the file see it (src/load/chain.c): at a root where its outermost function's name is one, which is looked
// up when all is recorded.
static void keep_chain_books(struct drain *drain, const struct record *record, uint32_t event, const struct maps *maps)
{
	enum { DEFAULT_MAX_STACK = 127 }; // kernel.perf_event_max_stack where an attr says 0
	const struct perf_event_attr *attr = &drain->set->events.data[event].attr;
	struct ledger_taken taken = { .event = event, .time_ns = record->id.time_ns, .is_idle = record->id.pid == 0, .is_unwound = true, .end = UNWIND_NOT_USER };
	uint64_t frames = 0, user = 0;
	bool is_user = false;
	struct frame root = { 0 };
	for (uint64_t i = 0; i < record->sample.callchain_count; i++) {
		uint64_t addr = record->sample.callchain[i];
		is_user = addr >= (uint64_t)PERF_CONTEXT_MAX ? addr == (uint64_t)PERF_CONTEXT_USER : is_user;
		if (addr >= (uint64_t)PERF_CONTEXT_MAX)
			continue;
		frames++;
		if (is_user)
			root = (struct frame){ .addr = addr, .kind = user++ == 0 ? FRAME_LEAF : FRAME_RETURN };
	}
	if (user > 0 && frames >= (attr->sample_max_stack > 0 ? attr->sample_max_stack : DEFAULT_MAX_STACK))
		taken.end = UNWIND_DEPTH_LIMIT;
	else if (user > 0)
		taken.is_by_name = !(taken.is_unwound = false);
	ledger_take(drain->ledger, &taken);
	uint64_t addr = frame_lookup_addr(&root);
	const struct mapping *mapping = taken.is_by_name && !taken.is_idle && drain->want_names ? maps_find(maps, addr) : NULL;
	if (mapping != NULL)
		sampled_root(&drain->sampled, dso_get(spaces_dsos(drain->spaces), mapping->dso), mapping, addr);
}

static bool take_place(struct drain *drain, uint32_t event)
{
	if (output_has_room(drain->output))
		return true;
	drain->ledger->events.data[event].dropped++;
	return false;
}

static void put_live(struct drain *drain, const struct record *record, uint32_t event, const struct maps *maps, const struct unwind_stack *stack,
                     enum splice splice)
{
	if (!take_place(drain, event))
		return;
	struct buf *out = output_buffer(drain->output);
	size_t offset = out->size;
	struct note note = { .end = stack->end, .splice = splice };
	if (!sample_encode_live(out, &drain->layouts[event], record, stack, &note)) {
		drain->ledger->broken++;
		drain->ledger->events.data[event].dropped++;
		return;
	}
	output_commit(drain->output, offset, record->id.time_ns, true);
	keep_books(drain, record, event, &note);
	if (stack->count > drain->ledger->longest_chain)
		drain->ledger->longest_chain = stack->count;
	if (drain->want_names) {
		collect_kernel(drain, record->sample.callchain, record->sample.callchain_count);
		collect_user(drain, maps, stack->frames, stack->count);
	}
}

bool drain_register(const struct drain *drain, const struct record *record, bool is_sp, uint64_t *out)
{
	const struct record_registers *user = &record->sample.user;
	struct unwind_regs regs;
	if (!unwind_regs_for(drain->machine, &regs))
		return false;
	unsigned number = is_sp ? regs.sp : regs.pc;
	if ((user->mask & UINT64_C(1) << number) == 0)
		return false;
	*out = user->words[__builtin_popcountll(user->mask & ((UINT64_C(1) << number) - 1))];
	return true;
}

// The stack pointer; 0: not in the sample.
static uint64_t sp_of(const struct drain *drain, const struct record *record)
{
	uint64_t sp;
	return drain_register(drain, record, true, &sp) ? sp : 0;
}

// The kernel copied no stack. In kernel mode that is a task whose address space is gone already (it is exiting or in exec): nothing of user
// space is left to be shown. In user mode the copy failed: only the leaf is known.
static void without_copy(struct drain *drain, const struct record *record, struct unwind_stack *stack)
{
	enum { ADDRESS_BITS = 56 }; // no ABI has more of user space
	bool in_user = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
	if (in_user)
		drain->ledger->uncopied[sp_of(drain, record) >> ADDRESS_BITS != 0 ? UNCOPIED_TAGGED
		                        : record->sample.stack.size == 0           ? UNCOPIED_NO_ROOM : UNCOPIED_ABSENT]++;
	stack->end = in_user ? UNWIND_NO_REGISTERS : UNWIND_NOT_USER;
	stack->count = 0;
	if (in_user)
		stack->frames[stack->count++] = (struct frame){ .addr = record->sample.ip, .kind = FRAME_LEAF };
}

// What there is to walk.
static struct stack_bytes bytes_of_stack(struct drain *drain, const struct record *record, const struct aside_entry *set_aside)
{
	const struct record_sample *sample = &record->sample;
	if (sample->user.abi == PERF_SAMPLE_REGS_ABI_NONE || sample->stack.bytes == NULL)
		return (struct stack_bytes){ .size = 0 };
	struct stack_bytes out = { .bytes = sample->stack.bytes, .size = (size_t)sample->stack.dyn_size,
				   .asked = set_aside != NULL ? set_aside->asked : (size_t)sample->stack.size };
	if (drain->tails == NULL || set_aside != NULL) // what was read is kept for as long as the record is in the ring
		return out;
	const struct tail *tail = tails_find(drain->tails, drain->ring_now, record->id.time_ns, record->id.tid);
	if (tail == NULL)
		return out;
	buf_clear(&drain->joined);
	out.splice = tail->match == STACK_TAIL_EXACT ? SPLICE_EXACT : SPLICE_CHECKED;
	if (tail->is_other) {
		buf_add(&drain->joined, tail->bytes, tail->size);
		out.other = go_threads_open(drain->joined.data, drain->joined.size);
		return out;
	}
	buf_add(&drain->joined, out.bytes, out.size);
	buf_add(&drain->joined, tail->bytes, tail->size);
	out.bytes = (const uint8_t *)drain->joined.data;
	out.size = drain->joined.size;
	out.asked = 0;
	return out;
}

// A copy may have ended before all was copied that was to be: at a page that is not in memory, or at the end of what is mapped. `top`: where the thread's stack
// begins; 0: not known, or wrong.
static void want_stack_page(struct drain *drain, const struct record *record, uint64_t top)
{
	const struct record_stack *stack = &record->sample.stack;
	if (drain->stack_pages == NULL || stack->bytes == NULL || stack->dyn_size >= stack->size)
		return;
	uint64_t sp = sp_of(drain, record), to = sp + stack->size;
	if (sp > 0 && to > sp)
		(void)stack_pages_want(drain->stack_pages, record->id.tid, sp + stack->dyn_size, top > sp && top < to ? top : to, drain->now_ns);
}

// Where the stack is known to end: with the copy, above which nothing is mapped. 0: nothing is known.
static uint64_t end_of_stack(const struct drain *drain, const struct stack_job *job)
{
	if (job->stack.size >= job->stack.asked || drain->stack_pages == NULL)
		return 0;
	uint64_t end = sp_of(drain, &job->record) + job->stack.size;
	return stack_pages_is_end(drain->stack_pages, job->record.id.tid, end) ? end : 0;
}

static void learn_top(struct drain *drain, const struct record *record, const struct unwind_stack *stack, const struct stack_bytes *bytes)
{
	uint64_t top = unwind_end_is_root(stack->end) ? stack->last_cfa : 0;
	if (top != 0)
		*stack_top_of(drain, record->id.tid) = top;
	if (drain->tails == NULL || stack->switches > 0 || (top == 0 && stack->end != UNWIND_TRUNCATED))
		return;
	// What was read is not enough: twice as much next time.
	if (top == 0 && bytes->splice != SPLICE_NONE)
		top = sp_of(drain, record) + 2 * bytes->size;
	tails_top(drain->tails, record->id.tid, top);
}

static struct unwind_input input_of(const struct drain *drain, const struct stack_job *job, struct lookup *lookup)
{
	const struct record_sample *sample = &job->record.sample;
	return (struct unwind_input){
		.machine = sample->user.abi == PERF_SAMPLE_REGS_ABI_32 && drain->machine == EM_X86_64 ? EM_386 : drain->machine,
		.regs = sample->user.words, .regs_mask = sample->user.mask, .stack = job->stack.bytes, .stack_size = job->stack.size,
		.stack_asked = job->stack.asked, .stack_top = end_of_stack(drain, job),
		.other = job->stack.other, .generation = job->maps->generation, .map = map_at, .map_context = lookup, .code = code_at, .code_context = lookup,
	};
}

// false: an image is not there yet, nothing was put out.
static bool put_walked(struct drain *drain, const struct stack_job *job, const struct unwind_stack *stack)
{
	const struct record_sample *sample = &job->record.sample;
	enum splice splice = SPLICE_NONE;
	if (stack->end == UNWIND_DEFERRED)
		return false;
	if (job->stack.size > 0) {
		learn_top(drain, &job->record, stack, &job->stack);
		drain->unwound++;
		drain->walked++;
		// What the copy alone held is no splice; and of more frames than a record has room for, no end is told.
		uint64_t sp = sp_of(drain, &job->record);
		bool goes_on = stack->last_cfa > sp + sample->stack.dyn_size;
		bool is_cut = stack->end == UNWIND_TRUNCATED && sample->stack.dyn_size == sample->stack.size;
		if (stack->last_cfa > sp + sample->stack.size / 2) {
			drain->half++;
			drain->half_ns = drain->now_ns;
		}
		drain->cut += is_cut;
		const bool is_other = stack->end == UNWIND_OTHER_STACK && stack->lacks_goroutine;
		if (unwind_end_is_root(stack->end) && (goes_on || stack->switches > 0))
			splice = job->stack.splice;
		if (is_other && drain->tails != NULL)
			tails_note_go(drain->tails, job->record.id.pid, job->record.id.tid, stack->lacks_g, stack->lacks_system);
		drain->others += is_other;
		drain->ledger->others_by_go += is_other;
		drain->ledger->others_by_c += is_other && (stack->lacks_g != 0 || stack->lacks_system);
		drain->beyond += splice != SPLICE_NONE || (stack->end == UNWIND_DEPTH_LIMIT && goes_on) || is_cut || is_other;
	}
	if (stack->end == UNWIND_ABSENT_PAGE)
		want_stack_page(drain, &job->record, 0);
	put_live(drain, &job->record, job->event, job->maps, stack, splice);
	return true;
}

// The stack of a sample that has none to be walked.
static void without_stack(struct drain *drain, const struct record *record, struct unwind_stack *stack)
{
	stack->end = UNWIND_NOT_USER; // kernel threads, the idle task
	if (record->sample.user.abi != PERF_SAMPLE_REGS_ABI_NONE)
		without_copy(drain, record, stack);
}

// ---------------------------------------------------------------- set aside
// Bytes of the copy below the thread's stack top, where that is known: the kernel fills the rest with whatever is mapped above.
static uint64_t worth_keeping(struct drain *drain, const struct record *record)
{
	uint64_t top = *stack_top_of(drain, record->id.tid), valid = record->sample.stack.dyn_size, sp = sp_of(drain, record);
	if (top == 0 || sp == 0 || sp >= top || top - sp >= valid)
		return valid;
	return (top - sp + 7) / 8 * 8;
}

static void set_aside(struct drain *drain, const struct stack_job *job)
{
	// By when it is unwound, its process may be gone, and who knows where its names are with it.
	const struct mapping *mapping = drain->want_names ? maps_find(job->maps, job->record.sample.ip) : NULL;
	if (mapping != NULL)
		want_files(drain, job->maps, dso_get(spaces_dsos(drain->spaces), mapping->dso));
	switch (aside_add(&drain->aside, &job->record, worth_keeping(drain, &job->record), job->maps, job->event, drain->now_ns)) {
	case ASIDE_SHORTENED: drain->ledger->shortened++; /* fall through */
	case ASIDE_TAKEN: drain->ledger->aside++; break;
	case ASIDE_FULL: drain->ledger->events.data[job->event].dropped++; break;
	}
}

// A guess may be better in a moment. To wait costs 15 us, so not all do for long; but where new code begins to run, or a pass comes late on a busy host, a pass may be full
// of such samples. Samples that wait for their images have more need of the room, and what was read beyond a copy does not stay.
static bool waits_for_code(struct drain *drain, const struct stack_job *job, const struct lookup *lookup)
{
	bool waits = lookup->lacks_code && job->stack.splice == SPLICE_NONE && drain->code_waits > 0 && drain->aside.used < drain->aside.capacity / 4;
	drain->code_waits -= waits;
	return waits;
}

void drain_walk_jobs(struct drain *drain)
{
	struct lookup lookups[STACK_JOBS];
	struct unwind_input inputs[STACK_JOBS];
	struct unwind_stack stacks[STACK_JOBS];
	size_t places[STACK_JOBS], count = drain->job_count, walks = 0, others = STACK_JOBS;
	drain->job_count = 0;
	if (drain->pages != NULL)
		(void)jit_pages_take(drain->pages);
	for (size_t i = 0; i < count; i++) {
		struct stack_job *job = &drain->jobs[i];
		bool is_walk = job->stack.size > 0;
		size_t place = places[i] = is_walk ? walks++ : --others; // those to be walked stand together
		stacks[place] = (struct unwind_stack){ .frames = drain->frames + place * UNWIND_MAX_FRAMES, .capacity = UNWIND_MAX_FRAMES };
		lookups[place] = (struct lookup){ .drain = drain, .maps = job->maps, .pid = job->record.id.pid, .time_ns = job->record.id.time_ns };
		if (is_walk)
			inputs[place] = input_of(drain, job, &lookups[place]);
		else
			without_stack(drain, &job->record, &stacks[place]);
	}
	if (walks == 1)
		unwind_stack(drain->unwinder, &inputs[0], &stacks[0]);
	else if (walks > 1)
		unwind_stacks(drain->unwinder, inputs, stacks, walks);
	bool lacks_code = false;
	for (size_t i = 0; i < walks; i++)
		lacks_code |= lookups[i].lacks_code;
	if (lacks_code) // now: it may be there for the next ones
		images_read_pages(drain->images, drain->pages);
	for (size_t i = 0; i < count; i++)
		if (waits_for_code(drain, &drain->jobs[i], &lookups[places[i]]) || !put_walked(drain, &drain->jobs[i], &stacks[places[i]]))
			set_aside(drain, &drain->jobs[i]);
}

// false: the image is not there yet, or the bytes of JIT code, if that is waited for.
static bool walk_again(struct drain *drain, const struct stack_job *job, bool give_up, bool waits_for_code)
{
	struct lookup lookup = { .drain = drain, .maps = job->maps, .pid = job->record.id.pid, .time_ns = job->record.id.time_ns, .give_up = give_up };
	struct unwind_stack stack = { .frames = drain->frames, .capacity = UNWIND_MAX_FRAMES };
	if (job->stack.size > 0) {
		struct unwind_input input = input_of(drain, job, &lookup);
		unwind_stack(drain->unwinder, &input, &stack);
	} else {
		without_stack(drain, &job->record, &stack);
	}
	return !(waits_for_code && lookup.lacks_code) && put_walked(drain, job, &stack);
}

void drain_retry_aside(struct drain *drain, bool last)
{
	uint64_t version = images_version(drain->images);
	bool news = version != drain->images_version || last;
	drain->images_version = version;
	for (struct aside_entry *entry = aside_first(&drain->aside); entry != NULL; entry = aside_next(&drain->aside, entry)) {
		bool expired = last || (drain->now_ns > entry->since_ns && drain->now_ns - entry->since_ns > ASIDE_MAX_NS);
		if (!news && !expired)
			break; // the older ones come first
		struct stack_job job = { .event = entry->event, .maps = entry->maps };
		const struct perf_event_header *header = (const void *)entry->record;
		if (!record_decode(&drain->layouts[entry->event], entry->record, header->size, &job.record, NULL)) {
			drain->ledger->broken++;
			drain->ledger->events.data[entry->event].dropped++;
		} else {
			job.stack = bytes_of_stack(drain, &job.record, entry);
			if (!walk_again(drain, &job, expired, !expired && drain->now_ns < entry->since_ns + CODE_MAX_NS))
				continue;
			drain->ledger->aside_expired += expired;
		}
		aside_done(&drain->aside, entry);
	}
}

// ---------------------------------------------------------------- whose it is
// A thread that had inherited events before it got its own sends two streams: the direct one goes.
static bool is_second_stream(struct drain *drain, const struct record *record)
{
	const uint32_t *owner = hash_map_get(&drain->fd_streams, record->id.id);
	if (owner == NULL)
		return false;
	uint32_t stream = drain_stream(record->id.tid, (*owner & 1) != 0);
	uint32_t *state = hash_map_get(&drain->doubtful, stream);
	if (state == NULL)
		return false;
	bool own = *owner == stream;
	if (!own)
		*state = 2;
	return own && *state == 2;
}

static bool is_stranger(struct drain *drain, const struct record *record)
{
	if (drain->doubtful.count > 0 && is_second_stream(drain, record))
		return true;
	if (!drain->filter && drain->held_pid != record->id.pid)
		return false;
	const struct process *process = spaces_find_process(drain->spaces, record->id.pid);
	if (drain->held_pid == record->id.pid && (process == NULL || !process->has_exec))
		return true; // between our fork and its exec the command is ourselves
	return drain->filter && (process == NULL || !process->is_target);
}

void drain_take_sample(struct drain *drain, const struct record *record, uint32_t event)
{
	bool is_other = is_stranger(drain, record);
	*(is_other ? &drain->ledger->others_copied_bytes : &drain->ledger->copied_bytes) += record->sample.stack.bytes != NULL ? record->sample.stack.dyn_size : 0;
	if (is_other) {
		drain->ledger->events.data[event].others++;
		drain->ledger->events.data[event].others_idle += record->id.pid == 0;
		return;
	}
	if (record->id.pid != -1) // the kernel names a task so that is being reaped: it is one of the others
		hash_map_put(&drain->pids, (uint32_t)record->id.pid, 1, NULL);
	if (drain->tails != NULL && drain->filter)
		tails_target(drain->tails, record->id.pid);
	want_stack_page(drain, record, *stack_top_of(drain, record->id.tid));
	struct maps *maps = spaces_process(drain->spaces, record->id.pid)->maps;
	if (drain->mode == CHAIN_LIVE) {
		struct stack_job *job = &drain->jobs[drain->job_count++];
		*job = (struct stack_job){ .record = *record, .event = event, .maps = maps, .stack = bytes_of_stack(drain, record, NULL) };
		// There is one place to join a stack in.
		if (drain->job_count == STACK_JOBS || job->stack.splice != SPLICE_NONE)
			drain_walk_jobs(drain);
		return;
	}
	if (!take_place(drain, event))
		return;
	struct buf *out = output_buffer(drain->output);
	size_t offset = out->size;
	if (drain->mode == CHAIN_POST) {
		drain_want_code(drain, record, maps);
		sample_copy_trimmed(out, record, record->sample.stack.dyn_size);
	} else {
		buf_add(out, record->header, record->size);
	}
	output_commit(drain->output, offset, record->id.time_ns, true);
	if (drain->mode == CHAIN_POST)
		keep_books(drain, record, event, NULL);
	else
		keep_chain_books(drain, record, event, maps);
	if (!drain->want_names || drain->mode == CHAIN_POST)
		return;
	if (record->sample.callchain_count > 0) {
		collect_chain(drain, record, maps);
	} else if ((record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL) {
		collect_kernel(drain, &record->sample.ip, 1);
	} else {
		struct frame frame = { .addr = record->sample.ip, .kind = FRAME_LEAF };
		collect_user(drain, maps, &frame, 1);
	}
}

// ---------------------------------------------------------------- a glance
// By a record's last word alone, of most: each line of a record that is looked at is waited for, and most copies are not full. It is what was copied of the stack
// where no other field stands behind that (perf_event_open(2), PERF_RECORD_SAMPLE).
static bool may_go_on(const struct drain *drain, const struct perf_event_header *header)
{
	const uint64_t behind = ~(((uint64_t)PERF_SAMPLE_STACK_USER * 2 - 1) | PERF_SAMPLE_IDENTIFIER);
	const struct event_opened *first = &drain->set->events.data[0];
	uint64_t copied;
	if (drain->set->events.count != 1 || (first->attr.sample_type & behind) != 0 || header->size < 2 * sizeof(copied))
		return true;
	memcpy(&copied, (const uint8_t *)header + header->size - sizeof(copied), sizeof(copied));
	return copied + RECORD_REST_BYTES_MAX >= first->attr.sample_stack_user;
}

static bool goes_on_beyond(struct drain *drain, struct perf_event_header *header)
{
	struct record record;
	if (header->type != PERF_RECORD_SAMPLE || !may_go_on(drain, header))
		return false;
	uint32_t event = drain_event_of(drain, header);
	if (drain->periods[event] > 0 || !record_decode(&drain->layouts[event], header, header->size, &record, NULL))
		return false;
	const struct record_sample *sample = &record.sample;
	uint32_t *index = hash_map_get(&drain->threads, (uint32_t)record.id.tid);
	if (index == NULL || sample->stack.bytes == NULL || sample->stack.dyn_size < sample->stack.size)
		return false;
	return drain->tops.data[*index] > sp_of(drain, &record) + sample->stack.dyn_size;
}

size_t drain_glance(struct drain *drain)
{
	size_t beyond = 0;
	for (size_t i = 0; i < drain->set->rings.count; i++) {
		struct ring *ring = &drain->set->rings.data[i], view = *ring;
		struct perf_event_header *header;
		bool broken;
		ring_snapshot(&view);
		view.tail = ring->glanced > ring->tail ? ring->glanced : ring->tail;
		while ((header = ring_peek(&view, &broken)) != NULL) {
			beyond += (void *)header != (void *)view.wrapped && goes_on_beyond(drain, header);
			ring_advance(&view, header);
		}
		ring->glanced = view.tail;
	}
	return beyond;
}
