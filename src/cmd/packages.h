// Which Debian packages files come from, and which have their debug information: only such as apt can install here and now.
#ifndef PERFSAMPLE_CMD_PACKAGES_H
#define PERFSAMPLE_CMD_PACKAGES_H

#include <stddef.h>

#include "base/vec.h"

struct package {
	char *path;  // of the installed file
	char *name;
	char *debug; // the package with its debug information; NULL: apt lists none
};

struct packages { VEC(struct package) all; }; // a zeroed one is empty

// Takes the file in, where dpkg knows its package.
void packages_add(struct packages *packages, const char *path);
// Asks apt's lists, once for all files that were added: one process, no network.
void packages_ask(struct packages *packages);
// The package of a file that was added, and the one with its debug information (NULL: none is listed); NULL: none.
const char *packages_of(const struct packages *packages, const char *path, const char **debug);
void packages_release(struct packages *packages);

#endif
