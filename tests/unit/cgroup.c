// Cgroups: other hosts' mountinfo, a cgroup of our own from birth to removal, a target's own, containers' IDs.
#include "record/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "tests/scratch.h"

static const char *file_of(const char *name, const char *text)
{
	static char path[2][128];
	static int next;
	char *p = path[next++ % 2];
	snprintf(p, sizeof(path[0]), "%s/%s", scratch, name);
	FILE *f = fopen(p, "w");
	fputs(text, f);
	fclose(f);
	return p;
}

struct host { const char *what, *mountinfo, *cgroup, *point, *directory; bool is_v1; };

static const struct host hosts[] = {
	{ "cgroup2 alone", "22 1 8:1 / / rw - ext4 /dev/vda rw\n35 24 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
	  "0::/user.slice/user-1000.slice/session-3.scope\n", "/sys/fs/cgroup", "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope", false },
	{ "hybrid without perf_event", "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
	  "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n", "4:memory:/a/b\n1:cpu:/\n0::/\n",
	  "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified", false },
	{ "v1 with perf_event, cgroup2 beside it", "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
	  "33 31 0:30 / /sys/fs/cgroup/perf_event rw - cgroup cgroup rw,perf_event\n", "5:perf_event:/job\n0::/elsewhere\n",
	  "/sys/fs/cgroup/perf_event", "/sys/fs/cgroup/perf_event/job", true },
	{ "v1 with several controllers, line order turned round", "33 31 0:30 / /cg/x rw shared:1 master:2 - cgroup none rw,net_cls,perf_event,cpu\n",
	  "0::/elsewhere\n5:net_cls,perf_event:/job\n", "/cg/x", "/cg/x/job", true },
	{ "container without a cgroup namespace", "40 39 0:29 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/docker/abc/inner\n",
	  "/sys/fs/cgroup", "/sys/fs/cgroup/inner", false },
	{ "container with one", "40 39 0:29 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n", "0::/\n", "/sys/fs/cgroup", "/sys/fs/cgroup", false },
	{ "two mounts, the second shows us", "40 39 0:29 /other /mnt/a rw - cgroup2 cgroup rw\n41 39 0:29 /mine /mnt/b rw - cgroup2 cgroup rw\n",
	  "0::/mine/x\n", "/mnt/b", "/mnt/b/x", false },
	{ "a blank and a backslash in the mount point", "40 39 0:29 / /mnt/a\\040b\\134c rw - cgroup2 cgroup rw\n", "0::/x\n", "/mnt/a b\\c", "/mnt/a b\\c/x", false },
	{ "prefix of a name is not its parent", "40 39 0:29 /dock /mnt/a rw - cgroup2 cgroup rw\n", "0::/docker\n", "/mnt/a", NULL, false },
	{ "outside our cgroup namespace", "40 39 0:29 / /mnt/a rw - cgroup2 cgroup rw\n", "0::/../other\n", "/mnt/a", NULL, false },
};

static void other_hosts(void)
{
	struct cgroup_mount mount;
	char own[4096], directory[4096];
	struct err err = { 0 };

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		const struct host *h = &hosts[i];
		const char *info = file_of("mountinfo", h->mountinfo), *own_file = file_of("cgroup", h->cgroup);
		bool found = cgroup_mount_find(&mount, own, info, own_file, &err);
		ok(found && strcmp(mount.point, h->point) == 0 && mount.is_v1 == h->is_v1, "%s: %s", h->what, found ? mount.point : err.text);
		bool below = found && cgroup_mount_directory(&mount, own, directory, sizeof(directory));
		ok(below == (h->directory != NULL) && (!below || strcmp(directory, h->directory) == 0), "%s: our directory is %s", h->what,
		   below ? directory : "not below it");
	}
	ok(!cgroup_mount_find(&mount, own, file_of("mountinfo", hosts[0].mountinfo), file_of("cgroup", "5:perf_event:/x\n0::/x\n"), &err) &&
	   err.status == STATUS_HOST, "a perf_event hierarchy that is not mounted here: %s", err.text);
	ok(!cgroup_mount_find(&mount, own, file_of("mountinfo", "garbage\n1 2 3\n - cgroup2\n\n40 39 0:29 / /a rw - cgroup2\n"), file_of("cgroup", "0::/x\n"), &err),
	   "a mountinfo without one, with broken lines: %s", err.text);
	ok(!cgroup_mount_find(&mount, own, "/no/such", file_of("cgroup", "0::/x\n"), &err), "no mountinfo: %s", err.text);
	ok(!cgroup_mount_find(&mount, own, "/no/such", file_of("cgroup", "4:cpu:/x\n"), &err), "no hierarchy at all: %s", err.text);
	// A mount point too long for the path is skipped, not cut.
	char *huge = malloc(20000);
	snprintf(huge, 20000, "40 39 0:29 / /%0*d rw - cgroup2 cgroup rw\n", 6000, 1);
	ok(!cgroup_mount_find(&mount, own, file_of("mountinfo", huge), file_of("cgroup", "0::/x\n"), &err), "a mount point of 6000 bytes: %s", err.text);
	free(huge);
}

