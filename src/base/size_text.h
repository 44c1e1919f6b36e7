// Sizes of files for people.
#ifndef PERFSAMPLE_BASE_SIZE_TEXT_H
#define PERFSAMPLE_BASE_SIZE_TEXT_H

#include <stdint.h>

enum { SIZE_TEXT_BYTES = 32 };

// "812 bytes", "18.1 kB", "1.5 MB", "240 MB" (powers of 1000), never "0.0 MB"; the returned pointer is `text`.
const char *size_text(uint64_t bytes, char text[SIZE_TEXT_BYTES]);

#endif
