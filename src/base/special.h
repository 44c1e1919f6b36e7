// Where an output goes that is no regular file: a device, a pipe, a descriptor of ours. What was named on purpose is written in place; what somebody else may have put
// under that name is not, as root's recordings would overwrite a disk, or go to whoever reads a pipe.
#ifndef PERFSAMPLE_BASE_SPECIAL_H
#define PERFSAMPLE_BASE_SPECIAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

enum special {
	SPECIAL_NONE,   // a regular file, or nothing: a new file takes the name
	SPECIAL_OPEN,   // *fd is the caller's, close-on-exec, for writing
	SPECIAL_FAILED, // STATUS_FINISH: a folder, a pipe that nobody reads within 5 seconds, or not to be trusted
};

// `name`, without a slash, in a folder; `shown` is what messages call it. Links are followed one by one, as fs.protected_symlinks would have it and a little more: a link or
// a pipe counts if it belongs to the caller, root, or who called sudo, or if nobody else may write to its folder. Nothing is opened before it was looked at. Links
// of /proc/self/fd (/dev/stdout, /dev/fd/N) are the caller's own descriptors, at their own position in the file.
enum special special_open(int folder_fd, const char *name, const char *shown, int *fd, struct err *err);

// The user behind sudo, who is to own what root writes for him; false: nobody.
bool sudo_user(uid_t *uid, gid_t *gid);

#endif
