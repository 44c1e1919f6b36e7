#include "perf/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { CPU_LIMIT = 1 << 16 };

const struct event_host event_host_here = { .devices = "/sys/bus/event_source/devices" };

bool sysfs_line(const struct event_host *host, const char *pmu, const char *file, char *line, size_t size)
{
	char path[512];
	int n = snprintf(path, sizeof(path), "%s/%s/%s", host->devices, pmu, file);
	// A PMU's or event's name comes from the command line: it must not lead elsewhere.
	if (n < 0 || (size_t)n >= sizeof(path) || strstr(pmu, "..") != NULL || strchr(pmu, '/') != NULL || strstr(file, "..") != NULL) {
		errno = ENOENT;
		return false;
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t got = read(fd, line, size - 1);
	close(fd);
	if (got < 0)
		return false;
	line[got] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return true;
}

bool sysfs_pmu_type(const struct event_host *host, const char *pmu, uint32_t *type)
{
	char line[32], *end;
	if (!sysfs_line(host, pmu, "type", line, sizeof(line)))
		return false;
	unsigned long value = strtoul(line, &end, 10);
	*type = (uint32_t)value;
	return end != line && *end == '\0' && value <= UINT32_MAX;
}

static int not_hidden(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

void sysfs_each(const struct event_host *host, const char *pmu, const char *sub, void (*each)(const char *name, void *context), void *context)
{
	char path[512];
	struct dirent **names;
	int n = snprintf(path, sizeof(path), "%s/%s/%s", host->devices, pmu, sub);
	if (n < 0 || (size_t)n >= sizeof(path))
		return;
	int count = scandir(path, &names, not_hidden, alphasort);
	for (int i = 0; i < count; i++) {
		each(names[i]->d_name, context);
		free(names[i]);
	}
	if (count >= 0)
		free(names);
}

bool sysfs_cpus(const struct event_host *host, const char *pmu, const char *file, uint32_t **cpus, size_t *count)
{
	char line[4096];
	VEC(uint32_t) list = { 0 };

	if (!sysfs_line(host, pmu, file, line, sizeof(line)))
		return false;
	for (char *p = line; *p != '\0';) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;
		if (end == p)
			break;
		if (*end == '-') {
			p = end + 1;
			last = strtoul(p, &end, 10);
		}
		if (end == p || last < first || last >= CPU_LIMIT)
			break;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			vec_push(&list, (uint32_t)cpu);
		p = *end == ',' ? end + 1 : end;
		if (*end == '\0' && list.count > 0) {
			*cpus = list.data;
			*count = list.count;
			return true;
		}
	}
	vec_release(&list);
	return false;
}

struct core_search {
	const struct event_host *host;
	struct event_spec *spec; // NULL: only whether there is one
	bool found;
};

static void look_for_core(const char *name, void *context)
{
	struct core_search *search = context;
	struct event_pmu pmu = { 0 };

	// Hybrid core PMUs (cpu_core and cpu_atom, or one a cluster on ARM) say which CPUs they are; others have a cpumask or nothing.
	if (strlen(name) >= sizeof(pmu.name) || !sysfs_cpus(search->host, name, "cpus", &pmu.cpus, &pmu.cpu_count))
		return;
	if (!sysfs_pmu_type(search->host, name, &pmu.type) || search->spec == NULL) {
		search->found |= search->spec == NULL;
		free(pmu.cpus);
		return;
	}
	strcpy(pmu.name, name);
	vec_push(&search->spec->pmus, pmu);
	search->found = true;
}

void sysfs_core_pmus(const struct event_host *host, struct event_spec *spec)
{
	struct core_search search = { .host = host, .spec = spec };
	sysfs_each(host, "", "", look_for_core, &search);
	if (spec->pmus.count == 1) { // all cores are alike: the plain event is theirs
		free(spec->pmus.data[0].cpus);
		vec_clear(&spec->pmus);
	}
}

bool sysfs_has_core_pmu(const struct event_host *host)
{
	struct core_search search = { .host = host };
	uint32_t type;
	if (sysfs_pmu_type(host, "cpu", &type))
		return true;
	sysfs_each(host, "", "", look_for_core, &search);
	return search.found;
}

// mountinfo: "36 35 98:0 /root /mount/point options… - fstype source options" (proc(5)); octal escapes in paths.
static bool mount_of(const char *line, const char *fstype, char *path, size_t size)
{
	char root[512], point[512], type[64];
	const char *separator = strstr(line, " - ");

	if (separator == NULL || sscanf(separator, " - %63s", type) != 1 || strcmp(type, fstype) != 0 ||
	    sscanf(line, "%*s %*s %*s %511s %511s", root, point) != 2 || strcmp(root, "/") != 0)
		return false;
	size_t used = 0;
	for (const char *p = point; *p != '\0' && used + 1 < size; used++) {
		if (p[0] == '\\' && p[1] != '\0' && p[2] != '\0' && p[3] != '\0') {
			path[used] = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
			p += 4;
		} else {
			path[used] = *p++;
		}
	}
	path[used] = '\0';
	return true;
}

bool tracefs_path(const struct event_host *host, char *path, size_t size, struct err *err)
{
	static const char *const kinds[][2] = { { "tracefs", "" }, { "debugfs", "/tracing" } };
	char line[4096], found[512];

	if (host->tracefs != NULL && host->tracefs[0] != '\0') {
		snprintf(path, size, "%s", host->tracefs);
		return true;
	}
	for (size_t k = 0; k < 2 && host->tracefs == NULL; k++) {
		FILE *f = fopen("/proc/self/mountinfo", "re");
		if (f == NULL)
			break;
		bool got = false;
		while (!got && fgets(line, sizeof(line), f) != NULL)
			got = mount_of(line, kinds[k][0], found, sizeof(found));
		fclose(f);
		int n = snprintf(path, size, "%s%s", found, kinds[k][1]);
		if (got && n > 0 && (size_t)n < size && access(path, F_OK) == 0)
			return true;
	}
	return err_set(err, STATUS_HOST, "tracepoints need tracefs, which is not mounted here: mount -t tracefs nodev /sys/kernel/tracing");
}

static size_t read_start(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd >= 0 ? read(fd, text, size - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[got > 0 ? got : 0] = '\0';
	return got > 0 ? (size_t)got : 0;
}

long kernel_number(const char *path, long missing)
{
	char text[64], *end;
	read_start(path, text, sizeof(text));
	long value = strtol(text, &end, 10);
	return end == text ? missing : value;
}

bool host_is_virtual(void)
{
	char text[8192]; // the first CPU's paragraph is shorter
	read_start("/proc/cpuinfo", text, sizeof(text));
	char *end = strstr(text, "\n\n");
	if (end != NULL)
		*end = '\0';
	return strstr(text, " hypervisor") != NULL;
}
