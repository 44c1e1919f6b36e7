#include "cmd/packages.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

// Whether a list of a package's files (a path a line) has the path, with or without the /usr that merging put before it.
static bool list_has(const char *list, const char *path)
{
	const char *short_path = strncmp(path, "/usr/", 5) == 0 ? path + 4 : path;
	char line[8192];
	bool found = false;
	FILE *file = fopen(list, "re");
	while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		const char *name = strncmp(line, "/usr/", 5) == 0 ? line + 4 : line;
		found = strcmp(name, short_path) == 0;
	}
	if (file != NULL)
		fclose(file);
	return found;
}

// dpkg keeps the files of each package in a list (dpkg(1), FILES); reading them all takes some 10 ms and no process.
static bool owner_of(const char *path, char *package, size_t size)
{
	static const char folder[] = "/var/lib/dpkg/info";
	DIR *dir = opendir(folder);
	bool found = false;
	struct dirent *entry;
	while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
		size_t length = strlen(entry->d_name);
		char list[sizeof(folder) + sizeof(entry->d_name) + 1];
		if (length < 6 || strcmp(entry->d_name + length - 5, ".list") != 0)
			continue;
		snprintf(list, sizeof(list), "%s/%s", folder, entry->d_name);
		found = list_has(list, path);
		if (found)
			snprintf(package, size, "%.*s", (int)strcspn(entry->d_name, ":"), entry->d_name);
	}
	if (dir != NULL)
		closedir(dir);
	size_t length = found ? strlen(package) : 0;
	if (length > 5 && strcmp(package + length - 5, ".list") == 0)
		package[length - 5] = '\0';
	return found;
}

// The package that an installed file is from; false: none.
static bool installed_by(const char *path, char *package, size_t size)
{
	char resolved[4096];
	return path[0] == '/' && (owner_of(path, package, size) || (realpath(path, resolved) != NULL && owner_of(resolved, package, size)));
}

// PACKAGE-dbgsym is made for most packages where the distribution has an archive of them; glibc, Python and others have PACKAGE-dbg by hand. What
// libstdc++6-N-dbg has is another build of the library, of no use for the one that ran.
enum { NAMES = 3, NAME_BYTES = 320 };
static size_t debug_names(const char *package, char names[NAMES][NAME_BYTES])
{
	static const char python[] = "python3.";
	const char *at = strstr(package, python);
	snprintf(names[0], NAME_BYTES, "%s-dbgsym", package);
	snprintf(names[1], NAME_BYTES, "%s-dbg", package);
	if (at != package && (at == NULL || at != package + 3 || strncmp(package, "lib", 3) != 0))
		return 2;
	snprintf(names[2], NAME_BYTES, "%.*s-dbg", (int)(sizeof(python) - 1 + strspn(at + sizeof(python) - 1, "0123456789")), at); // of python3.11-minimal
	return NAMES;
}

// Policy 5.6.1: names that no shell takes for anything else.
static bool is_name(const char *package)
{
	return package[0] != '-' && package[0] != '\0' && package[strspn(package, "abcdefghijklmnopqrstuvwxyz0123456789+-.")] == '\0';
}

static struct package *find(const struct packages *packages, const char *path)
{
	for (size_t i = 0; i < packages->all.count; i++)
		if (strcmp(packages->all.data[i].path, path) == 0)
			return &packages->all.data[i];
	return NULL;
}

void packages_add(struct packages *packages, const char *path)
{
	char name[256];
	if (find(packages, path) != NULL || !installed_by(path, name, sizeof(name)))
		return;
	vec_push(&packages->all, (struct package){ .path = mem_string(path), .name = mem_string(name) });
}

// A name that apt has a version of to install: to the packages whose debug information it would have.
static void offered(struct packages *packages, const char *name)
{
	char names[NAMES][NAME_BYTES];
	for (size_t i = 0; i < packages->all.count; i++) {
		struct package *package = &packages->all.data[i];
		size_t count = debug_names(package->name, names);
		for (size_t n = 0; n < count && package->debug == NULL; n++)
			if (strcmp(names[n], name) == 0)
				package->debug = mem_string(name);
	}
}

void packages_ask(struct packages *packages)
{
	struct buf command = { 0 };
	char names[NAMES][NAME_BYTES], line[1024], name[1024] = "";
	buf_string(&command, "LC_ALL=C exec /usr/bin/apt-cache policy");
	for (size_t i = 0; i < packages->all.count; i++) {
		size_t count = debug_names(packages->all.data[i].name, names);
		for (size_t n = 0; n < count; n++)
			if (is_name(names[n]))
				buf_printf(&command, " %s", names[n]);
	}
	buf_string(&command, " 2>/dev/null </dev/null");
	FILE *out = packages->all.count > 0 ? popen(buf_text(&command), "re") : NULL; // "NAME:", then "  Candidate: VERSION", of those it knows
	while (out != NULL && fgets(line, sizeof(line), out) != NULL) {
		static const char candidate[] = "  Candidate: ";
		line[strcspn(line, "\n")] = '\0';
		if (line[0] != ' ')
			snprintf(name, sizeof(name), "%.*s", (int)strcspn(line, ":"), line);
		else if (strncmp(line, candidate, sizeof(candidate) - 1) == 0 && strcmp(line + sizeof(candidate) - 1, "(none)") != 0)
			offered(packages, name);
	}
	if (out != NULL)
		pclose(out);
	buf_release(&command);
}

const char *packages_of(const struct packages *packages, const char *path, const char **debug)
{
	const struct package *package = find(packages, path);
	*debug = package != NULL ? package->debug : NULL;
	return package != NULL ? package->name : NULL;
}

void packages_release(struct packages *packages)
{
	for (size_t i = 0; i < packages->all.count; i++) {
		free(packages->all.data[i].path);
		free(packages->all.data[i].name);
		free(packages->all.data[i].debug);
	}
	vec_release(&packages->all);
}
