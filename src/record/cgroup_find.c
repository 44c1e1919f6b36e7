// Where cgroups are: the mount, a path's directory, a container's path.
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/vec.h"
#include "proc/procfs.h"
#include "record/cgroup.h"

// A field of mountinfo with its octal escapes (blank, tab, newline, backslash) undone; false: too long.
static bool unescape_field(const char *from, size_t length, char *to, size_t size)
{
	size_t used = 0;

	for (size_t i = 0; i < length; i++) {
		char c = from[i];
		if (c == '\\' && length - i >= 4 && from[i + 1] >= '0' && from[i + 1] <= '3' && from[i + 2] >= '0' && from[i + 2] <= '7' &&
		    from[i + 3] >= '0' && from[i + 3] <= '7') {
			c = (char)((from[i + 1] - '0') << 6 | (from[i + 2] - '0') << 3 | (from[i + 3] - '0'));
			i += 3;
		}
		if (used + 1 >= size)
			return false;
		to[used++] = c;
	}
	to[used] = '\0';
	return true;
}

static bool has_word(const char *list, size_t length, const char *word)
{
	size_t want = strlen(word);

	for (size_t at = 0; at < length;) {
		size_t end = at;
		while (end < length && list[end] != ',')
			end++;
		if (end - at == want && memcmp(list + at, word, want) == 0)
			return true;
		at = end + 1;
	}
	return false;
}

// "ID PARENT MAJ:MIN ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE SUPER-OPTIONS"; true: a mount of the wanted hierarchy.
static bool parse_mount(char *line, bool want_v1, struct cgroup_mount *out)
{
	char *fields[6], *save = NULL, *word = strtok_r(line, " ", &save);
	size_t count = 0;

	for (; word != NULL && count < 6; word = strtok_r(NULL, " ", &save))
		fields[count++] = word;
	while (word != NULL && strcmp(word, "-") != 0)
		word = strtok_r(NULL, " ", &save);
	const char *type = strtok_r(NULL, " ", &save);
	const char *source = strtok_r(NULL, " ", &save);
	const char *options = strtok_r(NULL, " \n", &save);
	if (word == NULL || count < 6 || type == NULL || source == NULL || options == NULL)
		return false;
	if (want_v1 ? strcmp(type, "cgroup") != 0 || !has_word(options, strlen(options), "perf_event") : strcmp(type, "cgroup2") != 0)
		return false;
	out->is_v1 = want_v1;
	return unescape_field(fields[3], strlen(fields[3]), out->root, sizeof(out->root)) &&
	       unescape_field(fields[4], strlen(fields[4]), out->point, sizeof(out->point));
}

// Our own cgroup: the v1 perf_event line wins, as in procfs_cgroup_path.
static bool own_path(const char *file, char *own, bool *is_v1, struct err *err)
{
	FILE *f = fopen(file, "re");
	char *line = NULL;
	size_t capacity = 0;
	bool found = false;

	if (f == NULL)
		return err_errno(err, STATUS_HOST, "reading %s", file);
	*is_v1 = false;
	while (getline(&line, &capacity, f) > 0) {
		bool v1;
		line[strcspn(line, "\n")] = '\0';
		const char *path = procfs_cgroup_line(line, &v1);
		size_t bytes = path != NULL ? strlen(path) + 1 : 0;
		if (path == NULL || (found && !v1) || bytes > 4096)
			continue;
		memcpy(own, path, bytes);
		*is_v1 = v1;
		found = true;
		if (v1)
			break;
	}
	free(line);
	fclose(f);
	return found || err_set(err, STATUS_HOST, "this kernel has neither cgroup2 nor a perf_event hierarchy (%s)", file);
}

bool cgroup_mount_find(struct cgroup_mount *mount, char *own, const char *mountinfo, const char *cgroup_file, struct err *err)
{
	struct cgroup_mount *candidate;
	char *line = NULL, directory[4096];
	size_t capacity = 0;
	bool is_v1 = false, found = false, fits = false;

	if (!own_path(cgroup_file, own, &is_v1, err))
		return false;
	FILE *f = fopen(mountinfo, "re");
	if (f == NULL)
		return err_errno(err, STATUS_HOST, "reading %s", mountinfo);
	candidate = NEW(struct cgroup_mount);
	// Several mounts may show it; one below which our own cgroup can be reached is worth more than one that shows another part.
	while (!fits && getline(&line, &capacity, f) > 0) {
		if (!parse_mount(line, is_v1, candidate))
			continue;
		fits = cgroup_mount_directory(candidate, own, directory, sizeof(directory));
		if (!found || fits)
			*mount = *candidate;
		found = true;
	}
	free(candidate);
	free(line);
	fclose(f);
	if (!found)
		return err_set(err, STATUS_HOST, "%s is not mounted (%s)", is_v1 ? "the perf_event hierarchy" : "cgroup2", mountinfo);
	return true;
}

