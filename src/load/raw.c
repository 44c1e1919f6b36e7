#include "load/raw.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "load/code_bytes.h"
#include "load/loader.h"

enum {
	BATCH_JOBS = 4096,
	BATCH_BYTES = 8 << 20,
	// What one thread unwinds alone: so little that the copies of the stacks are in the processor's cache still, and that their memory
	// is used again and again.
	SMALL_BATCH_BYTES = 256 << 10,
	SMALL_BATCH_JOBS = 128,
	MANY_SAMPLES = 4096, // a recording of fewer is done before threads have compiled their rules
	JOBS_A_THREAD = 32,
	JOBS_A_TURN = 32, // twice what is unwound at a time: short stacks make room for the next
	WORKERS_MOST = 64,
	ROOM_BYTES = JOBS_A_TURN * UNWIND_MAX_FRAMES * sizeof(struct frame), // touched as far as stacks go
};

struct raw_worker {
	struct loader *loader;
	struct unwinder *unwinder;
	struct libunwind *libunwind;       // NULL: not wanted
	VEC(struct unwind_image *) images; // by dso id; compiled rules are one thread's own
	VEC(uint8_t) image_tried;
	struct hash_map jit_ids;           // (dump, offset of code) or (process's memory, index in the recording's) -> jit_images
	VEC(struct unwind_image *) jit_images; // NULL: its unwind information is of no use
	struct code_bytes *code;                 // bytes of code that is in no image; NULL: not asked for yet
	VEC(struct frame) frames;          // of all jobs of this batch, one after another
	struct frame *room;                // for the frames of one turn's jobs, UNWIND_MAX_FRAMES each
	size_t *next_job;                  // shared
};

// What a map is asked for with.
struct raw_lookup {
	struct raw_worker *worker;
	const struct raw_job *job;
};

static struct unwind_image *image_of(struct raw_worker *worker, uint32_t id, const struct dso *dso, uint16_t machine)
{
	while (worker->images.count <= id) {
		vec_push(&worker->images, NULL);
		vec_push(&worker->image_tried, 0);
	}
	if (!worker->image_tried.data[id]) {
		worker->image_tried.data[id] = 1;
		struct image *image = images_get(&worker->loader->images, id, dso, machine), *debug = images_debug(&worker->loader->images, id);
		if (image != NULL && !unwind_image_new(&worker->images.data[id], image, false, NULL))
			worker->images.data[id] = NULL;
		if (worker->images.data[id] != NULL && debug != NULL)
			unwind_image_add_debug(worker->images.data[id], debug);
	}
	return worker->images.data[id];
}

static void keep_jit(struct raw_worker *worker, struct image *image)
{
	struct unwind_image *made = NULL;
	if (image != NULL && !unwind_image_new(&made, image, false, NULL))
		made = NULL;
	image_release(image);
	vec_push(&worker->jit_images, made);
}

static bool is_new_jit(struct raw_worker *worker, uint64_t key, uint32_t *id)
{
	bool is_new;
	*id = *hash_map_put(&worker->jit_ids, key, (uint32_t)worker->jit_images.count, &is_new);
	return is_new;
}

// Code in anonymous memory whose unwind information was found there while it was recorded.
static void map_memory(struct raw_worker *worker, const struct mapping *mapping, const struct record *record, uint16_t machine, struct unwind_map *out)
{
	const struct names *names = reader_features(worker->loader->reader)->names;
	const struct name_jit *jit = names != NULL ? names_jit_at(names, (uint32_t)record->id.pid, mapping->start, record->id.time_ns) : NULL;
	uint32_t id;
	if (jit == NULL || jit->size == 0)
		return;
	if (is_new_jit(worker, hash_pair(mapping->dso, (uint64_t)(jit - names->jits.data)), &id)) {
		struct image *image = NULL;
		if (!image_open_bytes(&image, jit->bytes, jit->size, false, "[jit]", NULL) || image->machine != machine) {
			image_release(image);
			image = NULL;
		}
		keep_jit(worker, image);
	}
	out->image = worker->jit_images.data[id];
}

