#include "proc/dso.h"

#include <string.h>

static const char deleted_suffix[] = " (deleted)"; // fs/d_path.c

// How many files of one name are compared one by one. Programs that map thousands of files under one name (memfd) have inodes to
// be found by.
enum { SAME_NAME_LIMIT = 64 };

static bool starts_with(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

void dso_table_release(struct dso_table *table)
{
	arena_release(&table->arena);
	vec_release(&table->rows);
	vec_release(&table->next);
	hash_map_release(&table->by_identity);
}

// The path without " (deleted)", which d_path() puts behind the name of an unlinked file.
static size_t plain_length(const char *path, bool *deleted)
{
	size_t length = strlen(path), suffix = sizeof(deleted_suffix) - 1;
	*deleted = length > suffix && strcmp(path + length - suffix, deleted_suffix) == 0;
	return *deleted ? length - suffix : length;
}

static bool has_inode(const struct dso *dso)
{
	return dso->inode != 0;
}

// Evidence that both have must agree. With none in common, a file that was unlinked is not the one that has its name now.
static bool same_file(const struct dso *a, const struct dso *b)
{
	bool both_ids = a->build_id.size > 0 && b->build_id.size > 0, both_inodes = has_inode(a) && has_inode(b);
	if (both_ids && !build_id_equal(&a->build_id, &b->build_id))
		return false;
	if (both_inodes && (a->inode != b->inode || a->major != b->major || a->minor != b->minor ||
	                    (a->inode_generation != 0 && b->inode_generation != 0 && a->inode_generation != b->inode_generation)))
		return false;
	return both_ids || both_inodes || a->deleted == b->deleted;
}

// What the row did not know yet and the key does; whether it can be found by more now.
static bool learn(struct dso *row, const struct dso *key)
{
	bool new_id = row->build_id.size == 0 && key->build_id.size > 0, new_inode = !has_inode(row) && has_inode(key);
	if (new_id)
		row->build_id = key->build_id;
	if (new_inode) {
		row->major = key->major;
		row->minor = key->minor;
		row->inode = key->inode;
		row->inode_generation = key->inode_generation;
	}
	row->deleted |= key->deleted;
	return new_id || new_inode;
}

static bool is_row(const struct dso *row, const struct dso *key, const char *path, size_t length)
{
	return row->kind == key->kind && row->pid == key->pid && row->since_ns == key->since_ns && strncmp(row->path, path, length) == 0 && row->path[length] == '\0' && same_file(row, key);
}

static uint64_t with_build_id(uint64_t name, const struct build_id *id)
{
	return hash_pair(name + 1, hash_bytes(id->bytes, id->size));
}

static uint64_t with_inode(uint64_t name, const struct dso *dso)
{
	return hash_pair(name + 2, hash_pair(dso->inode, (uint64_t)dso->major << 32 | dso->minor));
}

// The row is found by what it has: the newest one is meant where generations of an inode differ.
static void index_row(struct dso_table *table, uint64_t name, uint32_t id)
{
	const struct dso *row = &table->rows.data[id];
	if (row->build_id.size > 0)
		*hash_map_put(&table->by_identity, with_build_id(name, &row->build_id), id, NULL) = id;
	if (has_inode(row))
		*hash_map_put(&table->by_identity, with_inode(name, row), id, NULL) = id;
}

// The row of that file: by build ID or inode at once, else among those of its name that have other evidence or none.
static uint32_t find_row(const struct dso_table *table, uint64_t name, const struct dso *key, const char *path, size_t length)
{
	const uint32_t *direct[2] = {
		key->build_id.size > 0 ? hash_map_get(&table->by_identity, with_build_id(name, &key->build_id)) : NULL,
		has_inode(key) ? hash_map_get(&table->by_identity, with_inode(name, key)) : NULL,
	};
	for (size_t i = 0; i < 2; i++)
		if (direct[i] != NULL && is_row(&table->rows.data[*direct[i]], key, path, length))
			return *direct[i];
	const uint32_t *first = hash_map_get(&table->by_identity, name);
	uint32_t id = first != NULL ? *first : DSO_NONE;
	for (unsigned steps = 0; id != DSO_NONE && steps < SAME_NAME_LIMIT; steps++, id = table->next.data[id])
		if (is_row(&table->rows.data[id], key, path, length))
			return id;
	return DSO_NONE;
}

uint32_t dso_intern(struct dso_table *table, const struct dso *given)
{
	struct dso key = *given;
	bool cut, is_new;
	size_t length = plain_length(given->path, &cut);
	key.deleted |= cut;
	if (key.kind != DSO_ANON && key.kind != DSO_VDSO)
		key.pid = 0;
	if (key.kind != DSO_ANON)
		key.since_ns = 0;

	uint64_t name = hash_pair(hash_bytes(given->path, length) ^ key.since_ns, (uint64_t)key.pid << 8 | (uint64_t)key.kind);
	uint32_t id = find_row(table, name, &key, given->path, length);
	if (id != DSO_NONE) {
		if (learn(&table->rows.data[id], &key))
			index_row(table, name, id);
		return id;
	}
	id = (uint32_t)table->rows.count;
	key.path = arena_string(&table->arena, given->path, length);
	vec_push(&table->rows, key);
	vec_push(&table->next, DSO_NONE);
	uint32_t first = *hash_map_put(&table->by_identity, name, id, &is_new);
	if (!is_new) { // behind the first, which keeps its place
		table->next.data[id] = table->next.data[first];
		table->next.data[first] = id;
	}
	index_row(table, name, id);
	return id;
}

const struct dso *dso_get(const struct dso_table *table, uint32_t id)
{
	return id < table->rows.count ? &table->rows.data[id] : NULL;
}

void dso_set_build_id(struct dso_table *table, uint32_t id, const struct build_id *build_id)
{
	if (id < table->rows.count && table->rows.data[id].build_id.size == 0)
		table->rows.data[id].build_id = *build_id;
}

enum dso_kind dso_kind_of(const char *path, bool is_kernel)
{
	// Names the kernel gives to mappings without a file: perf_event_mmap_event() in kernel/events/core.c, show_map_vma() in
	// fs/proc/task_mmu.c, shmem and hugetlbfs files made by the kernel itself (mm/shmem.c, ipc/shm.c, fs/hugetlbfs).
	static const char *const anonymous[] = { "//anon", "[heap]", "[stack", "[anon", "/memfd:", "/dev/zero", "/SYSV", "SYSV",
		"/anon_hugepage", "anon_inode:", "/[aio]", NULL };

	if (is_kernel)
		return starts_with(path, "[kernel.") || starts_with(path, "[guest.kernel") || strcmp(path, "[kernel]") == 0 ? DSO_KERNEL : DSO_MODULE;
	if (starts_with(path, "[vdso"))
		return DSO_VDSO;
	if (path[0] == '\0')
		return DSO_ANON;
	for (const char *const *a = anonymous; *a != NULL; a++)
		if (starts_with(path, *a))
			return DSO_ANON;
	return path[0] == '[' ? DSO_SPECIAL : DSO_FILE;
}

const char *dso_short_name(const struct dso *dso)
{
	if (dso->kind == DSO_KERNEL)
		return "[kernel]";
	if (dso->kind == DSO_ANON || dso->path[0] == '[')
		return dso->path;
	const char *slash = strrchr(dso->path, '/');
	return slash != NULL && slash[1] != '\0' ? slash + 1 : dso->path;
}

bool dso_is_jitdump(const struct dso *dso)
{
	const char *name = dso_short_name(dso);
	if (dso->kind != DSO_FILE)
		return false;
	if (starts_with(name, "jitted-"))
		return true;
	size_t digits = starts_with(name, "jit-") ? strspn(name + 4, "0123456789") : 0;
	return digits > 0 && strcmp(name + 4 + digits, ".dump") == 0;
}
