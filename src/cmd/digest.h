// Recordings as digests, for the commands that take several.
#ifndef PERFSAMPLE_CMD_DIGEST_H
#define PERFSAMPLE_CMD_DIGEST_H

#include "load/load.h"
#include "report/digest.h"

// Loads, reduces and lets go of the profile. `digest` is released by the caller in any case.
bool digest_load(struct digest *digest, const char *path, const struct load_options *load, const struct digest_options *options, struct err *err);

#endif
