// How a recording is replayed.
//
// Records are put into the order of time (queue.h) and applied: mappings and tasks to the address spaces, counters to the
// accounting, samples to the profile. A sample's kernel part comes from its call chain. Its user part comes from
// - the call chain with our note, which tells why it ends and what kind each frame is;
// - or registers and stack copy, which are unwound here;
// - or a call chain without a note, made by frame pointers (or LBR). Nobody said whether that one is whole. It counts as
//   complete when its outermost function is one that roots are known to have (_start, clone …), as ended by a limit when it is as long
//   as the kernel's limit, and as failed (no_cfi: frame pointers gave out) otherwise;
// - or is nothing but the ip: complete by nature, as a total is a self then, with a caveat.
#include "load/load.h"

#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "elf/vdso.h"
#include "load/loader.h"
#include "load/text.h"
#include "profile/combs.h"
#include "profile/core_events.h"

enum {
	QUEUE_BYTES_MOST = 128 << 20,
	SPACES_BYTES_FREE = 64 << 20, SPACES_BYTES_PER_BYTE = 64, // of what address spaces may take, for each byte of records
	MUCH_BYTES = 64 << 10,
	FRAMES_EXPECTED = 1 << 14,
	REAP_AFTER_NS = 1000000000, // how long after its death a task may still be sampled
};

struct load_options load_defaults(void)
{
	return (struct load_options){ .input = "perf.data", .inlines = true, .demangle = true, .symbols = true };
}

void loader_caveat(struct loader *loader, const char *format, ...)
{
	struct buf text = { 0 };
	va_list args;
	va_start(args, format);
	buf_vprintf(&text, format, args);
	va_end(args);
	vec_push(&loader->profile->meta.caveats, intern_string(&loader->profile->names, buf_text(&text)));
	buf_release(&text);
}

// ---------------------------------------------------------------- the profile's rows for what the recording names

static struct profile_event event_row(struct loader *loader, const struct reader_event *source)
{
	const struct perf_event_attr *attr = &source->attr;
	struct profile_event row = { .name = intern_string(&loader->profile->names, source->name), .attr_type = attr->type, .attr_config = attr->config };
	row.is_clock = attr->type == PERF_TYPE_SOFTWARE && (attr->config == PERF_COUNT_SW_CPU_CLOCK || attr->config == PERF_COUNT_SW_TASK_CLOCK);
	row.is_sampling = attr->sample_period != 0; // or sample_freq, which is the same field
	row.is_freq = attr->freq && !row.is_clock;  // of a frequency the kernel makes a constant period for clocks (perf_swevent_init_hrtimer)
	row.frequency = attr->freq ? attr->sample_freq : 0;
	row.period = attr->sample_period;
	if (attr->freq)
		row.period = row.is_clock && attr->sample_freq > 0 ? 1000000000 / attr->sample_freq : 0;
	if ((attr->sample_type & PERF_SAMPLE_STACK_USER) != 0 && attr->sample_stack_user > loader->profile->meta.stack_bytes)
		loader->profile->meta.stack_bytes = attr->sample_stack_user;
	row.excludes_user = attr->exclude_user;
	row.excludes_kernel = attr->exclude_kernel;
	row.excludes_idle = attr->exclude_idle;
	row.lost_counts_reads = attr->inherit_stat; // PERF_FORMAT_LOST and LOST records count whatever the event had to write
	row.samples_of = PROFILE_NONE;
	return row;
}

