// Files and links below a folder, made so that nothing leads out of it and nothing that exists is changed.
#ifndef PERFSAMPLE_ARCHIVE_STORE_H
#define PERFSAMPLE_ARCHIVE_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

// Names are as layout_is_inside wants them. No part of one may be a link.
// The folder of `name`, made where it is not there, and the name's last part. -1: an error is set.
int store_folder(int root_fd, const char *name, const char **last, struct err *err);
// `*is_there`: something has that name already, and was left alone.
bool store_link_in(int folder_fd, const char *last, const char *name, const char *target, bool *is_there, struct err *err);
// The file appears whole, under its name.
bool store_file(int root_fd, const char *name, const void *bytes, uint64_t size, bool *is_there, struct err *err);
bool store_link(int root_fd, const char *name, const char *target, bool *is_there, struct err *err);

#endif
