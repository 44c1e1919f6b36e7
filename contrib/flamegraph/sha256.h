// SHA-256 (FIPS 180-4), for the hashes of a Content-Security-Policy, and base64 (RFC 4648).
#ifndef FLAMEGRAPH_SHA256_H
#define FLAMEGRAPH_SHA256_H

#include <stddef.h>

#include "base/buf.h"

void base64_encode(struct buf *out, const void *data, size_t size);
// Appends the base64 of the digest.
void sha256_base64(struct buf *out, const void *bytes, size_t size);

#endif
