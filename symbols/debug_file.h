// Where debug information stands when it is not in the image: by build ID, by .gnu_debuglink, by .gnu_debugaltlink.
#ifndef PERFSAMPLE_SYMBOLS_DEBUG_FILE_H
#define PERFSAMPLE_SYMBOLS_DEBUG_FILE_H

#include "symbols/symbolizer.h"

// The debug file of `image`: DIR/.build-id/xx/yyyy.debug (and, as perf caches them, DIR/.build-id/xx/yyyy/debug) in each debug
// directory, then by debuglink beside the image, in .debug/ beside it, and in DIR/PATH/. Believed when its build ID is the
// image's; without build IDs, when its CRC is the one the debuglink states. A reference for the caller, or NULL; `*is_wrong`
// is set when a file was there and was not believed.
struct image *debug_file_find(const struct symbolizer_options *options, const struct image *image, bool *is_wrong);
// The same, where it has CFI (.debug_frame), and the image none of that kind. `by_id`: only below debug directories, by build ID: no folder is looked into
// that is the image's owner's.
struct image *debug_file_find_cfi(const struct symbolizer_options *options, const struct image *image, bool by_id);
// The supplementary file that `debug` names in .gnu_debugaltlink (dwz); its build ID must be the one stated there, which is `*id` (size 0: none).
struct image *debug_file_find_alt(const struct symbolizer_options *options, const struct image *debug, struct build_id *id);
// The executable itself by build ID: DIR/.build-id/xx/yyyy/elf (perf's cache) and DIR/.build-id/xx/yyyy.
struct image *debug_file_find_executable(const struct symbolizer_options *options, const struct build_id *id);
// The vdso of that build ID: the running kernel's where it is the one, else DIR/.build-id/xx/yyyy/vdso (perf's cache).
struct image *debug_file_find_vdso(const struct symbolizer_options *options, const struct build_id *id);

#endif
