// The file a recording is written to: under a temporary name beside its final one until it is published; nothing that
// exists is destroyed. Inside perfdata/ only.
#ifndef PERFSAMPLE_PERFDATA_OUTFILE_H
#define PERFSAMPLE_PERFDATA_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct outfile {
	int fd, folder_fd;
	char *path;      // full final path
	char *name;      // last part of it
	char *temporary; // name in the folder; NULL once published
	bool is_stream;  // standard output, or `path` is a FIFO, a socket or a device: written in place, front to back
};

enum outfile_name {
	OUTFILE_NAMED,   // somebody named it: a device, a pipe or a descriptor is written in place (base/special.h)
	OUTFILE_DEFAULT, // nobody did: always a new file, whatever link, pipe or device has the name
};
// O_EXCL | O_NOFOLLOW, 0600; under sudo it belongs to the user who called. `path` "-": `stream_fd`, which stays the caller's.
bool outfile_open(struct outfile *out, const char *path, enum outfile_name kind, int stream_fd, struct err *err);
// Takes the final name; what has it becomes NAME.old, .old becomes .old.1 … .old.9, whose content alone is given up.
bool outfile_publish(struct outfile *out, struct err *err);
// Whether the path still leads to what was written; STATUS_FINISH: somebody removed, replaced or moved the file or its folder.
bool outfile_check(const struct outfile *out, struct err *err);
// Closes; an unpublished file is removed.
void outfile_close(struct outfile *out);

#endif
