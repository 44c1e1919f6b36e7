// Where the DWARF of split units stands: .dwo files, one a unit, or a .dwp package for all of a program.
#ifndef PERFSAMPLE_SYMBOLS_SPLIT_FILE_H
#define PERFSAMPLE_SYMBOLS_SPLIT_FILE_H

#include "symbols/symbolizer.h"

// The .dwo file called `name` of a unit compiled in `comp_dir` (NULL: unknown): where the compiler wrote it; else beside the program, by its whole name
// or the last part of it. A reference, or NULL; whether it is the unit's own, its DWO id tells.
struct image *split_file_find(const struct symbolizer_options *options, const struct image *image, const char *comp_dir, const char *name);
// PROGRAM.dwp beside the program or beside its debug file (NULL: none).
struct image *split_file_package(const struct symbolizer_options *options, const struct image *image, const struct image *debug);

// All of a program's, to be packed: `name` is the path below the program's folder at which split_file_find finds it again, NULL for the package; where
// there is a package, that alone. Ends early when `visit` returns false, and returns false then. `*lost` counts those that are not here.
typedef bool split_file_visit(void *context, const char *name, const struct image *file);
bool split_files_each(const struct symbolizer_options *options, struct image *image, struct image *debug, split_file_visit *visit, void *context,
                      size_t *lost);

#endif
