// Who is followed besides the targets: what they started since, by records or by /proc, and nobody who was there before.
#include "record/family.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "perf/record.h"
#include "tests/tap.h"

// A process that does as it is told: each byte of the pipe lets it start a child, whose pid it answers with; the child does as it is told in its turn.
struct teller { pid_t pid; int to, from; };

static void obey(int to, int from);

static pid_t start(int orders[2], int answers[2])
{
	if (pipe(orders) != 0 || pipe(answers) != 0)
		exit(1);
	pid_t pid = fork();
	if (pid == 0) {
		close(orders[1]);
		close(answers[0]);
		obey(orders[0], answers[1]);
		_exit(0);
	}
	close(orders[0]);
	close(answers[1]);
	return pid;
}

// Orders: 'c' a child that sleeps; 'o' a child of a child that has ended.
static void obey(int to, int from)
{
	char order;
	while (read(to, &order, 1) == 1) {
		int made[2];
		pid_t pid = 0;
		if (pipe(made) != 0)
			_exit(1);
		pid_t child = fork();
		if (child == 0 && order == 'o' && fork() != 0)
			_exit(0);
		if (child == 0) {
			pid = getpid();
			if (write(made[1], &pid, sizeof(pid)) != sizeof(pid))
				_exit(1);
			close(to); // its end is ours
			for (;;)
				pause();
		}
		if (read(made[0], &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
		if (order == 'o')
			waitpid(child, NULL, 0);
		close(made[0]);
		close(made[1]);
		if (write(from, &pid, sizeof(pid)) != sizeof(pid))
			_exit(1);
	}
}

static struct teller new_teller(void)
{
	int orders[2], answers[2];
	struct teller teller = { .pid = start(orders, answers) };
	teller.to = orders[1];
	teller.from = answers[0];
	return teller;
}

static pid_t tell(const struct teller *teller, char order)
{
	pid_t pid = -1;
	if (write(teller->to, &order, 1) != 1 || read(teller->from, &pid, sizeof(pid)) != sizeof(pid))
		exit(1);
	return pid;
}

static bool has(const struct procfs_ids *ids, pid_t pid)
{
	size_t times = 0;
	for (size_t i = 0; i < ids->ids.count; i++)
		times += ids->ids.data[i] == pid;
	return times == 1;
}

static void next_tick(void)
{
	uint64_t now = procfs_now_ticks();
	while (procfs_now_ticks() <= now)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void said(struct spaces *spaces, uint32_t type, pid_t parent, pid_t pid)
{
	struct record record = { .type = type, .id.time_ns = 1, .task = { .pid = (uint32_t)pid, .ppid = (uint32_t)parent, .tid = (uint32_t)pid, .ptid = (uint32_t)parent } };
	spaces_apply(spaces, &record, false);
}

int main(void)
{
	struct teller root = new_teller();
	pid_t before = tell(&root, 'c');
	next_tick();
	struct family_since since = { procfs_now_ticks(), NULL };
	next_tick();
	pid_t child = tell(&root, 'c'), told = tell(&root, 'c'), orphan = tell(&root, 'o'), stranger = tell(&root, 'o'), gone = tell(&root, 'c');
	struct procfs_ids ids = { 0 };
	struct spaces *spaces = spaces_new();
	spaces_process(spaces, root.pid)->is_target = true;
	said(spaces, PERF_RECORD_FORK, root.pid, told);
	spaces_process(spaces, told)->is_target = true;
	said(spaces, PERF_RECORD_FORK, root.pid, orphan);
	spaces_process(spaces, orphan)->is_target = true;
	// As the kernel ends the events of what executes a set-user-ID program.
	said(spaces, PERF_RECORD_FORK, root.pid, gone);
	spaces_process(spaces, gone)->is_target = true;
	said(spaces, PERF_RECORD_EXIT, root.pid, gone);
	family_pids(&root.pid, 1, spaces, &since, &ids);
	ok(has(&ids, root.pid), "the target itself, once");
	ok(has(&ids, child), "a child that no record told of yet, by its parent and time of birth");
	ok(has(&ids, told), "a child that a record told of, once");
	ok(has(&ids, orphan), "one whose parent has ended, by the record");
	ok(!has(&ids, stranger), "without a record it can't be told from others");
	ok(!has(&ids, before), "a child that was there before is not followed");
	ok(!has(&ids, gone), "nor one whose events have ended");
	is_u64(ids.ids.count, 4, "and nobody else");

	// A re-read of /proc after a loss makes what was there before look like a child of the target.
	spaces_process(spaces, before)->is_target = true;
	family_pids(&root.pid, 1, spaces, &since, &ids);
	ok(!has(&ids, before) && ids.ids.count == 4, "not even when /proc was read again");
	// Asked the other way round: all are older than the recording.
	next_tick();
	family_pids(&root.pid, 1, spaces, &(struct family_since){ procfs_now_ticks(), NULL }, &ids);
	ok(has(&ids, root.pid) && ids.ids.count == 1, "later, the target alone");

	// Births are told to 10 ms: in the tick that the recording began in, who was seen then was there before.
	struct hash_map seen = { 0 };
	struct procfs_birth birth = { 0 };
	ok(procfs_birth(child, &birth), "a child's birth");
	family_before(&root.pid, 1, &seen);
	ok(hash_map_get(&seen, (uint32_t)child) != NULL && hash_map_get(&seen, (uint32_t)root.pid) == NULL, "what is there now: the children, not the target");
	ok(!family_is_new(&(struct family_since){ birth.ticks, &seen }, child, birth.ticks), "of that very tick, and seen: there before");
	ok(family_is_new(&(struct family_since){ birth.ticks, &seen }, 1 << 22, birth.ticks), "not seen: new");
	ok(family_is_new(&(struct family_since){ birth.ticks - 1, &seen }, child, birth.ticks), "of a later one: new, whoever had the number");
	hash_map_release(&seen);

	const pid_t all[] = { before, child, told, orphan, stranger, gone, root.pid };
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		kill(all[i], SIGKILL);
	waitpid(root.pid, NULL, 0);
	spaces_free(spaces);
	vec_release(&ids.ids);
	return tap_done();
}