uint32_t loader_event(struct loader *loader, size_t event, bool for_sample)
{
	// All events known so far get their rows in the order of the file, whatever comes first.
	while (loader->events.count < reader_event_count(loader->reader)) {
		const struct reader_event *source = reader_event_at(loader->reader, loader->events.count);
		bool is_sideband = source->attr.type == PERF_TYPE_SOFTWARE && source->attr.config == PERF_COUNT_SW_DUMMY;
		vec_push(&loader->events, is_sideband ? PROFILE_NONE : (uint32_t)loader->profile->events.count);
		if (!is_sideband)
			vec_push(&loader->profile->events, event_row(loader, source));
	}
	if (event >= loader->events.count)
		return PROFILE_NONE;
	if (loader->events.data[event] == PROFILE_NONE && for_sample) {
		loader->events.data[event] = (uint32_t)loader->profile->events.count;
		vec_push(&loader->profile->events, event_row(loader, reader_event_at(loader->reader, event)));
	}
	return loader->events.data[event];
}

uint32_t loader_comm(struct loader *loader, const struct thread *thread)
{
	if (thread->comm == 0 && thread->pid == 0)
		return intern_string(&loader->profile->names, "swapper"); // the idle tasks: no record names them
	if (thread->comm == 0) { // perf's word for a thread that no record named
		char text[16];
		snprintf(text, sizeof(text), ":%d", thread->tid);
		return intern_string(&loader->profile->names, text);
	}
	while (loader->comms.count <= thread->comm)
		vec_push(&loader->comms, 0);
	uint32_t *id = &loader->comms.data[thread->comm];
	if (*id == 0) {
		const struct intern *names = spaces_names(loader->spaces);
		*id = intern_bytes(&loader->profile->names, intern_text(names, thread->comm), intern_length(names, thread->comm)) + 1;
	}
	return *id - 1;
}

// Build IDs of the recording's list, by path. perf lists those of what was sampled; mappings may carry their own.
static const struct build_id *listed_build_id(struct loader *loader, const char *path)
{
	const struct reader_features *features = reader_features(loader->reader);
	for (; loader->build_ids_seen < features->build_ids.count; loader->build_ids_seen++) {
		const char *listed = features->build_ids.data[loader->build_ids_seen].path;
		hash_map_put(&loader->build_ids, hash_bytes(listed, strlen(listed)), (uint32_t)loader->build_ids_seen, NULL);
	}
	const uint32_t *found = hash_map_get(&loader->build_ids, hash_bytes(path, strlen(path)));
	if (found == NULL || strcmp(features->build_ids.data[*found].path, path) != 0)
		return NULL;
	return &features->build_ids.data[*found].build_id;
}

uint32_t loader_process_name(struct loader *loader, int32_t pid)
{
	const struct process *process = spaces_find_process(loader->spaces, pid);
	const struct thread main = { .pid = pid, .tid = pid, .comm = process != NULL ? process->comm : 0 };
	return main.comm != 0 ? loader_comm(loader, &main) : 0;
}

// Whose code it is: what the process is called, and what it has mapped.
static void describe_process(struct loader *loader, const struct dso *dso, struct profile_dso *row)
{
	enum { TEXT_MOST = 64 << 10 };
	const struct process *process = spaces_find_process(loader->spaces, (int32_t)dso->pid);
	struct buf mapped = { 0 };
	uint32_t before = DSO_NONE;
	if (process == NULL)
		return;
	row->process = loader_process_name(loader, process->pid);
	for (uint32_t i = 0; i < process->maps->count && mapped.size < TEXT_MOST; i++) {
		const struct dso *file = dso_get(spaces_dsos(loader->spaces), process->maps->items[i].dso);
		if (file->kind == DSO_FILE && process->maps->items[i].dso != before)
			buf_printf(&mapped, "%s\n", dso_short_name(file));
		before = process->maps->items[i].dso;
	}
	row->mapped = mapped.size > 0 ? intern_bytes(&loader->profile->names, mapped.data, mapped.size) : 0;
	buf_release(&mapped);
}

