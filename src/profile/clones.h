// What compilers put behind the name of a function whose code they split or specialized, and what linkers put there: foo.cold, foo.part.0.
#ifndef PERFSAMPLE_PROFILE_CLONES_H
#define PERFSAMPLE_PROFILE_CLONES_H

#include <stdbool.h>
#include <stddef.h>

// The length of `name` without .cold, .part.N, .constprop.N, .isra.N, .lto_priv.N, .llvm.N and ".N" behind them, and without " [clone …]"; with
// `versions` also without a symbol version ("@@GLIBC_2.34").
size_t clones_base_length(const char *name, bool versions);

#endif
