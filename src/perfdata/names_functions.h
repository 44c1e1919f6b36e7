// Tag 9 of our feature: what is known of functions beside their names. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_NAMES_FUNCTIONS_H
#define PERFSAMPLE_PERFDATA_NAMES_FUNCTIONS_H

#include "base/bytes.h"
#include "perfdata/names.h"

void names_encode_functions(const struct names *names, struct buf *out); // nothing, where there is nothing to say
// Behind the images. What was expected where the cursor stands; NULL: all went well.
const char *names_decode_functions(struct names *names, struct bytes *in);

#endif