uint32_t loader_dso(struct loader *loader, uint32_t id)
{
	while (loader->dsos.count <= id)
		vec_push(&loader->dsos, 0);
	if (loader->dsos.data[id] == 0) {
		const struct dso *dso = dso_get(spaces_dsos(loader->spaces), id);
		// "[kernel.kallsyms]_text" says from which symbol the mapping starts (perf), not what is mapped.
		const char *bracket = dso->kind == DSO_KERNEL ? strchr(dso->path, ']') : NULL;
		size_t length = bracket != NULL ? (size_t)(bracket + 1 - dso->path) : strlen(dso->path);
		struct profile_dso row = { .path = intern_bytes(&loader->profile->names, dso->path, length),
		                           .short_name = intern_string(&loader->profile->names, dso_short_name(dso)), .kind = (uint8_t)dso->kind,
		                           .build_id = dso->build_id, .pid = dso->pid, .since_ns = dso->since_ns };
		if (dso->kind == DSO_ANON)
			describe_process(loader, dso, &row);
		uint32_t made = profile_add_dso(loader->profile, &row);
		while (loader->dso_of.count <= made)
			vec_push(&loader->dso_of, DSO_NONE);
		if (loader->dso_of.data[made] == DSO_NONE)
			loader->dso_of.data[made] = id;
		loader->dsos.data[id] = made + 1;
	}
	return loader->dsos.data[id] - 1;
}

static bool is_32_bit(const struct loader *loader)
{
	const char *arch = reader_features(loader->reader)->arch;
	return arch != NULL && strstr(arch, "64") == NULL && strcmp(arch, "s390x") != 0;
}

static void learn_build_id(struct loader *loader, const struct record *record)
{
	if (record->type != PERF_RECORD_MMAP && record->type != PERF_RECORD_MMAP2)
		return;
	const struct mapping *mapping = spaces_find(loader->spaces, (int32_t)record->mapping.pid, record->mapping.start);
	const struct dso *dso = mapping != NULL ? dso_get(spaces_dsos(loader->spaces), mapping->dso) : NULL;
	if (dso == NULL || dso->build_id.size > 0 || (dso->kind != DSO_FILE && dso->kind != DSO_KERNEL && dso->kind != DSO_VDSO))
		return;
	// On a 32-bit kernel there is but one vdso, and it has the plain name.
	bool is_only = strcmp(dso->path, VDSO32_NAME) == 0 && is_32_bit(loader);
	const struct build_id *listed = listed_build_id(loader, is_only ? VDSO_NAME : dso->path);
	if (listed != NULL)
		dso_set_build_id(spaces_dsos(loader->spaces), mapping->dso, listed);
}

// ---------------------------------------------------------------- samples

uint16_t loader_machine(const struct loader *loader, uint64_t abi)
{
	const char *arch = reader_features(loader->reader)->arch;
	bool is_32 = abi == PERF_SAMPLE_REGS_ABI_32;
	if (arch == NULL) {
#if defined(__aarch64__)
		arch = "aarch64";
#else
		arch = "x86_64";
#endif
	}
	if (strcmp(arch, "x86_64") == 0)
		return is_32 ? EM_386 : EM_X86_64;
	if (strcmp(arch, "aarch64") == 0 || strcmp(arch, "arm64") == 0)
		return is_32 ? EM_ARM : EM_AARCH64;
	if (strncmp(arch, "arm", 3) == 0)
		return EM_ARM;
	if (arch[0] == 'i' && strcmp(arch + 2, "86") == 0)
		return EM_386;
	if (strncmp(arch, "riscv", 5) == 0)
		return EM_RISCV;
	return strncmp(arch, "ppc64", 5) == 0 ? EM_PPC64 : strncmp(arch, "s390", 4) == 0 ? EM_S390 : EM_NONE;
}

uint16_t loader_dso_machine(const struct loader *loader, const struct dso *dso)
{
	return loader_machine(loader, strcmp(dso->path, VDSO32_NAME) == 0 ? PERF_SAMPLE_REGS_ABI_32 : PERF_SAMPLE_REGS_ABI_64);
}