static void containers(void)
{
	static const char id[] = "4f3c2b1a99887766554433221100ffeeddccbbaa00112233445566778899aabb";
	struct { const char *before, *after; const char *prefix; bool found; } cases[] = {
		{ "/docker/", "", "4f3c", true },
		{ "/system.slice/docker-", ".scope", "4f3c2b1a9988", true },
		{ "/system.slice/docker-", ".scope/init.scope", "4f3c", true },
		{ "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b2c3d4e_0000_1111_2222_333344445555.slice/cri-containerd-", ".scope", "4F3C2B", true },
		{ "/machine.slice/libpod-", ".scope", "4f3c", true },
		{ "/docker/", "", "f3c2", false },
		{ "/docker/", "", "", false },
		{ "/docker/", "", "4f3c2b1a99887766554433221100ffeeddccbbaa00112233445566778899aabbcc", false },
	};
	char path[512];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(path, sizeof(path), "%s%s%s", cases[i].before, id, cases[i].after);
		size_t length = cgroup_container_in_path(path, cases[i].prefix);
		size_t wanted = strlen(cases[i].before) + strlen(id) + (strncmp(cases[i].after, ".scope", 6) == 0 ? 6 : 0);
		is_u64(length, cases[i].found ? wanted : 0, "%s in %.40s…", cases[i].prefix, path);
	}
	const char *pod = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod1b2c3d4e_0000_1111_2222_333344445555.slice/x.scope";
	is_u64(cgroup_container_in_path(pod, "1b2c3d4e-0000"), strlen(pod) - strlen("/x.scope"), "a pod's UID, dashes for underscores");
	is_u64(cgroup_container_in_path(pod, "0000-1111"), 0, "not from its middle");
	is_u64(cgroup_container_in_path("/user.slice/user-1000.slice", "1000"), 0, "user-1000 is no ID");
	struct err err = { 0 };
	ok(!cgroup_find_container("fedcba9876543210", path, sizeof(path), &err) && err.status == STATUS_USAGE, "%s", err.text);
}

static pid_t spawn_sleeper(void)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("sleep", "sleep", "100", (char *)NULL);
		_exit(127);
	}
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void own_one(void)
{
	struct cgroup cgroup, again, other;
	struct err err = { 0 };
	char path[4096], full[4200];

	if (!cgroup_create(&cgroup, &err)) {
		skip(err.text, "a cgroup of our own");
		return;
	}
	snprintf(full, sizeof(full), "perfsample-%d", (int)getpid());
	ok(cgroup.is_ours && strstr(cgroup.path, full) != NULL && access(cgroup.path, F_OK) == 0, "made: %s", cgroup.path);
	ok(cgroup_create(&again, &err) && strcmp(again.path, cgroup.path) != 0, "a second one of the same process: %s", again.path);
	cgroup_remove(&again);

	pid_t child = spawn_sleeper();
	ok(cgroup_add(&cgroup, child, &err), "a process is moved into it %s", err.text);
	ok(procfs_cgroup_path(child, path, sizeof(path)) && strstr(path, full) != NULL, "and is there: %s", path);
	ok(cgroup_of_own(&other, &child, 1, NULL) && strcmp(other.path, cgroup.path) == 0 && !other.is_ours, "it has that cgroup to itself");
	cgroup_remove(&other);
	ok(other.fd == -1 && access(cgroup.path, F_OK) == 0, "which is not removed with the handle");

	pid_t stranger = spawn_sleeper();
	ok(!cgroup_of_own(&other, &stranger, 1, NULL) && other.fd == -1, "a process beside us has none");
	cgroup_add(&cgroup, stranger, NULL);
	ok(!cgroup_of_own(&other, &child, 1, NULL), "with a stranger in it, it is not the first one's own");
	int32_t both[] = { child, stranger };
	ok(cgroup_of_own(&other, both, 2, NULL), "but both together have it");
	cgroup_remove(&other);
	int32_t self = getpid();
	ok(!cgroup_of_own(&other, &self, 1, NULL), "never our own");
	ok(!cgroup_of_own(&other, &self, 0, NULL), "nor that of nobody");

	// The same by its path in the hierarchy and by its absolute one.
	ok(cgroup_open(&other, path, &err) && strcmp(other.path, cgroup.path) == 0, "opened by its path below the root: %s", err.text);
	cgroup_remove(&other);
	ok(cgroup_open(&other, path + 1, &err), "without the slash, too");
	cgroup_remove(&other);
	ok(cgroup_open(&other, cgroup.path, &err), "opened by its absolute path");
	cgroup_remove(&other);

	// A cgroup below it counts as a part of it.
	snprintf(full, sizeof(full), "%s/inner", cgroup.path);
	ok(mkdir(full, 0755) == 0 && cgroup_open(&other, full, &err) && cgroup_add(&other, stranger, &err), "the second one moves to a cgroup below %s", err.text);
	cgroup_remove(&other);
	ok(!cgroup_of_own(&other, &child, 1, NULL), "whose processes count");
	ok(cgroup_of_own(&other, both, 2, NULL) && strcmp(other.path, cgroup.path) == 0, "two in different ones: what holds both");
	cgroup_remove(&other);

	snprintf(full, sizeof(full), "%s", cgroup.path);
	cgroup_remove(&cgroup);
	ok(access(full, F_OK) != 0, "removed, with the one below");
	ok(kill(child, 0) == 0 && kill(stranger, 0) == 0 && procfs_cgroup_path(child, path, sizeof(path)) && strstr(path, "perfsample-") == NULL,
	   "what still ran in it lives on, moved out");
	end(child);
	end(stranger);
	cgroup_remove(&cgroup);
	ok(cgroup.fd == -1, "removing twice does nothing");
}

