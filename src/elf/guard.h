// File mappings that survive the file being cut short.
//
// Reading a mapped page that the file no longer has raises SIGBUS. A package upgrade, or somebody hostile, can do that to any file a
// profiler looks at. The guarded mappings are known to a SIGBUS handler, which puts a page of zeros where the
// missing page was; the reader goes on and finds zeros. Any other SIGBUS goes to whoever handled it before.
#ifndef PERFSAMPLE_ELF_GUARD_H
#define PERFSAMPLE_ELF_GUARD_H

#include <stdbool.h>
#include <stddef.h>

// Maps `size` bytes of the file read-only and private, from its beginning. NULL with errno set.
const void *guard_map(int fd, size_t size);
void guard_unmap(const void *data, size_t size);

#endif
