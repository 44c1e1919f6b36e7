// A whole file's bytes as gzip (RFC 1952), the same bytes for the same input: no name, no time.
#ifndef PERFSAMPLE_BASE_GZIP_H
#define PERFSAMPLE_BASE_GZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

// Appends to `out`.
bool gzip_pack(struct buf *out, const void *bytes, size_t size, struct err *err);

#endif
