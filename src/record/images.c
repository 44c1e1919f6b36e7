#include "record/images.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "proc/procfs.h"
#include "record/jit_files.h"
#include "record/jit_image.h"
#include "record/jit_objects.h"
#include "record/jit_pages.h"
#include "record/stack_pages.h"

enum slot_state { SLOT_UNKNOWN, SLOT_WANTED, SLOT_READY, SLOT_FAILED };
enum { SLOTS_PER_CHUNK = 256, CHUNKS_MAX = 4096, REQUESTS = 256, ATTEMPTS_MAX = 3 };

struct jit_process { _Atomic uint32_t found, failed; }; // searches of the helper
struct slot {
	_Atomic int state;
	struct image *image;       // READY only
	struct unwind_image *cfi;  // READY; NULL: no CFI at all
	uint8_t attempts;          // drain thread's
	int32_t asked_pid;
	struct jit_process *process; // of code in anonymous memory, else NULL
	bool is_other;               // FAILED, as the file is no ELF image
};

struct jit_code { // code of a JIT compiler, in a mapping
	struct slot slot;
	int32_t pid;
	uint64_t start, time_ns;
};

enum request_kind { REQUEST_IMAGE, REQUEST_VDSO, REQUEST_JIT, REQUEST_REREAD, REQUEST_PAGES, REQUEST_STACK_PAGES };
struct request {
	enum request_kind kind;
	struct slot *slot;
	struct jit_pages *pages;
	struct stack_pages *stack_pages;
	int32_t pid;
	uint64_t start, end, pgoff;
	struct dso dso; // path: below
	char path[PATH_MAX];
};

// Code of JIT compilers. A search takes a fraction of a millisecond: no more of them than are worth it.
enum { JIT_CODES_MOST = 16384, JIT_IMAGE_BYTES_MOST = 64 << 20, JIT_SEARCHES_A_SECOND = 64, JIT_FAILURES_MOST = 8 };

// Read on the helper thread, applied on the drain thread. The memory belongs to one side at a time, as `state` says.
struct reread {
	_Atomic int state; // 0 idle, 1 running, 2 done
	VEC(int32_t) pids;
	size_t roots; // the first so many pids
	bool everybody;
	uint8_t trailer[64];
	size_t trailer_bytes;
	struct buf records;
};

struct images {
	struct slot *chunks[CHUNKS_MAX]; // slots never move: the helper holds their addresses
	struct slot vdso[2];             // one for each ABI; [1]: 32-bit tasks
	// Drain thread: code in anonymous memory, by process and mapping, and how searches went in each process.
	VEC(struct jit_code *) jit_codes; // they do not move
	struct hash_map jit_by_mapping;
	VEC(struct jit_process *) jit_processes;
	struct hash_map jit_by_pid;
	struct request *requests;        // ring of REQUESTS
	_Atomic size_t pushed, popped;
	struct jit_objects *_Atomic objects;
	struct jit_files *_Atomic files; // looked for before what waits in the ring: hundreds of images take longer than a short process
	sem_t wake;
	pthread_t thread;
	bool running, abandoned;
	struct image *(*find_cfi)(const struct image *image); // session_config
	_Atomic bool stopping;
	_Atomic uint64_t version;
	struct reread reread;
	// The helper's until images_stop.
	uint64_t jit_image_bytes;
	time_t jit_second;
	unsigned jit_searches; // in that second
	struct images_figures figures;
};

struct images *images_new(struct image *(*find_cfi)(const struct image *image))
{
	struct images *images = NEW(struct images);
	images->find_cfi = find_cfi;
	images->requests = mem_zero(REQUESTS, sizeof(struct request));
	sem_init(&images->wake, 0, 0);
	return images;
}

// ---------------------------------------------------------------- the helper thread
static bool find_jit(struct images *images, const struct request *request, struct image **image)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (now.tv_sec != images->jit_second) {
		images->jit_second = now.tv_sec;
		images->jit_searches = 0;
	}
	if (images->jit_searches++ >= JIT_SEARCHES_A_SECOND || images->jit_image_bytes >= JIT_IMAGE_BYTES_MOST)
		return false;
	*image = jit_image_find(request->pid, request->start, request->end);
	images->jit_image_bytes += *image != NULL ? (*image)->size : 0;
	return *image != NULL;
}

