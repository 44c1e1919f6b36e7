// Tar archives: POSIX ustar with pax headers for long names (IEEE Std 1003.1-2017, pax). Regular files and symbolic links alone.
#ifndef PERFSAMPLE_ARCHIVE_TAR_H
#define PERFSAMPLE_ARCHIVE_TAR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct tar_writer;
// Writes to `fd`, which stays the caller's; `compress`: through gzip.
bool tar_writer_open(struct tar_writer **out, int fd, bool compress, struct err *err);
// Names must be as layout_is_inside wants them: others are STATUS_INPUT.
bool tar_add_file(struct tar_writer *tar, const char *name, const void *bytes, uint64_t size, struct err *err);
bool tar_add_link(struct tar_writer *tar, const char *name, const char *target, struct err *err);
bool tar_writer_close(struct tar_writer *tar, struct err *err); // the end; frees in any case
void tar_writer_abort(struct tar_writer *tar);                  // frees; NULL is allowed

struct tar_figures { uint64_t files, links, bytes, present; }; // present: were there already, and were left alone
// Unpacks a tar file, gzipped or not, below the folder. Members that are absolute, have a ".." part, are neither files nor links, links that lead out of
// the folder, and paths through a link are STATUS_INPUT: nothing of such a member is written. What is there already is left alone. Files appear whole.
bool tar_unpack(int fd, int folder_fd, struct tar_figures *figures, struct err *err);

#endif
