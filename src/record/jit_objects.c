#include "record/jit_objects.h"

#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/search.h"
#include "base/sort.h"
#include "elf/image.h"
#include "perf/record.h"
#include "proc/procfs.h"
#include "record/jit_list.h"

enum { DESCRIPTORS_MOST = 8, MAPPED_MOST = 1024, FILES_MOST = 4096, OBJECTS_MOST = 16384, PAIRS_MOST = 4096 };
#define LOOK_AGAIN_NS (UINT64_C(250) * 1000 * 1000)
enum watch_state { WATCH_UNKNOWN, WATCH_NONE, WATCH_HAS };

struct mapped { uint64_t start, end, time_ns; };

struct object { // of one look or several
	struct jit_list_entry entry;
	uint64_t content;                    // a hash of its bytes
	uint32_t first_function, function_count; // in watch.functions
	bool is_there, was_there;            // in the list, at this look and at the one before
	bool is_over;                        // its functions have their end
	uint64_t from_ns, after_ns;          // of its functions; and the look before the one that found it
	uint64_t start, end;                 // of its code
	struct unwind_image *cfi;            // NULL: none
};

struct covered { uint64_t start, end; struct unwind_image *cfi; };
struct cover { size_t count; struct cover *older; struct covered all[]; }; // by start; published: older ones may be looked at still

struct watch { // of a program
	struct jit_program program;
	bool wants;                          // drain thread
	VEC(struct mapped) news;             // drain thread: since the last look was asked for
	VEC(struct mapped) mapped;           // the helper's from here on: by time
	_Atomic int state;
	_Atomic uint64_t next_ns;            // no look before
	_Atomic uint32_t version;            // of the cover
	uint32_t version_told;               // drain thread
	struct cover *_Atomic cover;
	uint64_t descriptors[DESCRIPTORS_MOST];
	size_t descriptor_count;
	uint64_t looked_ns, before_ns;       // the last look and the one before; 0: none
	struct hash_map by_content;          // key_of -> index into objects
	VEC(struct object) objects;
	VEC(struct jit_function) functions;
};

struct file { uint64_t inode, device, vaddr; bool has; }; // whether a file has a descriptor, and where

struct jit_objects {
	struct perf_clock clock;             // of the records
	struct hash_map by_program;          // drain thread
	VEC(struct watch *) watches;         // drain thread; they do not move
	bool is_waiting;
	VEC(struct watch *) batch;           // the helper's while `is_handed`
	_Atomic bool is_handed;
	VEC(struct file) files;              // the helper's
	struct arena names;
	uint64_t bytes, look_bytes, function_count, left_out;
};

struct jit_objects *jit_objects_new(const struct perf_clock *clock)
{
	struct jit_objects *objects = NEW(struct jit_objects);
	objects->clock = *clock;
	return objects;
}

// ---------------------------------------------------------------- drain thread
static struct watch *find_watch(const struct jit_objects *objects, struct jit_program program)
{
	const uint32_t *index = objects->watches.count > 0 ? hash_map_get(&objects->by_program, hash_pair((uint32_t)program.pid, program.since_ns)) : NULL;
	return index != NULL ? objects->watches.data[*index] : NULL;
}

void jit_objects_sampled(struct jit_objects *objects, struct jit_program program)
{
	struct watch *watch = find_watch(objects, program);
	if (watch == NULL) {
		if (objects->watches.count >= JIT_OBJECTS_PROGRAMS_MOST)
			return;
		watch = NEW(struct watch);
		watch->program = program;
		hash_map_put(&objects->by_program, hash_pair((uint32_t)program.pid, program.since_ns), (uint32_t)objects->watches.count, NULL);
		vec_push(&objects->watches, watch);
	}
	if (atomic_load_explicit(&watch->state, memory_order_relaxed) != WATCH_NONE)
		objects->is_waiting = watch->wants = true;
}

