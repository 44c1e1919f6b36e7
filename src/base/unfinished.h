// Files under a temporary name, which go when the process ends before they are whole: memory that ran out, or a signal.
#ifndef PERFSAMPLE_BASE_UNFINISHED_H
#define PERFSAMPLE_BASE_UNFINISHED_H

enum { UNFINISHED_MOST = 8 };

// `name` in a folder (AT_FDCWD: a path); both stay valid until unfinished_done. Of more than UNFINISHED_MOST at a time the others would stay. SIGINT, SIGTERM and SIGHUP
// remove them and then end the process as ever, where they are neither blocked, ignored nor handled.
void unfinished_add(int folder_fd, const char *name);
void unfinished_done(const char *name); // the very pointer: it has its final name, or is gone
void unfinished_remove(void);           // all of them from their folders; also from a signal handler

#endif