uint64_t loader_weight(uint64_t period, const struct perf_event_attr *attr, const struct profile_event *event)
{
	if ((attr->sample_type & PERF_SAMPLE_PERIOD) != 0 && period > 0)
		return period;
	return event->period > 0 ? event->period : 1;
}

void loader_hand_on(struct loader *loader, const struct queued *queued, const struct profile_sample *sample, bool as_stack)
{
	const struct load_sink *sink = loader->options->sink;
	const struct chain *chain = &loader->chain;
	if (sink == NULL)
		return;
	struct unwind_stack stack = { 0 };
	VEC(struct frame) frames = { 0 };
	for (size_t i = chain->kernel_count; as_stack && i < chain->count; i++) {
		if (chain->frames[i].kind == CHAIN_GAP)
			stack.gap = frames.count;
		else
			vec_push(&frames, (struct frame){ .addr = chain->frames[i].addr, .kind = chain->frames[i].kind, .via = chain->frames[i].via });
	}
	stack.frames = frames.data;
	stack.count = frames.count;
	stack.end = sample->end < UNWIND_END_COUNT ? (enum unwind_end)sample->end : UNWIND_NO_REGISTERS;
	sink->record(sink->context, loader->reader, &queued->record, queued->event, sample, as_stack ? &stack : NULL);
	vec_release(&frames);
}

static void add_sample(struct loader *loader, struct queued *queued)
{
	const struct record *record = &queued->record;
	const struct perf_event_attr *attr = &reader_event_at(loader->reader, queued->event)->attr;
	const struct sample_id *id = &record->id;
	uint32_t event = loader_event(loader, queued->event, true);
	struct profile_sample sample = {
		.time_ns = record_has_time(record) ? id->time_ns : 0, .weight = loader_weight(record->sample.period, attr, &loader->profile->events.data[event]), .pid = id->pid, .tid = id->tid,
		.cpu = id->cpu, .comm = loader_comm(loader, spaces_thread(loader->spaces, id->pid, id->tid)), .event = event, .stack = PROFILE_NONE,
		.is_idle = id->pid == 0,
	};
	struct maps *maps = spaces_process(loader->spaces, id->pid)->maps, *kernel = spaces_process(loader->spaces, -1)->maps;
	uint64_t raw_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;
	bool is_raw = (attr->sample_type & raw_type) == raw_type;
	loader->has_chains |= is_raw || (attr->sample_type & PERF_SAMPLE_CALLCHAIN) != 0;
	loader->has_samples = true;
	if (is_raw && record->sample.user.abi != PERF_SAMPLE_REGS_ABI_NONE && record->sample.user.words != NULL) {
		raw_add(loader, queued, &sample, loader_machine(loader, record->sample.user.abi), maps, kernel);
		return;
	}
	if (callchain_is_deferred(record->sample.callchain, record->sample.callchain_count) && loader->options->sink == NULL) {
		deferred_wait(loader, queued, &sample);
		return;
	}
	chain_from_sample(&loader->chain, record, attr, &sample);
	// A kernel thread, or a task that has given its memory up; unless somebody has unwound the stack and thrown it away.
	bool has_user_chain = record->sample.callchain_count > 0 && loader->chain.count > loader->chain.kernel_count;
	if (is_raw && !has_user_chain) {
		sample.end = sample.is_idle || maps->count == 0 ? UNWIND_NOT_USER : UNWIND_NO_REGISTERS;
	}
	loader->has_foreign_chains |= sample.end == END_BY_NAME;
	loader_hand_on(loader, queued, &sample, is_raw);
	sample.stack = chain_intern(loader, sample.tid, &loader->chain, maps, kernel, sample.end == END_BY_NAME);
	raw_add_known(loader, &sample);
	queue_done(&loader->queue, queued);
}

