// Several functions at one address: which names stand there by convention, and which because a compiler or linker found two functions' code
// identical and kept it once (gcc -fipa-icf, ld --icf).
#ifndef PERFSAMPLE_SYMBOLS_ALIAS_H
#define PERFSAMPLE_SYMBOLS_ALIAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

// Whether a name follows the Itanium C++ ABI or Rust's v0 scheme.
bool symbol_is_mangled(const char *name, size_t length);
// Whether C reserves it for the implementation (C11, 7.1.3): __libc_malloc, _IO_getc. Such names beside others are conventions.
bool symbol_is_reserved(const char *name, size_t length);
// What is the same for all names of one function: demangled, so that C1, C2 and C4 of a constructor agree; without symbol versions
// (`@@GLIBC_2.34`), compilers' clones (`.localalias`, `.constprop.0`, `.part.1`), leading underscores, and the 64 of large-file variants
// (`lseek64`). Appended to `out`.
void symbol_key(const char *linkage_name, size_t length, struct buf *out);

#endif