// What a killed run leaves: removed by the next when its pid is dead and it is empty; kept while something runs in it.
static void leftovers(void)
{
	struct cgroup cgroup, left;
	struct err err = { 0 };
	char empty[4200], full[4200], ours[4200];

	if (!cgroup_create(&cgroup, &err)) {
		skip(err.text, "leftovers of killed runs");
		return;
	}
	pid_t dead = spawn_sleeper();
	end(dead);
	char *slash = strrchr(cgroup.path, '/');
	int length = (int)(slash - cgroup.path);
	snprintf(empty, sizeof(empty), "%.*s/perfsample-%d", length, cgroup.path, (int)dead);
	snprintf(full, sizeof(full), "%.*s/perfsample-%d.1", length, cgroup.path, (int)dead);
	snprintf(ours, sizeof(ours), "%.*s/perfsample-keep", length, cgroup.path);
	pid_t sleeper = spawn_sleeper();
	ok(mkdir(empty, 0755) == 0 && mkdir(full, 0755) == 0 && mkdir(ours, 0755) == 0 && cgroup_open(&left, full, &err) && cgroup_add(&left, sleeper, &err),
	   "leftovers of a dead run %s", err.text);
	cgroup_remove(&left);
	struct cgroup next;
	ok(cgroup_create(&next, &err), "the next run begins");
	ok(access(empty, F_OK) != 0, "and removes the empty one");
	ok(access(full, F_OK) == 0 && kill(sleeper, 0) == 0, "not the one where something runs");
	ok(access(ours, F_OK) == 0 && access(cgroup.path, F_OK) == 0, "nor one of a living process or another name");
	end(sleeper);
	cgroup_remove(&next);
	cgroup_remove(&cgroup);
	ok(cgroup_create(&next, &err) && access(full, F_OK) != 0, "the one after that removes it");
	cgroup_remove(&next);
	rmdir(ours);
}

// A recorder in a pid namespace of its own, where none of the host's pids is anybody's.
static void other_namespace(void)
{
	struct cgroup cgroup, again;
	struct err err = { 0 };
	int status = -1;

	if (!cgroup_create(&cgroup, &err)) {
		skip(err.text, "a recorder in another pid namespace");
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		close(cgroup.fd); // the lock is the open file's: this one shares it
		if (unshare(CLONE_NEWPID) != 0)
			_exit(2);
		pid_t inner = fork(); // pid 1 there
		if (inner == 0) {
			bool good = kill(getppid() != 0 ? getppid() : 12345678, 0) != 0 && cgroup_create(&again, &err);
			cgroup_remove(&again);
			_exit(!good);
		}
		_exit(inner > 0 && waitpid(inner, &status, 0) == inner && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
	}
	waitpid(pid, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
		skip("no pid namespace to be had", "a recorder in another pid namespace");
	else
		ok(WIFEXITED(status) && WEXITSTATUS(status) == 0 && access(cgroup.path, F_OK) == 0, "a recorder in another pid namespace leaves a living one's alone");
	cgroup_remove(&cgroup);
}

static void refusals(void)
{
	struct cgroup cgroup;
	struct err err = { 0 };

	ok(!cgroup_open(&cgroup, "/no/such/group", &err) && err.status == STATUS_HOST && strstr(err.text, "/no/such/group") != NULL, "%s", err.text);
	ok(!cgroup_open(&cgroup, scratch, &err) && strstr(err.text, "not a cgroup") != NULL, "%s", err.text);
	ok(!cgroup_open(&cgroup, "/etc/passwd", &err), "%s", err.text);
}

int main(void)
{
	scratch_make();
	size_t before = open_fds();
	other_hosts();
	containers();
	own_one();
	leftovers();
	other_namespace();
	refusals();
	is_u64(open_fds(), before, "no descriptor is left open");
	return tap_done();
}
