// Where perf keeps binaries by build ID, ~/.debug (tools/perf/util/build-id.c of the kernel sources):
//
//   PATH/BUILDID/elf       the file that ran; PATH is where it was, without its first '/'
//   [vdso]/BUILDID/vdso    the vdso, which has no path
//   PATH/BUILDID/debug     its debug file
//   PATH/BUILDID/elf.dwp   the package with its split DWARF; or PATH/BUILDID/NAME.dwo, at the name that the compiler gave: ours, found as what
//                          stands beside the program (symbols/split_file.h, and libdw's search)
//   .build-id/xx/yyyy…     a link to ../../PATH/BUILDID, xx being the first two digits of the build ID
#ifndef PERFSAMPLE_ARCHIVE_LAYOUT_H
#define PERFSAMPLE_ARCHIVE_LAYOUT_H

#include <stdbool.h>

#include "elf/image.h"

// Whether a path may name something below a folder: not absolute, no empty, "." or ".." part.
bool layout_is_inside(const char *name);
// "PATH/BUILDID/NAME" and the link's name and target; NULL: the path cannot be told below a folder (".." in it). The caller frees.
char *layout_file(const char *path, const struct build_id *id, const char *name);
char *layout_link(const struct build_id *id);
char *layout_link_target(const char *path, const struct build_id *id);

#endif
