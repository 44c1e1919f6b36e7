#include "symbols/root_name.h"

#include <stddef.h>
#include <string.h>

bool symbol_is_root(const char *name)
{
	static const char *const roots[] = {
		"_start", "__libc_start_main", "__libc_start_main_impl", "__libc_start_call_main", "__libc_init", "clone", "clone3",
		"__clone", "__clone3", "start_thread", "__pthread_start", "__start_thread", "thread_start", "runtime.goexit",
		"runtime.rt0_go", "runtime.mstart", "ret_from_fork", "ret_from_fork_asm",
	};
	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		size_t length = strlen(roots[i]);
		// A symbol's version or a compiler's clone may follow.
		if (strncmp(name, roots[i], length) == 0 && (name[length] == '\0' || name[length] == '@' || name[length] == '.'))
			return true;
	}
	return false;
}