static bool open_image(struct images *images, const struct request *request, struct image **image)
{
	if (request->kind == REQUEST_JIT)
		return find_jit(images, request, image);
	if (request->kind == REQUEST_VDSO)
		return procfs_open_vdso(image, request->pid, request->start, request->end, NULL);
	if (procfs_open_image(image, request->pid, &request->dso, request->start, request->end, request->pgoff, NULL))
		return true;
	// The process is gone; the same file (identity is checked) usually stands below our own root too.
	return !request->dso.deleted &&
	       procfs_open_image(image, (int32_t)getpid(), &request->dso, request->start, request->end, request->pgoff, NULL);
}

static void serve_image(struct images *images, const struct request *request)
{
	struct slot *slot = request->slot;
	struct image *image = NULL;
	bool good = open_image(images, request, &image);
	if (good) {
		slot->image = image;
		if (!unwind_image_new(&slot->cfi, image, true, NULL))
			slot->cfi = NULL;
		struct image *debug = request->kind == REQUEST_IMAGE && images->find_cfi != NULL && slot->cfi != NULL ? images->find_cfi(image) : NULL;
		if (debug != NULL)
			unwind_image_add_debug(slot->cfi, debug);
		image_release(debug);
		images->figures.opened++;
	} else {
		slot->is_other = request->kind == REQUEST_IMAGE && procfs_maps_other(request->pid, &request->dso, request->start, request->end);
		images->figures.failed += slot->process == NULL && !slot->is_other;
	}
	if (slot->process != NULL)
		atomic_fetch_add_explicit(good ? &slot->process->found : &slot->process->failed, 1, memory_order_relaxed);
	atomic_store_explicit(&slot->state, good ? SLOT_READY : SLOT_FAILED, memory_order_release);
	atomic_fetch_add_explicit(&images->version, 1, memory_order_release);
}

static void serve_reread(struct reread *reread)
{
	struct procfs_ids more = { 0 };
	struct hash_map done = { 0 };
	// Parents first: a FORK tells whose child it is.
	for (size_t i = 0; i < reread->roots && !reread->everybody; i++)
		(void)procfs_descendants(reread->pids.data[i], &more);
	if (reread->everybody)
		(void)procfs_pids(&more, NULL);
	for (size_t i = 0; i < more.ids.count; i++)
		vec_push(&reread->pids, more.ids.data[i]);
	for (size_t i = 0; i < reread->pids.count; i++) {
		bool is_new;
		hash_map_put(&done, (uint32_t)reread->pids.data[i], 1, &is_new);
		if (is_new)
			procfs_synthesize(reread->pids.data[i], true, reread->trailer, reread->trailer_bytes, &reread->records);
	}
	hash_map_release(&done);
	vec_release(&more.ids);
	atomic_store_explicit(&reread->state, 2, memory_order_release);
}

static void serve(struct images *images, struct request *request)
{
	switch (request->kind) {
	case REQUEST_IMAGE:
	case REQUEST_VDSO:
	case REQUEST_JIT: serve_image(images, request); break;
	case REQUEST_REREAD: serve_reread(&images->reread); break;
	case REQUEST_PAGES:
		jit_pages_read(request->pages);
		atomic_fetch_add_explicit(&images->version, 1, memory_order_release);
		break;
	case REQUEST_STACK_PAGES: stack_pages_read(request->stack_pages); break;
	}
}

static void *helper_main(void *context)
{
	struct images *images = context;
	for (;;) {
		while (sem_wait(&images->wake) != 0 && errno == EINTR)
			;
		struct jit_files *files = atomic_load_explicit(&images->files, memory_order_acquire);
		if (files != NULL && jit_files_is_handed(files))
			jit_files_serve(files);
		struct jit_objects *objects = atomic_load_explicit(&images->objects, memory_order_acquire);
		if (objects != NULL && jit_objects_is_handed(objects))
			jit_objects_serve(objects);
		size_t at = atomic_load_explicit(&images->popped, memory_order_relaxed);
		if (at == atomic_load_explicit(&images->pushed, memory_order_acquire)) {
			if (atomic_load(&images->stopping))
				return NULL;
			continue;
		}
		serve(images, &images->requests[at % REQUESTS]);
		atomic_store_explicit(&images->popped, at + 1, memory_order_release);
	}
}