void jit_objects_mapped(struct jit_objects *objects, struct jit_program program, uint64_t start, uint64_t end, bool is_file, uint64_t time_ns)
{
	struct watch *watch = find_watch(objects, program);
	if (watch == NULL)
		return;
	int none = WATCH_NONE;
	if (is_file) { // a library that brings a compiler
		atomic_compare_exchange_strong(&watch->state, &none, WATCH_UNKNOWN);
		return;
	}
	if (atomic_load_explicit(&watch->state, memory_order_relaxed) == WATCH_NONE)
		return;
	if (watch->news.count < MAPPED_MOST)
		vec_push(&watch->news, (struct mapped){ start, end, time_ns });
	objects->is_waiting = watch->wants = true;
}

bool jit_objects_is_waiting(const struct jit_objects *objects)
{
	return objects->is_waiting;
}

bool jit_objects_is_handed(const struct jit_objects *objects)
{
	return atomic_load_explicit(&objects->is_handed, memory_order_acquire);
}

bool jit_objects_hand(struct jit_objects *objects, uint64_t now_ns, bool last)
{
	if (objects->watches.count == 0 || jit_objects_is_handed(objects))
		return false;
	objects->is_waiting = false;
	for (size_t i = 0; i < objects->watches.count; i++) {
		struct watch *watch = objects->watches.data[i];
		uint64_t next_ns = atomic_load_explicit(&watch->next_ns, memory_order_relaxed);
		bool is_old = atomic_load_explicit(&watch->state, memory_order_relaxed) == WATCH_HAS && now_ns > next_ns + LOOK_AGAIN_NS;
		bool is_due = is_old || (watch->wants && (last || now_ns >= next_ns));
		objects->is_waiting |= watch->wants && !is_due;
		if (!is_due)
			continue;
		watch->wants = false;
		if (watch->mapped.count + watch->news.count > MAPPED_MOST) { // the oldest have told what they can
			size_t half = watch->mapped.count / 2;
			watch->mapped.count -= half;
			memmove(watch->mapped.data, watch->mapped.data + half, watch->mapped.count * sizeof(*watch->mapped.data));
		}
		for (size_t k = 0; k < watch->news.count && watch->mapped.count < MAPPED_MOST; k++)
			vec_push(&watch->mapped, watch->news.data[k]);
		vec_clear(&watch->news);
		vec_push(&objects->batch, watch);
	}
	if (objects->batch.count == 0)
		return false;
	atomic_store_explicit(&objects->is_handed, true, memory_order_release);
	return true;
}

bool jit_objects_map(const struct jit_objects *objects, struct jit_program program, uint64_t addr, struct unwind_map *out)
{
	const struct watch *watch = find_watch(objects, program);
	const struct cover *cover = watch != NULL ? atomic_load_explicit(&watch->cover, memory_order_acquire) : NULL;
	if (cover == NULL)
		return false;
	const size_t next = first_not(0, cover->count, i, cover->all[i].start <= addr);
	const struct covered *c = next > 0 ? &cover->all[next - 1] : NULL;
	if (c == NULL || addr >= c->end)
		return false;
	*out = (struct unwind_map){ .start = c->start, .end = c->end, .image = c->cfi, .missing = UNWIND_NO_CFI };
	return true;
}

void jit_objects_news(struct jit_objects *objects, void (*changed)(void *context, struct jit_program program), void *context)
{
	for (size_t i = 0; i < objects->watches.count; i++) {
		struct watch *watch = objects->watches.data[i];
		uint32_t version = atomic_load_explicit(&watch->version, memory_order_acquire);
		if (version != watch->version_told)
			changed(context, watch->program);
		watch->version_told = version;
	}
}

