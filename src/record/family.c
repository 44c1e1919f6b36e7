#include "record/family.h"

#include "base/hash.h"
#include "base/vec.h"

enum member { MEMBER_YES = 1, MEMBER_NO };

struct family {
	const struct family_since *since;
	struct hash_map members; // pid -> enum member
	struct procfs_ids *out;
};

bool family_is_new(const struct family_since *since, int32_t pid, uint64_t birth_ticks)
{
	if (birth_ticks != since->ticks)
		return birth_ticks > since->ticks;
	return since->before == NULL || hash_map_get(since->before, (uint32_t)pid) == NULL;
}

void family_before(const int32_t *roots, size_t count, struct hash_map *before)
{
	struct procfs_ids below = { 0 };
	hash_map_clear(before);
	(void)procfs_descendants_of(roots, count, &below);
	for (size_t i = 0; i < below.ids.count; i++)
		hash_map_put(before, (uint32_t)below.ids.data[i], 1, NULL);
	vec_release(&below.ids);
}

static void decide_on(struct family *family, int32_t pid, bool is_member)
{
	bool is_new;
	hash_map_put(&family->members, (uint32_t)pid, is_member ? MEMBER_YES : MEMBER_NO, &is_new);
	if (is_member)
		vec_push(&family->out->ids, pid);
}

// A re-read of /proc after a loss finds children that were there before, too.
static void add_known(struct process *process, void *context)
{
	struct family *family = context;
	struct procfs_birth birth;
	if (process->pid <= 0 || hash_map_get(&family->members, (uint32_t)process->pid) != NULL)
		return;
	decide_on(family, process->pid, process->is_target && !process->exited && procfs_birth(process->pid, &birth) && family_is_new(family->since, process->pid, birth.ticks));
}

// false: that of the parent must come first, or it has ended.
static bool decide_by_birth(struct family *family, int32_t pid)
{
	struct procfs_birth birth;
	const uint32_t *parent = procfs_birth(pid, &birth) ? hash_map_get(&family->members, (uint32_t)birth.parent_pid) : NULL;
	if (parent == NULL || hash_map_get(&family->members, (uint32_t)pid) != NULL)
		return false;
	decide_on(family, pid, *parent == MEMBER_YES && family_is_new(family->since, pid, birth.ticks));
	return true;
}

void family_pids(const int32_t *roots, size_t count, struct spaces *spaces, const struct family_since *since, struct procfs_ids *out)
{
	struct family family = { .since = since, .out = out };
	struct procfs_ids below = { 0 };
	vec_clear(&out->ids);
	for (size_t i = 0; i < count; i++)
		decide_on(&family, roots[i], true);
	spaces_each_process(spaces, add_known, &family);
	(void)procfs_descendants_of(out->ids.data, out->ids.count, &below);
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < below.ids.count; i++)
			more |= decide_by_birth(&family, below.ids.data[i]);
	}
	vec_release(&below.ids);
	hash_map_release(&family.members);
}
