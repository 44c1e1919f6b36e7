// Zip archives that hold ELF images as they are: Android's loader maps libraries out of an APK where they are stored, not compressed, at a page's
// beginning. Formats: PKWARE's APPNOTE.TXT 6.3.3. What is compressed cannot be mapped and is not found here.
#ifndef PERFSAMPLE_ELF_CONTAINER_H
#define PERFSAMPLE_ELF_CONTAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct container_entry {
	uint64_t start, size; // in the archive, within it
	struct bytes name;    // not terminated; lies in the archive
};

bool container_is(struct bytes file); // does it begin as a zip archive?
// The stored entry that has the byte at `offset`. false: none, or no zip archive.
bool container_find_at(struct bytes file, uint64_t offset, struct container_entry *out);
// The stored entry of that name; else the one whose last part is that name ("libx.so" for "lib/arm64-v8a/libx.so").
bool container_find_name(struct bytes file, const char *name, struct container_entry *out);
// The same of the zip archive of that name, ours to open: where the entry begins, and its name (the caller's).
bool container_name_at(const char *path, uint64_t offset, uint64_t *start, char **name);

#endif