// ---------------------------------------------------------------- helper thread: where a descriptor is
static bool descriptor_in(const struct image *image, uint64_t *vaddr)
{
	static const char name[] = "__jit_debug_descriptor";
	bool found = image->is_64 && image_find_symbol(image, name, vaddr);
	struct image *mini = found || !image->is_64 ? NULL : image_open_mini_debug(image, NULL);
	found = found || (mini != NULL && image_find_symbol(mini, name, vaddr));
	image_release(mini);
	return found;
}

// Each file is looked into once.
static void look_into_file(struct jit_objects *objects, struct watch *watch, const struct record_mapping *m)
{
	const uint64_t device = (uint64_t)m->major << 32 | m->minor;
	struct file *known = NULL;
	struct image *image = NULL;
	for (size_t i = 0; i < objects->files.count && known == NULL && m->inode != 0; i++)
		if (objects->files.data[i].inode == m->inode && objects->files.data[i].device == device)
			known = &objects->files.data[i];
	if (known != NULL && !known->has)
		return;
	struct dso dso = { .path = m->path, .kind = DSO_FILE, .major = m->major, .minor = m->minor, .inode = m->inode };
	if (!procfs_open_image(&image, watch->program.pid, &dso, m->start, m->start + m->length, m->pgoff, NULL))
		return;
	struct file file = { .inode = m->inode, .device = device };
	file.has = known != NULL ? (file.vaddr = known->vaddr, true) : descriptor_in(image, &file.vaddr);
	uint64_t bias;
	if (file.has && image_bias(image, m->start, m->start + m->length, m->pgoff, &bias) && watch->descriptor_count < DESCRIPTORS_MOST)
		watch->descriptors[watch->descriptor_count++] = file.vaddr + bias;
	if (known == NULL && objects->files.count < FILES_MOST)
		vec_push(&objects->files, file);
	image_release(image);
}

static void find_descriptors(struct jit_objects *objects, struct watch *watch)
{
	struct buf records = { 0 };
	struct record_layout layout = { 0 };
	watch->descriptor_count = 0;
	procfs_synthesize(watch->program.pid, false, NULL, 0, &records);
	for (size_t at = 0; at < records.size;) {
		struct perf_event_header *header = (struct perf_event_header *)(void *)(records.data + at);
		struct record record;
		if (header->size == 0 || !record_decode(&layout, header, header->size, &record, NULL))
			break;
		at += header->size;
		if (record.type == PERF_RECORD_MMAP2 && dso_kind_of(record.mapping.path, false) == DSO_FILE)
			look_into_file(objects, watch, &record.mapping);
	}
	buf_release(&records);
}

// ---------------------------------------------------------------- helper thread: objects
static bool read_memory(void *context, uint64_t addr, void *to, size_t size)
{
	return procfs_memory_read(*(const int *)context, addr, to, size) == size;
}

// The last time that memory at `addr` was mapped; 0: not seen.
static uint64_t mapped_at(const struct watch *watch, uint64_t addr, uint64_t until_ns)
{
	uint64_t time_ns = 0;
	for (size_t i = 0; i < watch->mapped.count; i++) {
		const struct mapped *m = &watch->mapped.data[i];
		if (addr - m->start < m->end - m->start && m->time_ns > time_ns && m->time_ns <= until_ns)
			time_ns = m->time_ns;
	}
	return time_ns;
}

// Functions lie between each other's where two objects' do; of very many that is not looked into.
static bool overlap(const struct watch *watch, const struct object *a, const struct object *b)
{
	if (a->start >= b->end || b->start >= a->end)
		return false;
	if ((uint64_t)a->function_count * b->function_count > PAIRS_MOST)
		return true;
	for (uint32_t i = 0; i < a->function_count; i++)
		for (uint32_t k = 0; k < b->function_count; k++) {
			const struct jit_function *f = &watch->functions.data[a->first_function + i], *g = &watch->functions.data[b->first_function + k];
			if (f->addr < g->addr + g->size && g->addr < f->addr + f->size)
				return true;
		}
	return false;
}

