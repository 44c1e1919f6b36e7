#include "proc/dso.h"

#include <string.h>

static const char deleted_suffix[] = " (deleted)"; // fs/d_path.c

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

// What the row did not know yet and the key does.
static void learn(struct dso *row, const struct dso *key)
{
	if (row->build_id.size == 0)
		row->build_id = key->build_id;
	if (!has_inode(row)) {
		row->major = key->major;
		row->minor = key->minor;
		row->inode = key->inode;
		row->inode_generation = key->inode_generation;
	}
	row->deleted |= key->deleted;
}

uint32_t dso_intern(struct dso_table *table, const struct dso *given)
{
	struct dso key = *given;
	bool cut;
	size_t length = plain_length(given->path, &cut);
	key.deleted |= cut;
	if (key.kind != DSO_ANON && key.kind != DSO_VDSO)
		key.pid = 0;

	bool is_new;
	uint64_t hash = hash_pair(hash_bytes(given->path, length), (uint64_t)key.pid << 8 | (uint64_t)key.kind);
	uint32_t *first = hash_map_put(&table->by_identity, hash, (uint32_t)table->rows.count, &is_new);
	uint32_t last = DSO_NONE;
	for (uint32_t i = is_new ? DSO_NONE : *first; i != DSO_NONE; i = table->next.data[i]) {
		struct dso *row = &table->rows.data[i];
		if (row->kind == key.kind && row->pid == key.pid && strncmp(row->path, given->path, length) == 0 &&
		    row->path[length] == '\0' && same_file(row, &key)) {
			learn(row, &key);
			return i;
		}
		last = i;
	}
	uint32_t id = (uint32_t)table->rows.count;
	key.path = arena_string(&table->arena, given->path, length);
	vec_push(&table->rows, key);
	vec_push(&table->next, DSO_NONE);
	if (last != DSO_NONE)
		table->next.data[last] = id;
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
