// record --save-images: the files that were sampled, as they ran, into perf's build-id cache.
#ifndef PERFSAMPLE_CMD_RECORD_IMAGES_H
#define PERFSAMPLE_CMD_RECORD_IMAGES_H

#include "base/err.h"
#include "record/session.h"

struct saved_images { uint64_t saved, present, bytes; };

// Into `folder` (~/.debug, made where it is not there). Files are those opened while their processes lived: deleted ones too. What was only read from a
// process's memory is no whole file and is left out. After session_run.
bool record_save_images(const struct session *session, const char *folder, struct saved_images *out, struct err *err);

#endif
