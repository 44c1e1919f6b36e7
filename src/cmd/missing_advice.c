#include "cmd/missing_advice.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "elf/image.h"
#include "proc/dso.h"
#include "symbols/symbolizer.h"

// ---------------------------------------------------------------- packages

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

// Debian and Ubuntu make PACKAGE-dbgsym for all packages but those that have one by hand: glibc, Python.
static void debug_name(const char *package, struct buf *out)
{
	static const char python[] = "python3.";
	const char *at = strstr(package, python);
	if (strcmp(package, "libc6") == 0)
		buf_string(out, "libc6-dbg");
	else if (at == package || (at != NULL && at == package + 3 && strncmp(package, "lib", 3) == 0)) // python3.11-minimal, libpython3.11-stdlib
		buf_printf(out, "%.*s-dbg", (int)(sizeof(python) - 1 + strspn(at + sizeof(python) - 1, "0123456789")), at);
	else
		buf_printf(out, "%s-dbgsym", package);
}

static bool exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

void debug_package(const char *path, struct buf *out)
{
	char package[256], resolved[4096];
	if (path[0] != '/')
		return;
	if (!owner_of(path, package, sizeof(package)) && (realpath(path, resolved) == NULL || !owner_of(resolved, package, sizeof(package))))
		return;
	debug_name(package, out);
}

// Where packages of the -dbgsym kind are: not in the archive that everybody has.
static const char *where_dbgsym(void)
{
	char line[256];
	const char *where = "where the distribution's archive of debug symbols has it";
	FILE *file = fopen("/etc/os-release", "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "ID=debian") == 0)
			where = "where the CODENAME-debug suite of the debian-debug archive has it";
		else if (strcmp(line, "ID=ubuntu") == 0)
			where = "where Ubuntu's ddebs archive has it";
	}
	if (file != NULL)
		fclose(file);
	return where;
}

static void debug_file_help(const char *path, const struct build_id *id, struct buf *out)
{
	char hex[65];
	struct buf package = { 0 };
	debug_package(path, &package);
	bool is_dbgsym = package.size > 0 && strstr(package.data, "-dbgsym") != NULL;
	if (package.size > 0)
		buf_printf(out, "apt-get install %s%s%s%s", buf_text(&package), is_dbgsym ? " (" : "", is_dbgsym ? where_dbgsym() : "", is_dbgsym ? ")" : "");
	else if (exists("/etc/redhat-release") || exists("/etc/fedora-release"))
		buf_printf(out, "dnf debuginfo-install %s", path);
	else if (exists("/etc/zypp"))
		buf_printf(out, "zypper install the -debuginfo package of %s", path);
	else
		buf_string(out, "build it with -g, or do not strip it");
	if (id->size > 1)
		buf_printf(out, "; or its debug file as DIR/.build-id/%.2s/%s.debug with --debug-dir DIR, or --debuginfod", build_id_hex(id, hex), hex + 2);
	buf_release(&package);
}

// ---------------------------------------------------------------- code made at run time

static const char *runtime_help(const char *comm)
{
	static const struct { const char *comm, *help; } runtimes[] = {
		{ "node", "run node with --perf-basic-prof (or --perf-prof for a jitdump)" },
		{ "java", "run java with -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit -XX:+PreserveFramePointer" },
		{ "python", "run python with -X perf (3.12 and later)" },
		{ "dotnet", "set DOTNET_PerfMapEnabled=1" },
		{ "ruby", "run ruby with --yjit-perf" },
		{ "julia", "set ENABLE_JITPROFILING=1" },
		{ "postgres", "set jit_profiling_support = on, or jit = off" },
	};
	for (size_t i = 0; i < sizeof(runtimes) / sizeof(runtimes[0]); i++)
		if (strncmp(comm, runtimes[i].comm, strlen(runtimes[i].comm)) == 0)
			return runtimes[i].help;
	return "have its runtime write /tmp/perf-PID.map or a jitdump file while it runs";
}

// ---------------------------------------------------------------- the two questions

static bool is_stripped(const struct profile *profile, const struct profile_dso *row)
{
	struct image *image;
	if (row->kind != DSO_FILE || row->file == 0 || row->debug_file != 0 || !image_open_path(&image, profile_text(profile, row->file), NULL))
		return false;
	bool stripped = image_find_section(image, ".symtab") == NULL;
	image_release(image);
	return stripped;
}

void missing_why(const struct profile *profile, uint32_t dso, struct buf *out)
{
	if (dso == PROFILE_NONE) {
		buf_string(out, "nothing was mapped there as far as the recording tells");
		return;
	}
	const struct profile_dso *row = &profile->dsos.data[dso];
	bool is_kernel = row->kind == DSO_KERNEL || row->kind == DSO_MODULE;
	if (row->damage != 0)
		buf_printf(out, "damaged: %s", profile_text(profile, row->damage));
	else if (row->kind == DSO_SPECIAL)
		buf_string(out, "the kernel's own page: it has no symbols");
	else if (is_kernel && row->missing == SYMBOL_WRONG_BUILD_ID)
		buf_string(out, "the kernel running here is not the one that was recorded");
	else if ((row->missing == SYMBOL_FOUND || row->missing == SYMBOL_NOT_COVERED) && is_stripped(profile, row))
		buf_string(out, "stripped but for the functions that it exports, and no debug file found");
	else if (row->missing == SYMBOL_FOUND || row->missing == SYMBOL_NOT_COVERED)
		buf_string(out, "symbols are there, but none covers these addresses");
	else
		buf_string(out, symbol_missing_text((enum symbol_missing)row->missing));
}

void missing_help(const struct profile *profile, uint32_t dso, const char *comm, struct buf *out)
{
	if (dso == PROFILE_NONE)
		return;
	const struct profile_dso *row = &profile->dsos.data[dso];
	const char *path = profile_text(profile, row->path);
	if (row->damage != 0) {
		buf_string(out, row->kind == DSO_ANON ? "have its runtime write the whole map" :
		           "a whole copy of the file below --symfs DIR, of its debug file with --debug-dir DIR");
		return;
	}
	switch ((enum symbol_missing)row->missing) {
	case SYMBOL_NO_FILE:
		buf_string(out, "--symfs DIR where the file is DIR/PATH; or perfsample archive on the host that recorded; record --save-images keeps files that will be deleted");
		break;
	case SYMBOL_WRONG_BUILD_ID:
		if (row->kind == DSO_KERNEL || row->kind == DSO_MODULE)
			buf_string(out, "record without --no-symbols: then the names are in the file");
		else
			buf_string(out, "the file that ran, below --symfs DIR or in ~/.debug; record --save-images keeps it");
		break;
	case SYMBOL_NO_SYMBOLS:
		debug_file_help(path, &row->build_id, out);
		break;
	case SYMBOL_NO_KALLSYMS:
		buf_string(out, "sysctl -w kernel.kptr_restrict=0; or record as root, who sees them unless it is 2");
		break;
	case SYMBOL_NO_MAP:
		buf_string(out, runtime_help(comm));
		break;
	case SYMBOL_BAD_FILE:
		buf_string(out, "a whole copy of the file, below --symfs DIR");
		break;
	case SYMBOL_FOUND:
	case SYMBOL_NOT_COVERED:
		if (row->kind == DSO_FILE && row->debug_file == 0)
			debug_file_help(path, &row->build_id, out);
		break;
	}
}
