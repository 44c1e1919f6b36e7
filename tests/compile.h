// Programs that tests build for themselves: a scratch directory, removed at the end, and the compilers of the host.
#ifndef PERFSAMPLE_TESTS_COMPILE_H
#define PERFSAMPLE_TESTS_COMPILE_H

#include <stdarg.h>
#include <unistd.h>

#include "tests/tap.h"

static char scratch[64]; // the directory

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
	// Told to ignore directories (hash_dir = false), ccache gives objects of another run: with that run's compilation directory, which is gone.
	setenv("CCACHE_DISABLE", "1", 1);
	return scratch;
}

// Runs a shell command inside the scratch directory; false when its status is not 0.
__attribute__((unused, format(printf, 1, 2))) static bool shell(const char *format, ...)
{
	char command[8192];
	int n = snprintf(command, sizeof(command), "cd '%s' && ", scratch);
	va_list args;
	va_start(args, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, args);
	va_end(args);
	return system(command) == 0;
}

__attribute__((unused)) static bool have(const char *program)
{
	return shell("command -v %s >/dev/null 2>&1", program);
}

// Writes a file of the scratch directory.
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

// A path in the scratch directory; four at a time.
__attribute__((unused, format(printf, 1, 2))) static const char *scratch_path(const char *format, ...)
{
	static char paths[4][4096];
	static unsigned next;
	char *path = paths[next++ % 4];
	int n = snprintf(path, sizeof(paths[0]), "%s/", scratch);
	va_list args;
	va_start(args, format);
	vsnprintf(path + n, sizeof(paths[0]) - (size_t)n, format, args);
	va_end(args);
	return path;
}

#endif