bool images_start(struct images *images)
{
	images->running = pthread_create(&images->thread, NULL, helper_main, images) == 0;
	return images->running;
}

void images_stop(struct images *images)
{
	if (!images->running)
		return;
	atomic_store(&images->stopping, true);
	sem_post(&images->wake);
	images->running = false;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 5;
	if (pthread_timedjoin_np(images->thread, NULL, &until) != 0) {
		images->abandoned = true; // it waits for a mount that does not answer: what it holds is never freed
		pthread_detach(images->thread);
	}
}

// ---------------------------------------------------------------- the drain thread's side
static struct request *next_request(struct images *images)
{
	size_t at = atomic_load_explicit(&images->pushed, memory_order_relaxed);
	if (at - atomic_load_explicit(&images->popped, memory_order_acquire) == REQUESTS)
		return NULL;
	return &images->requests[at % REQUESTS];
}

static void send_request(struct images *images)
{
	atomic_fetch_add_explicit(&images->pushed, 1, memory_order_release);
	sem_post(&images->wake);
}

static struct slot *slot_of(struct images *images, uint32_t dso, bool make)
{
	uint32_t chunk = dso / SLOTS_PER_CHUNK;
	if (chunk >= CHUNKS_MAX)
		return NULL; // a million images: the rest have none
	if (images->chunks[chunk] == NULL) {
		if (!make)
			return NULL;
		images->chunks[chunk] = mem_zero(SLOTS_PER_CHUNK, sizeof(struct slot));
	}
	return &images->chunks[chunk][dso % SLOTS_PER_CHUNK];
}

static bool is_worth_a_search(struct jit_process *process)
{
	return atomic_load_explicit(&process->found, memory_order_relaxed) > 0 || atomic_load_explicit(&process->failed, memory_order_relaxed) < JIT_FAILURES_MOST;
}

static struct jit_process *jit_process(struct images *images, int32_t pid)
{
	bool is_new;
	uint32_t index = *hash_map_put(&images->jit_by_pid, (uint32_t)pid, (uint32_t)images->jit_processes.count, &is_new);
	if (is_new)
		vec_push(&images->jit_processes, NEW(struct jit_process));
	return images->jit_processes.data[index];
}

// Code in anonymous memory that its compiler keeps from being written. Where it may be written, unwind information of what was there before
// may be left. NULL: it is not worth a search.
static struct slot *slot_of_jit(struct images *images, const struct mapping *mapping, int32_t pid, uint64_t time_ns)
{
	uint64_t key = hash_pair((uint64_t)(uint32_t)pid << 32 | mapping->serial, mapping->start);
	if ((mapping->protection & PROT_WRITE) != 0)
		return NULL;
	const uint32_t *known = hash_map_get(&images->jit_by_mapping, key);
	if (known != NULL)
		return &images->jit_codes.data[*known]->slot;
	struct jit_process *process = jit_process(images, pid);
	if (images->jit_codes.count >= JIT_CODES_MOST || !is_worth_a_search(process))
		return NULL;
	hash_map_put(&images->jit_by_mapping, key, (uint32_t)images->jit_codes.count, NULL);
	struct jit_code *code = NEW(struct jit_code);
	*code = (struct jit_code){ .slot.process = process, .pid = pid, .start = mapping->start, .time_ns = time_ns };
	vec_push(&images->jit_codes, code);
	return &code->slot;
}

// The slot behind a mapping; NULL for what has no image by nature.
static struct slot *slot_for(struct images *images, const struct dso *dso, const struct mapping *mapping, int32_t pid, uint64_t time_ns)
{
	if (dso->kind == DSO_ANON)
		return slot_of_jit(images, mapping, pid, time_ns);
	if (dso->kind == DSO_VDSO) // every process of one ABI has the same vdso
		return &images->vdso[mapping->start < UINT64_C(1) << 32];
	return dso->kind == DSO_FILE ? slot_of(images, mapping->dso, true) : NULL;
}

