#include "cmd/annotate_source.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "proc/procfs.h"

enum { SOURCE_BYTES_MOST = 64 << 20, GROUPS_MOST = 1024 };

// ---------------------------------------------------------------- whose files they may be

struct self { // what we were before
	bool is_other; // we are somebody else now
	uid_t uid;
	gid_t gid;
	int group_count;
	gid_t groups[GROUPS_MOST];
};

// Who called: by sudo (sudo(8), ENVIRONMENT: only root's process gets to say so), or through a set-user-ID program; else ourselves.
static uid_t invoking_user(void)
{
	const char *sudo = geteuid() == 0 && getuid() == 0 ? getenv("SUDO_UID") : NULL;
	char *end;
	unsigned long uid = sudo != NULL ? strtoul(sudo, &end, 10) : 0;
	if (sudo != NULL && *sudo >= '0' && *sudo <= '9' && *end == '\0' && uid < (uid_t)-1)
		return (uid_t)uid;
	return getuid();
}

static bool become(uid_t uid, struct self *before)
{
	gid_t groups[GROUPS_MOST];
	int count = GROUPS_MOST;
	*before = (struct self){ .uid = geteuid(), .gid = getegid() };
	if (uid == geteuid())
		return true;
	before->group_count = getgroups(GROUPS_MOST, before->groups);
	const struct passwd *user = getpwuid(uid);
	gid_t gid = user != NULL ? user->pw_gid : getgid();
	if (before->group_count < 0 || user == NULL || getgrouplist(user->pw_name, gid, groups, &count) < 0)
		count = 0;
	if (geteuid() == 0 && (before->group_count < 0 || setgroups((size_t)count, groups) != 0))
		return false;
	before->is_other = true;
	return setegid(gid) == 0 && seteuid(uid) == 0;
}

static void become_again(const struct self *before)
{
	if (!before->is_other)
		return;
	// Whoever cannot go back goes on with less, which is safe.
	(void)!seteuid(before->uid);
	(void)!setegid(before->gid);
	if (before->uid == 0)
		(void)!setgroups((size_t)before->group_count, before->groups);
}

// ---------------------------------------------------------------- reading

static int open_below(const char *folder, const char *path)
{
	int root = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		return -1;
	int fd = procfs_open_below(root, path);
	int error = errno;
	close(root);
	errno = error;
	return fd;
}

static bool read_all(int fd, struct source_file *out, const char *path, struct err *err)
{
	struct stat st;
	struct buf text = { 0 };
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > SOURCE_BYTES_MOST)
		return err_set(err, STATUS_INPUT, "%s: not a regular file of at most 64 MiB", path);
	out->modified_ns = (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec;
	// No more than its size said: files of the kernel have none and go on.
	while (text.size < (size_t)st.st_size) {
		size_t want = (size_t)st.st_size - text.size;
		buf_reserve(&text, want + 1);
		ssize_t got = read(fd, text.data + text.size, want);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		text.size += (size_t)got;
	}
	out->size = text.size;
	out->text = buf_detach(&text);
	return true;
}

bool source_file_open(struct source_file *out, const char *path, const char *below, struct err *err)
{
	struct self before;
	*out = (struct source_file){ 0 };
	if (path[0] != '/')
		return err_set(err, STATUS_INPUT, "%s: its folder is not known", path);
	int fd = -1;
	if (become(invoking_user(), &before)) {
		if (below != NULL)
			fd = open_below(below, path);
		if (fd < 0)
			fd = open_below("/", path);
	} else {
		errno = EPERM;
	}
	int error = errno;
	become_again(&before);
	errno = error;
	if (fd < 0)
		return err_errno(err, STATUS_INPUT, "%s", path);
	bool good = read_all(fd, out, path, err);
	close(fd);
	for (size_t i = 0; good && i < out->size; i++)
		if (i == 0 || out->text[i - 1] == '\n')
			vec_push(&out->lines, i);
	return good;
}

const char *source_file_line(const struct source_file *file, uint32_t number, size_t *length)
{
	if (number == 0 || number > file->lines.count)
		return NULL;
	size_t from = file->lines.data[number - 1], to = number < file->lines.count ? file->lines.data[number] : file->size;
	while (to > from && (file->text[to - 1] == '\n' || file->text[to - 1] == '\r'))
		to--;
	*length = to - from;
	return file->text + from;
}

void source_file_release(struct source_file *file)
{
	free(file->text);
	vec_release(&file->lines);
	*file = (struct source_file){ 0 };
}
