#include "cmd/missing_advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/runtimes.h"
#include "elf/image.h"
#include "proc/dso.h"
#include "symbols/symbolizer.h"

// ---------------------------------------------------------------- packages

static bool exists(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0;
}

// Where packages of the -dbgsym kind are: not in the archive that everybody has.
static const char *dbgsym_archive(void)
{
	char line[256];
	const char *where = "the distribution's archive of debug symbols";
	FILE *file = fopen("/etc/os-release", "re");
	while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (strcmp(line, "ID=debian") == 0)
			where = "the debian-debug archive, suite CODENAME-debug,";
		else if (strcmp(line, "ID=ubuntu") == 0)
			where = "Ubuntu's ddebs archive";
	}
	if (file != NULL)
		fclose(file);
	return where;
}

static void debug_file_help(const struct packages *packages, const char *path, const struct build_id *id, struct buf *out)
{
	char hex[65];
	const char *debug, *package = packages_of(packages, path, &debug);
	if (debug != NULL)
		buf_printf(out, "apt-get install %s", debug);
	else if (package != NULL)
		buf_printf(out, "apt lists no package with its debug information here; if %s is the distribution's own, %s may have one", package, dbgsym_archive());
	else if (exists("/etc/redhat-release") || exists("/etc/fedora-release"))
		buf_printf(out, "dnf debuginfo-install %s", path);
	else if (exists("/etc/zypp"))
		buf_printf(out, "zypper install the -debuginfo package of %s", path);
	else
		buf_string(out, "build it with -g, or do not strip it");
	if (id->size > 1)
		buf_printf(out, "; or its debug file as DIR/.build-id/%.2s/%s.debug with --debug-dir DIR, or --debuginfod", build_id_hex(id, hex), hex + 2);
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

void missing_help(const struct packages *packages, const struct profile *profile, uint32_t dso, struct buf *out)
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
		debug_file_help(packages, path, &row->build_id, out);
		break;
	case SYMBOL_NO_KALLSYMS:
		buf_string(out, "sysctl -w kernel.kptr_restrict=0; or record as root, who sees them unless it is 2");
		break;
	case SYMBOL_NO_MAP:
		runtime_help(runtime_of(row->mapped != 0 ? profile_text(profile, row->mapped) : ""), row->pid, out);
		break;
	case SYMBOL_BAD_FILE:
		buf_string(out, "a whole copy of the file, below --symfs DIR");
		break;
	case SYMBOL_FOUND:
	case SYMBOL_NOT_COVERED:
		if (row->kind == DSO_FILE && row->debug_file == 0)
			debug_file_help(packages, path, &row->build_id, out);
		break;
	}
}
