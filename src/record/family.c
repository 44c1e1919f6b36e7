#include "record/family.h"

#include <stdbool.h>

#include "base/hash.h"
#include "base/vec.h"

enum member { MEMBER_YES = 1, MEMBER_NO };

struct family {
	uint64_t since_ticks;
	struct hash_map members; // pid -> enum member
	struct procfs_ids *out;
};

static void decide_on(struct family *family, int32_t pid, bool is_member)
{
	bool is_new;
	hash_map_put(&family->members, (uint32_t)pid, is_member ? MEMBER_YES : MEMBER_NO, &is_new);
	if (is_member)
		vec_push(&family->out->ids, pid);
}

// A re-read of /proc after a loss finds children that were there before, too. In the tick that the recording began in, a record decides.
static void add_known(struct process *process, void *context)
{
	struct family *family = context;
	struct procfs_birth birth;
	if (process->pid <= 0 || hash_map_get(&family->members, (uint32_t)process->pid) != NULL)
		return;
	decide_on(family, process->pid, process->is_target && !process->exited && procfs_birth(process->pid, &birth) && birth.ticks >= family->since_ticks);
}

// false: that of the parent must come first, or it has ended.
static bool decide_by_birth(struct family *family, int32_t pid)
{
	struct procfs_birth birth;
	const uint32_t *parent = procfs_birth(pid, &birth) ? hash_map_get(&family->members, (uint32_t)birth.parent_pid) : NULL;
	if (parent == NULL || hash_map_get(&family->members, (uint32_t)pid) != NULL)
		return false;
	decide_on(family, pid, *parent == MEMBER_YES && birth.ticks > family->since_ticks);
	return true;
}

void family_pids(const int32_t *roots, size_t count, struct spaces *spaces, uint64_t since_ticks, struct procfs_ids *out)
{
	struct family family = { .since_ticks = since_ticks, .out = out };
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