static void set_from(struct watch *watch, const struct object *object, uint64_t from_ns)
{
	for (uint32_t i = 0; i < object->function_count; i++)
		watch->functions.data[object->first_function + i].from_ns = from_ns;
}

static void set_until(struct watch *watch, const struct object *object, uint64_t until_ns)
{
	for (uint32_t i = 0; i < object->function_count; i++) {
		struct jit_function *f = &watch->functions.data[object->first_function + i];
		uint64_t least_ns = until_ns > f->from_ns ? until_ns : f->from_ns;
		f->until_ns = least_ns < f->until_ns ? least_ns : f->until_ns;
	}
}

// Since when an object has been there that this look found: since its memory was mapped, unless another one was there since. Else this look is the first to know, or, if
// it is the first of all, what was there when the program was first sampled counts as there before. What was at its place before is there no longer.
static void place_in_time(struct watch *watch, struct object *object, uint64_t look_ns)
{
	uint64_t mapped_ns = mapped_at(watch, object->start, look_ns);
	object->after_ns = watch->looked_ns;
	object->from_ns = mapped_ns > watch->program.since_ns ? mapped_ns : watch->looked_ns != 0 ? look_ns : watch->program.since_ns != 0 ? watch->program.since_ns + 1 : 0;
	for (size_t i = 0; i < watch->objects.count; i++)
		if (!watch->objects.data[i].is_over && overlap(watch, &watch->objects.data[i], object) && watch->objects.data[i].from_ns >= object->from_ns)
			object->from_ns = look_ns;
	set_from(watch, object, object->from_ns);
	for (size_t i = 0; i < watch->objects.count; i++) {
		struct object *before = &watch->objects.data[i];
		if (before->is_over || !overlap(watch, before, object))
			continue;
		set_until(watch, before, object->from_ns);
		before->is_over = true;
	}
}

// Records of mappings come later than looks: what the last look found may be known better now.
static void know_better(struct watch *watch)
{
	for (size_t i = watch->objects.count; i > 0 && watch->objects.data[i - 1].after_ns == watch->before_ns; i--) {
		struct object *object = &watch->objects.data[i - 1];
		uint64_t mapped_ns = mapped_at(watch, object->start, object->from_ns);
		if (mapped_ns > object->after_ns && mapped_ns > watch->program.since_ns)
			set_from(watch, object, object->from_ns = mapped_ns);
	}
}

struct taking { struct jit_objects *objects; struct watch *watch; struct object *object; };

static bool take_function(void *context, const char *name, uint64_t addr, uint64_t size)
{
	struct taking *t = context;
	size_t length = strnlen(name, JIT_OBJECTS_NAME_BYTES_MOST);
	if (addr + size <= addr)
		return true;
	if (t->objects->function_count >= JIT_OBJECTS_FUNCTIONS_MOST || t->objects->names.bytes + length > JIT_OBJECTS_NAMES_BYTES_MOST) {
		t->objects->left_out++;
		return true;
	}
	t->objects->function_count++;
	vec_push(&t->watch->functions, (struct jit_function){ addr, size, 0, UINT64_MAX, arena_string(&t->objects->names, name, length) });
	t->object->function_count++;
	if (t->object->start == 0 || addr < t->object->start)
		t->object->start = addr;
	if (addr + size > t->object->end)
		t->object->end = addr + size;
	return true;
}

static uint64_t key_of(const struct jit_list_entry *entry, uint64_t content)
{
	return hash_pair(hash_pair(entry->at, entry->object), hash_pair(entry->size, content));
}

