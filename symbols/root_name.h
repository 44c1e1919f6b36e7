// Functions in which stacks end, by name: for call chains that others walked, which do not say how they ended.
#ifndef PERFSAMPLE_SYMBOLS_ROOT_NAME_H
#define PERFSAMPLE_SYMBOLS_ROOT_NAME_H

#include <stdbool.h>

bool symbol_is_root(const char *name);

#endif
