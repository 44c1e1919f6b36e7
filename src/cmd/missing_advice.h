// What would give an image its names: a package, a setting, a file to bring along.
#ifndef PERFSAMPLE_CMD_MISSING_ADVICE_H
#define PERFSAMPLE_CMD_MISSING_ADVICE_H

#include "base/buf.h"
#include "profile/profile.h"

// Appends why addresses of the image have no names, in words. `dso` PROFILE_NONE: of no mapping.
void missing_why(const struct profile *profile, uint32_t dso, struct buf *out);
// Appends what helps, or nothing where nothing does. `comm`: a program that ran the code.
void missing_help(const struct profile *profile, uint32_t dso, const char *comm, struct buf *out);
// Appends the package that has debug information for an installed file ("libc6-dbg"), or nothing: not installed by a package.
void debug_package(const char *path, struct buf *out);

#endif
