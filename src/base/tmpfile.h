// A file without a name, in TMPDIR or /tmp, readable and writable by us alone: gone with its descriptor.
#ifndef PERFSAMPLE_BASE_TMPFILE_H
#define PERFSAMPLE_BASE_TMPFILE_H

// The descriptor, the caller's, close-on-exec; -1 with errno.
int tmpfile_open(void);

#endif
