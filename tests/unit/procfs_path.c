// Untrusted paths: the kernel's openat2 and our own walk give the same answer, never leave the root, never open what is no regular file.
#include "proc/procfs_path.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "proc/procfs.h"
#include "tests/deny_syscall.h"
#include "tests/scratch.h"

static void put(const char *name, const char *text)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	FILE *f = fopen(path, "w");
	if (f == NULL)
		return;
	fputs(text, f);
	fclose(f);
}

static void folder_of(const char *name)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	mkdir(path, 0755);
}

static void link_of(const char *name, const char *target)
{
	char path[512];
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	if (symlink(target, path) != 0)
		diag("symlink %s failed", name);
}

// What is read of the file found, or "errno N".
static void outcome(int path_fd, char text[64])
{
	int fd = procfs_reopen_regular(path_fd);
	if (fd < 0) {
		snprintf(text, 64, "%s", strerrorname_np(errno));
		return;
	}
	ssize_t got = read(fd, text, 63);
	text[got > 0 ? got : 0] = '\0';
	int flags = fcntl(fd, F_GETFD);
	if ((flags & FD_CLOEXEC) == 0)
		snprintf(text, 64, "not close-on-exec");
	close(fd);
}

static bool have_openat2(void)
{
#ifdef SYS_openat2
	struct { uint64_t flags, mode, resolve; } how = { O_PATH | O_CLOEXEC, 0, 0x10 };
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof(how));
	if (fd >= 0)
		close(fd);
	return fd >= 0;
#else
	return false;
#endif
}

struct look { const char *path, *wanted; };

static void build_tree(void)
{
	char fifo[512], sock[512];

	folder_of("root");
	folder_of("root/lib");
	folder_of("root/lib/deep");
	folder_of("root/tmp");
	put("outside", "outside");
	put("root/outside", "inside");
	put("root/lib/real.so", "real");
	put("root/lib/deep/file", "deep");
	put("root/a b\nc", "odd");
	link_of("root/relative", "lib/real.so");
	link_of("root/absolute", "/lib/real.so");
	link_of("root/lib/up", "../outside");
	link_of("root/escape", "../../../../../../../../outside");
	link_of("root/absolute-escape", "/../../../outside");
	link_of("root/folder-link", "lib/deep");
	link_of("root/lib/root-link", "/");
	link_of("root/loop-a", "loop-b");
	link_of("root/loop-b", "loop-a");
	link_of("root/self", "self");
	link_of("root/dangling", "no/such");
	link_of("root/chain0", "lib/real.so");
	for (int i = 1; i <= 45; i++) {
		char name[64], target[64];
		snprintf(name, sizeof(name), "root/chain%d", i);
		snprintf(target, sizeof(target), "chain%d", i - 1);
		link_of(name, target);
	}
	snprintf(fifo, sizeof(fifo), "%s/root/fifo", scratch);
	mkfifo(fifo, 0600);
	snprintf(sock, sizeof(sock), "%s/root/sock", scratch);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	snprintf(addr.sun_path, sizeof(addr.sun_path), "%.100s", sock);
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(s, (struct sockaddr *)&addr, sizeof(addr)) != 0)
		diag("bind failed");
	close(s);
}