// Code in a jitdump that brought unwind information; where it brought none, frame pointers are tried.
static void map_jit(struct raw_worker *worker, const struct mapping *mapping, const struct dso *dso, uint64_t addr, uint16_t machine, struct unwind_map *out)
{
	const struct jit_source *source;
	uint64_t offset = addr - mapping->start + mapping->pgoff;
	const struct jit_unwind *unwind = jit_find_unwind(&worker->loader->jit, dso->path, offset, &source);
	if (unwind == NULL)
		return;
	uint32_t id;
	if (is_new_jit(worker, hash_pair(mapping->dso, unwind->offset), &id))
		keep_jit(worker, source->machine == machine ? jit_unwind_image(unwind, source->fd, source->machine) : NULL);
	out->image = worker->jit_images.data[id];
	out->bias = addr - (offset - unwind->offset) - JIT_UNWIND_VADDR;
}

static struct unwind_map map_at(void *context, uint64_t addr)
{
	const struct raw_lookup *lookup = context;
	struct raw_worker *worker = lookup->worker;
	uint16_t machine = lookup->job->machine;
	const struct mapping *mapping = maps_find(lookup->job->maps, addr);
	struct unwind_map out = { .missing = UNWIND_NO_MAPPING };
	if (mapping == NULL)
		return out;
	const struct dso *dso = dso_get(spaces_dsos(worker->loader->spaces), mapping->dso);
	out.start = mapping->start;
	out.end = mapping->end;
	out.missing = UNWIND_NO_IMAGE;
	bool is_dump = dso_is_jitdump(dso) && strncmp(dso_short_name(dso), "jit-", 4) == 0; // no ELF file
	if (dso->kind == DSO_ANON || is_dump)
		out.missing = UNWIND_NO_CFI;
	if (dso->kind == DSO_SPECIAL)
		out.missing = dso->path[1] == 'u' ? UNWIND_UPROBE_TRAMPOLINE : UNWIND_NO_CFI; // "[uprobes]", "[vsyscall]"
	if (dso->kind == DSO_ANON)
		map_memory(worker, mapping, &lookup->job->queued->record, machine, &out);
	if (is_dump)
		map_jit(worker, mapping, dso, addr, machine, &out);
	if (is_dump || (dso->kind != DSO_FILE && dso->kind != DSO_VDSO))
		return out;
	struct unwind_image *image = image_of(worker, mapping->dso, dso, machine);
	struct image *file = image != NULL ? images_get(&worker->loader->images, mapping->dso, dso, machine) : NULL;
	if (file != NULL && image_bias(file, mapping->start, mapping->end, mapping->pgoff, &out.bias))
		out.image = image;
	if (file == NULL && dso->kind == DSO_FILE && images_is_other(&worker->loader->images, mapping->dso))
		out.missing = UNWIND_NO_CFI;
	return out;
}

// The bytes of code that no image has: of a dump, where its file is here, else as the recorder read them.
static struct unwind_code code_at(void *context, uint64_t addr)
{
	const struct raw_lookup *lookup = context;
	struct raw_worker *worker = lookup->worker;
	const struct record *record = &lookup->job->queued->record;
	const struct mapping *mapping = maps_find(lookup->job->maps, addr);
	if (mapping == NULL)
		return (struct unwind_code){ 0 };
	if (worker->code == NULL)
		worker->code = code_bytes_new(reader_features(worker->loader->reader)->names);
	const struct dso *dso = dso_get(spaces_dsos(worker->loader->spaces), mapping->dso);
	int fd = dso_is_jitdump(dso) ? jit_fd(&worker->loader->jit, dso->path) : -1;
	if (fd < 0)
		return code_bytes_in_memory(worker->code, record->id.pid, record->id.time_ns, addr);
	return code_bytes_in_dump(worker->code, &(struct code_piece){ .start = mapping->start, .size = mapping->end - mapping->start, .offset = mapping->pgoff,
	                                                        .dump = mapping->dso, .fd = fd });
}

