// A folder of the test's own, removed when the test ends, and the descriptors it has open.
#ifndef PERFSAMPLE_TESTS_SCRATCH_H
#define PERFSAMPLE_TESTS_SCRATCH_H

#include <dirent.h>
#include <stdarg.h>
#include <unistd.h>

#include "tests/tap.h"

static char scratch[64]; // the folder

__attribute__((unused)) static void scratch_remove(void)
{
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", scratch);
	if (system(command) != 0)
		diag("%s is left behind", scratch);
}

__attribute__((unused)) static const char *scratch_make(void)
{
	strcpy(scratch, "/tmp/perfsample-test-XXXXXX");
	if (mkdtemp(scratch) == NULL) {
		perror("mkdtemp");
		exit(1);
	}
	atexit(scratch_remove);
	return scratch;
}

// Writes a file of the folder.
__attribute__((unused)) static void scratch_write(const char *name, const char *text)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", scratch, name);
	FILE *f = fopen(path, "w");
	if (f == NULL || fputs(text, f) < 0 || fclose(f) != 0) {
		perror(path);
		exit(1);
	}
}

// A path in the folder; sixteen at a time.
__attribute__((unused, format(printf, 1, 2))) static const char *scratch_path(const char *format, ...)
{
	static char paths[16][4096];
	static unsigned next;
	char *path = paths[next++ % 16];
	int n = snprintf(path, sizeof(paths[0]), "%s/", scratch);
	va_list args;
	va_start(args, format);
	vsnprintf(path + n, sizeof(paths[0]) - (size_t)n, format, args);
	va_end(args);
	return path;
}

// Of this process.
__attribute__((unused)) static size_t open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	size_t count = 0;
	while (readdir(dir) != NULL)
		count++;
	closedir(dir);
	return count;
}

#endif