static void apply(struct loader *loader, struct queued *queued)
{
	const struct record *record = &queued->record;
	struct record entered;
	account_record(loader, record, queued->event);
	if ((record->id.has & PERF_SAMPLE_TIME) != 0)
		jit_advance(loader, record->id.time_ns);
	if (record->type == PERF_RECORD_SAMPLE) {
		add_sample(loader, queued);
		return;
	}
	if (record->type == RECORD_KERNEL_CALLCHAIN_DEFERRED)
		deferred_answer(loader, record);
	bool is_mapping = record->type == PERF_RECORD_MMAP || record->type == PERF_RECORD_MMAP2;
	if (is_mapping) {
		const struct record_layout *layout = &reader_event_at(loader->reader, queued->event)->layout;
		entered = *record;
		record = archives_enter(&loader->archives, &entered, layout->trailer_bytes) ? &entered : record;
	}
	if (spaces_apply(loader->spaces, record, queued->synthesized) == SPACE_MAPPED)
		learn_build_id(loader, record);
	jit_mapped(loader, record);
	light_forget(loader);
	if (loader->options->sink != NULL)
		loader->options->sink->record(loader->options->sink->context, loader->reader, record, queued->event, NULL, NULL);
	queue_done(&loader->queue, queued);
}

static void take(void *context, const struct queue_item *items, size_t count)
{
	if (items->chain != NULL)
		light_take(context, items, count);
	else
		apply(context, items->queued);
}

// ---------------------------------------------------------------- records

struct replay { uint64_t last_ns, reaped_ns; };

// Names and mappings that were there before are written by the recorder, and some give them a time: they begin no recording that has anything else.
static bool begins_recording(const struct record *record)
{
	return record->type != PERF_RECORD_MMAP && record->type != PERF_RECORD_MMAP2 && record->type != PERF_RECORD_KSYMBOL &&
	       (record->type != PERF_RECORD_COMM || record->comm.is_exec);
}

static void saw_time(struct loader *loader, bool is_begun, uint64_t time_ns)
{
	uint64_t *first = is_begun ? &loader->first_ns : &loader->first_before_ns;
	if (*first == 0 || time_ns < *first)
		*first = time_ns;
	if (time_ns > loader->last_ns)
		loader->last_ns = time_ns;
}

static void add_lights(struct loader *loader, const struct queue_item *samples, size_t count, struct replay *replay)
{
	if (count == 0)
		return;
	replay->last_ns = samples[count - 1].time_ns;
	queue_add(&loader->queue, samples, count);
	uint64_t oldest_ns = samples[0].time_ns;
	for (size_t i = 1; i < count; i++)
		oldest_ns = samples[i].time_ns < oldest_ns ? samples[i].time_ns : oldest_ns;
	saw_time(loader, true, oldest_ns);
	saw_time(loader, true, loader->queue.newest_ns);
}

// A record without a time describes how things were when the recorder looked: it goes with what came before it in the file.
static void add_record(struct loader *loader, const struct ahead_other *other, struct replay *replay)
{
	const struct record *record = &other->record;
	bool has_time = record_has_time(record);
	if (has_time) {
		replay->last_ns = record->id.time_ns;
		saw_time(loader, begins_recording(record), replay->last_ns);
	}
	// Forks share mappings that a change copies: 2,000 of them and 5,000 children that each change one took 340 MB, of a file of 1 MB.
	loader->sideband_bytes += record->size;
	spaces_limit_bytes(loader->spaces, SPACES_BYTES_FREE + SPACES_BYTES_PER_BYTE * loader->sideband_bytes);
	struct queued *queued = (other->is_held ? queue_keep : queue_copy)(&loader->queue, record, other->event, !has_time);
	if (replay->last_ns == 0)
		apply(loader, queued);
	else
		queue_add(&loader->queue, &(struct queue_item){ .time_ns = replay->last_ns, .queued = queued }, 1);
}

// Raw samples that wait are older than what is to come.
static void end_round(struct loader *loader)
{
	if (loader->options->sink == NULL)
		return;
	raw_flush(loader);
	loader->options->sink->round(loader->options->sink->context, loader->reader);
}