bool load_jit_code(const struct unwind_input *input, uint64_t addr, uint64_t *start, struct buf *out)
{
	enum { CODE_BYTES_MOST = 1 << 20 };
	const struct raw_lookup *lookup = input->map_context;
	const struct record *record = &lookup->job->queued->record;
	int fd;
	const struct jit_load *load = jit_code_at(&lookup->worker->loader->jit, record->id.pid, addr, record->id.time_ns, &fd);
	if (load == NULL || load->size > CODE_BYTES_MOST)
		return false;
	uint8_t *code = mem_alloc(load->size);
	bool good = pread(fd, code, load->size, (off_t)load->offset) == (ssize_t)load->size;
	buf_clear(out);
	if (good)
		buf_add(out, code, load->size);
	*start = load->addr;
	free(code);
	return good;
}

// What the kernel was to copy. Our own records are trimmed to what it did copy; so it is what the event asks for, as far as a record has room for it
// (perf_sample_ustack_size in kernel/events/core.c).
static size_t stack_asked(const struct raw_lookup *lookup)
{
	enum { RECORD_BYTES_MAX = UINT16_MAX, ROUNDING_BYTES = 256 }; // of what stands around the copy the kernel knows only the greater part by then
	const struct record *record = &lookup->job->queued->record;
	const struct record_stack *stack = &record->sample.stack;
	const struct perf_event_attr *attr = &reader_event_at(lookup->worker->loader->reader, lookup->job->queued->event)->attr;
	if (stack->dyn_size < stack->size || (attr->sample_type & PERF_SAMPLE_STACK_USER) == 0)
		return (size_t)stack->size;
	uint64_t rest = record->size - stack->size + ROUNDING_BYTES, room = rest < RECORD_BYTES_MAX ? RECORD_BYTES_MAX - rest : 0;
	uint64_t most = room < attr->sample_stack_user ? room : attr->sample_stack_user;
	return (size_t)(stack->size < most ? most : stack->size);
}

static struct unwind_input input_of(struct raw_lookup *lookup)
{
	const struct raw_job *job = lookup->job;
	const struct record_sample *sample = &job->queued->record.sample;
	return (struct unwind_input){
		.machine = job->machine, .regs = sample->user.words, .regs_mask = sample->user.mask, .stack = sample->stack.bytes,
		.stack_size = sample->stack.bytes != NULL ? sample->stack.dyn_size : 0, .stack_asked = stack_asked(lookup), .generation = job->maps->generation, .map = map_at,
		.map_context = lookup, .code = code_at, .code_context = lookup,
	};
}

// At most JOBS_A_TURN of them.
static void unwind_jobs(struct raw_worker *worker, struct raw_job *jobs, size_t count)
{
	struct raw_lookup lookups[JOBS_A_TURN];
	struct unwind_input inputs[JOBS_A_TURN];
	struct unwind_stack outs[JOBS_A_TURN];
	struct raw_job *wanted[JOBS_A_TURN];
	size_t n = 0;
	if (worker->room == NULL)
		worker->room = mem_sparse(ROOM_BYTES);
	for (size_t i = 0; i < count; i++) {
		if (jobs[i].queued == NULL)
			continue;
		wanted[n] = &jobs[i];
		lookups[n] = (struct raw_lookup){ worker, &jobs[i] };
		inputs[n] = input_of(&lookups[n]);
		outs[n] = (struct unwind_stack){ .frames = worker->room + n * UNWIND_MAX_FRAMES, .capacity = UNWIND_MAX_FRAMES };
		n++;
	}
	if (worker->libunwind != NULL && worker->loader->options->libunwind)
		for (size_t i = 0; i < n; i++)
			libunwind_stack(worker->libunwind, &inputs[i], &outs[i]);
	else
		unwind_stacks(worker->unwinder, inputs, outs, n);
	for (size_t i = 0; i < n; i++) {
		wanted[i]->worker = worker;
		wanted[i]->first = worker->frames.count;
		wanted[i]->count = outs[i].count;
		wanted[i]->gap = outs[i].gap;
		wanted[i]->end = outs[i].end;
		vec_reserve(&worker->frames, outs[i].count);
		if (outs[i].count > 0) // else there may be no array yet
			memcpy(worker->frames.data + worker->frames.count, outs[i].frames, outs[i].count * sizeof(struct frame));
		worker->frames.count += outs[i].count;
	}
}

static size_t turn_from(const struct raw *raw, size_t from)
{
	return raw->jobs.count - from < JOBS_A_TURN ? raw->jobs.count - from : JOBS_A_TURN;
}