static void read_object(struct jit_objects *objects, struct watch *watch, const struct jit_list_entry *entry, const void *bytes, uint64_t content, uint64_t look_ns)
{
	struct image *image;
	struct object object = { .entry = *entry, .content = content, .is_there = true, .first_function = (uint32_t)watch->functions.count };
	if (image_open_bytes(&image, bytes, (size_t)entry->size, false, "[jit]", NULL)) {
		struct taking taking = { objects, watch, &object };
		image_each_function(image, take_function, &taking);
		place_in_time(watch, &object, look_ns);
		// Of an object that is to be linked yet (ET_REL), what unwinds it is not in here (jit_image.h finds it).
		if (image->type == ET_REL || !unwind_image_new(&object.cfi, image, true, NULL))
			object.cfi = NULL;
		image_release(image);
	}
	*hash_map_put(&watch->by_content, key_of(entry, content), 0, NULL) = (uint32_t)watch->objects.count;
	vec_push(&watch->objects, object);
}

// An entry that was freed is given again, so that only what is in an object tells it from the one before.
static void look_at_entry(struct jit_objects *objects, struct watch *watch, int memory, const struct jit_list_entry *entry, uint64_t look_ns)
{
	if (objects->look_bytes + entry->size > JIT_OBJECTS_LOOK_BYTES_MOST)
		return;
	objects->look_bytes += entry->size;
	void *bytes = mem_alloc((size_t)entry->size);
	if (procfs_memory_read(memory, entry->object, bytes, (size_t)entry->size) == entry->size) {
		uint64_t content = hash_bytes(bytes, (size_t)entry->size);
		const uint32_t *known = hash_map_get(&watch->by_content, key_of(entry, content));
		if (known != NULL && (!watch->objects.data[*known].is_over || watch->objects.data[*known].was_there || watch->objects.data[*known].is_there)) {
			watch->objects.data[*known].is_there = true;
		} else if (objects->bytes + entry->size <= JIT_OBJECTS_BYTES_MOST && watch->objects.count < OBJECTS_MOST) {
			objects->bytes += entry->size;
			read_object(objects, watch, entry, bytes, content, look_ns);
		} else {
			objects->left_out++;
		}
	}
	free(bytes);
}

// It was taken away between the last look and this one; when, only a mapping tells.
static void end_object(struct watch *watch, struct object *object, uint64_t look_ns)
{
	uint64_t mapped_ns = mapped_at(watch, object->start, look_ns);
	set_until(watch, object, mapped_ns > watch->looked_ns ? mapped_ns : watch->looked_ns);
	object->is_over = true;
}

