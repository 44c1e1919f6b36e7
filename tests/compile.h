// Programs that tests build for themselves, with the compilers of the host.
#ifndef PERFSAMPLE_TESTS_COMPILE_H
#define PERFSAMPLE_TESTS_COMPILE_H

#include "tests/scratch.h"

// Runs a shell command inside the scratch folder; false when its status is not 0.
__attribute__((unused, format(printf, 1, 2))) static bool shell(const char *format, ...)
{
	char command[8192];
	int n = snprintf(command, sizeof(command), "cd '%s' && ", scratch);
	va_list args;
	va_start(args, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, args);
	va_end(args);
	// Told to ignore directories (hash_dir = false), ccache gives objects of another run: with that run's compilation directory, which is gone.
	setenv("CCACHE_DISABLE", "1", 1);
	return system(command) == 0;
}

__attribute__((unused)) static bool have(const char *program)
{
	return shell("command -v %s >/dev/null 2>&1", program);
}

#endif