// ---------------------------------------------------------------- two unwinders
static uint64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Each for all stacks at hand, so that reading the clock does not count. Ours goes over them once before: rules and stacks are warm for both.
static void compare_jobs(struct loader *loader)
{
	struct raw *raw = &loader->raw;
	struct raw_worker *worker = &raw->workers[0];
	const struct load_compare *compare = loader->options->compare;
	struct frame *frames = mem_zero(UNWIND_MAX_FRAMES, sizeof(*frames));
	uint64_t times[3];
	for (int pass = 0; pass < 2; pass++) {
		worker->frames.count = 0;
		times[0] = cpu_ns();
		for (size_t i = 0; i < raw->jobs.count; i += JOBS_A_TURN)
			unwind_jobs(worker, &raw->jobs.data[i], turn_from(raw, i));
		times[1] = cpu_ns();
	}
	for (int pass = 0; pass < 2; pass++) {
		times[2] = cpu_ns();
		for (size_t i = 0; i < raw->jobs.count; i++) {
			if (raw->jobs.data[i].queued == NULL)
				continue;
			struct raw_lookup lookup = { worker, &raw->jobs.data[i] };
			struct unwind_input input = input_of(&lookup);
			struct unwind_stack theirs = { .frames = frames, .capacity = UNWIND_MAX_FRAMES };
			libunwind_stack(worker->libunwind, &input, &theirs);
			const struct raw_job *job = &raw->jobs.data[i];
			struct unwind_stack ours = { .frames = worker->frames.data + job->first, .count = job->count, .end = job->end };
			if (pass == 0)
				compare->stack(compare->context, &job->queued->record, &input, &ours, &theirs);
		}
	}
	compare->time(compare->context, times[1] - times[0], cpu_ns() - times[2]);
	free(frames);
}

static void *work(void *argument)
{
	struct raw_worker *worker = argument;
	struct raw *raw = &worker->loader->raw;
	for (;;) {
		size_t from = __atomic_fetch_add(worker->next_job, JOBS_A_TURN, __ATOMIC_RELAXED);
		if (from >= raw->jobs.count)
			return NULL;
		unwind_jobs(worker, &raw->jobs.data[from], turn_from(raw, from));
	}
}

static void start_workers(struct loader *loader)
{
	// Unwinding is about a quarter of the whole, the rest goes in order: two threads took a fifth more CPU and were no sooner done.
	unsigned count = loader->options->jobs > 0 && loader->libunwind == NULL ? loader->options->jobs : 1;
	if (count > WORKERS_MOST)
		count = WORKERS_MOST;
	loader->raw.workers = mem_zero(count, sizeof(*loader->raw.workers));
	loader->raw.worker_count = count;
	for (unsigned i = 0; i < count; i++) {
		loader->raw.workers[i].loader = loader;
		loader->raw.workers[i].unwinder = unwinder_new_in_heap();
		loader->raw.workers[i].libunwind = i == 0 ? loader->libunwind : NULL;
	}
}