static void both_ways(void)
{
	static const struct look looks[] = {
		{ "/lib/real.so", "real" }, { "lib/real.so", "real" }, { "//lib///./real.so", "real" }, { "/lib/deep/../real.so", "real" },
		{ "/lib/deep/../../lib/deep/file", "deep" }, { "/a b\nc", "odd" }, { "/relative", "real" }, { "/absolute", "real" },
		{ "/lib/up", "inside" }, { "/../../outside", "inside" }, { "/escape", "inside" }, { "/absolute-escape", "inside" },
		{ "/folder-link/file", "deep" }, { "/folder-link/../real.so", "real" }, { "/lib/root-link/outside", "inside" },
		{ "/lib/root-link/lib/root-link/lib/real.so", "real" }, { "/loop-a", "ELOOP" }, { "/self", "ELOOP" }, { "/dangling", "ENOENT" },
		{ "/chain30", "real" }, { "/chain39", "real" }, { "/chain45", "ELOOP" }, { "/no/such", "ENOENT" }, { "/lib/real.so/x", "ENOTDIR" }, { "/lib/real.so/", "ENOTDIR" },
		{ "/lib", "EISDIR" }, { "/lib/", "EISDIR" }, { "/", "EISDIR" }, { "/lib/..", "EISDIR" }, { "/fifo", "EINVAL" }, { "/sock", "EINVAL" },
		{ "/fifo/x", "ENOTDIR" }, { "", "ENOENT" },
	};
	char path[512], by_kernel[64], by_walk[64];

	snprintf(path, sizeof(path), "%s/root", scratch);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool kernel = have_openat2();
	for (size_t i = 0; i < sizeof(looks) / sizeof(looks[0]); i++) {
		outcome(procfs_path_below_by_walk(root, looks[i].path, true), by_walk);
		outcome(procfs_path_below(root, looks[i].path, true), by_kernel);
		ok(strcmp(by_walk, looks[i].wanted) == 0 && strcmp(by_kernel, looks[i].wanted) == 0, "'%s' is %s by our walk, %s by %s, wanted %s", strchr(looks[i].path, '\n') != NULL ? "a name with a newline" : looks[i].path,
		   by_walk, by_kernel, kernel ? "openat2" : "the walk (no openat2 here)", looks[i].wanted);
	}
	// The last component not followed: a link is what is found, and refused.
	outcome(procfs_path_below_by_walk(root, "/relative", false), by_walk);
	outcome(procfs_path_below(root, "/relative", false), by_kernel);
	ok(strcmp(by_walk, "ELOOP") == 0 && strcmp(by_kernel, "ELOOP") == 0, "a link at the end that is not to be followed: %s, %s", by_walk, by_kernel);
	outcome(procfs_path_below_by_walk(root, "/folder-link/file", false), by_walk);
	ok(strcmp(by_walk, "deep") == 0, "links before the end are");
	// Long paths end with an error, not with a cut name.
	char *huge = malloc(9000);
	memset(huge, 'x', 8999);
	huge[8999] = '\0';
	outcome(procfs_path_below_by_walk(root, huge, true), by_walk);
	outcome(procfs_path_below(root, huge, true), by_kernel);
	ok(strcmp(by_walk, "ENAMETOOLONG") == 0 && strcmp(by_kernel, "ENAMETOOLONG") == 0, "9,000 bytes: %s, %s", by_walk, by_kernel);
	huge[300] = '\0';
	outcome(procfs_path_below_by_walk(root, huge, true), by_walk);
	ok(strcmp(by_walk, "ENAMETOOLONG") == 0, "a component of 300 bytes: %s", by_walk);
	for (int i = 0; i < 1300; i++)
		memcpy(huge + 3 * i, "/..", 3);
	strcpy(huge + 3900, "/lib/real.so");
	outcome(procfs_path_below_by_walk(root, huge, true), by_walk);
	ok(strcmp(by_walk, "real") == 0, "1,300 times up stays at the root");
	free(huge);
	close(root);
	int fd = procfs_open_below(-1, "/etc/passwd");
	ok(fd < 0, "no root, no file");
	// Links of procfs that jump are refused, from a root that has a /proc.
	int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	outcome(procfs_path_below_by_walk(slash, "/proc/self/exe", true), by_walk);
	outcome(procfs_path_below(slash, "/proc/self/exe", true), by_kernel);
	ok(strcmp(by_walk, "ELOOP") == 0 && strcmp(by_kernel, "ELOOP") == 0, "/proc/self/exe: %s, %s", by_walk, by_kernel);
	outcome(procfs_path_below_by_walk(slash, "/dev/null", true), by_walk);
	ok(strcmp(by_walk, "EINVAL") == 0, "a device: %s", by_walk);
	close(slash);
}

// A FIFO nobody writes to must not stop us, nor a device be opened; an alarm says so.
static void never_blocks(void)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/root", scratch);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	alarm(120);
	int fd = procfs_open_below(root, "/fifo");
	alarm(0);
	ok(fd < 0, "a FIFO is refused without waiting for a writer");
	close(root);
}

static char *read_map(int32_t pid, struct err *err)
{
	static char text[64];
	err_clear(err);
	int fd = procfs_open_perf_map(pid, err);
	if (fd < 0)
		return NULL;
	ssize_t got = read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	close(fd);
	return text;
}

static void maps(void)
{
	char path[64], other[600];
	struct err err = { 0 };

	pid_t pid = fork();
	if (pid == 0) {
		if (geteuid() == 0 && setresuid(12345, 12345, 12345) != 0)
			_exit(1);
		for (;;)
			pause();
	}
	struct procfs_status status = { 0 };
	for (int i = 0; i < 60000 && geteuid() == 0 && (!procfs_status(pid, &status) || status.euid != 12345); i++)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
	unlink(path);
	ok(read_map(pid, &err) == NULL && err.text[0] == '\0', "no map: no text");
	FILE *f = fopen(path, "w");
	fputs("1000 10 jitted", f);
	fclose(f);
	const char *text = read_map(pid, &err);
	ok(text != NULL && strcmp(text, "1000 10 jitted") == 0, "a map of root's or our own: %s", text != NULL ? text : err.text);
	if (geteuid() == 0) {
		ok(chown(path, 12345, 0) == 0 && read_map(pid, &err) != NULL, "one of the target's user");
		ok(chown(path, 12346, 0) == 0 && read_map(pid, &err) == NULL && strncmp(err.text, "map not trusted: owner", 22) == 0, "somebody else's: %s", err.text);
		ok(chown(path, 0, 0) == 0, "given back");
	} else {
		skip("needs root", "one of the target's user");
		skip("needs root", "somebody else's");
		skip("needs root", "given back");
	}
	if (truncate(path, (256ll << 20) + 1) == 0)
		ok(read_map(pid, &err) == NULL && strstr(err.text, "256 MiB") != NULL, "too large: %s", err.text);
	unlink(path);
	snprintf(other, sizeof(other), "%s/outside", scratch);
	ok(symlink(other, path) == 0 && read_map(pid, &err) == NULL && strstr(err.text, "not a regular file") != NULL, "a link: %s", err.text);
	unlink(path);
	ok(mkfifo(path, 0600) == 0 && read_map(pid, &err) == NULL && strstr(err.text, "not a regular file") != NULL, "a FIFO: %s", err.text);
	unlink(path);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	ok(read_map(999999999, &err) == NULL && err.text[0] == '\0', "no such process: no text");
}