bool cgroup_mount_directory(const struct cgroup_mount *mount, const char *path, char *directory, size_t size)
{
	size_t root = strlen(mount->root);

	if (path[0] != '/')
		return false;
	// "/../x": outside our cgroup namespace, on the mount's side or on the path's.
	if (strncmp(path, "/..", 3) == 0 && (path[3] == '\0' || path[3] == '/'))
		return false;
	if (strcmp(mount->root, "/") != 0) {
		if (strncmp(path, mount->root, root) != 0 || (path[root] != '\0' && path[root] != '/'))
			return false;
		path += root;
	}
	if (strcmp(path, "/") == 0)
		path = "";
	int length = snprintf(directory, size, "%s%s", mount->point, path);
	return length > 0 && (size_t)length < size;
}

// ---------------------------------------------------------------- containers

// IDs are written in hexadecimal, those of pods as UUIDs whose dashes systemd's driver turns into underscores. Shorter words ("user-1000")
// are no IDs.
enum { ID_LENGTH_MIN = 12 };

static bool same_id_char(char a, char b)
{
	return tolower((unsigned char)(a == '_' ? '-' : a)) == tolower((unsigned char)(b == '_' ? '-' : b));
}

static bool id_starts(const char *at, const char *end, const char *prefix)
{
	size_t id = 0;

	while (at + id < end && (isxdigit((unsigned char)at[id]) || at[id] == '-' || at[id] == '_'))
		id++;
	if (id < ID_LENGTH_MIN || (at + id < end && at[id] != '.'))
		return false;
	size_t length = strlen(prefix);
	if (length > id)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!same_id_char(at[i], prefix[i]))
			return false;
	return true;
}

// docker/ID, docker-ID.scope, cri-containerd-ID.scope, libpod-ID.scope, crio-ID.scope, podUID, kubepods-besteffort-podUID.slice
static bool component_names(const char *start, const char *end, const char *prefix)
{
	bool begins_word = true, word_is_hex = true; // a dash inside a UUID begins no ID, one behind "containerd" does

	for (const char *at = start; at < end; at++) {
		bool behind_pod = at - start >= 3 && strncmp(at - 3, "pod", 3) == 0;
		if ((begins_word || behind_pod) && id_starts(at, end, prefix))
			return true;
		begins_word = *at == '-' && !word_is_hex;
		word_is_hex = *at == '-' || (word_is_hex && isxdigit((unsigned char)*at));
	}
	return false;
}

size_t cgroup_container_in_path(const char *path, const char *prefix)
{
	if (*prefix == '\0')
		return 0;
	for (const char *at = path; *at == '/';) {
		const char *start = at + 1, *end = start + strcspn(start, "/");
		if (component_names(start, end, prefix))
			return (size_t)(end - path);
		at = end;
	}
	return 0;
}

bool cgroup_find_container(const char *prefix, char *path, size_t size, struct err *err)
{
	struct procfs_ids pids = { 0 };
	VEC(char *) found = { 0 };
	char cgroup[4096];

	if (!procfs_pids(&pids, err)) {
		vec_release(&pids.ids);
		return false;
	}
	for (size_t i = 0; i < pids.ids.count; i++) {
		if (!procfs_cgroup_path(pids.ids.data[i], cgroup, sizeof(cgroup)))
			continue;
		cgroup[cgroup_container_in_path(cgroup, prefix)] = '\0';
		bool known = cgroup[0] == '\0';
		for (size_t k = 0; k < found.count && !known; k++)
			known = strcmp(found.data[k], cgroup) == 0;
		if (!known)
			vec_push(&found, mem_string(cgroup));
	}
	vec_release(&pids.ids);
	bool good = found.count == 1 && strlen(found.data[0]) < size;
	if (good) {
		memcpy(path, found.data[0], strlen(found.data[0]) + 1);
	} else if (found.count == 0) {
		err_set(err, STATUS_USAGE, "no container or pod whose ID begins with '%s' runs here", prefix);
	} else {
		struct buf list = { 0 };
		for (size_t k = 0; k < found.count && k < 8; k++)
			buf_printf(&list, "%s%s", k > 0 ? ", " : "", found.data[k]);
		err_set(err, STATUS_USAGE, "'%s' begins the IDs of %zu containers: %s%s", prefix, found.count, buf_text(&list),
		        found.count > 8 ? " …" : "");
		buf_release(&list);
	}
	for (size_t k = 0; k < found.count; k++)
		free(found.data[k]);
	vec_release(&found);
	return good;
}