static void ask(struct images *images, struct slot *slot, const struct dso *dso, const struct mapping *mapping, int32_t pid)
{
	int state = atomic_load_explicit(&slot->state, memory_order_acquire);
	if (state == SLOT_WANTED || state == SLOT_READY)
		return;
	if (state == SLOT_FAILED && (slot->attempts >= ATTEMPTS_MAX || slot->asked_pid == pid))
		return;
	struct request *request = next_request(images);
	if (request == NULL)
		return; // asked again by the next sample
	size_t length = strlen(dso->path);
	if (length >= sizeof(request->path)) {
		slot->attempts = ATTEMPTS_MAX;
		atomic_store_explicit(&slot->state, SLOT_FAILED, memory_order_release);
		return;
	}
	request->kind = dso->kind == DSO_VDSO ? REQUEST_VDSO : dso->kind == DSO_ANON ? REQUEST_JIT : REQUEST_IMAGE;
	request->slot = slot;
	request->pid = pid;
	request->start = mapping->start;
	request->end = mapping->end;
	request->pgoff = mapping->pgoff;
	memcpy(request->path, dso->path, length + 1);
	request->dso = *dso;
	request->dso.path = request->path;
	slot->attempts++;
	slot->asked_pid = pid;
	atomic_store_explicit(&slot->state, SLOT_WANTED, memory_order_release);
	send_request(images);
}

bool images_has_jit(const struct images *images, int32_t pid)
{
	const uint32_t *index = images->jit_processes.count > 0 ? hash_map_get(&images->jit_by_pid, (uint32_t)pid) : NULL;
	return index != NULL && is_worth_a_search(images->jit_processes.data[*index]);
}

bool images_want(struct images *images, const struct dso_table *dsos, const struct mapping *mapping, int32_t pid, uint64_t time_ns)
{
	const struct dso *dso = dso_get(dsos, mapping->dso);
	struct slot *slot = slot_for(images, dso, mapping, pid, time_ns);
	if (slot != NULL)
		ask(images, slot, dso, mapping, pid);
	return slot != NULL && dso->kind == DSO_ANON;
}

static enum unwind_end imageless(const struct dso *dso)
{
	// JIT code, that in files which are no ELF images (a Lisp's core, a DLL), and what stands in [vsyscall]: no CFI, frame pointers are tried.
	return dso->kind == DSO_SPECIAL && strncmp(dso->path, "[uprobes", 8) == 0 ? UNWIND_UPROBE_TRAMPOLINE : UNWIND_NO_CFI;
}

struct unwind_map images_map(struct images *images, const struct dso_table *dsos, const struct mapping *mapping, int32_t pid, bool give_up)
{
	struct unwind_map map = { .start = mapping->start, .end = mapping->end };
	const struct dso *dso = dso_get(dsos, mapping->dso);
	struct slot *slot = slot_for(images, dso, mapping, pid, 0);
	if (slot == NULL) {
		map.missing = imageless(dso);
		return map;
	}
	int state = atomic_load_explicit(&slot->state, memory_order_acquire);
	if (state == SLOT_UNKNOWN || state == SLOT_FAILED) {
		ask(images, slot, dso, mapping, pid);
		state = atomic_load_explicit(&slot->state, memory_order_acquire);
	}
	if (state == SLOT_READY) {
		map.image = slot->cfi;
		map.missing = UNWIND_NO_CFI;
		if (dso->kind != DSO_ANON && !image_bias(slot->image, mapping->start, mapping->end, mapping->pgoff, &map.bias)) {
			map.image = NULL;
			map.missing = UNWIND_NO_IMAGE;
		}
		return map;
	}
	bool is_over = state == SLOT_FAILED || give_up;
	bool is_known_code = dso->kind == DSO_ANON || (state == SLOT_FAILED && slot->is_other);
	map.missing = !is_over ? UNWIND_DEFERRED : is_known_code ? imageless(dso) : UNWIND_NO_IMAGE;
	return map;
}

uint64_t images_version(struct images *images)
{
	return atomic_load_explicit(&images->version, memory_order_acquire);
}

void images_read_pages(struct images *images, struct jit_pages *pages)
{
	struct request *request = next_request(images);
	if (request == NULL || !jit_pages_hand(pages))
		return;
	request->kind = REQUEST_PAGES;
	request->pages = pages;
	send_request(images);
}

void images_find_names(struct images *images, struct jit_files *files, struct jit_objects *objects, uint64_t now_ns, bool last)
{
	bool has_files = jit_files_hand(files), has_objects = jit_objects_hand(objects, now_ns, last);
	if (!has_files && !has_objects)
		return;
	atomic_store_explicit(&images->files, files, memory_order_release);
	atomic_store_explicit(&images->objects, objects, memory_order_release);
	sem_post(&images->wake);
}

