// SUBSYS:NAME: a tracepoint, its number from tracefs (Documentation/trace/events.rst).
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/closest.h"
#include "perf/event_spec.h"
#include "perf/sysfs.h"

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void each_event(const char *root, const char *subsystem, void (*each)(const char *name, const char *description, void *context), void *context)
{
	char path[1200], name[288];
	struct dirent **events;
	snprintf(path, sizeof(path), "%s/events/%s", root, subsystem);
	int count = scandir(path, &events, visible, alphasort);
	for (int i = 0; i < count; i++) {
		// Files beside the events (enable, filter) hold no id.
		snprintf(path, sizeof(path), "%s/events/%s/%s/id", root, subsystem, events[i]->d_name);
		if (access(path, F_OK) == 0) {
			snprintf(name, sizeof(name), "%.140s:%.140s", subsystem, events[i]->d_name);
			each(name, "tracepoint", context);
		}
		free(events[i]);
	}
	if (count >= 0)
		free(events);
}

static void list(const struct event_host *host, void (*each)(const char *name, const char *description, void *context), void *context)
{
	char root[512], path[600];
	struct dirent **subsystems;
	if (!tracefs_path(host, root, sizeof(root), NULL))
		return;
	snprintf(path, sizeof(path), "%s/events", root);
	int count = scandir(path, &subsystems, visible, alphasort);
	for (int i = 0; i < count; i++) {
		each_event(root, subsystems[i]->d_name, each, context);
		free(subsystems[i]);
	}
	if (count >= 0)
		free(subsystems);
}

static void offer(const char *name, const char *description, void *context)
{
	(void)description;
	closest_offer(context, name);
}

static int parse(const char *word, struct event_spec *spec, struct err *err)
{
	char root[512], path[1200], text[32] = "";
	const char *colon = strchr(word, ':');

	if (colon == NULL || colon == word || colon[1] == '\0' || strchr(colon + 1, ':') != NULL || strchr(word, '/') != NULL || strstr(word, "..") != NULL)
		return 0;
	if (!tracefs_path(spec->host, root, sizeof(root), err))
		return -1;
	int n = snprintf(path, sizeof(path), "%s/events/%.*s/%s/id", root, (int)(colon - word), word, colon + 1);
	int fd = n > 0 && (size_t)n < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 && (errno == EACCES || errno == EPERM)) {
		err_set(err, STATUS_HOST, "tracepoint '%s': %s may be read by root only: run as root, or mount -o remount,mode=755 %s", word, path, root);
		return -1;
	}
	if (fd < 0) {
		struct closest closest;
		closest_init(&closest, word);
		list(spec->host, offer, &closest);
		err_set(err, STATUS_USAGE, closest.found[0] != '\0' ? "no tracepoint '%s'; did you mean '%s'?" : "no tracepoint '%s'", word, closest.found);
		return -1;
	}
	ssize_t got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0 || text[0] < '0' || text[0] > '9') {
		err_set(err, STATUS_HOST, "tracepoint '%s': %s holds no number", word, path);
		return -1;
	}
	spec->attr.type = PERF_TYPE_TRACEPOINT;
	spec->attr.config = strtoull(text, NULL, 10);
	spec->is_tracepoint = true;
	return 1;
}

const struct event_source event_source_tracepoint = { .name = "tracepoint", .order = 90, .parse = parse, .list = list };