static void run_jobs(struct loader *loader)
{
	struct raw *raw = &loader->raw;
	pthread_t threads[WORKERS_MOST];
	size_t next = 0;
	unsigned wanted = raw->done >= MANY_SAMPLES ? (unsigned)(raw->jobs.count / JOBS_A_THREAD) : 1, started = 0;
	for (unsigned i = 0; i < raw->worker_count; i++) {
		raw->workers[i].frames.count = 0;
		raw->workers[i].next_job = &next;
	}
	for (unsigned i = 1; i < raw->worker_count && i < wanted; i++) {
		if (pthread_create(&threads[started], NULL, work, &raw->workers[i]) != 0)
			break; // the rest do it
		started++;
	}
	work(&raw->workers[0]);
	for (unsigned i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

static void finish_job(struct loader *loader, struct raw_job *job)
{
	struct profile_sample *sample = &job->sample;
	if (job->queued == NULL) {
		samples_add(&loader->profile->samples, sample);
		return;
	}
	struct chain *chain = &loader->chain;
	const struct record *record = &job->queued->record;
	chain_from_sample(chain, record, &reader_event_at(loader->reader, job->queued->event)->attr, sample);
	chain->count = chain->kernel_count; // frame pointers give way to what was unwound
	const struct frame *frames = job->worker->frames.data + job->first;
	for (size_t i = 0; i < job->count && chain->count + 1 < CHAIN_MOST; i++) {
		if (i > 0 && i == job->gap)
			chain->frames[chain->count++] = (struct chain_frame){ .kind = CHAIN_GAP };
		chain->frames[chain->count++] = (struct chain_frame){ .addr = frames[i].addr, .kind = frames[i].kind, .via = frames[i].via };
	}
	if (chain->count == 0 && (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER)
		chain->frames[chain->count++] = (struct chain_frame){ .addr = record->sample.ip, .kind = FRAME_LEAF };
	sample->is_kernel = (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
	sample->end = (uint8_t)job->end;
	loader_hand_on(loader, job->queued, sample, true);
	sample->stack = chain_intern(loader, sample->tid, chain, job->maps, job->kernel, false);
	samples_add(&loader->profile->samples, sample);
	queue_done(&loader->queue, job->queued);
	maps_release(job->maps);
	maps_release(job->kernel);
}

void raw_flush(struct loader *loader)
{
	struct raw *raw = &loader->raw;
	if (raw->jobs.count == 0)
		return;
	if (raw->workers == NULL)
		start_workers(loader);
	if (loader->options->compare != NULL && loader->libunwind != NULL)
		compare_jobs(loader);
	else
		run_jobs(loader);
	for (size_t i = 0; i < raw->jobs.count; i++)
		finish_job(loader, &raw->jobs.data[i]);
	raw->done += raw->jobs.count;
	vec_clear(&raw->jobs);
	raw->bytes = 0;
}

void raw_add_known(struct loader *loader, const struct profile_sample *sample)
{
	struct raw *raw = &loader->raw;
	if (raw->jobs.count == 0) {
		samples_add(&loader->profile->samples, sample);
		return;
	}
	vec_push(&raw->jobs, (struct raw_job){ .sample = *sample });
	if (raw->jobs.count >= BATCH_JOBS)
		raw_flush(loader);
}

void raw_add(struct loader *loader, struct queued *queued, const struct profile_sample *sample, uint16_t machine, struct maps *maps,
             struct maps *kernel)
{
	struct raw *raw = &loader->raw;
	vec_push(&raw->jobs, (struct raw_job){ .queued = queued, .sample = *sample, .machine = machine, .maps = maps_retain(maps),
	                                       .kernel = maps_retain(kernel) });
	if (!queued->is_kept) // else few bytes of it will be in the cache
		raw->bytes += queued->record.sample.stack.dyn_size + queued->record.sample.callchain_count * sizeof(uint64_t);
	bool is_alone = raw->done < MANY_SAMPLES || loader->options->jobs <= 1;
	if (raw->jobs.count >= (is_alone ? SMALL_BATCH_JOBS : BATCH_JOBS) || raw->bytes >= (is_alone ? SMALL_BATCH_BYTES : BATCH_BYTES))
		raw_flush(loader);
}

void raw_release(struct loader *loader)
{
	struct raw *raw = &loader->raw;
	for (size_t i = 0; i < raw->jobs.count; i++) {
		if (raw->jobs.data[i].queued == NULL)
			continue;
		queue_done(&loader->queue, raw->jobs.data[i].queued);
		maps_release(raw->jobs.data[i].maps);
		maps_release(raw->jobs.data[i].kernel);
	}
	vec_release(&raw->jobs);
	for (unsigned i = 0; i < raw->worker_count; i++) {
		struct raw_worker *worker = &raw->workers[i];
		unwinder_free(worker->unwinder);
		for (size_t j = 0; j < worker->images.count; j++)
			unwind_image_free(worker->images.data[j]);
		vec_release(&worker->images);
		for (size_t j = 0; j < worker->jit_images.count; j++)
			unwind_image_free(worker->jit_images.data[j]);
		vec_release(&worker->jit_images);
		hash_map_release(&worker->jit_ids);
		code_bytes_free(worker->code);
		vec_release(&worker->image_tried);
		vec_release(&worker->frames);
		mem_pages_free(worker->room, ROOM_BYTES);
	}
	free(raw->workers);
	*raw = (struct raw){ 0 };
}