void images_read_stack_pages(struct images *images, struct stack_pages *pages)
{
	struct request *request = next_request(images);
	if (request == NULL || !stack_pages_hand(pages))
		return;
	request->kind = REQUEST_STACK_PAGES;
	request->stack_pages = pages;
	send_request(images);
}

bool images_reread(struct images *images, const struct images_reread *what)
{
	struct reread *reread = &images->reread;
	struct request *request = next_request(images);
	if (request == NULL || what->trailer_bytes > sizeof(reread->trailer) ||
	    atomic_load_explicit(&reread->state, memory_order_acquire) != 0)
		return false;
	vec_clear(&reread->pids);
	for (size_t i = 0; i < what->count; i++)
		vec_push(&reread->pids, what->pids[i]);
	reread->roots = what->roots;
	reread->everybody = what->everybody;
	memcpy(reread->trailer, what->trailer, what->trailer_bytes);
	reread->trailer_bytes = what->trailer_bytes;
	atomic_store_explicit(&reread->state, 1, memory_order_release);
	request->kind = REQUEST_REREAD;
	send_request(images);
	return true;
}

bool images_reread_done(struct images *images, struct buf *out)
{
	struct reread *reread = &images->reread;
	if (atomic_load_explicit(&reread->state, memory_order_acquire) != 2)
		return false;
	*out = reread->records;
	reread->records = (struct buf){ 0 };
	atomic_store_explicit(&reread->state, 0, memory_order_release);
	return true;
}

// ---------------------------------------------------------------- after the end
struct image *images_image(const struct images *images, uint32_t dso)
{
	const struct slot *chunk = dso / SLOTS_PER_CHUNK < CHUNKS_MAX ? images->chunks[dso / SLOTS_PER_CHUNK] : NULL;
	if (chunk == NULL || atomic_load_explicit(&chunk[dso % SLOTS_PER_CHUNK].state, memory_order_acquire) != SLOT_READY)
		return NULL;
	return chunk[dso % SLOTS_PER_CHUNK].image;
}

struct image *images_vdso(const struct images *images, bool is_32)
{
	return atomic_load_explicit(&images->vdso[is_32].state, memory_order_acquire) == SLOT_READY ? images->vdso[is_32].image : NULL;
}

void images_jits(const struct images *images, struct names *names)
{
	for (size_t i = 0; !images->abandoned && i < images->jit_codes.count; i++) {
		const struct jit_code *code = images->jit_codes.data[i];
		bool is_found = atomic_load_explicit(&code->slot.state, memory_order_acquire) == SLOT_READY;
		if (atomic_load_explicit(&code->slot.process->found, memory_order_relaxed) > 0)
			names_jit(names, &(struct name_jit){ .time_ns = code->time_ns, .start = code->start, .pid = (uint32_t)code->pid,
			                                     .bytes = is_found ? code->slot.image->data : NULL, .size = is_found ? code->slot.image->size : 0 });
	}
}

struct images_figures images_figures(const struct images *images)
{
	return images->figures;
}

static void release_slot(struct slot *slot)
{
	unwind_image_free(slot->cfi);
	image_release(slot->image);
}

void images_free(struct images *images)
{
	if (images == NULL)
		return;
	images_stop(images);
	if (images->abandoned)
		return;
	for (size_t c = 0; c < CHUNKS_MAX; c++) {
		for (size_t i = 0; images->chunks[c] != NULL && i < SLOTS_PER_CHUNK; i++)
			release_slot(&images->chunks[c][i]);
		free(images->chunks[c]);
	}
	for (size_t i = 0; i < images->jit_codes.count; i++) {
		release_slot(&images->jit_codes.data[i]->slot);
		free(images->jit_codes.data[i]);
	}
	for (size_t i = 0; i < images->jit_processes.count; i++)
		free(images->jit_processes.data[i]);
	vec_release(&images->jit_codes);
	vec_release(&images->jit_processes);
	hash_map_release(&images->jit_by_mapping);
	hash_map_release(&images->jit_by_pid);
	release_slot(&images->vdso[0]);
	release_slot(&images->vdso[1]);
	vec_release(&images->reread.pids);
	buf_release(&images->reread.records);
	sem_destroy(&images->wake);
	free(images->requests);
	free(images);
}
