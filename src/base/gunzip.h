// Files in gzip form (RFC 1952) unpacked to where they can be read like any other.
#ifndef PERFSAMPLE_BASE_GUNZIP_H
#define PERFSAMPLE_BASE_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

// By its first bytes.
bool gunzip_is_packed(const void *bytes, size_t size);
// As much of the contents as the first `size` bytes of the file tell, at most `capacity` bytes; returns how many.
size_t gunzip_begin(const void *bytes, size_t size, void *out, size_t capacity);
// Hands out the next bytes of the packed file, valid until it is called again; *size 0: there are no more. false: reading failed.
typedef bool gunzip_more_fn(void *context, const void **bytes, size_t *size, struct err *err);
// The contents in a file without a name, at their start; -1: err is set, with the offset in the packed file where it is damaged. Members that follow one
// another are one file, as gzip has it; zeros behind the last are padding. More than 200 times the bytes that were read, past the first 64 MiB, are refused.
// A file that only ends early gives what it holds: *cut_off.
int gunzip_unpack(gunzip_more_fn *more, void *context, bool *cut_off, struct err *err);
// The bytes of a descriptor, for `more`: zeroed but for fd.
struct gunzip_fd { int fd; unsigned char bytes[1 << 16]; };
bool gunzip_more_of_fd(void *gunzip_fd, const void **bytes, size_t *size, struct err *err);

#endif