static void finish_round(struct loader *loader, struct replay *replay)
{
	queue_round(&loader->queue, take, loader);
	end_round(loader);
	// Whoever died a while before the newest record that was replayed is forgotten: numbers come again.
	if (loader->queue.last_round_ns <= replay->reaped_ns + REAP_AFTER_NS)
		return;
	if (replay->reaped_ns > 0) {
		spaces_reap(loader->spaces, replay->reaped_ns);
		light_forget(loader);
	}
	replay->reaped_ns = loader->queue.last_round_ns;
}

static void add_batch(struct loader *loader, const struct batch *batch, struct replay *replay)
{
	size_t light = 0;
	if (batch->table != NULL)
		seen_came(&loader->seen, batch->table, batch->lights.count);
	for (size_t i = 0; i <= batch->others.count; i++) {
		size_t end = i < batch->others.count ? batch->others.data[i].after : batch->lights.count;
		for (size_t count; light < end; light += count) {
			count = queue_room(&loader->queue, QUEUE_BYTES_MOST, end - light);
			add_lights(loader, &batch->lights.data[light], count, replay);
			queue_bound(&loader->queue, QUEUE_BYTES_MOST, take, loader);
		}
		if (i == batch->others.count)
			return;
		const struct ahead_other *other = &batch->others.data[i];
		if (other->record.type != RECORD_USER_FINISHED_ROUND) {
			add_record(loader, other, replay);
			queue_bound(&loader->queue, QUEUE_BYTES_MOST, take, loader);
		} else if (!reader_is_folder(loader->reader)) {
			finish_round(loader, replay);
		}
	}
}

static bool replay(struct loader *loader, struct err *err)
{
	struct replay replay = { 0 };
	struct ahead *ahead = ahead_new(loader->reader, loader->options->sink == NULL ? &loader->seen : NULL, load_jobs(loader->options));
	enum reader_next end;
	do {
		const struct batch *batch = ahead_next(ahead);
		add_batch(loader, batch, &replay);
		end = batch->end;
		if (end == READER_ERROR)
			*err = batch->err;
	} while (end == READER_RECORD);
	ahead_free(ahead);
	if (end == READER_ERROR)
		return false;
	queue_flush(&loader->queue, UINT64_MAX, take, loader);
	deferred_end(loader);
	raw_flush(loader);
	end_round(loader);
	return true;
}

// ---------------------------------------------------------------- whole

static struct symbolizer_options symbolizer_options(const struct load_options *options)
{
	return (struct symbolizer_options){ .demangle = options->demangle, .inlines = options->inlines, .lines = !options->no_lines,
	                                    .symfs = options->symfs, .more_debug_dirs = options->debug_dirs, .use_host_files = true,
	                                    .no_lines = options->no_lines, .no_cache = options->no_cache, .debuginfod = options->debuginfod };
}

static void finish(struct loader *loader)
{
	(void)loader_event(loader, 0, false);
	for (size_t i = 0; i < loader->events.count; i++) {
		const struct reader_event *source = reader_event_at(loader->reader, i);
		uint32_t row = loader->events.data[i];
		if (row == PROFILE_NONE)
			continue;
		struct profile_event *event = &loader->profile->events.data[row];
		event->name = intern_string(&loader->profile->names, source->name); // a stream tells names late
		if (!event->is_sampling && source->group_leader >= 0 && (size_t)source->group_leader < loader->events.count)
			event->samples_of = loader->events.data[source->group_leader];
	}
	// Build IDs that a stream lists at its end.
	for (size_t i = 0; i < loader->profile->dsos.count; i++) {
		struct profile_dso *dso = &loader->profile->dsos.data[i];
		const struct build_id *listed = dso->build_id.size == 0 ? listed_build_id(loader, profile_text(loader->profile, dso->path)) : NULL;
		if (listed != NULL)
			dso->build_id = *listed;
	}
	account_finish(loader);
	samples_sort(&loader->profile->samples); // records that came too late for their round
	load_signal_frames(loader);
	load_symbols(loader);
	load_ends_by_name(loader);
	load_meta(loader);
}

