// Debug sections, decompressed once and kept on disk: inflating glibc's takes 20 ms, more than all the rest of naming a recording's addresses.
//
// An entry is an ELF file of its own, $XDG_CACHE_HOME/perfsample/sections-2/KEY (else below ~/.cache), holding the build ID and the
// debug sections in the clear. The key is a hash of the compressed sections themselves (BLAKE2b), since build ID and size are whatever a file's author wants: an entry
// is of those very bytes or is not found. It appears whole, by rename; whoever loses a race overwrites it with the same. Its checksum is verified unless
// it was written since this host's last start. At most 512 MiB are kept; older entries go first.
#ifndef PERFSAMPLE_SYMBOLS_SECTION_CACHE_H
#define PERFSAMPLE_SYMBOLS_SECTION_CACHE_H

#include "symbols/symbolizer.h"

// The entry for `image`, made if there is none; a reference. NULL: nothing in it is compressed, too little or too much to be worth it, no build
// ID, or no cache directory of our own: read `image` itself.
struct image *section_cache_open(const struct image *image);

#endif