static int by_start(const void *a, const void *b)
{
	const struct covered *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

static void publish(struct watch *watch)
{
	struct cover *before = atomic_load_explicit(&watch->cover, memory_order_relaxed);
	size_t count = 0;
	bool is_same = true;
	for (size_t i = 0; i < watch->objects.count; i++)
		count += watch->objects.data[i].is_there && watch->objects.data[i].cfi != NULL;
	if (count == 0 && before == NULL)
		return;
	struct cover *cover = mem_zero(1, sizeof(*cover) + count * sizeof(cover->all[0]));
	for (size_t i = 0; i < watch->objects.count; i++) {
		const struct object *o = &watch->objects.data[i];
		if (o->is_there && o->cfi != NULL)
			cover->all[cover->count++] = (struct covered){ o->start, o->end, o->cfi };
	}
	if (count > 1)
		sort_stable(cover->all, count, sizeof(cover->all[0]), by_start);
	is_same = before != NULL && before->count == count && memcmp(before->all, cover->all, count * sizeof(cover->all[0])) == 0;
	if (is_same) {
		free(cover);
		return;
	}
	cover->older = before;
	atomic_store_explicit(&watch->cover, cover, memory_order_release);
	atomic_fetch_add_explicit(&watch->version, 1, memory_order_release);
}

static void look_at_lists(struct jit_objects *objects, struct watch *watch, int memory)
{
	const uint64_t look_ns = perf_clock_ns(&objects->clock);
	struct jit_list list = { 0 };
	objects->look_bytes = 0;
	know_better(watch);
	for (size_t i = 0; i < watch->descriptor_count; i++)
		(void)jit_list_read(&list, watch->descriptors[i], read_memory, &memory);
	const size_t before = watch->objects.count;
	for (size_t i = 0; i < before; i++) {
		watch->objects.data[i].was_there = watch->objects.data[i].is_there;
		watch->objects.data[i].is_there = list.is_torn && watch->objects.data[i].is_there;
	}
	for (size_t i = 0; i < list.entries.count; i++)
		look_at_entry(objects, watch, memory, &list.entries.data[i], look_ns);
	for (size_t i = 0; i < before; i++)
		if (watch->objects.data[i].was_there && !watch->objects.data[i].is_there && !watch->objects.data[i].is_over)
			end_object(watch, &watch->objects.data[i], look_ns);
	publish(watch);
	watch->before_ns = watch->looked_ns;
	watch->looked_ns = look_ns;
	jit_list_release(&list);
}

static void serve(struct jit_objects *objects, struct watch *watch)
{
	const uint64_t start_ns = perf_clock_ns(&objects->clock);
	int state = atomic_load(&watch->state), memory = procfs_memory_open(watch->program.pid);
	if (memory >= 0 && state == WATCH_UNKNOWN) {
		find_descriptors(objects, watch);
		atomic_compare_exchange_strong(&watch->state, &state, watch->descriptor_count > 0 ? WATCH_HAS : WATCH_NONE);
	}
	if (memory >= 0 && watch->descriptor_count > 0)
		look_at_lists(objects, watch, memory);
	if (memory >= 0)
		close(memory);
	else
		atomic_store(&watch->state, WATCH_NONE); // it is gone, or not ours to read
	const uint64_t end_ns = perf_clock_ns(&objects->clock);
	atomic_store(&watch->next_ns, end_ns + (end_ns - start_ns) * JIT_OBJECTS_REST);
}

void jit_objects_serve(struct jit_objects *objects)
{
	for (size_t i = 0; i < objects->batch.count; i++)
		serve(objects, objects->batch.data[i]);
	vec_clear(&objects->batch);
	atomic_store_explicit(&objects->is_handed, false, memory_order_release);
}

// ---------------------------------------------------------------- when both have ended
static int by_time(const void *a, const void *b)
{
	const struct jit_function *x = a, *y = b;
	if (x->from_ns != y->from_ns)
		return x->from_ns < y->from_ns ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

const struct jit_function *jit_objects_functions(struct jit_objects *objects, struct jit_program program, size_t *count)
{
	struct watch *watch = jit_objects_is_handed(objects) ? NULL : find_watch(objects, program);
	*count = watch != NULL ? watch->functions.count : 0;
	if (*count == 0)
		return NULL;
	sort_stable(watch->functions.data, *count, sizeof(*watch->functions.data), by_time);
	return watch->functions.data;
}

uint64_t jit_objects_left_out(const struct jit_objects *objects)
{
	return jit_objects_is_handed(objects) ? 0 : objects->left_out;
}

static void free_watch(struct watch *watch)
{
	for (struct cover *cover = atomic_load(&watch->cover), *older; cover != NULL; cover = older) {
		older = cover->older;
		free(cover);
	}
	for (size_t i = 0; i < watch->objects.count; i++)
		unwind_image_free(watch->objects.data[i].cfi);
	vec_release(&watch->news);
	vec_release(&watch->mapped);
	vec_release(&watch->objects);
	vec_release(&watch->functions);
	hash_map_release(&watch->by_content);
	free(watch);
}

void jit_objects_free(struct jit_objects *objects)
{
	if (objects == NULL || jit_objects_is_handed(objects))
		return;
	for (size_t i = 0; i < objects->watches.count; i++)
		free_watch(objects->watches.data[i]);
	vec_release(&objects->watches);
	vec_release(&objects->batch);
	vec_release(&objects->files);
	hash_map_release(&objects->by_program);
	arena_release(&objects->names);
	free(objects);
}
