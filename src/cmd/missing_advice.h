// What would give an image its names: a package, a setting, a file to bring along.
#ifndef PERFSAMPLE_CMD_MISSING_ADVICE_H
#define PERFSAMPLE_CMD_MISSING_ADVICE_H

#include "base/buf.h"
#include "cmd/packages.h"
#include "profile/profile.h"

// Appends why addresses of the image have no names, in words. `dso` PROFILE_NONE: of no mapping.
void missing_why(const struct profile *profile, uint32_t dso, struct buf *out);
// Appends what helps, or nothing where nothing does. `packages` were asked for its file.
void missing_help(const struct packages *packages, const struct profile *profile, uint32_t dso, struct buf *out);
#endif