// What records were replayed with: what names are looked up with takes its memory over, which is dear when it is fresh.
static void release_replay(struct loader *loader)
{
	loader->has_unwound = loader->raw.workers != NULL;
	raw_release(loader);
	queue_release(&loader->queue);
	deferred_release(&loader->deferred);
	for (size_t i = 0; i < RECENT_STACKS; i++) {
		vec_release(&loader->recent[i].frames);
		vec_release(&loader->recent[i].nodes);
	}
	free(loader->frame_cache);
	free(loader->chain.frames);
	loader->frame_cache = NULL;
	loader->chain = (struct chain){ 0 };
}

static void release(struct loader *loader)
{
	seen_release(&loader->seen);
	account_release(&loader->account);
	images_release(&loader->images);
	archives_release(&loader->archives);
	damages_release(&loader->damages);
	jit_release(&loader->jit);
	spaces_free(loader->spaces);
	reader_free(loader->reader);
	vec_release(&loader->events);
	vec_release(&loader->comms);
	vec_release(&loader->dsos);
	vec_release(&loader->dso_of);
	vec_release(&loader->by_return);
	hash_map_release(&loader->build_ids);
	libunwind_free(loader->libunwind);
	free(loader);
}

bool load_profile(struct profile *profile, const struct load_options *options, struct err *err)
{
	profile_init(profile);
	enum text_kind text = options->sink == NULL ? text_detect(options->input) : TEXT_NONE;
	if (text != TEXT_NONE)
		return text_load(profile, options, text, err);
	struct reader *reader;
	if (!reader_open(&reader, options->input, options->salvage, err))
		return false;
	if (reader_file_bytes(reader) >= MUCH_BYTES) // symbol tables are megabytes, whatever the recording
		mem_expect_much();
	if (reader_is_mapped(reader)) { // raw stacks, whose frames are many; what is not used is not touched
		vec_reserve(&profile->frames, FRAMES_EXPECTED);
		vec_reserve(&profile->nodes, 2 * FRAMES_EXPECTED);
	}
	struct loader *loader = NEW(struct loader);
	struct symbolizer_options where = symbolizer_options(options);
	damages_init(&loader->damages);
	where.damages = &loader->damages;
	loader->options = options;
	loader->profile = profile;
	loader->reader = reader;
	loader->queue.reader = reader;
	loader->queue.keeps_whole = options->sink != NULL;
	loader->spaces = spaces_new();
	if (reader_features(reader)->names == NULL)
		spaces_fill_holes(loader->spaces);
	loader->kernel_dso = loader->gap_dso = loader->probe_dso = PROFILE_NONE;
	loader->chain.frames = mem_alloc(CHAIN_MOST * sizeof(*loader->chain.frames));
	loader->frame_cache = mem_zero(FRAME_CACHE_SLOTS, sizeof(*loader->frame_cache));
	loader->light_forgotten = 1;
	seen_init(&loader->seen);
	images_init(&loader->images, &where, reader_features(reader));
	jit_init(&loader->jit);
	jit_from_inside(loader);
	loader->archives.symfs = where.symfs;
	bool wants_peer = options->libunwind || options->compare != NULL;
	bool good = (!wants_peer || libunwind_new(&loader->libunwind, err)) && replay(loader, err);
	release_replay(loader);
	if (good)
		finish(loader);
	if (good) {
		profile_join_core_events(profile);
		profile_pool_combs(profile);
	}
	if (good && options->sink != NULL)
		options->sink->finish(options->sink->context, reader, profile);
	release(loader);
	return good;
}