// A target with a root, a mount namespace and a pid namespace of its own: its map is looked up there, by the pid it knows.
static void map_of_a_container(void)
{
	struct err err = { 0 };
	int ready[2];
	char root[512];

	if (geteuid() != 0 || pipe(ready) != 0) {
		skip("needs root", "the map of a process in a container");
		return;
	}
	snprintf(root, sizeof(root), "%s/root", scratch);
	put("root/tmp/perf-1.map", "2000 20 contained");
	pid_t outer = fork();
	if (outer == 0) {
		if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
			_exit(1);
		pid_t inner = fork();
		if (inner == 0) {
			if (chroot(root) != 0 || chdir("/") != 0 || write(ready[1], "", 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		if (write(ready[1], &inner, sizeof(inner)) < 0)
			_exit(1);
		waitpid(inner, NULL, 0);
		_exit(0);
	}
	close(ready[1]);
	char bytes[sizeof(pid_t) + 1];
	size_t have = 0;
	for (ssize_t got; have < sizeof(bytes) && (got = read(ready[0], bytes + have, sizeof(bytes) - have)) > 0; have += (size_t)got)
		;
	pid_t inner = 0;
	struct procfs_ids ids = { 0 };
	if (procfs_descendants(outer, &ids))
		inner = ids.ids.data[0];
	vec_release(&ids.ids);
	if (have < sizeof(bytes) || inner == 0) {
		skip("namespaces cannot be made here", "the map of a process in a container");
	} else {
		const char *text = read_map(inner, &err);
		ok(text != NULL && strcmp(text, "2000 20 contained") == 0, "the map of a process in a container: %s", text != NULL ? text : err.text);
		int fd = procfs_root_fd(inner);
		char found[64];
		outcome(procfs_path_below(fd, "/absolute", true), found);
		ok(strcmp(found, "real") == 0, "a path below its root: %s", found);
		close(fd);
	}
	if (inner > 0)
		kill(inner, SIGKILL);
	waitpid(outer, NULL, 0);
	close(ready[0]);
}

// Somebody moves a directory out and in while a path through it with ".." is walked: never anything from outside the root.
static void moved_meanwhile(void)
{
	char root[512], inside[600], outside[600], text[64];
	unsigned seen_outside = 0, seen = 0;

	snprintf(root, sizeof(root), "%s/root", scratch);
	folder_of("root/m");
	folder_of("root/m/n");
	snprintf(inside, sizeof(inside), "%s/root/m/n", scratch);
	snprintf(outside, sizeof(outside), "%s/n", scratch);
	pid_t mover = fork();
	if (mover == 0)
		for (;;) {
			if (rename(inside, outside) != 0 || rename(outside, inside) != 0)
				_exit(1);
		}
	int root_fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 5000; i++) {
		outcome(procfs_path_below_by_walk(root_fd, "/m/n/../../outside", true), text);
		seen_outside += strcmp(text, "outside") == 0;
		seen += strcmp(text, "inside") == 0;
	}
	kill(mover, SIGKILL);
	waitpid(mover, NULL, 0);
	close(root_fd);
	ok(seen_outside == 0, "a directory moved out of the root meanwhile: %u of 5000 found what is inside, %u what is outside", seen, seen_outside);
}

// Where openat2 is missing or forbidden, the walk takes its place by itself.
static void without_openat2(int error)
{
	char root[512];
	int status = 0;

	snprintf(root, sizeof(root), "%s/root", scratch);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		char inside[64], refused[64];
#ifdef SYS_openat2
		if (!deny_syscall(SYS_openat2, error))
			_exit(2);
#endif
		int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
		outcome(procfs_path_below(fd, "/escape", true), inside);
		outcome(procfs_path_below(fd, "/fifo", true), refused);
		_exit(!have_openat2() && strcmp(inside, "inside") == 0 && strcmp(refused, "EINVAL") == 0 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (WEXITSTATUS(status) == 2)
		skip("no seccomp here", "without openat2");
	else
		is_u64(WEXITSTATUS(status), 0, "without openat2 (%s) the walk takes its place", strerrorname_np(error));
}

int main(void)
{
	scratch_make();
	size_t before = open_fds();
	build_tree();
	both_ways();
	never_blocks();
	maps();
	map_of_a_container();
	moved_meanwhile();
	without_openat2(ENOSYS);
	without_openat2(EPERM);
	is_u64(open_fds(), before, "no descriptor is left open");
	return tap_done();
}
