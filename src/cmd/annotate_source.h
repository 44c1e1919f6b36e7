// Source files that debug information names: another's word, so they are opened as the invoking user, and only regular files are read.
#ifndef PERFSAMPLE_CMD_ANNOTATE_SOURCE_H
#define PERFSAMPLE_CMD_ANNOTATE_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"

struct source_file { // a zeroed struct is an empty file
	char *text;
	size_t size;
	VEC(size_t) lines;    // where each begins
	uint64_t modified_ns; // wall clock
};

// `below`: looked for below this folder first (--symfs), or NULL. At most 64 MiB. false: not there, not a regular file, or not the invoking
// user's to read (under sudo: whoever called it).
bool source_file_open(struct source_file *out, const char *path, const char *below, struct err *err);
// Line `number`, from 1; NULL: there is none. No newline at its end.
const char *source_file_line(const struct source_file *file, uint32_t number, size_t *length);
void source_file_release(struct source_file *file);

#endif
